#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/op.h"

#include <stdlib.h>

/* "a = R( RN(silu(gate) up) )"; K-6: "act to round silu(gate) before the product" */
sb_status sb_swiglu_ref(const sb_knobs *knobs, const sb_swiglu_args *a)
{
    for (size_t i = 0; i < a->count; i++) {
        float activated = sb_silu(a->gate[i]);
        if (SB_IS(knobs, swiglu, act))
            activated = sb_act(knobs, activated);
        a->out[i] = sb_act(knobs, activated * a->up[i]);
    }
    return SB_OK;
}

/* "y = R( RN( routed + R( RN( sigmoid(l_shared) f_shared ) ) ) )": the slot form of element
 * i; term is scratch for k values. */
static float slot_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t i, float *term)
{
    for (size_t e = 0; e < a->kept; e++) {
        float product = a->expert_out[e * a->n + i] * a->weights[e];
        term[e] = SB_IS(knobs, router_weight, act) ? sb_act(knobs, product) : product;
    }
    float routed = sb_act(knobs, sb_sum(term, a->kept));
    float open = sb_act(knobs, sb_sigmoid(a->shared_logit));
    float shared = sb_act(knobs, open * a->shared_out[i]);
    return sb_act(knobs, routed + shared);
}

/* "one sum of k+1 terms"; K-14: "dot is the single sum of R-17, slots the slot form" */
sb_status sb_moe_combine_ref(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    size_t terms = a->kept + 1;
    float *term = sb_alloc(2 * terms, sizeof *term);
    if (!term)
        return SB_ERR_MEMORY;
    float *factor = term + terms;
    for (size_t e = 0; e < a->kept; e++)
        factor[e] = a->weights[e];
    factor[a->kept] = sb_sigmoid(a->shared_logit);
    for (size_t i = 0; i < a->n; i++) {
        if (SB_IS(knobs, moe_sum, slots)) {
            a->out[i] = slot_sum(knobs, a, i, term);
            continue;
        }
        for (size_t e = 0; e < a->kept; e++)
            term[e] = a->expert_out[e * a->n + i];
        term[a->kept] = a->shared_out[i];
        a->out[i] = sb_act(knobs, sb_dot(term, factor, terms));
    }
    free(term);
    return SB_OK;
}
