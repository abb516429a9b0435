/* experts.h - the arguments of the only backend function that covers several ops. */
#ifndef SB_OPS_EXPERTS_H
#define SB_OPS_EXPERTS_H

#include "ref/ops/op.h"

/* One projection of the experts that the router kept for each row: the op `linear` for every (row,
 * slot), with the weight of the expert in this slot. The sb_matrix of expert e is `stride` bytes
 * after the sb_matrix of expert e - 1. All experts have the same shape (N, K). */
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

#endif
