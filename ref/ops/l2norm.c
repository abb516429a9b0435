#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "ref/ops/op.h"

/* K-32: "act has n = R(rsqrt( R( RN( R(sum of R(RN(x x))) + eps ) ) ))" */
static float rounded_inverse(const sb_knobs *knobs, const float *x, size_t dk, float eps)
{
    sb_exact squares;
    sb_exact_clear(&squares);
    for (size_t i = 0; i < dk; i++)
        sb_exact_add(&squares, sb_act(knobs, x[i] * x[i]));
    float sum = sb_act(knobs, sb_exact_round(&squares)) + eps;
    return sb_act(knobs, sb_rsqrt(sb_act(knobs, sum)));
}

/* The multiplier of x. R-6: "ss = dot(x, x); n = rsqrt( RN(ss + 1e-6) )"; K-32: "reciprocal has n =
 * RN(1 / d) with d = RN(sqrt( RN(ss + eps) ))"; "max_norm has n = RN(1 / max(RN(sqrt(ss)), eps)).
 * rms_sum has RN( RN(x r) RN(dk^-1/2) ) with r = RN(1 / RN(sqrt(RN( RN(ss / dk) + RN(eps / dk)
 * )))), and rms_mean the same with r = rsqrt( RN( RN(ss / dk) + eps ) )"; "no_eps has n =
 * rsqrt(ss), and 0 where ss is 0" */
static float inverse(const sb_knobs *knobs, sb_knob_value form, const float *x, size_t dk,
                     float eps)
{
    float ss = sb_exact_dot(x, 1, x, 1, dk), n = (float)dk, root = sb_sqrt(ss);
    float mean = ss / n, mean_eps = eps / n;
    switch ((int)form) {
    case SB_l2norm_act:
        return rounded_inverse(knobs, x, dk, eps);
    case SB_l2norm_rms_sum:
        return 1.0f / sb_sqrt(mean + mean_eps);
    case SB_l2norm_rms_mean:
        return sb_rsqrt(mean + eps);
    case SB_l2norm_no_eps:
        return ss == 0.0f ? 0.0f : sb_rsqrt(ss);
    case SB_l2norm_max_norm:
        return 1.0f / (root < eps ? eps : root);
    case SB_l2norm_reciprocal:
        return 1.0f / sb_sqrt(ss + eps);
    default:
        return sb_rsqrt(ss + eps);
    }
}

/* "k = RN(x n)"; K-32: "divide has RN(x / d) in place of RN(x n)", "and R( RN(x n) )" of act;
 * K-33: "act to round x n to the activation type before queries are scaled" */
static void normalise(const sb_knobs *knobs, const sb_l2norm_args *a, const float *x, float *y)
{
    const sb_knob_value form = sb_l2norm_of(knobs, a->form);
    const int rms = form == SB_l2norm_rms_sum || form == SB_l2norm_rms_mean;
    float n = inverse(knobs, form, x, a->dk, a->eps), root = sb_root_power((double)a->dk, -1, 2);
    float d = sb_sqrt(sb_exact_dot(x, 1, x, 1, a->dk) + a->eps);
    for (size_t i = 0; i < a->dk; i++) {
        y[i] = form == SB_l2norm_divide ? x[i] / d : x[i] * n;
        if (rms)
            y[i] = y[i] * root;
        if (form == SB_l2norm_act || sb_l2norm_rounds(knobs, a->form))
            y[i] = sb_act(knobs, y[i]);
    }
}

/* "q = RN( RN(x n) RN(dk^-1/2) ), both kept in binary32; eps is added to the sum, not to the
 * mean"; K-16: "by_form divides instead where K-15 chose the recurrent form: q = RN( RN(x n) /
 * RN(dk^1/2) ). output leaves q unscaled" */
sb_status sb_l2norm_ref(const sb_knobs *knobs, const sb_l2norm_args *a)
{
    const int divides = SB_IS(knobs, q_scale, by_form) && a->recurrent;
    const int leaves = sb_scales_output(knobs, a->recurrent);
    float scale = sb_root_power((double)a->dk, divides ? 1 : -1, 2);
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->heads; h++) {
            const float *x = a->qkv + t * a->stride + h * a->dk;
            const size_t to = (t * a->heads + h) * a->dk;
            normalise(knobs, a, x, a->q + to);
            normalise(knobs, a, x + a->heads * a->dk, a->k + to);
            for (size_t i = to; i < to + a->dk && !leaves; i++)
                a->q[i] = divides ? a->q[i] / scale : a->q[i] * scale;
        }
    return SB_OK;
}
