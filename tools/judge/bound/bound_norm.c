/* bound_norm.c - the two norms with a weight. */
#include "tools/judge/bound/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"
#include "tools/judge/bound/wide_fn.h"

/* T-8: "the sum of squares has no cancellation": rsqrt( RN( RN(ss / divisor) + eps ) ) */
static sb_ball inverse_root(const sb_arithmetic *ar, const sb_ball *x, size_t n, size_t divisor,
                            float eps)
{
    sb_reduction r = {0};
    for (size_t i = 0; i < n; i++)
        sb_reduce(&r, x[i], x[i]);
    sb_ball sum = sb_ball_reduced(ar, &r);
    if (divisor > 1)
        sum = sb_ball_div(ar, sum, sb_ball_of((float)divisor));
    return sb_ball_rsqrt(ar, sb_ball_add(ar, sum, sb_ball_of(eps)));
}

/* "RN(1 + w_i)", "K-49 rounds 1 + w"; or w_i of a plain norm */
static sb_ball factor_of(const sb_arithmetic *ar, const sb_knobs *knobs, int plain, float w)
{
    if (plain)
        return sb_ball_of(w);
    sb_ball factor = sb_ball_add(ar, sb_ball_of(1.0f), sb_ball_of(w));
    return SB_IS(knobs, norm_weight, act) ? sb_ball_act(knobs, factor) : factor;
}

/* "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) )", "The plain norms of M-11 have y_i = R( RN(
 * RN(x_i r) w_i ) ), and K-54 rounds their RN(x_i r)" */
sb_status sb_bound_rmsnorm_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                              const sb_rmsnorm_args *a, const sb_ball *const *in, sb_ball *out,
                              sb_ball *second)
{
    ar = sb_arithmetic_vector(ar);
    (void)second;
    float *weight = sb_alloc(a->n, sizeof *weight);
    sb_ball *x = sb_alloc(a->n, sizeof *x);
    if (!weight || !x) {
        free(weight);
        free(x);
        return SB_ERR_MEMORY;
    }
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t t = 0; t < a->rows; t++) {
        sb_bound_row(in[0], a->in, t * a->n, a->n, x);
        sb_ball r = inverse_root(ar, x, a->n, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            sb_ball factor = factor_of(ar, knobs, a->plain, weight[i]);
            sb_ball normalised = sb_ball_mul(ar, x[i], r);
            if (a->plain && SB_IS(knobs, plain_norm, act))
                normalised = sb_ball_act(knobs, normalised);
            out[t * a->n + i] = sb_ball_act(knobs, sb_ball_mul(ar, normalised, factor));
        }
    }
    free(weight);
    free(x);
    return SB_OK;
}

/* "n_i = RN( o_i rsqrt( RN( RN(ss / dv) + eps ) ) ); p_i = RN(w_i n_i) with the plain weight;
 * y_i = R( RN(p_i silu(z_i)) ): norm before gate" */
sb_status sb_bound_gated_rmsnorm_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                    const sb_gated_rmsnorm_args *a, const sb_ball *const *in,
                                    sb_ball *out, sb_ball *second)
{
    ar = sb_arithmetic_vector(ar);
    (void)second;
    float *weight = sb_alloc(a->n, sizeof *weight);
    sb_ball *o = sb_alloc(a->n, sizeof *o);
    if (!weight || !o) {
        free(weight);
        free(o);
        return SB_ERR_MEMORY;
    }
    sb_param_row(knobs, a->weight, 0, weight);
    int rounds = SB_IS(knobs, gated_norm, act);
    for (size_t row = 0; row < a->rows * a->heads; row++) {
        sb_bound_row(in[0], a->in, row * a->n, a->n, o);
        sb_ball r = inverse_root(ar, o, a->n, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            sb_ball n = sb_ball_mul(ar, o[i], r);
            if (rounds)
                n = sb_ball_act(knobs, n);
            sb_ball p = sb_ball_mul(ar, sb_ball_of(weight[i]), n);
            if (rounds)
                p = sb_ball_act(knobs, p);
            sb_ball gate = sb_ball_silu(ar, sb_bound_at(in[1], a->z, row * a->n + i));
            out[row * a->n + i] = sb_ball_act(knobs, sb_ball_mul(ar, p, gate));
        }
    }
    free(weight);
    free(o);
    return SB_OK;
}
