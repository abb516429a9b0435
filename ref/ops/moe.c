#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"
#include "ref/ops/rounding.h"

/* "a = R( RN(silu(gate) up) ), with silu(gate) rounded to the activation type where K-6 says
 * so. K-51 exempts some MLPs from this rounding." */
sb_status sb_swiglu_ref(const sb_knobs *knobs, const sb_swiglu_args *a)
{
    const int rounds = sb_rounds_silu(knobs, a->kind);
    for (size_t i = 0; i < a->count; i++) {
        float silu = sb_silu(a->gate[i]);
        if (rounds)
            silu = sb_act(knobs, silu);
        a->out[i] = sb_act(knobs, silu * a->up[i]);
    }
    return SB_OK;
}

/* "y = R( dot of (w_1, .., w_k, sigmoid(l_shared)) with (f_1, .., f_k, f_shared) ): one sum
 * of k+1 terms", for element i. */
static float one_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t i)
{
    sb_exact sum;
    sb_exact_clear(&sum);
    for (size_t e = 0; e < a->kept; e++)
        sb_exact_add_product(&sum, a->weights[e], a->expert_out[e * a->n + i]);
    sb_exact_add_product(&sum, sb_sigmoid(a->shared_logit), a->shared_out[i]);
    return sb_act(knobs, sb_exact_round(&sum));
}

/* "t_i = f_i w_i rounded to the activation type where K-13 rounds w (else RN)" */
static float term(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t slot, size_t i)
{
    float t = a->expert_out[slot * a->n + i] * a->weights[slot];
    return sb_rounds_slots(knobs) ? sb_act(knobs, t) : t;
}

/* The slot with the r-th lowest expert id; slot r if ids is NULL. */
static size_t by_index(const sb_moe_combine_args *a, size_t r)
{
    for (size_t s = 0; a->ids && s < a->kept; s++) {
        size_t before = 0;
        for (size_t o = 0; o < a->kept; o++)
            before += a->ids[o] < a->ids[s] || (a->ids[o] == a->ids[s] && o < s);
        if (before == r)
            return s;
    }
    return r;
}

/* "routed = R( sum(t) )"; K-14: "eager takes the experts by ascending index and rounds after
 * each: routed = R( RN(routed + t_i) ), starting from 0" */
static float routed_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t i)
{
    float routed = 0.0f;
    sb_exact sum;
    sb_exact_clear(&sum);
    for (size_t e = 0; e < a->kept; e++)
        if (SB_IS(knobs, moe_sum, eager))
            routed = sb_act(knobs, routed + term(knobs, a, by_index(a, e), i));
        else
            sb_exact_add(&sum, term(knobs, a, e, i));
    return SB_IS(knobs, moe_sum, eager) ? routed : sb_act(knobs, sb_exact_round(&sum));
}

/* "y = R( RN( routed + R( RN( sigmoid(l_shared) f_shared ) ) ) ), sigmoid rounded to the
 * activation type"; K-52: "fused replaces its last step by R( dot of (1, sigmoid(l_shared)) with
 * (routed, f_shared) ); there sigmoid is not rounded" */
static float add_shared(const sb_knobs *knobs, const sb_moe_combine_args *a, float routed, size_t i)
{
    float open = sb_sigmoid(a->shared_logit);
    if (SB_IS(knobs, shared_gate, fused)) {
        sb_exact sum;
        sb_exact_clear(&sum);
        sb_exact_add(&sum, routed);
        sb_exact_add_product(&sum, open, a->shared_out[i]);
        return sb_act(knobs, sb_exact_round(&sum));
    }
    float gated = sb_act(knobs, sb_act(knobs, open) * a->shared_out[i]);
    return sb_act(knobs, routed + gated);
}

/* K-14: "dot is the single sum of R-17; slots is the slot form. The other values are slot forms,
 * too" */
sb_status sb_moe_combine_ref(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    for (size_t i = 0; i < a->n; i++)
        a->out[i] = SB_IS(knobs, moe_sum, dot) ? one_sum(knobs, a, i)
                                               : add_shared(knobs, a, routed_sum(knobs, a, i), i);
    return SB_OK;
}
