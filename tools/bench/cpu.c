#include "tools/bench/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/machine.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"

enum { STREAM_PASSES = 5, FULL_EVERY = 4, PREFILLS = 3 };

/* The measurement with one number of threads. */
typedef struct task {
    const sb_model *model;
    const sb_bench_options *options;
    sb_bench_stream *stream;
    sb_meter *meter;
    sb_session *session;
    float *logits;
    double stream_seen[2 * STREAM_PASSES], token[SB_BENCH_TOKENS], whole[SB_BENCH_TOKENS];
} task;

static uint32_t drawn_token(const task *t, uint64_t i)
{
    return sb_rng_below(sb_rng_key(42, "bench/token"), i, t->model->config.vocab_size);
}

static sb_status feed_drawn(task *t, size_t n, sb_error *err)
{
    uint32_t *tokens = sb_alloc(n, sizeof *tokens);
    if (!tokens)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        tokens[i] = drawn_token(t, i);
    sb_status status = sb_session_feed(t->session, tokens, n, err);
    free(tokens);
    return status;
}

static sb_status one_token(task *t, size_t i, sb_error *err)
{
    uint32_t token = drawn_token(t, 1000003 + i);
    sb_status status = sb_session_feed(t->session, &token, 1, err);
    return status ? status : sb_session_logits(t->session, 0, t->logits, err);
}

/* Feeds a first token and compares its linear layers with the definition. */
static sb_status check_token(task *t, sb_error *err)
{
    const uint64_t before = t->meter->compared; /* with earlier numbers of threads */
    t->meter->checking = 1;
    sb_status status = one_token(t, SB_BENCH_TOKENS, err);
    t->meter->checking = 0;
    if (t->meter->status) { /* reports the meter's message, not the session's */
        *err = t->meter->err;
        return t->meter->status;
    }
    if (!status && t->meter->compared == before)
        status = sb_fail(err, SB_ERR_DIFF, "no output was compared: nothing is timed");
    return status;
}

/* Extrapolates a token to more layers, every fourth with full attention. */
static double whole_token(const task *t, double seconds)
{
    const sb_config *c = &t->model->config;
    const sb_meter *m = t->meter;
    double full = 0, ops = 0, layers = t->options->layers, fulls = layers / (double)FULL_EVERY;
    for (uint32_t i = 0; i < c->layers; i++)
        full += c->layer_is_full[i] != 0;
    double linear = c->layers - full;
    for (size_t i = 0; i < m->count; i++)
        ops += m->rows[i].seconds[m->token];
    double inside = m->in_layers[0] + m->in_layers[1], outside = ops - inside;
    double between = (seconds - ops) / c->layers; /* the search for values that are not finite */
    double of_full = full > 0 ? m->in_layers[1] / full : m->in_layers[0] / linear;
    double of_linear = linear > 0 ? m->in_layers[0] / linear : of_full;
    return outside + fulls * of_full + (layers - fulls) * of_linear + layers * between;
}

static sb_status time_tokens(task *t, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < t->options->tokens + 1 && !status; i++) {
        size_t at = i ? i - 1 : 0; /* the first token wakes threads and is not counted */
        sb_meter_token(t->meter, at);
        double start = sb_bench_now();
        status = one_token(t, i, err);
        t->token[at] = sb_bench_now() - start;
        t->whole[at] = whole_token(t, t->token[at]);
        if (t->options->progress)
            t->options->progress(NULL, "tokens", i, t->options->tokens);
    }
    return status;
}

static sb_status time_prefill(task *t, sb_bench_noise *out, sb_error *err)
{
    double rate[PREFILLS];
    sb_status status = SB_OK;
    size_t n = t->options->prefill;
    for (size_t i = 0; n && i < PREFILLS && !status; i++) {
        sb_session_reset(t->session);
        sb_meter_token(t->meter, 0);
        double start = sb_bench_now();
        status = feed_drawn(t, n, err);
        rate[i] = (double)n / (sb_bench_now() - start);
    }
    if (n && !status)
        *out = sb_bench_noise_of(rate, PREFILLS);
    return status;
}

