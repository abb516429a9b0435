/* l2norm.c - the norm of queries and keys in linear attention, in the forms of different engines.
 * Their results differ by an ulp. Near zero they differ completely, because eps enters at different
 * places. */
#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/fn.h"
#include "ref/fast/arrays.h"
#include "ref/ops/form.h"
#include "ref/fast/fast.h"
#include "ref/ops/knob.h"

#include <stdlib.h>

/* One vector's norm: x n, x / d, or (x n) scale. */
typedef struct norm {
    sb_knob_value form;
    float n, d; /* n for forms that multiply, d for forms that divide */
    float root; /* RN(dk^-1/2) */
} norm;

/* K-32: "act has n = R(rsqrt( R( RN( R(sum of R(RN(x x))) + eps ) ) ))" */
static float rounded_inverse(const sb_knobs *knobs, const float *x, size_t dk, float eps,
                             float *squares)
{
    for (size_t i = 0; i < dk; i++) {
        float square = x[i] * x[i];
        squares[i] = sb_act(knobs, square);
    }
    float sum = sb_act(knobs, sb_sum(squares, dk)) + eps;
    return sb_act(knobs, sb_rsqrt(sb_act(knobs, sum)));
}

/* K-32: "rms_sum has RN( RN(x r) RN(dk^-1/2) ) with r = RN(1 / RN(sqrt(RN( RN(ss / dk) + RN(eps /
 * dk) )))), and rms_mean the same with r = rsqrt( RN( RN(ss / dk) + eps ) )" */
static float inverse_rms(sb_knob_value form, float ss, size_t dk, float eps)
{
    float mean = ss / (float)dk;
    if (form == SB_l2norm_rms_mean)
        return sb_rsqrt(mean + eps);
    float part = eps / (float)dk;
    return 1.0f / sb_sqrt(mean + part);
}

/* "n = rsqrt( RN(ss + 1e-6) )", eps being added to the sum
 * K-32: "reciprocal has n = RN(1 / d) with d = RN(sqrt( RN(ss + eps) )), and divide has RN(x / d)
 * in place of RN(x n); max_norm has n = RN(1 / max(RN(sqrt(ss)), eps))"; "no_eps has n = rsqrt(ss),
 * and 0 where ss is 0" */
static void measure_norm(const sb_knobs *knobs, const float *x, size_t dk, float eps,
                         float *squares, norm *out)
{
    float ss = sb_dot(x, x, dk), root;
    out->n = out->d = 1.0f;
    switch ((int)out->form) {
    case SB_l2norm_act:
        out->n = rounded_inverse(knobs, x, dk, eps, squares);
        break;
    case SB_l2norm_rms_sum:
    case SB_l2norm_rms_mean:
        out->n = inverse_rms(out->form, ss, dk, eps);
        break;
    case SB_l2norm_no_eps:
        out->n = ss == 0.0f ? 0.0f : sb_rsqrt(ss);
        break;
    case SB_l2norm_max_norm:
        root = sb_sqrt(ss);
        out->n = 1.0f / (root < eps ? eps : root);
        break;
    case SB_l2norm_reciprocal:
        out->n = 1.0f / sb_sqrt(ss + eps);
        break;
    case SB_l2norm_divide:
        out->d = sb_sqrt(ss + eps);
        break;
    default:
        out->n = sb_rsqrt(ss + eps);
    }
}

/* "k = RN(x n)"; K-33: "act to round x n to the activation type before queries are scaled" */
static void apply(const sb_knobs *knobs, const norm *of, const float *x, size_t dk, int rounds,
                  float *y)
{
    int divides = of->form == SB_l2norm_divide;
    for (size_t i = 0; i < dk; i++)
        y[i] = divides ? x[i] / of->d : x[i] * of->n;
    if (of->form == SB_l2norm_rms_sum || of->form == SB_l2norm_rms_mean)
        for (size_t i = 0; i < dk; i++)
            y[i] = y[i] * of->root;
    if (rounds)
        sb_act_many(knobs, y, dk, y);
}

typedef struct job {
    const sb_knobs *knobs;
    const sb_l2norm_args *a;
    norm form;
    float scale;
    int divides, leaves, rounds;
    float *squares; /* scratch of each thread */
} job;

/* One vector: query or key i, counted over all rows. */
static void one_vector(void *ctx, size_t i, size_t worker)
{
    const job *j = ctx;
    const sb_l2norm_args *a = j->a;
    const size_t heads = 2 * a->heads, width = a->heads * a->dk, t = i / heads, h = i % heads;
    const float *x = a->qkv + t * a->stride + h * a->dk;
    int is_query = h < a->heads;
    float *to = is_query ? a->q + t * width + h * a->dk : a->k + t * width + (h - a->heads) * a->dk;
    norm of = j->form;
    measure_norm(j->knobs, x, a->dk, a->eps, j->squares + worker * a->dk, &of);
    apply(j->knobs, &of, x, a->dk, j->rounds, to);
    for (size_t l = 0; l < a->dk && is_query && !j->leaves; l++)
        to[l] = j->divides ? to[l] / j->scale : to[l] * j->scale;
}

/* "q = RN( RN(x n) RN(dk^-1/2) )"
 * K-16: "by_form divides instead where K-15 chose the recurrent form" */
sb_status sb_l2norm_fast(const sb_knobs *knobs, const sb_l2norm_args *a)
{
    job j = {.knobs = knobs, .a = a};
    j.divides = SB_IS(knobs, q_scale, by_form) && a->recurrent;
    j.leaves = sb_scales_output(knobs, a->recurrent);
    j.scale = sb_root_power((double)a->dk, j.divides ? 1 : -1, 2);
    j.form =
        (norm){.form = sb_l2norm_of(knobs, a->form), .root = sb_root_power((double)a->dk, -1, 2)};
    j.rounds = sb_l2norm_rounds(knobs, a->form) || j.form.form == SB_l2norm_act;
    j.squares = sb_alloc(sb_threads_here(), a->dk * sizeof *j.squares);
    if (!j.squares)
        return SB_ERR_MEMORY;
    const size_t count = a->rows * 2 * a->heads;
    const double values = (double)count * (double)a->dk;
    sb_parallel_for(count, sb_worth_threads(values * SB_COST_rounded), one_vector, &j);
    free(j.squares);
    return SB_OK;
}
