#include "ref/ops/act_quant.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/small_float.h"
#include "ref/math/dot.h"
#include "ref/math/law.h"
#include "ref/ops/act_group.h"
#include "ref/ops/param.h"

/* What the container makes possible, whether a knob asks for it or not. */
static sb_act_scheme possible_scheme(const sb_matrix *w)
{
    int has_input = w->quant.input.kind != SB_NO_FACTOR;
    switch (w->quant.container) {
    case SB_CONTAINER_nvfp4_ct:
    case SB_CONTAINER_nvfp4_modelopt:
        return has_input ? SB_SCHEME_nvfp4 : SB_SCHEME_none;
    case SB_CONTAINER_mxfp4:
        return SB_SCHEME_mxfp4;
    case SB_CONTAINER_mxfp8:
        return SB_SCHEME_mxfp8;
    case SB_CONTAINER_fp8_block:
    case SB_CONTAINER_fp8_block_ct:
        return SB_SCHEME_fp8_group;
    case SB_CONTAINER_fp8_channel:
    case SB_CONTAINER_fp8_tensor:
        return has_input ? SB_SCHEME_fp8_static : SB_SCHEME_fp8_token;
    default:
        return SB_SCHEME_none;
    }
}

/* K-18: "NVFP4 layers that have an input scale", K-19: "FP8 layers whose weights have a scale per
 * block", and so on: each knob has one kind of layer. */
sb_act_scheme sb_input_scheme(const sb_knobs *knobs, const sb_matrix *weight)
{
    sb_act_scheme scheme = sb_matrix_quantized(weight) ? possible_scheme(weight) : SB_SCHEME_none;
    const int on[] = {
        [SB_SCHEME_none] = 0,
        [SB_SCHEME_nvfp4] = !SB_IS(knobs, act_fp4, off),
        [SB_SCHEME_mxfp4] = !SB_IS(knobs, act_mx, off),
        [SB_SCHEME_mxfp8] = !SB_IS(knobs, act_mx, off),
        [SB_SCHEME_fp8_group] = !SB_IS(knobs, act_fp8_group, off),
        [SB_SCHEME_fp8_token] = !SB_IS(knobs, act_fp8_token, off),
        [SB_SCHEME_fp8_static] = !SB_IS(knobs, act_fp8_static, off),
    };
    return on[scheme] ? scheme : SB_SCHEME_none;
}

/* One call of sb_quantize_input. */
typedef struct job {
    const sb_knobs *knobs;
    const sb_matrix *weight;
    sb_act_scheme scheme;
    const float *in;
    size_t rows, cols;
    size_t group;      /* columns that share a scale */
    sb_factor input;   /* the factor of the file, if the scheme has one */
    double value[256]; /* of each code */
    sb_input *out;
} job;

static const struct {
    sb_format format;
    size_t columns; /* 0: a whole row */
    void (*quantize)(sb_act_group *group);
} schemes[] = {
    [SB_SCHEME_nvfp4] = {SB_FORMAT_e2m1, 16, sb_act_nvfp4},
    [SB_SCHEME_mxfp4] = {SB_FORMAT_e2m1, 32, sb_act_mx},
    [SB_SCHEME_mxfp8] = {SB_FORMAT_e4m3, 32, sb_act_mx},
    [SB_SCHEME_fp8_group] = {SB_FORMAT_e4m3, 0, sb_act_fp8_group}, /* block_cols */
    [SB_SCHEME_fp8_token] = {SB_FORMAT_e4m3, 0, sb_act_fp8_token},
    [SB_SCHEME_fp8_static] = {SB_FORMAT_e4m3, 0, sb_act_fp8_static},
};

/* K-25: "a group with a value that is not finite has NaN for all of its values" - as integers,
 * magnitudes are in the order of their values, with infinity and NaN behind them. */
static int find_amax(sb_act_group *g)
{
    int32_t most = 0;
    for (size_t i = 0; i < g->n; i++) {
        int32_t magnitude = (int32_t)(sb_bits_f32(g->x[i]) & 0x7fffffffu);
        most = magnitude > most ? magnitude : most;
    }
    g->amax = sb_f32_from_bits((uint32_t)most);
    return sb_is_finite_f32(g->amax);
}

/* K-25: "the input is R of the value that the law of K-17 gives it: exact gives RN of the exact
 * value, factor_last that without the factor, bf16_scale gives what mo_mul does" */
static float rounded(const job *j, float code, float scale)
{
    static const double one = 1;
    sb_law law = sb_dequant_law(j->knobs);
    double exact = (double)code * (double)scale;
    if (law == SB_LAW_exact)
        return sb_act(j->knobs, sb_dot_wide(&exact, &one, 1, &j->out->factor));
    float e = sb_law_scale(j->input, scale, law);
    return sb_act(j->knobs, code * e);
}

