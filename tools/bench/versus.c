/* versus.c - the price of correct rounding: times the same stored matrices in the reference and in
 * binary32 rows, in turn. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/fast/fast.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/law.h"
#include "ref/ops/act_quant.h"
#include "tools/bench/cpu.h"

enum { KEPT = 8, LONGEST = 1 << 16, MOST_UNITS = 4096, BYTES = 1 << 30 };

/* Matrices computed at once: one layer, or one projection of several experts. */
typedef struct unit {
    const sb_matrix *first;
    size_t stride, count; /* count 1: a layer */
} unit;

typedef struct work {
    sb_knobs knobs;
    sb_f32_kind kind;
    int quantized;
    unit *units;
    size_t count;
    uint64_t bytes;
    size_t outputs; /* of the largest unit */
    float *x, *laid, *exact, *plain;
    uint32_t ids[KEPT];
} work;

static const sb_matrix *matrix_of(const unit *u, size_t i)
{
    return (const sb_matrix *)(const void *)((const char *)u->first + i * u->stride);
}

/* The matrices of a unit share the input and the output array: they have the same kind and
 * shape. */
static int alike(const unit *u, sb_f32_kind kind)
{
    for (size_t i = 0; i < u->count; i++) {
        const sb_matrix *m = matrix_of(u, i);
        if (!m->data || sb_f32_kind_of(m) != kind || m->rows != u->first->rows ||
            m->cols != u->first->cols)
            return 0;
    }
    return 1;
}

static void add(work *w, const sb_matrix *first, size_t stride, size_t count)
{
    const unit u = {first, stride, count};
    if (first->cols > LONGEST || w->count == MOST_UNITS || w->bytes >= BYTES || !alike(&u, w->kind))
        return;
    size_t outputs = (size_t)first->rows * count;
    w->units[w->count++] = u;
    w->bytes += count * sb_bench_matrix_bytes(first);
    w->outputs = outputs > w->outputs ? outputs : w->outputs;
}

/* Collects all matrices of a format up to BYTES: layers first, then experts, then the head. */
static void gather(const sb_model *model, work *w)
{
    const sb_config *c = &model->config;
    for (uint32_t l = 0; l < c->layers; l++) {
        const sb_layer *layer = &model->weights->layers[l];
        for (int role = 0; role < SB_ROLE_COUNT; role++)
            if (layer->w[role].rows >= 64) /* skips vectors and gates of one row */
                add(w, &layer->w[role], 0, 1);
        for (uint32_t e = 0; layer->experts && e + KEPT <= c->experts; e += KEPT) {
            add(w, &layer->experts[e].gate, sizeof *layer->experts, KEPT);
            add(w, &layer->experts[e].up, sizeof *layer->experts, KEPT);
            add(w, &layer->experts[e].down, sizeof *layer->experts, KEPT);
        }
    }
    add(w, &model->weights->lm_head, 0, 1);
}

static sb_status by_reference(const work *w, const unit *u, sb_error *err)
{
    sb_status status;
    if (u->count == 1) {
        sb_linear_args one = {.weight = u->first, .in = w->x, .rows = 1, .out = w->exact};
        status = sb_linear_fast(&w->knobs, &one);
    } else {
        sb_expert_linear_args all = {.weight = u->first,
                                     .stride = u->stride,
                                     .experts = u->count,
                                     .ids = w->ids,
                                     .rows = 1,
                                     .kept = u->count,
                                     .each = u->count,
                                     .in = w->x,
                                     .out = w->exact};
        status = sb_experts_fast(&w->knobs, &all, 1);
    }
    return status ? sb_fail(err, status, "a linear layer failed") : SB_OK;
}

typedef struct yardstick {
    const work *w;
    const unit *u;
    size_t threads;
} yardstick;

static void f32_share(void *ctx, size_t t, size_t worker)
{
    const yardstick *y = ctx;
    const size_t rows = y->u->first->rows, all = rows * y->u->count;
    const size_t end = all * (t + 1) / y->threads;
    (void)worker;
    for (size_t at = all * t / y->threads, count; at < end; at += count) {
        const size_t row = at % rows;
        count = rows - row < end - at ? rows - row : end - at;
        sb_f32_rows(matrix_of(y->u, at / rows), y->w->kind, (uint32_t)row, (uint32_t)count,
                    y->w->laid, y->w->plain + at);
    }
}

/* Computes the rows of all matrices of the unit, one piece per thread. */
static void by_f32(const work *w, const unit *u)
{
    yardstick y = {w, u, sb_threads()};
    sb_parallel_for(y.threads, 1, f32_share, &y);
}

/* Checks that the yardstick computes the same layer, as exactly as its input allows. */
static sb_status compare(const work *w, const unit *u, sb_error *err)
{
    double error = 0, size = 0;
    size_t rows = u->first->rows;
    for (size_t i = 0; i < rows * u->count; i++) {
        sb_scalar f = sb_matrix_quantized(u->first) ? sb_matrix_factor(matrix_of(u, i / rows))
                                                    : (sb_scalar)SB_SCALAR_ONE;
        double exact = w->exact[i];
        double plain = (double)w->plain[i] * (double)f.mul[0] / (double)f.div[0];
        error += (plain - exact) * (plain - exact);
        size += exact * exact;
    }
    if (error <= size * (w->quantized ? 0.05 : 1e-9))
        return SB_OK;
    return sb_fail(err, SB_ERR_DIFF,
                   "binary32 rows of %s cannot be a yardstick: the sum of squared differences is "
                   "%g, that of squared outputs %g",
                   sb_f32_kind_name(w->kind), error, size);
}

