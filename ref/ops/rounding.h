/* rounding.h - the knobs whose rounding depends on the kind of layer. Used by the ops and by the
 * code that computes their bounds. */
#ifndef SB_OPS_ROUNDING_H
#define SB_OPS_ROUNDING_H

#include "ref/ops/knob.h"
#include "ref/ops/op.h"

/* True if the outputs of this layer are not rounded to the activation type. K-46: "f32 leaves the
 * logits of the router in binary32", K-47: "f32 leaves the logits of the heads in binary32", K-52:
 * "R-2 does not round its logit", K-14: "the unrounded binary32 output f_e of the expert's
 * down_proj", "wide leaves gate, up, silu(gate) and f_e of routed experts in binary32". */
static inline int sb_linear_stays_wide(const sb_knobs *knobs, sb_linear_kind kind)
{
    switch (kind) {
    case SB_LINEAR_router:
        return SB_IS(knobs, router_logits, f32);
    case SB_LINEAR_head:
        return SB_IS(knobs, logits, f32);
    case SB_LINEAR_shared_gate:
        return SB_IS(knobs, shared_gate, fused);
    case SB_LINEAR_expert_down:
        return SB_IS(knobs, moe_sum, epilogue) || SB_IS(knobs, moe_sum, wide);
    case SB_LINEAR_expert_in:
        return SB_IS(knobs, moe_sum, wide);
    default:
        return 0;
    }
}

/* The type to which the layer rounds its input. K-45: "weight rounds the input of every linear
 * layer that is not quantized to the type in which its weight is stored", "The router and the gate
 * of the shared expert are exempt" */
static inline sb_format sb_linear_input_format(const sb_knobs *knobs, const sb_matrix *weight,
                                               sb_linear_kind kind)
{
    if (!SB_IS(knobs, linear_input, weight) || sb_matrix_quantized(weight) ||
        kind == SB_LINEAR_router || kind == SB_LINEAR_shared_gate)
        return SB_FORMAT_f32;
    return weight->format;
}

/* K-6: "act to round silu(gate) before the product"; K-51: "dense_f32 leaves it unrounded in dense
 * MLPs, shared_f32 in the shared expert as well"; K-14: "wide leaves gate, up, silu(gate) and f_e
 * of routed experts in binary32" */
static inline int sb_rounds_silu(const sb_knobs *knobs, sb_mlp_kind kind)
{
    int leaves = SB_IS(knobs, swiglu_dense, shared_f32)
                     ? kind != SB_MLP_expert
                     : SB_IS(knobs, swiglu_dense, dense_f32) && kind == SB_MLP_dense;
    if (kind == SB_MLP_expert && SB_IS(knobs, moe_sum, wide))
        return 0;
    return SB_IS(knobs, swiglu, act) && !leaves;
}

/* R of R-18. K-53: "f32 leaves the sums of R-18, and so the inputs of the norms, in binary32" */
static inline float sb_residual(const sb_knobs *knobs, float sum)
{
    return SB_IS(knobs, residual, f32) ? sum : sb_act(knobs, sum);
}

/* "t_i = f_i w_i rounded to the activation type where K-13 rounds w (else RN)"; K-14:
 * "`after` always rounds t_i", "wide leaves gate, up, silu(gate) and f_e of routed experts in
 * binary32, and rounds no t_i" */
static inline int sb_rounds_slots(const sb_knobs *knobs)
{
    if (SB_IS(knobs, moe_sum, wide))
        return 0;
    return SB_IS(knobs, router_weight, act) || !SB_IS(knobs, moe_sum, slots);
}

#endif
