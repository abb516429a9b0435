#include "ref/fast/fast.h"

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/law.h"
#include "ref/ops/act_group.h"
#include "ref/ops/param.h"

/* One call of sb_quantize_input_fast. */
typedef struct job {
    const sb_knobs *knobs;
    const float *in;
    size_t rows, cols;
    sb_act_groups of;
    double value[256]; /* the value of each code */
    sb_input *out;
} job;

/* K-25: "a group with a value that is not finite has NaN for all of its values" - as integers, the
 * bits of magnitudes are ordered like their values, and infinity and NaN come last. */
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

/* K-25: "the input is R of the value that the law of K-17 gives to it: exact gives RN of the exact
 * value; factor_last gives RN of the value without the factor; bf16_scale gives the same as
 * mo_mul" */
static float rounded(const job *j, float code, float scale)
{
    static const double one = 1;
    sb_law law = sb_dequant_law(j->knobs);
    double exact = (double)code * (double)scale;
    if (law == SB_LAW_exact)
        return sb_act(j->knobs, sb_dot_wide(&exact, &one, 1, &j->out->factor));
    float e = sb_law_scale(j->of.input, scale, law);
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

/* Quantizes the n values from element `first` on, which share a scale. */
static void quantize_group(const job *j, size_t first, size_t n, float *scale)
{
    sb_act_group g = {.knobs = j->knobs,
                      .x = j->in + first,
                      .n = n,
                      .input = j->of.input,
                      .format = j->of.format,
                      .codes = j->out->codes + first};
    if (!find_amax(&g)) {
        poison(j, first, n, scale);
        return;
    }
    j->of.quantize(&g);
    *scale = g.scale;
    multiply_out(j, first, n, g.scale);
}

static void quantize_row(void *ctx, size_t row, size_t worker)
{
    const job *j = ctx;
    (void)worker;
    for (size_t k = 0; k < j->cols; k += j->of.columns) {
        size_t left = j->cols - k;
        quantize_group(j, row * j->cols + k, left < j->of.columns ? left : j->of.columns,
                       j->out->scales + row * j->out->groups + k / j->of.columns);
    }
}

static void quantize_rows(job *j)
{
    const double values = (double)j->rows * (double)j->cols;
    sb_parallel_for(j->rows, sb_worth_threads(values * SB_COST_rounded), quantize_row, j);
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

sb_status sb_quantize_input_fast(const sb_knobs *knobs, const sb_matrix *weight, const float *in,
                                 size_t rows, sb_input *out)
{
    const sb_act_scheme scheme = sb_input_scheme(knobs, weight);
    job j = {.knobs = knobs, .in = in, .rows = rows, .cols = weight->cols, .out = out};
    const sb_status status = sb_input_open(knobs, weight, rows, out);
    for (size_t i = 0; !status && scheme == SB_SCHEME_none && i < rows * j.cols; i++)
        out->values[i] = (double)in[i];
    if (status || scheme == SB_SCHEME_none)
        return status;
    j.of = sb_act_groups_of(scheme, weight);
    set_values(&j);
    quantize_rows(&j);
    return SB_OK;
}