static void take_lines(const task *t, sb_bench_decode *out)
{
    const sb_meter *m = t->meter;
    for (size_t i = 0; i < m->count; i++) {
        const sb_bench_row *r = &m->rows[i];
        sb_bench_noise seconds = sb_bench_noise_of(r->seconds, t->options->tokens);
        out->bytes += r->bytes;
        out->lines[out->count++] = (sb_bench_line){
            .kind = r->kind,
            .format = r->format,
            .calls = r->calls,
            .bytes = r->bytes,
            .seconds = seconds,
            .share_of_stream =
                seconds.median > 0 ? (double)r->bytes / seconds.median / out->stream.median : 0,
            .tried = r->tried,
            .sent = r->sent,
            .exact = r->exact,
            .integers = r->integers};
    }
}

static void read_stream(task *t, unsigned threads, size_t first)
{
    for (size_t i = 0; i < STREAM_PASSES; i++)
        t->stream_seen[first + i] = sb_bench_stream_pass(t->stream, threads);
}

static sb_status run_threads(task *t, unsigned threads, sb_bench_decode *out, sb_error *err)
{
    sb_status status = SB_OK;
    out->threads = threads;
    sb_threads_set(threads);
    sb_session_reset(t->session);
    read_stream(t, threads, 0);
    if (t->options->context)
        status = feed_drawn(t, t->options->context, err);
    if (!status)
        status = check_token(t, err);
    if (!status)
        status = time_tokens(t, err);
    if (status)
        return status;
    read_stream(t, threads, STREAM_PASSES);
    out->stream = sb_bench_noise_of(t->stream_seen, (size_t)2 * STREAM_PASSES);
    out->token = sb_bench_noise_of(t->token, t->options->tokens);
    out->whole = sb_bench_noise_of(t->whole, t->options->tokens);
    take_lines(t, out);
    return time_prefill(t, &out->prefill, err);
}

/* Reads every page of the checkpoint, so that all are in memory during the timing. *bytes: of all
 * tensors. */
static uint64_t touch(const sb_model *model, uint64_t *bytes)
{
    uint64_t sum = 0;
    const sb_checkpoint *c = model->checkpoint;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        *bytes += t->data ? t->bytes : 0;
        for (uint64_t at = 0; t->data && at < t->bytes; at += 4096)
            sum += t->data[at];
    }
    return sum;
}

static sb_status run_task(task *t, sb_bench_report *report, sb_error *err)
{
    sb_session_options options;
    sb_meter_start(t->meter, t->model, t->options->plant, &options);
    options.knobs = t->options->knobs;
    sb_status status = sb_session_new(t->model, &options, &t->session, err);
    for (size_t i = 0; i < t->options->thread_count && !status; i++) {
        t->meter->count = 0;
        status = run_threads(t, t->options->threads[i], &report->decode[i], err);
        report->decode_count += !status;
    }
    report->compared = t->meter->compared;
    report->peak_bytes = sb_peak_resident();
    report->stream_bytes = t->stream->bytes;
    sb_session_free(t->session);
    return status;
}

sb_status sb_bench_cpu(const sb_model *model, const sb_bench_options *options,
                       sb_bench_report *report, sb_error *err)
{
    const sb_config *c = &model->config;
    sb_bench_stream stream = {0};
    task t = {.model = model, .options = options, .stream = &stream};
    *report = (sb_bench_report){.layers = c->layers};
    for (uint32_t i = 0; i < c->layers; i++)
        report->has_full |= c->layer_is_full[i] != 0;
    t.meter = sb_alloc(1, sizeof *t.meter);
    t.logits = sb_alloc(c->vocab_size, sizeof *t.logits);
    sb_status status =
        t.meter && t.logits ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (!status)
        status = sb_bench_stream_new(options->stream_mib, &stream, err);
    if (!status) {
        stream.sum += (double)touch(model, &report->weight_bytes);
        status = run_task(&t, report, err);
    }
    sb_bench_stream_free(&stream);
    free(t.meter);
    free(t.logits);
    return status;
}
