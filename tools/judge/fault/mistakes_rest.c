/* mistakes_rest.c - mistakes in the other ops, and harmless orders of summation. */
#include "tools/judge/fault/mistakes.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/formats/plain_row.h"
#include "ref/math/fn.h"
#include "tools/judge/bound/wide_fn.h"

sb_status sb_mistake_halves_swapped(const sb_knobs *knobs, const sb_split_gate_args *a)
{
    sb_split_gate_args args = *a;
    args.query = a->gate;
    args.gate = a->query;
    return sb_mistakes_ops()->split_gate(knobs, &args);
}

sb_status sb_mistake_no_renormalisation(const sb_knobs *knobs, const sb_router_args *a)
{
    sb_router_args args = *a;
    args.renormalise = 0;
    return sb_mistakes_ops()->router(knobs, &args);
}

/* Moves the pairs (2f, 2f + 1) to the places where the reference expects them, and back. */
sb_status sb_mistake_neighbour_pairs(const sb_knobs *knobs, const sb_rope_args *a)
{
    size_t half = a->rd / 2, count = a->rows * a->heads * a->hd;
    float *x = sb_mistake_copy(a->x, count);
    if (!x)
        return SB_ERR_MEMORY;
    for (size_t at = 0; at < count; at += a->hd)
        for (size_t f = 0; f < half; f++) {
            x[at + f] = a->x[at + 2 * f];
            x[at + f + half] = a->x[at + 2 * f + 1];
        }
    sb_rope_args args = *a;
    args.x = x;
    sb_status status = sb_mistakes_ops()->rope(knobs, &args);
    for (size_t at = 0; at < count; at += a->hd)
        for (size_t f = 0; f < half; f++) {
            a->x[at + 2 * f] = x[at + f];
            a->x[at + 2 * f + 1] = x[at + f + half];
        }
    free(x);
    return status;
}

sb_status sb_mistake_shared_gate_missing(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    sb_moe_combine_args args = *a;
    args.shared_logit = 100.0f; /* sigmoid: 1 */
    return sb_mistakes_ops()->moe_combine(knobs, &args);
}

sb_status sb_mistake_embed_scaled(const sb_knobs *knobs, const sb_embed_args *a)
{
    sb_status status = sb_mistakes_ops()->embed(knobs, a);
    for (size_t i = 0; i < a->rows * a->table->cols; i++)
        a->out[i] *= sb_root_power((double)a->table->cols, 1, 2);
    return status;
}

sb_status sb_mistake_last_column_lost(const sb_knobs *knobs, const sb_linear_args *a)
{
    size_t k = a->weight->cols;
    float *in = sb_mistake_copy(a->in, a->rows * k);
    for (size_t t = 0; in && t < a->rows; t++)
        in[t * k + k - 1] = 0.0f;
    sb_linear_args args = *a;
    args.in = in;
    sb_status status = in ? sb_mistakes_ops()->linear(knobs, &args) : SB_ERR_MEMORY;
    free(in);
    return status;
}

sb_status sb_mistake_norm_plain_weight(const sb_knobs *knobs, const sb_rmsnorm_args *a)
{
    sb_rmsnorm_args args = *a;
    args.plain = !a->plain;
    return sb_mistakes_ops()->rmsnorm(knobs, &args);
}

sb_status sb_mistake_kv_map_mod(const sb_knobs *knobs, const sb_attention_args *a)
{
    size_t n = a->first + a->rows;
    sb_attention_args args = *a;
    float *keys = sb_mistake_spread(a->keys, n, a->kv_heads, a->heads, a->hd);
    float *values = sb_mistake_spread(a->values, n, a->kv_heads, a->heads, a->hd);
    args.keys = keys;
    args.values = values;
    args.kv_heads = a->heads;
    sb_status status = keys && values ? sb_mistakes_ops()->attention(knobs, &args) : SB_ERR_MEMORY;
    free(keys);
    free(values);
    return status;
}

