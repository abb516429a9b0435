/* backend.h - a named table of ops; the reference is the one in host memory that defines the rest.
 */
#ifndef SB_RUN_BACKEND_H
#define SB_RUN_BACKEND_H

#include "ref/ops/op.h"

/* One projection of the experts that each row has kept: the op `linear` of every (row, slot) with
 * the weight of its expert. Matrix e stands `stride` bytes behind matrix e - 1, and all of them
 * have one shape (N, K). */
typedef struct sb_expert_linear_args {
    const sb_matrix *weight; /* of expert 0 */
    size_t stride, experts;
    const uint32_t *ids; /* (rows, kept) */
    size_t rows, kept;
    size_t each; /* neighbouring slots that share a row of `in`: kept, or 1 */
    sb_linear_kind kind;
    const float *in; /* (rows * kept / each, K) */
    float *out;      /* (rows, kept, N) */
} sb_expert_linear_args;

static inline const sb_matrix *sb_expert_weight(const sb_expert_linear_args *args, size_t expert)
{
    return (const sb_matrix *)(const void *)((const char *)args->weight + expert * args->stride);
}

typedef struct sb_backend {
    const char *name;
    sb_op_table ops;
    const char *(*why)(void); /* what the op that failed last has said; NULL, or NULL: nothing */
    /* Optional: the ops of sb_expert_linear_args together, with the bits that they have one by one.
     * SB_ERR_UNSUPPORTED: not these experts; then they are run one by one. */
    sb_status (*experts)(const sb_knobs *knobs, const sb_expert_linear_args *args);
} sb_backend;

/* The reference: every row of ops.def is its sb_<op>_ref. */
const sb_backend *sb_backend_ref(void);

size_t sb_op_count(void);
const char *sb_op_name(size_t i);
const char *sb_op_clause(size_t i);

#endif
