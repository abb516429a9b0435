/* bound_gdn.c - what stands in front of the delta rule: convolution and gates. */
#include "tools/compare/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/param.h"

/* "columns before the call come from the conv state" */
static float column(const sb_conv_args *a, size_t t, size_t tap, size_t ch)
{
    size_t channels = a->weight->rows, back = a->weight->cols - 1, at = t + tap;
    return at < back ? a->state[at * channels + ch] : a->in[(at - back) * channels + ch];
}

/* "s_t = R( silu( c_t ) ), with c_t rounded to the activation type first where K-3 says so;
 * the new conv state is the last kw-1 columns of u" */
sb_status sb_bound_conv(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_conv_args *a,
                        sb_ball *out, sb_ball *second)
{
    size_t channels = a->weight->rows, taps = a->weight->cols;
    float *weight = sb_alloc(taps, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    for (size_t ch = 0; ch < channels; ch++) {
        sb_param_row(knobs, a->weight, (uint32_t)ch, weight);
        for (size_t t = 0; t < a->rows; t++) {
            sb_reduction r = {0};
            for (size_t tap = 0; tap < taps; tap++)
                sb_reduce(&r, sb_ball_of(weight[tap]), sb_ball_of(column(a, t, tap, ch)));
            sb_ball c = sb_ball_reduced(ar, &r);
            if (SB_IS(knobs, conv_sum, act))
                c = sb_ball_act(knobs, c);
            out[t * channels + ch] = sb_ball_act(knobs, sb_ball_silu(ar, c));
        }
        for (size_t i = 0; second && i + 1 < taps; i++)
            second[i * channels + ch] = sb_ball_of(column(a, a->rows, i, ch));
    }
    free(weight);
    return SB_OK;
}

/* T-9: "the argument a + dt_bias has one rounding u |a + dt_bias|"
 * "beta = sigmoid(b), rounded as K-5 says; g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) )"
 */
sb_status sb_bound_gates(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_gates_args *a,
                         sb_ball *out, sb_ball *second)
{
    float *a_log = sb_alloc(2 * a->heads, sizeof *a_log);
    if (!a_log)
        return SB_ERR_MEMORY;
    float *dt_bias = a_log + a->heads;
    sb_param_row(knobs, a->a_log, 0, a_log);
    sb_param_row(knobs, a->dt_bias, 0, dt_bias);
    for (size_t at = 0; at < a->rows * a->heads; at++) {
        size_t h = at % a->heads;
        sb_ball x = sb_ball_add(ar, sb_ball_of(a->a[at]), sb_ball_of(dt_bias[h]));
        sb_ball speed = sb_ball_exp(ar, sb_ball_of(a_log[h]));
        out[at] = sb_ball_mul(ar, speed, sb_ball_softplus(ar, x));
        out[at].mid = -out[at].mid;
        second[at] = sb_ball_sigmoid(ar, sb_ball_of(a->b[at]));
        if (SB_IS(knobs, beta, act))
            second[at] = sb_ball_act(knobs, second[at]);
    }
    free(a_log);
    return SB_OK;
}
