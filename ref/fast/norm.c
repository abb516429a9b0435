/* norm.c - the two norms of the model that have a weight. They differ in the factor (1 + w or w)
 * and in their rounding points. Engines make mistakes in exactly these two details. The third norm
 * is in l2norm.c. */
#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/fn.h"
#include "ref/fast/dot/fn_array.h"
#include "ref/fast/arrays.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"
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

typedef struct plain {
    const sb_knobs *knobs;
    const sb_rmsnorm_args *a;
    const float *weight;
} plain;

static void plain_row(void *ctx, size_t t, size_t worker)
{
    const plain *j = ctx;
    const sb_rmsnorm_args *a = j->a;
    const float *x = a->in + t * a->n;
    float *y = a->out + t * a->n, r = inverse_rms(x, a->n, a->eps);
    (void)worker;
    for (size_t i = 0; i < a->n; i++)
        y[i] = x[i] * r;
    /* K-54: "act rounds RN(x_i r) of a plain norm to the activation type" */
    if (a->plain && SB_IS(j->knobs, plain_norm, act))
        sb_act_many(j->knobs, y, a->n, y);
    for (size_t i = 0; i < a->n; i++)
        y[i] = y[i] * j->weight[i];
    sb_act_many(j->knobs, y, a->n, y);
}

/* "y_i = R( RN( RN(x_i r) (RN(1 + w_i)) ) )", "The plain norms of M-11 have y_i = R( RN(
 * RN(x_i r) w_i ) )" */
sb_status sb_rmsnorm_fast(const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    float *weight = sb_alloc(a->n, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    sb_param_row(knobs, a->weight, 0, weight);
    for (size_t i = 0; i < a->n && !a->plain; i++)
        weight[i] = one_plus(knobs, weight[i]);
    plain j = {knobs, a, weight};
    const double values = (double)a->rows * (double)a->n;
    sb_parallel_for(a->rows, sb_worth_threads(values * SB_COST_rounded), plain_row, &j);
    free(weight);
    return SB_OK;
}

/* K-7: "act to round the normalised value and its product with the weight" */
static void inner(const sb_knobs *knobs, float *x, size_t n)
{
    if (SB_IS(knobs, gated_norm, act))
        sb_act_many(knobs, x, n, x);
}

/* "y_i = R( RN(p_i silu(z_i)) ): norm before gate", for one head of one row. p is scratch for
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
    sb_silu_array(z, a->n, silu);
    for (size_t i = 0; i < a->n; i++)
        p[i] = p[i] * silu[i];
    sb_act_many(knobs, p, a->n, a->out + row * a->n);
}

typedef struct gated {
    const sb_knobs *knobs;
    const sb_gated_rmsnorm_args *a;
    float *weight; /* followed by two rows of scratch for each thread */
} gated;

static void gated_row(void *ctx, size_t row, size_t worker)
{
    const gated *j = ctx;
    gated_norm(j->knobs, j->a, j->weight, row, j->weight + (1 + 2 * worker) * j->a->n);
}

sb_status sb_gated_rmsnorm_fast(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a)
{
    float *weight = sb_alloc(1 + 2 * sb_threads_here(), a->n * sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    const double values = (double)(a->rows * a->heads) * (double)a->n;
    gated j = {knobs, a, weight};
    sb_param_row(knobs, a->weight, 0, weight);
    sb_parallel_for(a->rows * a->heads, sb_worth_threads(values * SB_COST_exponential), gated_row,
                    &j);
    free(weight);
    return SB_OK;
}
