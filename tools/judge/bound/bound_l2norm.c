/* bound_l2norm.c - the norm of queries and keys in linear attention, in the forms of K-32. */
#include "ref/base/root.h"
#include "tools/judge/bound/bound.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"

/* T-32: "The other forms of l2norm (K-32) are balls of the same steps"
 *
 * The norm of one vector: the result is x n, or x / d if the form divides. */
typedef struct norm {
    sb_knob_value form;
    sb_ball n, d;
} norm;

static sb_ball sum_of_squares(const sb_arithmetic *ar, const sb_knobs *knobs, int rounds,
                              const sb_ball *x, size_t dk)
{
    sb_reduction r = {0};
    for (size_t i = 0; i < dk; i++) {
        sb_ball e = x[i];
        if (rounds)
            sb_reduce(&r, sb_ball_act(knobs, sb_ball_mul(ar, e, e)), sb_ball_of(1.0f));
        else
            sb_reduce(&r, e, e);
    }
    return sb_ball_reduced(ar, &r);
}

static sb_ball inverse(const sb_arithmetic *ar, sb_ball x)
{
    return sb_ball_div(ar, sb_ball_of(1.0f), x);
}

/* K-32: "act has n = R(rsqrt( R( RN( R(sum of R(RN(x x))) + eps ) ) ))" */
static sb_ball rounded_inverse(const sb_arithmetic *ar, const sb_knobs *knobs, sb_ball ss,
                               sb_ball eps)
{
    sb_ball sum = sb_ball_add(ar, sb_ball_act(knobs, ss), eps);
    return sb_ball_act(knobs, sb_ball_rsqrt(ar, sb_ball_act(knobs, sum)));
}

/* K-32: "rms_sum has RN( RN(x r) RN(dk^-1/2) ) with r = RN(1 / RN(sqrt(RN( RN(ss / dk) + RN(eps /
 * dk) )))), and rms_mean the same with r = rsqrt( RN( RN(ss / dk) + eps ) )" */
static sb_ball inverse_rms(const sb_arithmetic *ar, sb_knob_value form, sb_ball ss, size_t dk,
                           sb_ball eps)
{
    sb_ball n = sb_ball_of((float)dk), mean = sb_ball_div(ar, ss, n);
    if (form == SB_l2norm_rms_mean)
        return sb_ball_rsqrt(ar, sb_ball_add(ar, mean, eps));
    sb_ball sum = sb_ball_add(ar, mean, sb_ball_div(ar, eps, n));
    return inverse(ar, sb_ball_sqrt(ar, sum));
}

/* K-32: "max_norm has n = RN(1 / max(RN(sqrt(ss)), eps))" */
static sb_ball larger(sb_ball x, sb_ball least)
{
    if (x.mid + x.rad <= least.mid)
        return least;
    double low = sb_wide_max(x.mid - x.rad, least.mid), high = x.mid + x.rad;
    return (sb_ball){(low + high) / 2, (high - low) / 2};
}

/* "n = rsqrt( RN(ss + 1e-6) )"; K-32: "reciprocal has n = RN(1 / d) with d = RN(sqrt( RN(ss +
 * eps) )), and divide has RN(x / d) in place of RN(x n)"; "no_eps has n = rsqrt(ss), and 0 where ss
 * is 0" */
static void measure_norm(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_ball *x,
                         size_t dk, float eps_value, norm *out)
{
    int rounds = out->form == SB_l2norm_act;
    sb_ball ss = sum_of_squares(ar, knobs, rounds, x, dk), eps = sb_ball_of(eps_value);
    switch ((int)out->form) {
    case SB_l2norm_act:
        out->n = rounded_inverse(ar, knobs, ss, eps);
        break;
    case SB_l2norm_rms_sum:
    case SB_l2norm_rms_mean:
        out->n = inverse_rms(ar, out->form, ss, dk, eps);
        break;
    case SB_l2norm_no_eps:
        out->n = ss.mid == 0.0 ? sb_ball_of(0.0f) : sb_ball_rsqrt(ar, ss);
        break;
    case SB_l2norm_max_norm:
        out->n = inverse(ar, larger(sb_ball_sqrt(ar, ss), eps));
        break;
    case SB_l2norm_reciprocal:
        out->n = inverse(ar, sb_ball_sqrt(ar, sb_ball_add(ar, ss, eps)));
        break;
    case SB_l2norm_divide:
        out->d = sb_ball_sqrt(ar, sb_ball_add(ar, ss, eps));
        break;
    default:
        out->n = sb_ball_rsqrt(ar, sb_ball_add(ar, ss, eps));
    }
}

/* "k = RN(x n)"; K-33: "act to round x n to the activation type before queries are scaled" */
static sb_ball apply(const sb_arithmetic *ar, const sb_knobs *knobs, const norm *of, sb_ball e,
                     sb_ball root, int rounds)
{
    sb_ball y =
        of->form == SB_l2norm_divide ? sb_ball_div(ar, e, of->d) : sb_ball_mul(ar, e, of->n);
    if (of->form == SB_l2norm_rms_sum || of->form == SB_l2norm_rms_mean)
        y = sb_ball_mul(ar, y, root);
    return rounds ? sb_ball_act(knobs, y) : y;
}

/* "q = RN( RN(x n) RN(dk^-1/2) )"; T-8: "a division by dk^1/2 is within the ball of the
 * product" */
sb_status sb_bound_l2norm_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_l2norm_args *a, const sb_ball *const *in, sb_ball *out,
                             sb_ball *second)
{
    ar = sb_arithmetic_vector(ar);
    double root = 1.0 / sb_sqrt64((double)a->dk);
    sb_ball scale = {root, root * SB_UNIT};
    norm of = {.form = sb_l2norm_of(knobs, a->form)};
    int rounds = sb_l2norm_rounds(knobs, a->form) || of.form == SB_l2norm_act;
    int leaves = sb_scales_output(knobs, a->recurrent);
    sb_ball *x = sb_alloc(a->dk, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < 2 * a->heads; h++) {
            int is_query = h < a->heads;
            size_t head = is_query ? h : h - a->heads;
            sb_ball *to = (is_query ? out : second) + (t * a->heads + head) * a->dk;
            if (in[0])
                memcpy(x, in[0] + (2 * a->heads * t + h) * a->dk, a->dk * sizeof *x);
            else
                sb_balls_of(a->qkv + t * a->stride + h * a->dk, a->dk, x);
            measure_norm(ar, knobs, x, a->dk, a->eps, &of);
            for (size_t i = 0; i < a->dk; i++) {
                to[i] = apply(ar, knobs, &of, x[i], scale, rounds);
                if (is_query && !leaves)
                    to[i] = sb_ball_mul(ar, to[i], scale);
            }
        }
    free(x);
    return SB_OK;
}
