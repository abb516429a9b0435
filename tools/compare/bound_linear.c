/* bound_linear.c - rows of matrices, and the operations that work element by element. */
#include "tools/compare/bound.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/formats/wide.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/rounding.h"
#include "ref/ops/param.h"
#include "tools/compare/wide_fn.h"

/* R-1; T-6: "a copied value has radius 0" */
sb_status sb_bound_embed(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_embed_args *a,
                         sb_ball *out, sb_ball *second)
{
    (void)ar, (void)second;
    size_t n = a->table->cols;
    float *row = sb_alloc(n, sizeof *row);
    if (!row)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < a->rows; t++) {
        sb_param_row(knobs, a->table, a->tokens[t], row);
        for (size_t i = 0; i < n; i++)
            out[t * n + i] = sb_ball_act(knobs, sb_ball_of(row[i]));
    }
    free(row);
    return SB_OK;
}

/* The weights of row n as the knobs have them: rounded ones, or the exact values of a quantized
 * matrix, which binary64 holds nearly enough (T-5). */
static void weights_of(const sb_knobs *knobs, const sb_matrix *weight, uint32_t n, float *rounded,
                       double *row)
{
    if (sb_matrix_quantized(weight) && !sb_param_cast(knobs, weight)) {
        sb_scalar factor = sb_matrix_factor(weight);
        sb_matrix_wide(weight, n, row);
        for (uint32_t i = 0; i < weight->cols; i++)
            row[i] = row[i] * (double)factor.mul[0] / (double)factor.div[0];
        return;
    }
    sb_weight_row(knobs, weight, n, row, rounded);
    for (uint32_t i = 0; i < weight->cols; i++)
        row[i] = (double)rounded[i];
}

/* K-17: "factor_last applies the factor to the rounded dot product" */
static sb_ball factor_last(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_matrix *weight,
                           const sb_scalar *input, sb_ball y)
{
    sb_scalar factor = sb_matrix_factor(weight);
    if (!sb_matrix_quantized(weight) || !SB_IS(knobs, dequant, factor_last))
        return y;
    y = sb_ball_mul(ar, y, sb_ball_of(factor.mul[0] * input->mul[0]));
    return sb_ball_div(ar, y, sb_ball_of(factor.div[0] * input->div[0]));
}

/* K-45: "weight rounds the input of a linear layer that is not quantized" */
static void narrow_input(const sb_knobs *knobs, const sb_matrix *weight, sb_linear_kind kind,
                         const sb_ball *in, size_t count, sb_ball *out)
{
    sb_format format = sb_linear_input_format(knobs, weight, kind);
    for (size_t i = 0; i < count; i++)
        out[i] = sb_ball_round_to(format, in[i]);
}

/* The same sums of operands without spread, four terms at a time: a bound's time goes here. */
static sb_reduction exact_sums(const double *row, const sb_ball *in, size_t k)
{
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0, sizes[4] = {0};
    size_t i = 0;
    for (; i + 4 <= k; i += 4) {
        double p = row[i] * in[i].mid, q = row[i + 1] * in[i + 1].mid;
        double r = row[i + 2] * in[i + 2].mid, s = row[i + 3] * in[i + 3].mid;
        a += p, b += q, c += r, d += s;
        sizes[0] += sb_wide_abs(p), sizes[1] += sb_wide_abs(q);
        sizes[2] += sb_wide_abs(r), sizes[3] += sb_wide_abs(s);
    }
    for (; i < k; i++) {
        a += row[i] * in[i].mid;
        sizes[0] += sb_wide_abs(row[i] * in[i].mid);
    }
    return (sb_reduction){.sum = (a + b) + (c + d),
                          .magnitude = (sizes[0] + sizes[1]) + (sizes[2] + sizes[3]),
                          .n = k};
}

static int without_spread(const sb_ball *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (in[i].rad != 0.0)
            return 0;
    return 1;
}

