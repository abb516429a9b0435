/* mistakes_gdn.c - mistakes in linear attention. */
#include "tools/judge/fault/mistakes.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/math/fn.h"

static sb_status mod_map(const sb_knobs *knobs, const sb_delta_rule_args *a,
                         sb_status (*rule)(const sb_knobs *, const sb_delta_rule_args *))
{
    sb_delta_rule_args args = *a;
    float *q = sb_mistake_spread(a->q, a->rows, a->k_heads, a->v_heads, a->dk);
    float *k = sb_mistake_spread(a->k, a->rows, a->k_heads, a->v_heads, a->dk);
    args.q = q;
    args.k = k;
    args.k_heads = a->v_heads;
    sb_status status = q && k ? rule(knobs, &args) : SB_ERR_MEMORY;
    free(q);
    free(k);
    return status;
}

static void add_one(float *values, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows * cols; i++)
        values[i] += 1.0f;
}

sb_status sb_mistake_head_map_mod(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    return mod_map(knobs, a, sb_mistakes_ops()->delta_rule);
}

sb_status sb_mistake_chunk_head_map_mod(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    return mod_map(knobs, a, sb_mistakes_ops()->delta_rule_chunk);
}

sb_status sb_mistake_gated_norm_one_plus(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a)
{
    sb_mistake_param weight;
    sb_gated_rmsnorm_args args = *a;
    sb_status status = sb_mistake_edit(a->weight, add_one, &weight);
    args.weight = &weight.matrix;
    if (!status)
        status = sb_mistakes_ops()->gated_rmsnorm(knobs, &args);
    free(weight.bytes);
    return status;
}

sb_status sb_mistake_eps_on_mean(const sb_knobs *knobs, const sb_l2norm_args *a)
{
    sb_l2norm_args args = *a;
    args.eps = a->eps * (float)a->dk;
    return sb_mistakes_ops()->l2norm(knobs, &args);
}

sb_status sb_mistake_query_unscaled(const sb_knobs *knobs, const sb_l2norm_args *a)
{
    sb_status status = sb_mistakes_ops()->l2norm(knobs, a);
    for (size_t i = 0; i < a->rows * a->heads * a->dk; i++)
        a->q[i] *= sb_root_power((double)a->dk, 1, 2);
    return status;
}

/* One row of one head whose prediction reads the state of the row before. */
static void late_decay(const sb_delta_rule_args *a, size_t t, size_t h)
{
    size_t dk = a->dk, dv = a->dv, at = t * a->v_heads + h;
    const float *k = a->k + (t * a->k_heads + h / (a->v_heads / a->k_heads)) * dk;
    const float *q = a->q + (k - a->k), *v = a->v + t * a->v_stride + h * dv;
    float *S = a->state + h * dk * dv;
    for (size_t j = 0; j < dv; j++) {
        double predicted = 0.0, read = 0.0;
        for (size_t i = 0; i < dk; i++)
            predicted += (double)(S[i * dv + j] * k[i]);
        float correction = (v[j] - (float)predicted) * a->beta[at];
        for (size_t i = 0; i < dk; i++) {
            S[i * dv + j] = S[i * dv + j] * sb_exp(a->g[at]) + k[i] * correction;
            read += (double)(S[i * dv + j] * q[i]);
        }
        a->out[at * dv + j] = (float)read;
    }
}

sb_status sb_mistake_decay_after_prediction(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    (void)knobs;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < a->v_heads; h++)
            late_decay(a, t, h);
    return SB_OK;
}

sb_status sb_mistake_state_kept_whole(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    float *g = sb_alloc(a->rows * a->v_heads, sizeof *g);
    sb_delta_rule_args args = *a;
    args.g = g;
    sb_status status = g ? sb_mistakes_ops()->delta_rule(knobs, &args) : SB_ERR_MEMORY;
    free(g);
    return status;
}

sb_status sb_mistake_state_transposed(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    size_t size = a->dk * a->dv;
    sb_status status = sb_mistakes_ops()->delta_rule(knobs, a);
    float *copy = sb_mistake_copy(a->state, a->v_heads * size);
    for (size_t i = 0; copy && i < a->v_heads * size; i++) {
        size_t row = i % size / a->dv, col = i % a->dv;
        a->state[i / size * size + col * a->dk + row] = copy[i];
    }
    free(copy);
    return copy ? status : SB_ERR_MEMORY;
}

sb_status sb_mistake_state_dropped(const sb_knobs *knobs, const sb_delta_rule_args *a)
{
    memset(a->state, 0, a->v_heads * a->dk * a->dv * sizeof *a->state);
    return sb_mistakes_ops()->delta_rule_chunk(knobs, a);
}

sb_status sb_mistake_gate_before_norm(const sb_knobs *knobs, const sb_gated_rmsnorm_args *a)
{
    sb_mistake_param weight;
    size_t count = a->rows * a->heads * a->n;
    sb_status status = sb_mistake_edit(a->weight, sb_mistake_subtract_one, &weight);
    float *in = sb_mistake_copy(a->in, count);
    for (size_t i = 0; in && i < count; i++)
        in[i] *= sb_silu(a->z[i]);
    const sb_rmsnorm_args args = {.in = in,
                                  .weight = &weight.matrix,
                                  .eps = a->eps,
                                  .n = a->n,
                                  .rows = a->rows * a->heads,
                                  .out = a->out};
    if (!status)
        status = in ? sb_mistakes_ops()->rmsnorm(knobs, &args) : SB_ERR_MEMORY;
    free(in);
    free(weight.bytes);
    return status;
}

static void reverse_rows(float *values, size_t rows, size_t cols)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t j = 0; j < cols / 2; j++) {
            float *left = &values[row * cols + j], *right = &values[row * cols + cols - 1 - j];
            float kept = *left;
            *left = *right;
            *right = kept;
        }
}

sb_status sb_mistake_taps_reversed(const sb_knobs *knobs, const sb_conv_args *a)
{
    sb_mistake_param weight;
    sb_conv_args args = *a;
    sb_status status = sb_mistake_edit(a->weight, reverse_rows, &weight);
    args.weight = &weight.matrix;
    if (!status)
        status = sb_mistakes_ops()->conv(knobs, &args);
    free(weight.bytes);
    return status;
}

sb_status sb_mistake_conv_state_stale(const sb_knobs *knobs, const sb_conv_args *a)
{
    sb_conv_args args = *a;
    args.state = sb_mistake_copy(a->state, (size_t)(a->weight->cols - 1) * a->weight->rows);
    sb_status status = args.state ? sb_mistakes_ops()->conv(knobs, &args) : SB_ERR_MEMORY;
    free(args.state);
    return status;
}

static void clear(float *values, size_t rows, size_t cols)
{
    memset(values, 0, rows * cols * sizeof *values);
}

sb_status sb_mistake_no_dt_bias(const sb_knobs *knobs, const sb_gates_args *a)
{
    sb_mistake_param bias;
    sb_gates_args args = *a;
    sb_status status = sb_mistake_edit(a->dt_bias, clear, &bias);
    args.dt_bias = &bias.matrix;
    if (!status)
        status = sb_mistakes_ops()->gates(knobs, &args);
    free(bias.bytes);
    return status;
}
