/* norm.c - the three normalisations of the model. They differ in where eps goes (mean or sum), in
 * the weight (1 + w, w, none) and in what is rounded: exactly the places where engines go wrong. */
#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

#include <stdlib.h>

/* "r = rsqrt( RN( RN(ss / n) + eps ) )" with ss = dot(x, x) */
static float inverse_rms(const float *x, size_t n, float eps)
{
    float mean = sb_dot(x, x, n) / (float)n;
    return sb_rsqrt(mean + eps);
}

/* "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) )" */
sb_status sb_rmsnorm_ref(const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    float *weight = sb_alloc(a->n, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t t = 0; t < a->rows; t++) {
        const float *x = a->in + t * a->n;
        float r = inverse_rms(x, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float normalised = x[i] * r;
            float factor = 1.0f + weight[i];
            a->out[t * a->n + i] = sb_act(knobs, normalised * factor);
        }
    }
    free(weight);
    return SB_OK;
}

/* x over its norm; R-6: "n = rsqrt( RN(ss + 1e-6) )", eps being added to the sum */
static void normalise(const float *x, size_t n, float eps, float *out)
{
    float r = sb_rsqrt(sb_dot(x, x, n) + eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * r;
}

/* "k = RN(x n), and q = RN( RN(x n) RN(dk^-1/2) )"
 * K-16: "by_form divides instead where K-15 chose the recurrent form" */
sb_status sb_l2norm_ref(const sb_knobs *knobs, const sb_l2norm_args *a)
{
    int divides = SB_IS(knobs, q_scale, by_form) && a->recurrent;
    float scale = sb_root_power((double)a->dk, divides ? 1 : -1, 2);
    size_t width = a->heads * a->dk;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            const float *query = a->qkv + t * a->stride + h * a->dk;
            float *q = a->q + t * width + h * a->dk;
            normalise(query, a->dk, a->eps, q);
            normalise(query + width, a->dk, a->eps, a->k + t * width + h * a->dk);
            for (size_t i = 0; i < a->dk; i++)
                q[i] = divides ? q[i] / scale : q[i] * scale;
        }
    return SB_OK;
}

/* K-7: "act to round the normalised value and its product with the weight" */
static float inner(const sb_knobs *knobs, float x)
{
    return SB_IS(knobs, gated_norm, act) ? sb_act(knobs, x) : x;
}

/* "y_i = R( RN(p_i silu(z_i)) ): norm before gate" */
sb_status sb_gated_rmsnorm_ref(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a)
{
    float *weight = sb_alloc(a->n, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t row = 0; row < a->rows * a->heads; row++) {
        const float *o = a->in + row * a->n, *z = a->z + row * a->n;
        float r = inverse_rms(o, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float n = inner(knobs, o[i] * r);
            float p = inner(knobs, weight[i] * n);
            a->out[row * a->n + i] = sb_act(knobs, p * sb_silu(z[i]));
        }
    }
    free(weight);
    return SB_OK;
}
