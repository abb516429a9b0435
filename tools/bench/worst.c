#include "tools/bench/worst.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/wide.h"
#include "ref/fast/dot/row.h"
#include "tools/bench/rounding.h"

enum { COLS = SB_WORST_COLS, ROWS = SB_WORST_ROWS, INPUTS = SB_WORST_INPUTS, PASSES = 64 };

static const char *const names[] = {
#define NAME(id, help) #id,
    SB_WORST_FAMILIES(NAME)
#undef NAME
};
static const char *const helps[] = {
#define HELP(id, help) help,
    SB_WORST_FAMILIES(HELP)
#undef HELP
};

const char *sb_worst_family_name(sb_worst_family family)
{
    return names[family];
}

const char *sb_worst_family_help(sb_worst_family family)
{
    return helps[family];
}

const sb_worst_line *sb_worst_of_steps(const sb_worst_report *r)
{
    size_t most = 0;
    for (size_t i = 0; i < r->count; i++)
        most = r->lines[i].step_times.median > r->lines[most].step_times.median ? i : most;
    return &r->lines[most];
}

const sb_worst_line *sb_worst_of_prompts(const sb_worst_report *r)
{
    size_t most = 0;
    for (size_t i = 0; i < r->count; i++)
        most = r->lines[i].prompt_times.median > r->lines[most].prompt_times.median ? i : most;
    return &r->lines[most];
}

/* The storage of weights; group 0: without scales. */
static const struct {
    const char *name;
    sb_format codes, scales;
    uint32_t group;
    int32_t zero;
    sb_packing packing;
} formats[SB_WORST_FORMATS] = {
    {"bf16", SB_FORMAT_bf16, SB_FORMAT_f32, 0, 0, SB_PACKING_rows},
    {"f16", SB_FORMAT_f16, SB_FORMAT_f32, 0, 0, SB_PACKING_rows},
    {"f32", SB_FORMAT_f32, SB_FORMAT_f32, 0, 0, SB_PACKING_rows},
    {"nvfp4", SB_FORMAT_e2m1, SB_FORMAT_e4m3, 16, 0, SB_PACKING_rows},
    {"mxfp4", SB_FORMAT_e2m1, SB_FORMAT_e8m0, 32, 0, SB_PACKING_rows},
    {"fp8-block", SB_FORMAT_e4m3, SB_FORMAT_f32, 128, 0, SB_PACKING_rows},
    {"mxfp8", SB_FORMAT_e4m3, SB_FORMAT_e8m0, 32, 0, SB_PACKING_rows},
    {"int4", SB_FORMAT_uint4, SB_FORMAT_f16, 128, 8, SB_PACKING_rows},
    {"int8", SB_FORMAT_int8, SB_FORMAT_f32, 128, 0, SB_PACKING_rows},
    {"int4-gptq", SB_FORMAT_uint4, SB_FORMAT_f16, 128, 8, SB_PACKING_gptq},
    {"int4-awq", SB_FORMAT_uint4, SB_FORMAT_f16, 128, 8, SB_PACKING_awq},
};

/* The rows of one format and family. */
typedef struct work {
    sb_matrix matrix;
    unsigned char *codes, *scales;
    double *x;             /* (INPUTS, COLS): the same input repeated */
    float *out, *expected; /* (INPUTS, ROWS) */
} work;

static const sb_scalar one = SB_SCALAR_ONE;

/* --- weights ---------------------------------------------------------------------------------- */

/* A stream of numbers. */
typedef struct draw {
    uint64_t key, at;
} draw;

static uint32_t below(draw *d, uint32_t n)
{
    return sb_rng_below(d->key, d->at++, n);
}

static float normal(draw *d)
{
    return sb_rng_normal(d->key, d->at++);
}

/* 2^e, -126 <= e <= 127 */
static float power(int e)
{
    return sb_f32_from_bits((uint32_t)(e + 127) << 23);
}

