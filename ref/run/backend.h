/* backend.h - a named table of ops; the reference is the one in host memory that defines the rest.
 */
#ifndef SB_RUN_BACKEND_H
#define SB_RUN_BACKEND_H

#include "ref/ops/op.h"
#include "ref/run/sample.h"

/* Draws from rows of logits (P-1 to P-10); row t is for `position` + t. */
typedef struct sb_draw_args {
    sb_sampling settings; /* within P-1 */
    const float *logits;  /* (rows, n), finite */
    size_t rows;
    uint32_t n;
    uint64_t position;
    sb_purpose purpose;
    float *p;         /* (rows, n) the probabilities; NULL: not wanted */
    uint32_t *tokens; /* (rows) */
} sb_draw_args;

/* Drafts that were drawn from q, held against p (P-12, P-13). */
typedef struct sb_judge_args {
    sb_sampling settings;
    const float *p, *q; /* (rows, n) */
    size_t rows;
    uint32_t n;
    const uint32_t *drafts; /* (rows), below n */
    uint64_t position;
    uint32_t *accepted; /* (rows) 0 or 1 */
    uint32_t *tokens;   /* (rows) the draft, or the token in its place */
} sb_judge_args;

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
    /* Optional: the ops of n projections of the same experts, none of which reads what another has
     * written, with the bits that they have one by one. SB_ERR_UNSUPPORTED: not these experts, or
     * not so many at once; then they are run in smaller portions. */
    sb_status (*experts)(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n);
    /* How tokens are chosen; NULL, as in the reference: by sample.h. The tokens of R-20 of logits
     * (rows, n), draws, and drafts judged. */
    sb_status (*greedy)(const float *logits, size_t rows, uint32_t n, uint32_t *tokens);
    sb_status (*draw)(const sb_draw_args *args);
    sb_status (*judge)(const sb_judge_args *args);
} sb_backend;

/* The reference: every row of ops.def is its sb_<op>_ref. */
const sb_backend *sb_backend_ref(void);

/* n projections of the same experts by sb_linear_ref, on all threads: experts.c. */
sb_status sb_experts_ref(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n);

size_t sb_op_count(void);
const char *sb_op_name(size_t i);
const char *sb_op_clause(size_t i);

#endif
