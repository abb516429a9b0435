/* linear.c - rows of matrices. */
#include "tools/sim/arith.h"

#include <omp.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* R-1: "x_t is row token_t of the embedding, unscaled, R" */
sb_status sb_sim_embed(const sb_sim_arith *s, const sb_knobs *knobs, const sb_embed_args *a)
{
    (void)s; /* copies only */
    size_t n = a->table->cols;
    for (size_t t = 0; t < a->rows; t++) {
        sb_param_row(knobs, a->table, a->tokens[t], a->out + t * n);
        for (size_t i = 0; i < n; i++)
            a->out[t * n + i] = sb_act(knobs, a->out[t * n + i]);
    }
    return SB_OK;
}

/* What a layer multiplies in binary32: its input, and what is left for the end. */
typedef struct operands {
    float *in; /* (T, K) */
    float mul, div;
} operands;

/* Without a law that says otherwise, values and factors are rounded to binary32 before they meet.
 */
static sb_status make_operands(const sb_knobs *knobs, const sb_linear_args *a, operands *out)
{
    size_t count = a->rows * a->weight->cols;
    *out = (operands){.in = sb_alloc(count, sizeof *out->in), .mul = 1.0f, .div = 1.0f};
    if (!out->in)
        return SB_ERR_MEMORY;
    sb_format format = sb_linear_input_format(knobs, a->weight, a->kind);
    for (size_t i = 0; i < count; i++)
        out->in[i] = sb_round_to(format, a->in[i]);
    if (!sb_matrix_quantized(a->weight))
        return SB_OK;
    sb_input input = {0};
    sb_status status = sb_quantize_input(knobs, a->weight, a->in, a->rows, &input);
    if (status)
        return status;
    double mul = (double)input.factor.mul[0], div = (double)input.factor.div[0];
    for (size_t i = 0; i < count; i++)
        out->in[i] = input.rounded ? input.rounded[i] : (float)(input.values[i] * mul / div);
    if (SB_IS(knobs, dequant, factor_last)) {
        sb_scalar factor = sb_matrix_factor(a->weight);
        out->mul = factor.mul[0] * input.factor.mul[0];
        out->div = factor.div[0] * input.factor.div[0];
    }
    sb_input_free(&input);
    return SB_OK;
}

/* R-2: "y_t[n] = R( dot(W[n], x_t) )" */
sb_status sb_sim_linear(const sb_sim_arith *s, const sb_knobs *knobs, const sb_linear_args *a)
{
    size_t n = a->weight->rows, k = a->weight->cols, threads = (size_t)omp_get_max_threads();
    int wide_output = sb_linear_stays_wide(knobs, a->kind);
    operands of;
    sb_status status = make_operands(knobs, a, &of);
    double *wide = sb_alloc(threads * k, sizeof *wide);
    float *rows = sb_alloc(threads * k, sizeof *rows);
    if (!wide || !rows)
        status = SB_ERR_MEMORY;
#pragma omp parallel for schedule(static) if (!status && a->rows * n * k > 1000000)
    for (int64_t i = 0; i < (status ? 0 : (int64_t)n); i++) {
        size_t mine = (size_t)omp_get_thread_num() * k;
        float *row = rows + mine;
        sb_weight_row(knobs, a->weight, (uint32_t)i, wide + mine, row);
        for (size_t t = 0; t < a->rows; t++) {
            float y = sb_sim_product(s, row, 1, of.in + t * k, 1, k) * of.mul / of.div;
            a->out[t * n + (size_t)i] = sb_sim_act_if(knobs, !wide_output, y);
        }
    }
    free(of.in);
    free(wide);
    free(rows);
    return status;
}

/* R-18: "x = R( RN(x + y) )"; K-48: "sum norms RN(x + y)" */
sb_status sb_sim_add(const sb_sim_arith *s, const sb_knobs *knobs, const sb_add_args *a)
{
    (void)s; /* one operation */
    for (size_t i = 0; i < a->count; i++) {
        float sum = a->a[i] + a->b[i];
        if (a->sum)
            a->sum[i] = sum;
        a->out[i] = sb_act(knobs, sum);
    }
    return SB_OK;
}
