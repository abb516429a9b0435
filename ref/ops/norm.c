/* norm.c - the two norms of the model that have a weight. They differ in the factor (1 + w or w)
 * and in their rounding points. Engines make mistakes in exactly these two details. The third norm
 * is in l2norm.c. */
#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

/* "ss = dot(x, x); r = rsqrt( RN( RN(ss / n) + eps ) )" */
static float inverse_rms(const float *x, size_t n, float eps)
{
    float ss = sb_exact_dot(x, 1, x, 1, n);
    float mean = ss / (float)n;
    return sb_rsqrt(mean + eps);
}

/* "RN(1 + w_i)", "K-49 rounds 1 + w"; or w_i of a plain norm */
static float factor_of(const sb_knobs *knobs, const sb_rmsnorm_args *a, size_t i)
{
    float w = sb_param_at(knobs, a->weight, 0, i);
    if (a->plain)
        return w;
    float factor = 1.0f + w;
    return SB_IS(knobs, norm_weight, act) ? sb_act(knobs, factor) : factor;
}

/* "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) ), with the 1 + of the zero-centred norms"; "The
 * plain norms of M-11 have y_i = R( RN( RN(x_i r) w_i ) ), and K-54 rounds their RN(x_i r)." */
sb_status sb_rmsnorm_ref(const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    for (size_t t = 0; t < a->rows; t++) {
        const float *x = a->in + t * a->n;
        float r = inverse_rms(x, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float normalised = x[i] * r;
            /* K-54: "act rounds RN(x_i r) of a plain norm to the activation type" */
            if (a->plain && SB_IS(knobs, plain_norm, act))
                normalised = sb_act(knobs, normalised);
            a->out[t * a->n + i] = sb_act(knobs, normalised * factor_of(knobs, a, i));
        }
    }
    return SB_OK;
}

/* K-7: "act to round the normalised value and its product with the weight" */
static float inner(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, gated_norm, act) ? sb_act(knobs, x) : x;
}

/* "ss = dot(o, o); n_i = RN( o_i rsqrt( RN( RN(ss / dv) + eps ) ) ); p_i = RN(w_i n_i) with
 * the plain weight; y_i = R( RN(p_i silu(z_i)) ): norm before gate. Where K-7 says so, n and p are
 * rounded to the activation type." */
sb_status sb_gated_rmsnorm_ref(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a)
{
    for (size_t row = 0; row < a->rows * a->heads; row++) {
        const float *o = a->in + row * a->n, *z = a->z + row * a->n;
        float r = inverse_rms(o, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float n = inner(knobs, o[i] * r);
            float p = inner(knobs, sb_param_at(knobs, a->weight, 0, i) * n);
            a->out[row * a->n + i] = sb_act(knobs, p * sb_silu(z[i]));
        }
    }
    return SB_OK;
}