/* seconds: elapsed for the reference and the binary32 rows, then the processors' for both. */
static sb_status one_pass(const work *w, int first, double seconds[4], sb_error *err)
{
    sb_status status = SB_OK;
    double start = sb_bench_now(), cpu = sb_bench_cpu_now();
    for (size_t i = 0; i < w->count && !status; i++)
        status = by_reference(w, &w->units[i], err);
    double middle = sb_bench_now(), cpu_middle = sb_bench_cpu_now();
    for (size_t i = 0; i < w->count && !status; i++) {
        if (i == 0 || w->units[i].first->cols != w->units[i - 1].first->cols)
            sb_f32_lay(w->kind, w->x, w->units[i].first->cols, w->laid);
        by_f32(w, &w->units[i]);
    }
    seconds[0] = middle - start;
    seconds[1] = sb_bench_now() - middle;
    seconds[2] = cpu_middle - cpu;
    seconds[3] = sb_bench_cpu_now() - cpu_middle;
    for (size_t i = 0; first && i < w->count && !status; i++) {
        sb_f32_lay(w->kind, w->x, w->units[i].first->cols, w->laid);
        by_f32(w, &w->units[i]);
        status = by_reference(w, &w->units[i], err);
        if (!status)
            status = compare(w, &w->units[i], err);
    }
    return status;
}

static sb_status run(const work *w, const sb_bench_options *options, unsigned threads,
                     sb_bench_stream *stream, sb_bench_versus *out, sb_error *err)
{
    double exact[SB_BENCH_PASSES], plain[SB_BENCH_PASSES], ratio[SB_BENCH_PASSES], one[4];
    double read[SB_BENCH_PASSES], cpu[SB_BENCH_PASSES];
    sb_status status = SB_OK;
    sb_threads_set(threads);
    for (size_t p = 0; p < options->passes + 1 && !status; p++) {
        size_t at = p ? p - 1 : 0; /* the first pass compares */
        status = one_pass(w, p == 0, one, err);
        exact[at] = one[0];
        plain[at] = one[1];
        ratio[at] = one[1] / one[0];
        cpu[at] = one[3] / one[2];
        read[at] = sb_bench_stream_pass(stream, threads);
        if (options->progress)
            options->progress(NULL, sb_f32_kind_name(w->kind), p, options->passes);
    }
    if (status)
        return status;
    *out = (sb_bench_versus){.kind = w->kind,
                             .quantized_input = w->quantized,
                             .threads = threads,
                             .bytes = w->bytes,
                             .stream = sb_bench_noise_of(read, options->passes),
                             .exact = sb_bench_noise_of(exact, options->passes),
                             .plain = sb_bench_noise_of(plain, options->passes),
                             .ratio = sb_bench_noise_of(ratio, options->passes),
                             .cpu_ratio = sb_bench_noise_of(cpu, options->passes)};
    out->exact_share = (double)w->bytes / out->exact.median / out->stream.median;
    out->plain_share = (double)w->bytes / out->plain.median / out->stream.median;
    return SB_OK;
}

static sb_status prepare(const sb_model *model, work *w, sb_error *err)
{
    w->units = sb_alloc(MOST_UNITS, sizeof *w->units);
    if (!w->units)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory");
    gather(model, w);
    w->x = sb_alloc(LONGEST, sizeof *w->x);
    w->laid = sb_alloc(LONGEST, sizeof *w->laid);
    w->exact = sb_alloc(w->outputs, sizeof *w->exact);
    w->plain = sb_alloc(w->outputs, sizeof *w->plain);
    if (!w->x || !w->laid || !w->exact || !w->plain)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu outputs", w->outputs);
    for (uint32_t i = 0; i < KEPT; i++)
        w->ids[i] = i;
    for (size_t i = 0; i < LONGEST; i++)
        w->x[i] = sb_rng_normal(sb_rng_key(42, "bench/input"), i);
    w->quantized = w->count && sb_input_scheme(&w->knobs, w->units[0].first) != SB_SCHEME_none;
    return SB_OK;
}

sb_status sb_bench_against_f32(const sb_model *model, const sb_bench_options *options,
                               sb_bench_report *report, sb_error *err)
{
    sb_bench_stream stream = {0};
    sb_status status = sb_bench_stream_new(options->stream_mib, &stream, err);
    report->f32_kernels = sb_f32_select(sb_dot_selected());
    for (unsigned kind = 0; kind < SB_F32_KINDS && !status; kind++) {
        work w = {.kind = (sb_f32_kind)kind};
        sb_knobs_exact(&w.knobs);
        if (options->knobs)
            w.knobs = *options->knobs;
        status = prepare(model, &w, err);
        for (size_t i = 0; i < report->decode_count && w.count && !status; i++) {
            status = run(&w, options, report->decode[i].threads, &stream,
                         &report->versus[report->versus_count], err);
            report->versus_count += !status;
        }
        free(w.units);
        free(w.x);
        free(w.laid);
        free(w.exact);
        free(w.plain);
    }
    sb_bench_stream_free(&stream);
    return status;
}
