#include "ref/ops/op.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/ops/act_quant.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* K-45: "weight rounds the input of every linear layer that is not quantized to the type in which
 * its weight is stored" */
static sb_status read_input(const sb_knobs *knobs, const sb_linear_args *a, sb_input *x)
{
    const sb_format type = sb_linear_input_format(knobs, a->weight, a->kind);
    const size_t count = a->rows * a->weight->cols;
    float *in = sb_alloc(count, sizeof *in);
    if (!in)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        in[i] = sb_round_to(type, a->in[i]);
    sb_status status = sb_quantize_input(knobs, a->weight, in, a->rows, x);
    /* K-25: "Where K-2 or K-17 rounds the weights, the input is R of the value that the law of K-17
     * gives to it" */
    for (size_t i = 0; !status && x->rounded && i < count; i++)
        x->values[i] = (double)x->rounded[i];
    free(in);
    return status;
}

/* "A stored weight has an exact real value, and no operation ever uses a rounded copy of it
 * unless knob K-2 or K-17 says so." Reads row n of the weight. `narrow` is scratch. */
static void read_weight(const sb_knobs *knobs, const sb_matrix *w, uint32_t n, double *row,
                        float *narrow)
{
    const sb_scalar factor = sb_matrix_factor(w);
    const sb_law law = sb_dequant_law(knobs);
    sb_matrix_wide(w, n, row);
    if (!sb_param_cast(knobs, w))
        return;
    if (law != SB_LAW_exact)
        sb_law_row(w, n, law, NULL, narrow);
    for (uint32_t k = 0; k < w->cols; k++) {
        sb_exact value;
        sb_exact_clear(&value);
        sb_exact_add_wide_product(&value, row[k], 1);
        float kept = law == SB_LAW_exact ? sb_exact_round_scaled(&value, &factor) : narrow[k];
        row[k] = (double)(sb_param_rounds(knobs, w) ? sb_act(knobs, kept) : kept);
    }
}

/* "a linear output is RN of the exact sum of products times the factors of weight and input
 * that the whole tensor shares: it is rounded once, after these factors" */
static float output(const sb_knobs *knobs, const sb_matrix *w, const double *row, const double *x,
                    const sb_scalar *factor)
{
    static const sb_scalar none = SB_SCALAR_ONE;
    const int cast = sb_param_cast(knobs, w);
    sb_exact sum;
    sb_exact_clear(&sum);
    for (uint32_t k = 0; k < w->cols; k++)
        sb_exact_add_wide_product(&sum, row[k], x[k]);
    float y = sb_exact_round_scaled(&sum, cast ? &none : factor);
    if (!cast || !SB_IS(knobs, dequant, factor_last))
        return y;
    /* K-17: "factor_last applies the factor to the rounded dot product and rounds again with RN.
     * For a quantized input this factor includes the factor of the input: it is RN of the product
     * of both multipliers, or of both divisors. If one is a multiplier and the other a divisor, the
     * output is first multiplied and then divided, each with RN." */
    float mul = factor->mul[0] * factor->mul[1], div = factor->div[0] * factor->div[1];
    float scaled = y * mul;
    return scaled / div;
}

/* "y_t[n] = R( dot(W[n], x_t) ), in a quantized layer as Q-3 says. K-45 rounds x first; K-14,
 * K-46, K-47 and K-52 leave some outputs in binary32." */
sb_status sb_linear_ref(const sb_knobs *knobs, const sb_linear_args *a)
{
    const sb_matrix *w = a->weight;
    const int wide = sb_linear_stays_wide(knobs, a->kind);
    sb_input x = {0};
    double *row = sb_alloc(w->cols, sizeof *row);
    float *narrow = sb_alloc(w->cols, sizeof *narrow);
    sb_status status = row && narrow ? read_input(knobs, a, &x) : SB_ERR_MEMORY;
    sb_scalar factor = sb_matrix_factor(w);
    factor.mul[1] = x.factor.mul[0];
    factor.div[1] = x.factor.div[0];
    for (uint32_t n = 0; n < w->rows && !status; n++) {
        read_weight(knobs, w, n, row, narrow);
        for (size_t t = 0; t < a->rows; t++) {
            float y = output(knobs, w, row, x.values + t * w->cols, &factor);
            a->out[t * w->rows + n] = wide ? y : sb_act(knobs, y);
        }
    }
    sb_input_free(&x);
    free(row);
    free(narrow);
    return status;
}
