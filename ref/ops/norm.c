/* norm.c - the two normalisations of the model that have a weight. They differ in it (1 + w, w) and
 * in what is rounded: exactly the places where engines go wrong. l2norm.c has the third. */
#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/math/fn_many.h"
#include "ref/ops/arrays.h"
#include "ref/ops/op.h"
#include "ref/ops/param.h"

#include <stdlib.h>

/* "r = rsqrt( RN( RN(ss / n) + eps ) )" with ss = dot(x, x) */
static float inverse_rms(const float *x, size_t n, float eps)
{
    float mean = sb_dot(x, x, n) / (float)n;
    return sb_rsqrt(mean + eps);
}

/* K-49: "act rounds RN(1 + w_i) of R-3 to the activation type" */
static float one_plus(const sb_knobs *knobs, float w)
{
    float factor = 1.0f + w;
    return SB_IS(knobs, norm_weight, act) ? sb_act(knobs, factor) : factor;
}

/* "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) )" */
sb_status sb_rmsnorm_ref(const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    float *weight = sb_alloc(a->n, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t i = 0; i < a->n; i++)
        weight[i] = one_plus(knobs, weight[i]);
    const double values = (double)a->rows * (double)a->n;
#pragma omp parallel for schedule(static) if (sb_worth_threads(values * SB_COST_rounded))
    for (int64_t t = 0; t < (int64_t)a->rows; t++) {
        const float *x = a->in + (size_t)t * a->n;
        float *y = a->out + (size_t)t * a->n, r = inverse_rms(x, a->n, a->eps);
        for (size_t i = 0; i < a->n; i++) {
            float normalised = x[i] * r;
            y[i] = normalised * weight[i];
        }
        sb_act_many(knobs, y, a->n, y);
    }
    free(weight);
    return SB_OK;
}

/* K-7: "act to round the normalised value and its product with the weight" */
static void inner(const sb_knobs *knobs, float *x, size_t n)
{
    if (SB_IS(knobs, gated_norm, act))
        sb_act_many(knobs, x, n, x);
}

/* "y_i = R( RN(p_i silu(z_i)) ): norm before gate", of one head of one row. p is scratch for
 * p and silu. */
static void gated_norm(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a, const float *weight,
                       size_t row, float *p)
{
    const float *o = a->in + row * a->n, *z = a->z + row * a->n;
    float r = inverse_rms(o, a->n, a->eps), *silu = p + a->n;
    for (size_t i = 0; i < a->n; i++)
        p[i] = o[i] * r;
    inner(knobs, p, a->n);
    for (size_t i = 0; i < a->n; i++)
        p[i] = weight[i] * p[i];
    inner(knobs, p, a->n);
    sb_silu_many(z, a->n, silu);
    for (size_t i = 0; i < a->n; i++)
        p[i] = p[i] * silu[i];
    sb_act_many(knobs, p, a->n, a->out + row * a->n);
}

sb_status sb_gated_rmsnorm_ref(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a)
{
    float *weight = sb_alloc(1 + 2 * sb_threads_here(), a->n * sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    const double values = (double)(a->rows * a->heads) * (double)a->n;
    sb_param_row(knobs, a->weight, 0, weight);
#pragma omp parallel for schedule(static) if (sb_worth_threads(values * SB_COST_exponential))
    for (int64_t row = 0; row < (int64_t)(a->rows * a->heads); row++)
        gated_norm(knobs, a, weight, (size_t)row,
                   weight + (1 + 2 * (size_t)omp_get_thread_num()) * a->n);
    free(weight);
    return SB_OK;
}