/* T-7: "a linear output is one reduction" - `input` is what law factor_last left out of `in`. */
static sb_status bound_rows(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_matrix *weight,
                            sb_linear_kind kind, const sb_ball *in, const sb_scalar *input,
                            size_t rows, sb_ball *out)
{
    size_t k = weight->cols;
    float *rounded = sb_alloc(k, sizeof *rounded);
    double *row = sb_alloc(k, sizeof *row);
    sb_status status = rounded && row ? SB_OK : SB_ERR_MEMORY;
    /* T-7: "the library may round weight, input and two factors first" */
    size_t extra = sb_matrix_quantized(weight) && ar->any_order ? 4 : 0;
    int exact = !ar->atom && without_spread(in, rows * k); /* T-18 asks for more */
    for (uint32_t n = 0; n < weight->rows && !status; n++) {
        weights_of(knobs, weight, n, rounded, row);
        for (size_t t = 0; t < rows; t++) {
            sb_reduction r = {0};
            if (exact)
                r = exact_sums(row, in + t * k, k);
            for (size_t i = 0; i < k && !exact; i++)
                sb_reduce(&r, (sb_ball){row[i], 0}, in[t * k + i]);
            r.n += extra;
            sb_ball y = factor_last(ar, knobs, weight, input, sb_ball_reduced(ar, &r));
            out[t * weight->rows + n] =
                sb_linear_stays_wide(knobs, kind) ? y : sb_ball_act(knobs, y);
        }
    }
    free(rounded);
    free(row);
    return status;
}

sb_status sb_bound_linear_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_matrix *weight, sb_linear_kind kind, const sb_ball *in,
                             size_t rows, sb_ball *out)
{
    sb_scalar one = SB_SCALAR_ONE;
    size_t count = rows * weight->cols;
    sb_ball *narrow = sb_alloc(count, sizeof *narrow);
    if (!narrow)
        return SB_ERR_MEMORY;
    narrow_input(knobs, weight, kind, in, count, narrow);
    sb_status status = bound_rows(ar, knobs, weight, kind, narrow, &one, rows, out);
    free(narrow);
    return status;
}

/* The input as the layer multiplies it: quantized where the knobs say so; its factor. */
static sb_status inputs_of(const sb_knobs *knobs, const sb_linear_args *a, sb_ball *in,
                           sb_scalar *input)
{
    size_t count = a->rows * a->weight->cols;
    sb_input quantized = {0};
    sb_balls_of(a->in, count, in);
    narrow_input(knobs, a->weight, a->kind, in, count, in);
    if (!sb_matrix_quantized(a->weight) || sb_input_scheme(knobs, a->weight) == SB_SCHEME_none)
        return SB_OK;
    sb_status status = sb_quantize_input(knobs, a->weight, a->in, a->rows, &quantized);
    double factor = (double)quantized.factor.mul[0] / (double)quantized.factor.div[0];
    *input = quantized.factor;
    for (size_t i = 0; i < count && !status; i++)
        in[i].mid = quantized.rounded ? (double)quantized.rounded[i] : quantized.values[i] * factor;
    sb_input_free(&quantized);
    return status;
}

sb_status sb_bound_linear(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_linear_args *a,
                          sb_ball *out, sb_ball *second)
{
    (void)second;
    sb_ball *in = sb_alloc(a->rows * a->weight->cols, sizeof *in);
    if (!in)
        return SB_ERR_MEMORY;
    sb_scalar input = SB_SCALAR_ONE;
    sb_status status = inputs_of(knobs, a, in, &input);
    if (!status)
        status = bound_rows(ar, knobs, a->weight, a->kind, in, &input, a->rows, out);
    free(in);
    return status;
}

