/* gdn.c - convolution, gates, and the recurrent form of the gated delta rule. */
#include "tools/judge/sim/arith.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"

/* R-4: "the new conv state is the last kw-1 columns of u". `columns` holds the state, then the
 * columns of the call. */
static void keep_columns(const float *columns, const sb_conv_args *a, size_t rows, float *to)
{
    size_t channels = a->weight->rows, back = a->weight->cols - 1;
    memcpy(to, columns + rows * channels, back * channels * sizeof *to);
}

/* R-4: "dot over j = 0..kw-1 of w[ch, j] u_{t-(kw-1)+j}[ch]"; K-31: "c_t is the sum of
 * R( RN(w u) )" */
static float weigh(const sb_sim_arith *s, const sb_knobs *knobs, sb_form form, const float *weight,
                   const float *column, size_t channels, size_t taps, float *product)
{
    if (!sb_conv_rounds_products(knobs, form))
        return sb_sim_dot(s, weight, 1, column, channels, taps);
    for (size_t i = 0; i < taps; i++)
        product[i] = sb_act(knobs, weight[i] * column[i * channels]);
    return sb_sim_sum(s, product, taps);
}

/* K-3: "act to round the convolution sum before silu"; weight has room for 2 kw values. */
static void convolve(const sb_sim_arith *s, const sb_knobs *knobs, const sb_conv_args *a,
                     const float *columns, float *weight)
{
    size_t channels = a->weight->rows, taps = a->weight->cols;
    for (size_t ch = 0; ch < channels; ch++) {
        sb_param_row(knobs, a->weight, (uint32_t)ch, weight);
        for (size_t t = 0; t < a->rows; t++) {
            float c = weigh(s, knobs, a->form, weight, columns + t * channels + ch, channels, taps,
                            weight + taps);
            c = sb_sim_act_if(knobs, SB_IS(knobs, conv_sum, act), c);
            a->out[t * channels + ch] = sb_act(knobs, sb_sim_silu(s, c));
        }
    }
}

sb_status sb_sim_conv(const sb_sim_arith *s, const sb_knobs *knobs, const sb_conv_args *a)
{
    size_t channels = a->weight->rows, taps = a->weight->cols, back = taps - 1;
    float *weight = sb_alloc(2 * taps, sizeof *weight);
    float *columns = sb_alloc((back + a->rows) * channels, sizeof *columns);
    sb_status status = weight && columns ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        memcpy(columns, a->state, back * channels * sizeof *columns);
        memcpy(columns + back * channels, a->in, a->rows * channels * sizeof *columns);
        convolve(s, knobs, a, columns, weight);
        for (size_t t = 0; a->trail && t < a->rows; t++)
            keep_columns(columns, a, t + 1, a->trail + t * back * channels);
        keep_columns(columns, a, a->rows, a->state);
    }
    free(weight);
    free(columns);
    return status;
}

/* K-4: "log_exp is the same with log( RN(1 + exp(x)) ) in place of log1p( exp(x) ). log_exp_abs is
 * RN( x + log( RN(1 + exp(-x)) ) ) for x > 0, else log( RN(1 + exp(x)) )". The other forms are
 * equal here. */
static float softplus(const sb_sim_arith *s, sb_knob_value form, float x)
{
    int adds_one = form == SB_softplus_log_exp || form == SB_softplus_log_exp_abs;
    if (!adds_one || x > 20.0f)
        return sb_sim_softplus(s, x);
    if (form == SB_softplus_log_exp_abs && x > 0.0f)
        return x + sb_sim_log(s, 1.0f + sb_sim_exp(s, -x));
    return sb_sim_log(s, 1.0f + sb_sim_exp(s, x));
}

/* R-5: "g = RN( -exp(A_log) softplus( RN(a + dt_bias) ) )" */
sb_status sb_sim_gates(const sb_sim_arith *s, const sb_knobs *knobs, const sb_gates_args *a)
{
    float *a_log = sb_alloc(2 * a->heads, sizeof *a_log);
    if (!a_log)
        return SB_ERR_MEMORY;
    float *dt_bias = a_log + a->heads;
    sb_knob_value form = sb_softplus_of(knobs, a->form);
    int rounds = sb_beta_rounds(knobs, a->form);
    sb_a_log_row(knobs, a->a_log, a_log);
    sb_param_row(knobs, a->dt_bias, 0, dt_bias);
    for (size_t at = 0; at < a->rows * a->heads; at++) {
        size_t h = at % a->heads;
        float step = softplus(s, form, a->a[at] + dt_bias[h]);
        a->g[at] = -sb_sim_exp(s, a_log[h]) * step;
        a->beta[at] = sb_sim_act_if(knobs, rounds, sb_sim_sigmoid(s, a->b[at]));
    }
    free(a_log);
    return SB_OK;
}

/* R-9: "S = RN(exp(g_t) S); m[j] = dot(S[:, j], k_t); d[j] = RN( RN(v_t[j] - m[j]) beta_t )", in
 * all columns of one head and row; d has room for dv values. */
static void step(const sb_sim_arith *s, const sb_knobs *knobs, const sb_delta_rule_args *a,
                 size_t t, size_t h, float scale, float *state, float *d)
{
    size_t dk = a->dk, dv = a->dv, hk = h / (a->v_heads / a->k_heads), at = t * a->v_heads + h;
    const float *q = a->q + (t * a->k_heads + hk) * dk, *k = a->k + (t * a->k_heads + hk) * dk;
    const float *v = a->v + t * a->v_stride + h * dv;
    float decay = sb_sim_exp(s, a->g[at]), *out = a->out + at * dv;
    for (size_t i = 0; i < dk * dv; i++)
        state[i] *= decay;
    sb_sim_dots(s, k, 1, state, dv, dk, dv, d);
    for (size_t j = 0; j < dv; j++)
        d[j] = (v[j] - d[j]) * a->beta[at];
    for (size_t i = 0; i < dk; i++)
        sb_sim_multiply_adds(s, k[i], d, state + i * dv, dv);
    sb_sim_dots(s, q, 1, state, dv, dk, dv, out);
    for (size_t j = 0; j < dv; j++)
        out[j] = sb_act(knobs, out[j] * scale);
}

typedef struct job {
    const sb_sim_arith *s;
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    float scale, *corrections;
} job;

static void run_head(void *ctx, size_t head, size_t worker)
{
    const job *j = ctx;
    const sb_delta_rule_args *a = j->a;
    const size_t size = a->dk * a->dv;
    float *state = a->state + head * size;
    (void)worker;
    for (size_t t = 0; t < a->rows; t++) {
        step(j->s, j->knobs, a, t, head, j->scale, state, j->corrections + head * a->dv);
        if (a->trail)
            sb_keep_state(j->knobs, state, size, a->trail + (t * a->v_heads + head) * size);
    }
    sb_keep_state(j->knobs, state, size, state);
}

/* K-16: "output leaves q unscaled, and the output of the rule is multiplied before R" */
sb_status sb_sim_delta_rule(const sb_sim_arith *s, const sb_knobs *knobs,
                            const sb_delta_rule_args *a)
{
    const size_t size = a->dk * a->dv;
    job j = {.s = s, .knobs = knobs, .a = a};
    j.scale = sb_scales_output(knobs, 1) ? sb_sim_root((double)a->dk, -0.5) : 1.0f;
    j.corrections = sb_alloc(a->v_heads * a->dv, sizeof *j.corrections);
    if (!j.corrections)
        return SB_ERR_MEMORY;
    sb_parallel_for(a->v_heads, a->rows * a->v_heads * size > 200000, run_head, &j);
    free(j.corrections);
    return SB_OK;
}
