/* bound_moe.c - router weights and the sum over the experts. */
#include "tools/judge/bound/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "ref/ops/rounding.h"

/* "w_i = RN( p_i / sum of the kept p ) where the model renormalises, else p_i; K-13 rounds w"
 */
sb_status sb_bound_router_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_router_args *a, const sb_ball *const *in, sb_ball *out,
                             sb_ball *second)
{
    ar = sb_arithmetic_vector(ar);
    sb_ball *p = sb_alloc(a->experts, sizeof *p), one = sb_ball_of(1.0f);
    if (!p)
        return SB_ERR_MEMORY;
    int rounded = SB_IS(knobs, router_weight, act);
    for (size_t t = 0; t < a->rows; t++) {
        sb_bound_row(in[0], a->logits, t * a->experts, a->experts, p);
        sb_bound_softmax(ar, p, a->experts);
        for (size_t i = 0; second && i < a->experts; i++)
            second[t * a->experts + i] = p[i];
        sb_reduction kept = {0};
        for (size_t i = 0; i < a->kept; i++)
            sb_reduce(&kept, p[a->ids[t * a->kept + i]], one);
        sb_ball total = sb_ball_reduced(ar, &kept);
        for (size_t i = 0; i < a->kept; i++) {
            sb_ball w = p[a->ids[t * a->kept + i]];
            if (a->renormalise)
                w = sb_ball_div(ar, w, total);
            out[t * a->kept + i] = rounded ? sb_ball_act(knobs, w) : w;
        }
    }
    free(p);
    return SB_OK;
}

/* The inputs of moe_combine, in the order of args.def. */
enum { EXPERTS, WEIGHTS, IDS, SHARED, SHARED_LOGIT };

/* The slot that K-14 adds as number e. In `eager`: the slot of the smallest expert index above
 * `last`. */
static size_t next_slot(const sb_knobs *knobs, const sb_moe_combine_args *a, size_t e, size_t last)
{
    size_t best = a->kept;
    if (!SB_IS(knobs, moe_sum, eager) || !a->ids)
        return e;
    for (size_t i = 0; i < a->kept; i++) {
        int later = e == 0 || a->ids[i] > a->ids[last] || (a->ids[i] == a->ids[last] && i > last);
        if (later && (best == a->kept || a->ids[i] < a->ids[best]))
            best = i;
    }
    return best;
}

/* "t_i = f_i w_i rounded to the activation type where K-13 rounds w (else RN), routed = R(
 * sum(t) )"; K-14: "routed = R( RN(routed + t_i) ), starting from 0" */
static sb_ball routed_sum(const sb_arithmetic *ar, const sb_knobs *knobs,
                          const sb_moe_combine_args *a, size_t i, const sb_ball *expert,
                          const sb_ball *weights)
{
    sb_reduction sum = {0};
    sb_ball routed = sb_ball_of(0.0f);
    size_t slot = 0;
    for (size_t e = 0; e < a->kept; e++) {
        slot = next_slot(knobs, a, e, slot);
        sb_ball term =
            sb_ball_mul(ar, expert[slot * a->n + i], sb_bound_at(weights, a->weights, slot));
        if (sb_rounds_slots(knobs))
            term = sb_ball_act(knobs, term);
        sb_reduce(&sum, term, sb_ball_of(1.0f));
        routed = sb_ball_act(knobs, sb_ball_add(ar, routed, term));
    }
    return SB_IS(knobs, moe_sum, eager) ? routed : sb_ball_act(knobs, sb_ball_reduced(ar, &sum));
}

/* "y = R( RN( routed + R( RN( sigmoid(l_shared) f_shared ) ) ) )"; K-52: "fused replaces its
 * last step by R( dot of (1, sigmoid(l_shared)) with (routed, f_shared) )" */
static sb_ball add_shared(const sb_arithmetic *ar, const sb_knobs *knobs, sb_ball routed,
                          sb_ball open, sb_ball shared)
{
    if (SB_IS(knobs, shared_gate, fused)) {
        sb_ball terms[2] = {routed, shared}, factors[2] = {sb_ball_of(1.0f), open};
        return sb_ball_act(knobs, sb_ball_dot(ar, terms, factors, 2));
    }
    sb_ball gated = sb_ball_act(knobs, sb_ball_mul(ar, sb_ball_act(knobs, open), shared));
    return sb_ball_act(knobs, sb_ball_add(ar, routed, gated));
}

/* shared_logit, weights: NULL for those of the arguments */
static void combine(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_moe_combine_args *a,
                    const sb_ball *expert, const sb_ball *shared, const sb_ball *weights,
                    const sb_ball *shared_logit, sb_ball *out)
{
    ar = sb_arithmetic_vector(ar);
    sb_ball open = sb_ball_sigmoid(ar, sb_bound_at(shared_logit, &a->shared_logit, 0));
    for (size_t i = 0; i < a->n; i++) {
        if (!SB_IS(knobs, moe_sum, dot)) {
            sb_ball routed = routed_sum(ar, knobs, a, i, expert, weights);
            out[i] = add_shared(ar, knobs, routed, open, shared[i]);
            continue;
        }
        sb_reduction sum = {0};
        for (size_t e = 0; e < a->kept; e++)
            sb_reduce(&sum, expert[e * a->n + i], sb_bound_at(weights, a->weights, e));
        sb_reduce(&sum, open, shared[i]);
        out[i] = sb_ball_act(knobs, sb_ball_reduced(ar, &sum));
    }
}

void sb_bound_moe_combine_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_moe_combine_args *a, const sb_ball *expert,
                             const sb_ball *shared, sb_ball *out)
{
    combine(ar, knobs, a, expert, shared, NULL, NULL, out);
}

sb_status sb_bound_moe_combine_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                  const sb_moe_combine_args *a, const sb_ball *const *in,
                                  sb_ball *out, sb_ball *second)
{
    (void)second;
    sb_ball *expert = sb_alloc((a->kept + 1) * a->n, sizeof *expert);
    if (!expert)
        return SB_ERR_MEMORY;
    sb_ball *shared = expert + a->kept * a->n;
    sb_bound_row(in[EXPERTS], a->expert_out, 0, a->kept * a->n, expert);
    sb_bound_row(in[SHARED], a->shared_out, 0, a->n, shared);
    combine(ar, knobs, a, expert, shared, in[WEIGHTS], in[SHARED_LOGIT], out);
    free(expert);
    return SB_OK;
}