/* The position of a code of four bits, in nibbles. */
static size_t nibble_of(sb_packing packing, size_t row, size_t k)
{
    static const size_t awq[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return packing == SB_PACKING_gptq  ? (k / 8 * ROWS + row) * 8 + k % 8
           : packing == SB_PACKING_awq ? (k * ROWS + row) / 8 * 8 + awq[row % 8]
                                       : row * COLS + k;
}

/* Stores the code of a small whole number, which every format has, or of a half. */
static void set_weight(work *w, size_t row, size_t k, float value)
{
    const sb_matrix *m = &w->matrix;
    const size_t at = nibble_of(m->quant.packing, row, k);
    if (m->format == SB_FORMAT_int8 || m->format == SB_FORMAT_uint4)
        value += (float)m->quant.zero;
    if (sb_format_bits(m->format) == 4) {
        const unsigned code = sb_f32_to_code(m->format, value), shift = at % 2 * 4;
        w->codes[at / 2] = (unsigned char)((w->codes[at / 2] & 0xf0u >> shift) | code << shift);
    } else {
        sb_encode(m->format, &value, 1, w->codes + at * sb_format_bytes(m->format));
    }
}

/* A weight as in a model; `whole`: a whole number, or half of one, from -6 to 6. */
static float draw_weight(draw *d, const work *w, int whole)
{
    const sb_format format = w->matrix.format;
    if (whole || format == SB_FORMAT_e2m1 || format == SB_FORMAT_uint4) {
        static const float values[] = {-6, -4, -3, -2, -1, 1, 2, 3, 4, 6};
        return values[below(d, 10)];
    }
    const float value = normal(d);
    return format == SB_FORMAT_int8   ? (float)((int)below(d, 255) - 127)
           : format == SB_FORMAT_e4m3 ? 64 * value
                                      : 0.02f * value;
}

/* The input makes a tie only for one row, so all rows of ties are equal. */
static void draw_weights(work *w, sb_worst_family family)
{
    draw d = {sb_rng_key(42, "worst/weights"), 0};
    const int pairs =
        family == SB_WORST_cancel || family == SB_WORST_zero || family == SB_WORST_deep;
    const int alike = family == SB_WORST_tie || family == SB_WORST_decided;
    for (size_t row = 0; row < ROWS; row++) {
        d.at = alike ? 0 : d.at;
        for (size_t k = 0; k < COLS; k += 1 + (size_t)pairs) {
            const float value = draw_weight(&d, w, alike);
            set_weight(w, row, k, value);
            if (pairs)
                set_weight(w, row, k + 1, value);
        }
        for (size_t k = COLS - 8; alike && k < COLS; k++)
            set_weight(w, row, k, 1);
    }
}

static void draw_scales(work *w, sb_worst_family family)
{
    draw d = {sb_rng_key(42, "worst/scales"), 0};
    const sb_quant *q = &w->matrix.quant;
    const size_t bytes = sb_format_bytes(q->scale_format);
    for (size_t i = 0; q->scales && i < (size_t)ROWS * q->groups; i++) {
        const int exact = family == SB_WORST_tie || family == SB_WORST_decided;
        const float scale = exact ? 1 : 1 + sb_rng_uniform(d.key, d.at++);
        sb_encode(q->scale_format, &scale, 1, w->scales + i * bytes);
    }
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* Draws whole numbers. The weights at the end are 1; the inputs there cancel the sum and add 2^24 +
 * 1, which is a tie. These partial sums are exact in binary64. `decided`: adds 2^-126, too, which
 * decides the tie and is lost in binary64. */
static void aim_at_tie(const work *w, draw *d, int decided, double *x)
{
    double sum = 0;
    for (size_t k = 0; k < COLS - 8; k++)
        x[k] = (double)below(d, 2048) - 1024;
    for (size_t k = COLS - 8; k < COLS; k++)
        x[k] = 0;
    double *row = w->x + COLS; /* not drawn yet */
    sb_matrix_wide(&w->matrix, 0, row);
    for (size_t k = 0; k < COLS - 8; k++)
        sum += row[k] * x[k];
    x[COLS - 1] = 0x1p24;
    x[COLS - 2] = 1;
    x[COLS - 3] = -(double)(float)sum;
    x[COLS - 4] = -(sum - (double)(float)sum);
    x[COLS - 5] = decided ? (double)power(-126) : 0;
}

static void draw_pairs(draw *d, sb_worst_family family, double *x)
{
    for (size_t k = 0; k < COLS; k += 2) {
        const float wide = normal(d) * power((int)below(d, 160) - 80), plain = normal(d);
        x[k] = (double)(family == SB_WORST_deep ? wide : plain);
        x[k + 1] = -x[k];
    }
    if (family == SB_WORST_cancel)
        x[7] = (double)sb_f32_from_bits(sb_bits_f32((float)x[7]) + 1);
    if (family == SB_WORST_deep)
        x[6] = (double)power(-126), x[7] = 0;
}

static void draw_inputs(work *w, sb_worst_family family)
{
    draw d = {sb_rng_key(42, "worst/inputs"), 0};
    for (size_t k = 0; k < COLS; k++)
        w->x[k] = (double)normal(&d);
    for (size_t k = 0; k < COLS && family == SB_WORST_huge; k++)
        w->x[k] *= (double)power(k == 1000 ? 60 : -60);
    for (size_t k = 0; k < COLS && family == SB_WORST_spread; k++)
        w->x[k] *= (double)power((int)below(&d, 230) - 115);
    if (family == SB_WORST_cancel || family == SB_WORST_zero || family == SB_WORST_deep)
        draw_pairs(&d, family, w->x);
    if (family == SB_WORST_tie || family == SB_WORST_decided)
        aim_at_tie(w, &d, family == SB_WORST_decided, w->x);
    for (size_t t = 1; t < INPUTS; t++)
        memcpy(w->x + t * COLS, w->x, COLS * sizeof *w->x);
}

/* --- one format ------------------------------------------------------------------------------- */

static void free_work(work *w)
{
    free(w->codes);
    free(w->scales);
    free(w->x);
    free(w->out);
    free(w->expected);
}

static sb_status make_work(size_t format, sb_worst_family family, work *w, sb_error *err)
{
    const uint32_t group = formats[format].group;
    const int packed = formats[format].packing != SB_PACKING_rows;
    sb_matrix *m = &w->matrix;
    *m = (sb_matrix){.format = formats[format].codes, .rows = ROWS, .cols = COLS};
    w->codes = sb_alloc((size_t)ROWS * COLS, 4);
    w->scales = sb_alloc((size_t)ROWS * COLS, 4);
    w->x = sb_alloc((size_t)INPUTS * COLS, sizeof *w->x);
    w->out = sb_alloc((size_t)INPUTS * ROWS, sizeof *w->out);
    w->expected = sb_alloc((size_t)INPUTS * ROWS, sizeof *w->expected);
    if (!w->codes || !w->scales || !w->x || !w->out || !w->expected)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for hard rows");
    m->data = w->codes;
    if (group)
        m->quant = (sb_quant){.scales = w->scales,
                              .scale_format = formats[format].scales,
                              .block_rows = 1,
                              .block_cols = group,
                              .scale_row = packed ? 1 : COLS / group,
                              .scale_col = packed ? ROWS : 1,
                              .groups = COLS / group,
                              .packing = formats[format].packing,
                              .stored_rows = ROWS,
                              .zero = formats[format].zero};
    draw_weights(w, family);
    draw_scales(w, family);
    draw_inputs(w, family);
    return SB_OK;
}

static sb_status compute(const work *w, size_t inputs, float *out, sb_error *err)
{
    sb_status status = sb_dot_matrix(&w->matrix, w->x, inputs, &one, out);
    return status ? sb_fail(err, status, "out of memory for hard rows") : SB_OK;
}

/* Compares results for one input and for many with the definition. */
static sb_status compare(work *w, const sb_worst_line *line, int plant, sb_error *err)
{
    const char *before = sb_dot_selected();
    sb_status status = sb_dot_select("exact", err);
    if (!status)
        status = compute(w, 1, w->expected, err);
    sb_status back = sb_dot_select(before, err);
    status = status ? status : back;
    for (size_t count = 1; count <= INPUTS && !status; count += INPUTS - 1) {
        status = compute(w, count, w->out, err);
        w->out[count * ROWS - 1] *= plant ? 1 + 0x1p-23f : 1;
        for (size_t i = 0; i < count * ROWS && !status; i++)
            if (sb_bits_f32(w->out[i]) != sb_bits_f32(w->expected[i % ROWS]))
                status = sb_fail(err, SB_ERR_DIFF,
                                 "%s rows, %s: output %zu of %zu is %08x, expected %08x by the "
                                 "definition: nothing is timed",
                                 line->format, names[line->family], i, count * ROWS,
                                 (unsigned)sb_bits_f32(w->out[i]),
                                 (unsigned)sb_bits_f32(w->expected[i % ROWS]));
    }
    return status;
}

/* Processor seconds per call, averaged over as many calls as take half a millisecond. */
static sb_status time_calls(const work *w, size_t inputs, double *seconds, sb_error *err)
{
    double start = sb_bench_cpu_now(), passed = 0;
    size_t calls = 0;
    sb_status status = SB_OK;
    for (; !status && (calls == 0 || passed < 0.5e-3); calls++) {
        status = compute(w, inputs, w->out, err);
        passed = sb_bench_cpu_now() - start;
    }
    *seconds = passed / (double)calls;
    return status;
}

/* Times all families of a format in turn, pass by pass. */
static sb_status time_format(const work *works, size_t passes, sb_worst_line *lines, sb_error *err)
{
    static double step[SB_WORST_COUNT][PASSES], prompt[SB_WORST_COUNT][PASSES];
    static double step_times[SB_WORST_COUNT][PASSES], prompt_times[SB_WORST_COUNT][PASSES];
    const double weights = (double)ROWS * (double)COLS;
    sb_status status = SB_OK;
    for (size_t p = 0; p < passes + 1 && !status; p++) {
        const size_t at = p ? p - 1 : 0;                         /* the first pass warms up */
        for (size_t f = 0; f < SB_WORST_COUNT && !status; f++) { /* SB_WORST_normal is the first */
            status = time_calls(&works[f], 1, &step[f][at], err);
            if (!status)
                status = time_calls(&works[f], INPUTS, &prompt[f][at], err);
            step[f][at] /= weights;
            prompt[f][at] /= weights * (double)INPUTS;
            step_times[f][at] = step[f][at] / step[SB_WORST_normal][at];
            prompt_times[f][at] = prompt[f][at] / prompt[SB_WORST_normal][at];
        }
    }
    for (size_t f = 0; f < SB_WORST_COUNT && !status; f++) {
        lines[f].step = sb_bench_noise_of(step[f], passes);
        lines[f].prompt = sb_bench_noise_of(prompt[f], passes);
        lines[f].step_times = sb_bench_noise_of(step_times[f], passes);
        lines[f].prompt_times = sb_bench_noise_of(prompt_times[f], passes);
    }
    return status;
}

static sb_status one_format(size_t format, size_t passes, int plant, sb_worst_report *report,
                            sb_error *err)
{
    work works[SB_WORST_COUNT] = {{.codes = NULL}};
    uint32_t rows[ROWS];
    sb_worst_line *lines = report->lines + report->count;
    sb_status status = SB_OK;
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = i;
    for (size_t f = 0; f < SB_WORST_COUNT && !status; f++) {
        sb_bench_tried tried = {0};
        lines[f] = (sb_worst_line){.format = formats[format].name, .family = (sb_worst_family)f};
        status = make_work(format, (sb_worst_family)f, &works[f], err);
        if (!status)
            status = compare(&works[f], &lines[f], plant, err);
        if (!status)
            status = sb_bench_count(&works[f].matrix, works[f].x, &one, rows, ROWS, &tried, err);
        lines[f].tried = tried.asked;
        lines[f].sent = tried.sent;
        lines[f].exact = tried.exact;
        report->compared += (1 + INPUTS) * ROWS;
    }
    if (!status)
        status = time_format(works, passes, lines, err);
    for (size_t f = 0; f < SB_WORST_COUNT; f++)
        free_work(&works[f]);
    report->count += status ? 0 : SB_WORST_COUNT;
    return status;
}

sb_status sb_bench_worst(size_t passes, int plant,
                         void (*progress)(void *ctx, const char *what, uint64_t done,
                                          uint64_t total),
                         sb_worst_report *report, sb_error *err)
{
    const size_t threads = sb_threads_asked();
    sb_status status = SB_OK;
    *report = (sb_worst_report){.compared = 0};
    sb_threads_set(1);
    for (size_t i = 0; i < SB_WORST_FORMATS && !status; i++) {
        status = one_format(i, passes < PASSES ? passes : PASSES, plant, report, err);
        if (progress)
            progress(NULL, "formats", i + 1, SB_WORST_FORMATS);
    }
    sb_threads_set(threads);
    return status;
}
