#include "ref/fast/fast.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/fast/dot/int_dot.h"
#include "ref/fast/dot/rounded.h"
#include "ref/fast/dot/row.h"
#include "ref/fast/arrays.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "ref/ops/param.h"
#include "ref/ops/rounding.h"

/* The factors of the whole weight and of the whole input. */
static sb_scalar factors_of(const sb_matrix *weight, const sb_input *in)
{
    sb_scalar factor = sb_matrix_factor(weight);
    factor.mul[1] = in->factor.mul[0];
    factor.div[1] = in->factor.div[0];
    return factor;
}

/* Applies the R of R-2; the outputs of some kinds of layers are not rounded. */
static void round_outputs(const sb_knobs *knobs, const sb_linear_args *a)
{
    if (!sb_linear_stays_wide(knobs, a->kind))
        sb_act_many(knobs, a->out, a->rows * a->weight->rows, a->out);
}

/* K-17: "factor_last applies the factor to the rounded dot product". If the input has a factor,
 * both factors are first multiplied into one. */
static float apply_factor_last(const sb_scalar *factor, float y)
{
    float mul = factor->mul[0] * factor->mul[1], div = factor->div[0] * factor->div[1];
    return y * mul / div;
}

/* The rounding of the weights of a linear layer. */
static sb_rounding rounding_of(const sb_knobs *knobs, const sb_matrix *matrix)
{
    const int cast = sb_param_rounds(knobs, matrix) && sb_param_cast(knobs, matrix);
    const sb_rounding how = {sb_dequant_law(knobs), cast ? sb_act_format(knobs) : SB_FORMAT_f32};
    return how;
}

/* A layer whose weights K-2 or K-17 rounds, so that they cannot be read in place. */
static sb_status linear_rounded(const sb_knobs *knobs, const sb_linear_args *a, const sb_input *of)
{
    const size_t count = a->rows * a->weight->cols, outputs = a->rows * a->weight->rows;
    const float *in = of->rounded ? of->rounded : a->in;
    const sb_scalar factor = factors_of(a->weight, of);
    const sb_rounding how = rounding_of(knobs, a->weight);
    double *x = sb_realloc(NULL, count, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        x[i] = in[i];
    const sb_status status = sb_dot_rounded(a->weight, &how, x, a->rows, a->out);
    free(x);
    for (size_t i = 0; SB_IS(knobs, dequant, factor_last) && !status && i < outputs; i++)
        a->out[i] = apply_factor_last(&factor, a->out[i]);
    if (!status)
        round_outputs(knobs, a);
    return status;
}

/* "RN of the exact sum of products times the factors of weight and input that the whole tensor
 * shares" */
static sb_status linear_exact(const sb_knobs *knobs, const sb_linear_args *a, const sb_input *in)
{
    sb_scalar factor = factors_of(a->weight, in);
    const sb_codes_input codes = {in->codes, in->scales, in->group, in->format, in->values};
    sb_status status = sb_int_dot_read(a->weight, &codes)
                           ? sb_int_dot_matrix(a->weight, &codes, a->rows, &factor, a->out)
                           : sb_dot_matrix(a->weight, in->values, a->rows, &factor, a->out);
    if (!status)
        round_outputs(knobs, a);
    return status;
}

/* A layer with quantized weights. */
static sb_status linear_quantized(const sb_knobs *knobs, const sb_linear_args *a)
{
    sb_input in = {0};
    sb_status status = sb_quantize_input_fast(knobs, a->weight, a->in, a->rows, &in);
    if (!status)
        status = sb_param_cast(knobs, a->weight) ? linear_rounded(knobs, a, &in)
                                                 : linear_exact(knobs, a, &in);
    sb_input_free(&in);
    return status;
}

/* A layer with plain weights; its input was rounded under K-45. */
static sb_status linear_plain(const sb_knobs *knobs, const sb_linear_args *a)
{
    const size_t count = a->rows * a->weight->cols;
    sb_input in = {.factor = SB_SCALAR_ONE};
    if (sb_param_cast(knobs, a->weight))
        return linear_rounded(knobs, a, &in);
    in.values = sb_alloc(count, sizeof *in.values);
    if (!in.values)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        in.values[i] = a->in[i];
    sb_status status = linear_exact(knobs, a, &in);
    free(in.values);
    return status;
}

/* K-45: "weight rounds the input of every linear layer that is not quantized" */
static sb_status linear_narrowed(const sb_knobs *knobs, const sb_linear_args *a, sb_format format)
{
    size_t count = a->rows * a->weight->cols;
    float *narrow = sb_alloc(count, sizeof *narrow);
    if (!narrow)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < count; i++)
        narrow[i] = sb_round_to(format, a->in[i]);
    sb_linear_args args = *a;
    args.in = narrow;
    sb_status status = linear_plain(knobs, &args);
    free(narrow);
    return status;
}

/* "y_t[n] = R( dot(W[n], x_t) )". Outputs are independent of each other, so threads can share
 * them in any way. */
sb_status sb_linear_fast(const sb_knobs *knobs, const sb_linear_args *a)
{
    sb_format format = sb_linear_input_format(knobs, a->weight, a->kind);
    if (sb_matrix_quantized(a->weight))
        return linear_quantized(knobs, a);
    return format == SB_FORMAT_f32 ? linear_plain(knobs, a) : linear_narrowed(knobs, a, format);
}
