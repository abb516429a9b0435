/* moe.c - the router, the middle of an expert, and the sum over the experts. */
#include "tools/judge/sim/arith.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "ref/ops/rounding.h"

/* "e_i = exp( RN(l_i - max l) ), p_i = RN( e_i / sum(e) )" */
static void softmax(const sb_sim_arith *s, const float *logits, size_t n, float *p)
{
    float largest = logits[0];
    for (size_t i = 1; i < n; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (size_t i = 0; i < n; i++)
        p[i] = sb_sim_exp(s, logits[i] - largest);
    float total = sb_sim_sum(s, p, n);
    for (size_t i = 0; i < n; i++)
        p[i] = sb_sim_divide(s, p[i], total);
}

/* "the k experts with the largest l are kept, the lowest index first among equals, in
 * descending order". Inserts into the kept experts, after equal ones. K-50: "highest keeps the
 * highest index first among equals" */
static void choose(const float *logits, size_t n, size_t kept, int highest, uint32_t *ids)
{
    size_t count = 0;
    for (size_t turn = 0; turn < n; turn++) {
        size_t at = count, i = highest ? n - 1 - turn : turn;
        while (at > 0 && logits[i] > logits[ids[at - 1]])
            at--;
        if (at == kept)
            continue;
        count += count < kept;
        for (size_t j = count - 1; j > at; j--)
            ids[j] = ids[j - 1];
        ids[at] = (uint32_t)i;
    }
}

/* "w_i = RN( p_i / sum of the kept p ) where the model renormalises, else p_i; K-13 rounds w"
 */
sb_status sb_sim_router(const sb_sim_arith *s, const sb_knobs *knobs, const sb_router_args *a)
{
    int rounds = SB_IS(knobs, router_weight, act), highest = SB_IS(knobs, router_tie, highest);
    float *p = sb_alloc(a->experts, sizeof *p);
    if (!p)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++) {
        uint32_t *ids = a->ids + t * a->kept;
        float *weights = a->weights + t * a->kept;
        softmax(s, a->logits + t * a->experts, a->experts, p);
        choose(a->logits + t * a->experts, a->experts, a->kept, highest, ids);
        for (size_t i = 0; i < a->kept; i++)
            weights[i] = p[ids[i]];
        float total = a->renormalise ? sb_sim_sum(s, weights, a->kept) : 1.0f;
        for (size_t i = 0; i < a->kept; i++)
            weights[i] = sb_sim_act_if(knobs, rounds, sb_sim_divide(s, weights[i], total));
    }
    free(p);
    return SB_OK;
}

/* "a = R( RN(silu(gate) up) )" */
sb_status sb_sim_swiglu(const sb_sim_arith *s, const sb_knobs *knobs, const sb_swiglu_args *a)
{
    int rounds = sb_rounds_silu(knobs, a->kind);
    for (size_t i = 0; i < a->count; i++) {
        float activated = sb_sim_act_if(knobs, rounds, sb_sim_silu(s, a->gate[i]));
        a->out[i] = sb_act(knobs, activated * a->up[i]);
    }
    return SB_OK;
}

/* K-14: "eager takes the experts by ascending index and rounds after each: routed = R( RN(routed +
 * t_i) ), starting from 0". The slot with the next index above `last` among the slots not yet
 * added. */
static size_t next_slot(const sb_moe_combine_args *a, size_t added, uint32_t last)
{
    size_t next = a->kept;
    for (size_t e = 0; e < a->kept; e++)
        if ((added == 0 || a->ids[e] > last) && (next == a->kept || a->ids[e] < a->ids[next]))
            next = e;
    return next;
}

static float eager_sum(const sb_knobs *knobs, const sb_moe_combine_args *a, const float *term)
{
    float routed = 0.0f;
    uint32_t last = 0;
    for (size_t e = 0; e < a->kept; e++) {
        size_t slot = a->ids ? next_slot(a, e, last) : e;
        if (slot == a->kept)
            break; /* an expert is there twice, which no router gives */
        routed = sb_act(knobs, routed + term[slot]);
        last = a->ids ? a->ids[slot] : 0;
    }
    return routed;
}

/* "t_i = f_i w_i rounded to the activation type where K-13 rounds w (else RN), routed = R(
 * sum(t) )" */
static float routed_sum(const sb_sim_arith *s, const sb_knobs *knobs, const sb_moe_combine_args *a,
                        size_t i, float *term)
{
    int rounds = sb_rounds_slots(knobs);
    for (size_t e = 0; e < a->kept; e++)
        term[e] = sb_sim_act_if(knobs, rounds, a->expert_out[e * a->n + i] * a->weights[e]);
    if (SB_IS(knobs, moe_sum, eager))
        return eager_sum(knobs, a, term);
    return sb_act(knobs, sb_sim_sum(s, term, a->kept));
}

/* "y = R( RN( routed + R( RN( sigmoid(l_shared) f_shared ) ) ) )"; K-52: "fused replaces its
 * last step by R( dot of (1, sigmoid(l_shared)) with (routed, f_shared) )" */
static float add_shared(const sb_sim_arith *s, const sb_knobs *knobs, float routed, float open,
                        float shared)
{
    if (SB_IS(knobs, shared_gate, fused))
        return sb_act(knobs, sb_sim_multiply_add(s, open, shared, routed));
    float gated = sb_act(knobs, sb_act(knobs, open) * shared);
    return sb_act(knobs, routed + gated);
}

/* "one sum of k+1 terms"; K-14: "dot is the single sum of R-17; slots is the slot form" */
sb_status sb_sim_moe_combine(const sb_sim_arith *s, const sb_knobs *knobs,
                             const sb_moe_combine_args *a)
{
    float *term = sb_alloc(a->kept + 1, sizeof *term);
    if (!term)
        return SB_ERR_MEMORY;
    float open = sb_sim_sigmoid(s, a->shared_logit);
    for (size_t i = 0; i < a->n; i++) {
        if (!SB_IS(knobs, moe_sum, dot)) {
            float routed = routed_sum(s, knobs, a, i, term);
            a->out[i] = add_shared(s, knobs, routed, open, a->shared_out[i]);
            continue;
        }
        float routed = sb_sim_dot(s, a->expert_out + i, a->n, a->weights, 1, a->kept);
        a->out[i] = sb_act(knobs, sb_sim_multiply_add(s, open, a->shared_out[i], routed));
    }
    free(term);
    return SB_OK;
}
