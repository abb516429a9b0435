/* bound_gdn.c - the ops before the delta rule: convolution and gates. */
#include "tools/judge/bound/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"

/* "columns before the call come from the conv state" */
static sb_ball column(const sb_conv_args *a, const sb_ball *const *in, size_t t, size_t tap,
                      size_t ch)
{
    size_t channels = a->weight->rows, back = a->weight->cols - 1, at = t + tap;
    return at < back ? sb_bound_at(in[1], a->state, at * channels + ch)
                     : sb_bound_at(in[0], a->in, (at - back) * channels + ch);
}

/* "c_t[ch] = dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]"; K-31: "c_t is the sum of
 * R( RN(w u) )" */
static sb_ball weigh(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_conv_args *a,
                     const sb_ball *const *in, const float *weight, size_t t, size_t ch)
{
    int rounds = sb_conv_rounds_products(knobs, a->form);
    sb_reduction r = {0};
    for (size_t tap = 0; tap < a->weight->cols; tap++) {
        sb_ball w = sb_ball_of(weight[tap]), u = column(a, in, t, tap, ch);
        if (rounds)
            sb_reduce(&r, sb_ball_act(knobs, sb_ball_mul(ar, w, u)), sb_ball_of(1.0f));
        else
            sb_reduce(&r, w, u);
    }
    return sb_ball_reduced(ar, &r);
}

/* "s_t = R( silu( c_t ) ), with c_t rounded to the activation type first where K-3 says so;
 * the new conv state is the last kw-1 columns of u" */
sb_status sb_bound_conv_in(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_conv_args *a,
                           const sb_ball *const *in, sb_ball *out, sb_ball *second)
{
    ar = sb_arithmetic_vector(ar);
    size_t channels = a->weight->rows, taps = a->weight->cols;
    float *weight = sb_alloc(taps, sizeof *weight);
    if (!weight)
        return SB_ERR_MEMORY;
    for (size_t ch = 0; ch < channels; ch++) {
        sb_param_row(knobs, a->weight, (uint32_t)ch, weight);
        for (size_t t = 0; t < a->rows; t++) {
            sb_ball c = weigh(ar, knobs, a, in, weight, t, ch);
            if (SB_IS(knobs, conv_sum, act))
                c = sb_ball_act(knobs, c);
            out[t * channels + ch] = sb_ball_act(knobs, sb_ball_silu(ar, c));
        }
        for (size_t i = 0; second && i + 1 < taps; i++)
            second[i * channels + ch] = column(a, in, a->rows, i, ch);
    }
    free(weight);
    return SB_OK;
}

/* T-31: "the sum errs by u (1 + e^x), which the logarithm passes on as u, absolute" */
static sb_ball log_exp(const sb_arithmetic *ar, sb_ball x)
{
    return sb_ball_log(ar, sb_ball_add(ar, sb_ball_of(1.0f), sb_ball_exp(ar, x)));
}

/* K-4: "log_exp_abs is RN( x + log( RN(1 + exp(-x)) ) ) for x > 0, else log( RN(1 + exp(x)) )". The
 * hull of both, if x may have either sign. */
static sb_ball log_exp_abs(const sb_arithmetic *ar, sb_ball x)
{
    sb_ball minus = {-x.mid, x.rad};
    if (x.mid + x.rad <= 0.0)
        return log_exp(ar, x);
    sb_ball y = sb_ball_add(ar, x, log_exp(ar, minus));
    return x.mid - x.rad > 0.0 ? y : sb_ball_hull(y, log_exp(ar, x));
}

/* K-4: "log_exp is the same with log( RN(1 + exp(x)) ) in place of log1p( exp(x) )". Beyond 20 the
 * result is x. Near 20 either of the two may be computed; they differ by less than e^-20. */
static sb_ball softplus(const sb_arithmetic *ar, sb_knob_value form, sb_ball x)
{
    if (form != SB_softplus_log_exp && form != SB_softplus_log_exp_abs)
        return sb_ball_softplus(ar, x);
    if (x.mid - x.rad > 20.0)
        return x;
    sb_ball y = form == SB_softplus_log_exp ? log_exp(ar, x) : log_exp_abs(ar, x);
    if (x.mid + x.rad > 20.0)
        y = sb_ball_hull(y, x);
    return y;
}

/* T-9: "the argument a + dt_bias has one rounding u |a + dt_bias|"
 * "beta = sigmoid(b), rounded as K-5 says; g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) )"
 */
sb_status sb_bound_gates_in(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_gates_args *a,
                            const sb_ball *const *in, sb_ball *out, sb_ball *second)
{
    float *a_log = sb_alloc(2 * a->heads, sizeof *a_log);
    if (!a_log)
        return SB_ERR_MEMORY;
    float *dt_bias = a_log + a->heads;
    sb_knob_value form = sb_softplus_of(knobs, a->form);
    sb_a_log_row(knobs, a->a_log, a_log);
    sb_param_row(knobs, a->dt_bias, 0, dt_bias);
    for (size_t at = 0; at < a->rows * a->heads; at++) {
        size_t h = at % a->heads;
        sb_ball x = sb_ball_add(ar, sb_bound_at(in[0], a->a, at), sb_ball_of(dt_bias[h]));
        sb_ball speed = sb_ball_exp(ar, sb_ball_of(a_log[h]));
        out[at] = sb_ball_mul(ar, speed, softplus(ar, form, x));
        out[at].mid = -out[at].mid;
        second[at] = sb_ball_sigmoid(ar, sb_bound_at(in[1], a->b, at));
        if (sb_beta_rounds(knobs, a->form))
            second[at] = sb_ball_act(knobs, second[at]);
    }
    free(a_log);
    return SB_OK;
}
