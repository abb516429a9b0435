/* fast.h - the twins: for every row of ops.def a faster function with the bits of its definition in
 * ref/ops. Only the twins use threads, vectors, waves and prefetches. tests/unit/test_definition.c
 * compares each twin with its definition. */
#ifndef SB_FAST_FAST_H
#define SB_FAST_FAST_H

#include "ref/ops/act_quant.h"
#include "ref/ops/experts.h"
#include "ref/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SB_OP(name, clause)                                                                        \
    sb_status sb_##name##_fast(const sb_knobs *knobs, const sb_##name##_args *args);
#include "ref/ops/ops.def"
#undef SB_OP

/* Computes n projections of the same experts, on all threads (experts.c). */
sb_status sb_experts_fast(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n);

/* sb_quantize_input, on all threads. */
sb_status sb_quantize_input_fast(const sb_knobs *knobs, const sb_matrix *weight, const float *in,
                                 size_t rows, sb_input *out);

#ifdef __cplusplus
}
#endif

#endif