static void poison(const job *j, size_t first, size_t n, float *scale)
{
    *scale = sb_f32_from_bits(0x7fc00000u);
    for (size_t i = first; i < first + n; i++) {
        j->out->values[i] = (double)sb_f32_from_bits(0x7fc00000u);
        if (j->out->rounded)
            j->out->rounded[i] = sb_f32_from_bits(0x7fc00000u);
    }
}

static void multiply_out(const job *j, size_t first, size_t n, float scale)
{
    const unsigned char *codes = j->out->codes + first;
    for (size_t i = 0; i < n; i++)
        j->out->values[first + i] = j->value[codes[i]] * (double)scale;
    for (size_t i = 0; j->out->rounded && i < n; i++)
        j->out->rounded[first + i] = rounded(j, (float)j->value[codes[i]], scale);
}

/* The n values from element `first` on, which share a scale. */
static void quantize_group(const job *j, size_t first, size_t n, float *scale)
{
    sb_act_group g = {.knobs = j->knobs,
                      .x = j->in + first,
                      .n = n,
                      .input = j->input,
                      .format = schemes[j->scheme].format,
                      .codes = j->out->codes + first};
    if (!find_amax(&g)) {
        poison(j, first, n, scale);
        return;
    }
    schemes[j->scheme].quantize(&g);
    *scale = g.scale;
    multiply_out(j, first, n, g.scale);
}

static void quantize_row(void *ctx, size_t row, size_t worker)
{
    const job *j = ctx;
    (void)worker;
    for (size_t k = 0; k < j->cols; k += j->group) {
        size_t left = j->cols - k;
        quantize_group(j, row * j->cols + k, left < j->group ? left : j->group,
                       j->out->scales + row * j->out->groups + k / j->group);
    }
}

static void quantize_rows(job *j)
{
    const double values = (double)j->rows * (double)j->cols;
    sb_parallel_for(j->rows, sb_worth_threads(values * SB_COST_rounded), quantize_row, j);
}

static void set_scheme(job *j)
{
    const sb_quant *q = &j->weight->quant;
    int has_factor = j->scheme == SB_SCHEME_nvfp4 || j->scheme == SB_SCHEME_fp8_static;
    j->group = schemes[j->scheme].columns;
    if (j->scheme == SB_SCHEME_fp8_group)
        j->group = q->block_cols;
    if (j->group == 0)
        j->group = j->cols;
    j->out->group = j->group;
    j->out->groups = j->group ? (j->cols + j->group - 1) / j->group : 0;
    if (has_factor)
        j->input = q->input;
    if (j->input.kind == SB_MULTIPLIER)
        j->out->factor.mul[0] = j->input.value;
    else if (j->input.kind == SB_DIVISOR)
        j->out->factor.div[0] = j->input.value;
}

static void set_values(job *j)
{
    const unsigned count = 1u << sb_format_bits(j->out->format);
    unsigned char codes[256];
    float values[256];
    for (unsigned i = 0; i < count; i++)
        codes[i] = (unsigned char)i;
    sb_small_decode(j->out->format, codes, count, values);
    for (unsigned i = 0; i < count; i++)
        j->value[i] = values[i];
}

sb_status sb_quantize_input(const sb_knobs *knobs, const sb_matrix *weight, const float *in,
                            size_t rows, sb_input *out)
{
    job j = {.knobs = knobs,
             .weight = weight,
             .scheme = sb_input_scheme(knobs, weight),
             .in = in,
             .rows = rows,
             .cols = weight->cols,
             .out = out};
    size_t count = rows * j.cols;
    *out = (sb_input){.values = sb_alloc(count, sizeof *out->values), .factor = SB_SCALAR_ONE};
    if (!out->values)
        return SB_ERR_MEMORY;
    if (j.scheme == SB_SCHEME_none) {
        for (size_t i = 0; i < count; i++)
            out->values[i] = (double)in[i];
        return SB_OK;
    }
    int rounds = sb_param_cast(knobs, weight);
    set_scheme(&j);
    out->codes = sb_alloc(count, 1);
    out->format = schemes[j.scheme].format;
    out->rounded = rounds ? sb_alloc(count, sizeof *out->rounded) : NULL;
    out->scales = sb_alloc(rows * out->groups, sizeof *out->scales);
    if (!out->codes || !out->scales || (rounds && !out->rounded)) {
        sb_input_free(out);
        return SB_ERR_MEMORY;
    }
    set_values(&j);
    quantize_rows(&j);
    return SB_OK;
}

void sb_input_free(sb_input *input)
{
    free(input->values);
    free(input->codes);
    free(input->rounded);
    free(input->scales);
    *input = (sb_input){.factor = SB_SCALAR_ONE};
}
