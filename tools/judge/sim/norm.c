/* norm.c - the three norms. */
#include "tools/judge/sim/arith.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"

/* 1 / sqrt(sum of squares / divisor + eps) */
static float inverse_root(const sb_sim_arith *s, const float *x, size_t n, size_t divisor,
                          float eps)
{
    float square = sb_sim_dot(s, x, 1, x, 1, n);
    float mean = sb_sim_divide(s, square, (float)divisor);
    return sb_sim_rsqrt(s, mean + eps);
}

/* K-49: "act rounds RN(1 + w_i) of R-3 to the activation type"
 * "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) )", "The plain norms of M-11 have y_i = R( RN(
 * RN(x_i r) w_i ) ), and K-54 rounds their RN(x_i r)" */
sb_status sb_sim_rmsnorm(const sb_sim_arith *s, const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    int rounds = SB_IS(knobs, norm_weight, act), inner = a->plain && SB_IS(knobs, plain_norm, act);
    float *weight = sb_alloc(a->n, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t t = 0; t < a->rows; t++) {
        const float *x = a->in + t * a->n;
        float r = inverse_root(s, x, a->n, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float normalised = sb_sim_act_if(knobs, inner, x[i] * r);
            float factor = a->plain ? weight[i] : sb_sim_act_if(knobs, rounds, 1.0f + weight[i]);
            a->out[t * a->n + i] = sb_act(knobs, normalised * factor);
        }
    }
    free(weight);
    return SB_OK;
}

/* --- l2norm, in the forms of K-32 ------------------------------------------------------------- */

/* K-32: "act has n = R(rsqrt( R( RN( R(sum of R(RN(x x))) + eps ) ) ))" */
static float rounded_inverse(const sb_sim_arith *s, const sb_knobs *knobs, const float *x, size_t n,
                             float eps, float *squares)
{
    for (size_t i = 0; i < n; i++)
        squares[i] = sb_act(knobs, x[i] * x[i]);
    float sum = sb_act(knobs, sb_sim_sum(s, squares, n)) + eps;
    return sb_act(knobs, sb_sim_rsqrt(s, sb_act(knobs, sum)));
}

/* The factor of x; *divisor is not 1 if the form divides. K-32: "max_norm has n = RN(1 /
 * max(RN(sqrt(ss)), eps))"; "reciprocal has n = RN(1 / d) with d = RN(sqrt( RN(ss + eps) )), and
 * divide has RN(x / d) in place of RN(x n)" */
static float inverse(const sb_sim_arith *s, const sb_knobs *knobs, sb_knob_value form,
                     const float *x, size_t n, float eps, float *squares, float *divisor)
{
    float ss = sb_sim_dot(s, x, 1, x, 1, n), mean = sb_sim_divide(s, ss, (float)n), root;
    *divisor = 1.0f;
    switch ((int)form) {
    case SB_l2norm_act:
        return rounded_inverse(s, knobs, x, n, eps, squares);
    case SB_l2norm_rms_sum:
        return sb_sim_divide(s, 1.0f, sb_sim_sqrt(s, mean + sb_sim_divide(s, eps, (float)n)));
    case SB_l2norm_rms_mean:
        return sb_sim_rsqrt(s, mean + eps);
    case SB_l2norm_no_eps:
        return ss == 0.0f ? 0.0f : sb_sim_rsqrt(s, ss);
    case SB_l2norm_max_norm:
        root = sb_sim_sqrt(s, ss);
        return sb_sim_divide(s, 1.0f, root < eps ? eps : root);
    case SB_l2norm_reciprocal:
        return sb_sim_divide(s, 1.0f, sb_sim_sqrt(s, ss + eps));
    case SB_l2norm_divide:
        *divisor = sb_sim_sqrt(s, ss + eps);
        return 1.0f;
    default:
        return sb_sim_rsqrt(s, ss + eps);
    }
}

/* "k = RN(x n), and q = RN( RN(x n) RN(dk^-1/2) )", without the scale of q. K-33: "act to
 * round x n to the activation type before queries are scaled" */
static void normalise(const sb_sim_arith *s, const sb_knobs *knobs, const sb_l2norm_args *a,
                      const float *x, float *squares, float *to)
{
    sb_knob_value form = sb_l2norm_of(knobs, a->form);
    int rounds = sb_l2norm_rounds(knobs, a->form) || form == SB_l2norm_act;
    int scaled = form == SB_l2norm_rms_sum || form == SB_l2norm_rms_mean;
    float divisor, root = scaled ? sb_sim_root((double)a->dk, -0.5) : 1.0f;
    float n = inverse(s, knobs, form, x, a->dk, a->eps, squares, &divisor);
    for (size_t i = 0; i < a->dk; i++)
        to[i] = sb_sim_act_if(knobs, rounds, sb_sim_divide(s, x[i] * n, divisor) * root);
}

/* K-16: "by_form divides instead where K-15 chose the recurrent form"; "output leaves q unscaled"
 */
sb_status sb_sim_l2norm(const sb_sim_arith *s, const sb_knobs *knobs, const sb_l2norm_args *a)
{
    int divides = SB_IS(knobs, q_scale, by_form) && a->recurrent;
    int leaves = sb_scales_output(knobs, a->recurrent);
    float scale = leaves ? 1.0f : sb_sim_power(s, (double)a->dk, divides ? 0.5 : -0.5);
    size_t width = a->heads * a->dk;
    float *squares = sb_alloc(a->dk, sizeof *squares);
    if (!squares)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            const float *query = a->qkv + t * a->stride + h * a->dk;
            float *q = a->q + t * width + h * a->dk;
            normalise(s, knobs, a, query, squares, q);
            normalise(s, knobs, a, query + width, squares, a->k + t * width + h * a->dk);
            for (size_t i = 0; i < a->dk; i++)
                q[i] = divides ? sb_sim_divide(s, q[i], scale) : q[i] * scale;
        }
    free(squares);
    return SB_OK;
}

/* "y_i = R( RN(p_i silu(z_i)) ): norm before gate"
 * K-7: "act to round the normalised value and its product with the weight" */
sb_status sb_sim_gated_rmsnorm(const sb_sim_arith *s, const sb_knobs *knobs,
                               const sb_gated_rmsnorm_args *a)
{
    int rounds = SB_IS(knobs, gated_norm, act);
    float *weight = sb_alloc(a->n, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t row = 0; row < a->rows * a->heads; row++) {
        const float *o = a->in + row * a->n, *z = a->z + row * a->n;
        float r = inverse_root(s, o, a->n, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float n = sb_sim_act_if(knobs, rounds, o[i] * r);
            float p = sb_sim_act_if(knobs, rounds, weight[i] * n);
            a->out[row * a->n + i] = sb_act(knobs, p * sb_sim_silu(s, z[i]));
        }
    }
    free(weight);
    return SB_OK;
}