sb_status sb_mistake_scores_unscaled(const sb_knobs *knobs, const sb_attention_args *a)
{
    size_t count = a->rows * a->heads * a->hd;
    float *q = sb_mistake_copy(a->q, count);
    for (size_t i = 0; q && i < count; i++)
        q[i] *= sb_root_power((double)a->hd, 1, 2);
    sb_attention_args args = *a;
    args.q = q;
    sb_status status = q ? sb_mistakes_ops()->attention(knobs, &args) : SB_ERR_MEMORY;
    free(q);
    return status;
}

sb_status sb_mistake_newest_unseen(const sb_knobs *knobs, const sb_attention_args *a)
{
    sb_attention_args args = *a;
    args.first -= a->first > 0;
    return sb_mistakes_ops()->attention(knobs, &args);
}

sb_status sb_mistake_gate_is_silu(const sb_knobs *knobs, const sb_attn_gate_args *a)
{
    for (size_t i = 0; i < a->count; i++)
        a->out[i] = sb_act(knobs, a->in[i] * sb_silu(a->gate[i]));
    return SB_OK;
}

sb_status sb_mistake_gate_up_swapped(const sb_knobs *knobs, const sb_swiglu_args *a)
{
    float *gate = sb_mistake_copy(a->gate, a->count);
    const sb_swiglu_args args = {.gate = a->up, .up = gate, .count = a->count, .out = a->out};
    sb_status status = gate ? sb_mistakes_ops()->swiglu(knobs, &args) : SB_ERR_MEMORY;
    free(gate);
    return status;
}

sb_status sb_mistake_slots_reversed(const sb_knobs *knobs, const sb_moe_combine_args *a)
{
    float *weights = sb_alloc(a->kept, sizeof *weights);
    for (size_t i = 0; weights && i < a->kept; i++)
        weights[i] = a->weights[a->kept - 1 - i];
    sb_moe_combine_args args = *a;
    args.weights = weights;
    sb_status status = weights ? sb_mistakes_ops()->moe_combine(knobs, &args) : SB_ERR_MEMORY;
    free(weights);
    return status;
}

sb_status sb_mistake_residual_lost(const sb_knobs *knobs, const sb_add_args *a)
{
    for (size_t i = 0; i < a->count; i++)
        a->out[i] = sb_act(knobs, a->b[i]);
    return SB_OK;
}

/* Adds the products of a row and x one by one, in the given lanes and direction. */
static float float_dot(const float *w, const float *x, size_t n, size_t lanes, int backwards)
{
    float total = 0.0f;
    for (size_t lane = 0; lane < lanes; lane++) {
        float sum = 0.0f;
        for (size_t i = lane; i < n; i += lanes) {
            size_t at = backwards ? n - 1 - i : i;
            sum += w[at] * x[at];
        }
        total += sum;
    }
    return total;
}

static sb_status float_linear(const sb_knobs *knobs, const sb_linear_args *a, size_t lanes,
                              int backwards)
{
    size_t k = a->weight->cols, n = a->weight->rows;
    float *row = sb_alloc(k, sizeof *row);
    if (!row)
        return SB_ERR_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        sb_matrix_row(a->weight, i, row);
        for (size_t t = 0; t < a->rows; t++)
            a->out[t * n + i] = sb_act(knobs, float_dot(row, a->in + t * k, k, lanes, backwards));
    }
    free(row);
    return SB_OK;
}

sb_status sb_mistake_linear_sequential(const sb_knobs *knobs, const sb_linear_args *a)
{
    return float_linear(knobs, a, 1, 0);
}

sb_status sb_mistake_linear_eight_lanes(const sb_knobs *knobs, const sb_linear_args *a)
{
    return float_linear(knobs, a, 8, 0);
}

sb_status sb_mistake_linear_backwards(const sb_knobs *knobs, const sb_linear_args *a)
{
    return float_linear(knobs, a, 1, 1);
}
