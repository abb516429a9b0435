#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/rounding.h"

#include <stdlib.h>

/* "a = R( RN(silu(gate) up) )" */
sb_status sb_swiglu_ref(const sb_knobs *knobs, const sb_swiglu_args *a)
{
    int rounds = sb_rounds_silu(knobs, a->kind);
    for (size_t i = 0; i < a->count; i++) {
        float activated = sb_silu(a->gate[i]);
        if (rounds)
            activated = sb_act(knobs, activated);
        a->out[i] = sb_act(knobs, activated * a->up[i]);
    }
    return SB_OK;
}

/* The slots in the order in which K-14 adds them: their own, or that of their experts. */
static void order_slots(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t *order)
{
    int by_expert = SB_IS(knobs, moe_sum, eager) && a->ids;
    for (size_t e = 0; e < a->kept; e++) {
        size_t at = e;
        for (; by_expert && at > 0 && a->ids[order[at - 1]] > a->ids[e]; at--)
            order[at] = order[at - 1];
        order[at] = e;
    }
}

/* "t_i = f_i w_i" */
static float weighted(const sb_knobs *knobs, float f, float w)
{
    float product = f * w;
    return sb_rounds_slots(knobs) ? sb_act(knobs, product) : product;
}

/* "routed = R( sum(t) )"; K-14: "eager takes the experts by ascending index and rounds after
 * each: routed = R( RN(routed + t_i) ), from 0". term is scratch for k values. */
static float routed_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, const size_t *order,
                        size_t i, float *term)
{
    float routed = 0.0f;
    for (size_t e = 0; e < a->kept; e++) {
        size_t slot = order[e];
        term[e] = weighted(knobs, a->expert_out[slot * a->n + i], a->weights[slot]);
        routed = sb_act(knobs, routed + term[e]);
    }
    return SB_IS(knobs, moe_sum, eager) ? routed : sb_act(knobs, sb_sum(term, a->kept));
}

/* "y = R( RN( routed + R( RN( sigmoid(l_shared) f_shared ) ) ) )"; K-52: "fused is R( dot of
 * (1, sigmoid(l_shared)) with (routed, f_shared) )" */
static float add_shared(const sb_knobs *knobs, float routed, float open, float shared)
{
    if (SB_IS(knobs, shared_gate, fused)) {
        float terms[2] = {routed, shared}, factors[2] = {1.0f, open};
        return sb_act(knobs, sb_dot(terms, factors, 2));
    }
    float gated = sb_act(knobs, sb_act(knobs, open) * shared);
    return sb_act(knobs, routed + gated);
}

/* "one sum of k+1 terms": element i; term and factor are scratch for k + 1 values. */
static float dot_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, float open, size_t i,
                     float *term, float *factor)
{
    for (size_t e = 0; e < a->kept; e++) {
        term[e] = a->expert_out[e * a->n + i];
        factor[e] = a->weights[e];
    }
    term[a->kept] = a->shared_out[i];
    factor[a->kept] = open;
    return sb_act(knobs, sb_dot(term, factor, a->kept + 1));
}

/* K-14: "dot is the single sum of R-17, slots the slot form" */
sb_status sb_moe_combine_ref(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    size_t terms = a->kept + 1;
    float *term = sb_alloc(2 * terms, sizeof *term), open = sb_sigmoid(a->shared_logit);
    size_t *order = sb_alloc(terms, sizeof *order);
    sb_status status = term && order ? SB_OK : SB_ERR_MEMORY;
    if (!status)
        order_slots(knobs, a, order);
    for (size_t i = 0; i < a->n && !status; i++)
        a->out[i] =
            SB_IS(knobs, moe_sum, dot)
                ? dot_sum(knobs, a, open, i, term, term + terms)
                : add_shared(knobs, routed_sum(knobs, a, order, i, term), open, a->shared_out[i]);
    free(term);
    free(order);
    return status;
}