/* R-13; T-6: "a copied value has radius 0" */
sb_status sb_bound_split_gate(const sb_arithmetic *ar, const sb_knobs *knobs,
                              const sb_split_gate_args *a, sb_ball *out, sb_ball *second)
{
    (void)ar, (void)knobs;
    for (size_t row = 0; row < a->rows * a->heads; row++) {
        sb_balls_of(a->in + row * 2 * a->hd, a->hd, out + row * a->hd);
        sb_balls_of(a->in + (row * 2 + 1) * a->hd, a->hd, second + row * a->hd);
    }
    return SB_OK;
}

/* "y = R( RN(o sigmoid(gate)) )" */
sb_status sb_bound_attn_gate(const sb_arithmetic *ar, const sb_knobs *knobs,
                             const sb_attn_gate_args *a, sb_ball *out, sb_ball *second)
{
    (void)second;
    for (size_t i = 0; i < a->count; i++) {
        sb_ball open = sb_ball_sigmoid(ar, sb_ball_of(a->gate[i]));
        if (SB_IS(knobs, attn_gate, act))
            open = sb_ball_act(knobs, open);
        out[i] = sb_ball_act(knobs, sb_ball_mul(ar, sb_ball_of(a->in[i]), open));
    }
    return SB_OK;
}

/* "a = R( RN(silu(gate) up) )" */
void sb_bound_swiglu_of(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                        const sb_ball *gate, const sb_ball *up, size_t count, sb_ball *out)
{
    int rounds = sb_rounds_silu(knobs, kind);
    for (size_t i = 0; i < count; i++) {
        sb_ball activated = sb_ball_silu(ar, gate[i]);
        if (rounds)
            activated = sb_ball_act(knobs, activated);
        out[i] = sb_ball_act(knobs, sb_ball_mul(ar, activated, up[i]));
    }
}

sb_status sb_bound_swiglu(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_swiglu_args *a,
                          sb_ball *out, sb_ball *second)
{
    (void)second;
    for (size_t i = 0; i < a->count; i++) {
        sb_ball gate = sb_ball_of(a->gate[i]), up = sb_ball_of(a->up[i]);
        sb_bound_swiglu_of(ar, knobs, a->kind, &gate, &up, 1, out + i);
    }
    return SB_OK;
}

/* "x = R( RN(x + y) )" */
sb_status sb_bound_add(const sb_arithmetic *ar, const sb_knobs *knobs, const sb_add_args *a,
                       sb_ball *out, sb_ball *second)
{
    for (size_t i = 0; i < a->count; i++) {
        sb_ball sum = sb_ball_add(ar, sb_ball_of(a->a[i]), sb_ball_of(a->b[i]));
        if (second)
            second[i] = sum;
        out[i] = sb_ball_act(knobs, sum);
    }
    return SB_OK;
}

sb_status sb_bound_feed_forward(const sb_arithmetic *ar, const sb_knobs *knobs, sb_mlp_kind kind,
                                const sb_matrix *gate, const sb_matrix *up, const sb_matrix *down,
                                const float *in, size_t rows, sb_ball *out)
{
    sb_linear_kind last = kind == SB_MLP_expert ? SB_LINEAR_expert_down : SB_LINEAR_layer;
    size_t inner = rows * gate->rows;
    sb_ball *g = sb_alloc(2 * inner, sizeof *g), *u = g ? g + inner : NULL;
    sb_status status = g ? SB_OK : SB_ERR_MEMORY;
    if (!status && sb_matrix_quantized(down) && sb_input_scheme(knobs, down) != SB_SCHEME_none)
        status = SB_ERR_UNSUPPORTED;
    if (!status)
        status = sb_bound_linear(
            ar, knobs, &(const sb_linear_args){.weight = gate, .in = in, .rows = rows}, g, NULL);
    if (!status)
        status = sb_bound_linear(
            ar, knobs, &(const sb_linear_args){.weight = up, .in = in, .rows = rows}, u, NULL);
    if (!status) {
        sb_bound_swiglu_of(ar, knobs, kind, g, u, inner, g);
        status = sb_bound_linear_of(ar, knobs, down, last, g, rows, out);
    }
    free(g);
    return status;
}
