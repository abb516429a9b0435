#include "tools/report/result/bench.h"

#include <stdio.h>

#include "ref/fast/dot/dot.h"
#include "tools/report/part/document.h"

static double rate(uint64_t part, uint64_t of)
{
    return of ? (double)part / (double)of : 0;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_line(const sb_bench_line *l, double token)
{
    printf("  %-22s %-14s %6llu %10.3f %5.1f%%", sb_bench_kind_name(l->kind), l->format,
           (unsigned long long)l->calls, 1e3 * l->seconds.median, 100 * l->seconds.median / token);
    if (l->bytes)
        printf(" %9.2f %8.2f %6.2f", 1e-6 * (double)l->bytes,
               1e-9 * (double)l->bytes / l->seconds.median, l->share_of_stream);
    else
        printf(" %9s %8s %6s", "", "", "");
    if (l->tried)
        printf(" %9.1e %9.1e", rate(l->sent, l->tried), rate(l->exact, l->tried));
    else if (l->integers)
        printf(" %9s", "integers");
    printf("\n");
}

static void print_decode(const sb_bench_decode *d, const sb_bench_report *r,
                         const sb_bench_options *o)
{
    printf("\n%u thread%s; memory is read at %.1f GB/s (%.1f to %.1f)\n", d->threads,
           d->threads == 1 ? "" : "s", 1e-9 * d->stream.median, 1e-9 * d->stream.least,
           1e-9 * d->stream.most);
    printf("  %-22s %-14s %6s %10s %6s %9s %8s %6s %9s %9s\n", "op", "weights", "calls", "ms",
           "time", "MB", "GB/s", "share", "fallback", "exact");
    for (size_t i = 0; i < d->count; i++)
        print_line(&d->lines[i], d->token.median);
    double gb = (double)d->bytes / d->token.median;
    printf(
        "  token of %u layers: %.3f ms (%.3f to %.3f), %.2f tokens/s, %.1f MB, %.2f GB/s, %.2f of the stream\n",
        r->layers, 1e3 * d->token.median, 1e3 * d->token.least, 1e3 * d->token.most,
        1 / d->token.median, 1e-6 * (double)d->bytes, 1e-9 * gb, gb / d->stream.median);
    printf("  token of %u layers, extrapolated%s: %.1f ms, %.2f tokens/s\n", o->layers,
           r->has_full ? "" : " without a full attention layer", 1e3 * d->whole.median,
           1 / d->whole.median);
    if (o->prefill)
        printf("  prompt of %zu tokens: %.1f tokens/s (%.1f to %.1f), %.2f times those of decode\n",
               o->prefill, d->prefill.median, d->prefill.least, d->prefill.most,
               d->prefill.median * d->token.median);
}

static void print_versus(const sb_bench_report *r)
{
    if (r->versus_count)
        printf(
            "\n"
            "compared with rows in binary32 (%s): exact_over_f32 is the reference's speed / their speed\n",
            r->f32_kernels);
    for (size_t i = 0; i < r->versus_count; i++) {
        const sb_bench_versus *v = &r->versus[i];
        printf("  %-6s%s %u thread%s %8.1f MB%s  exact_over_f32 %.2f (%.2f to %.2f; of "
               "processors %.2f)  exact %.2f GB/s (%.2f of stream), f32 %.2f GB/s (%.2f)\n",
               sb_f32_kind_name(v->kind), v->quantized_input ? ", input quantized," : "",
               v->threads, v->threads == 1 ? " " : "s", 1e-6 * (double)v->bytes,
               v->bytes < 1u << 26 ? " (in cache)" : "", v->ratio.median, v->ratio.least,
               v->ratio.most, v->cpu_ratio.median, 1e-9 * (double)v->bytes / v->exact.median,
               v->exact_share, 1e-9 * (double)v->bytes / v->plain.median, v->plain_share);
    }
}

static void print_blas(const sb_bench_report *r, const sb_bench_options *o)
{
    if (r->blas_count)
        printf("\nweights as binary32 and binary64 in OpenBLAS\n");
    for (size_t i = 0; i < r->blas_count; i++) {
        const sb_bench_blas *b = &r->blas[i];
        const sb_bench_decode *d = &r->decode[i];
        printf("  %u thread%s: sgemv %.2f GB/s (%.2f G weights/s), dgemv %.2f GB/s (%.2f)\n",
               b->threads, b->threads == 1 ? "" : "s", 1e-9 * b->sgemv.median,
               0.25e-9 * b->sgemv.median, 1e-9 * b->dgemv.median, 0.125e-9 * b->dgemv.median);
        if (o->prefill)
            printf(
                "  %u thread%s: sgemm of the layers of a prompt of %zu: %.3f s; the whole prompt took %.2f times that\n",
                b->threads, b->threads == 1 ? "" : "s", o->prefill, b->sgemm.median,
                (double)o->prefill / d->prefill.median / b->sgemm.median);
    }
}

void sb_bench_print(const sb_bench_report *r, const sb_bench_options *o)
{
    printf("kernels %s; %llu outputs equal to the definition; medians of %zu tokens after %zu\n",
           sb_dot_selected(), (unsigned long long)r->compared, o->tokens, o->context);
    for (size_t i = 0; i < r->decode_count; i++)
        print_decode(&r->decode[i], r, o);
    for (size_t i = 1; i < r->decode_count; i++)
        printf("\n%u threads are %.2f times as fast as %u\n", r->decode[i].threads,
               r->decode[0].token.median / r->decode[i].token.median, r->decode[0].threads);
    printf(
        "\npeak resident set %.3f GB: weights %.3f GB, the array that is read %.3f GB, the rest\n",
        1e-9 * (double)r->peak_bytes, 1e-9 * (double)r->weight_bytes,
        1e-9 * (double)r->stream_bytes);
    print_versus(r);
    print_blas(r, o);
}

/* A table of hard rows: one line per format, one column per family. */
static void print_families(const char *title)
{
    printf("\n%s\n  %-10s", title, "weights");
    for (sb_worst_family f = 0; f < SB_WORST_COUNT; f++)
        printf(" %9s", sb_worst_family_name(f));
    printf("\n");
}

static void print_times(const sb_worst_report *r, int prompt)
{
    for (size_t i = 0; i < r->count; i++) {
        const sb_worst_line *l = &r->lines[i];
        if (l->family == SB_WORST_normal)
            printf("  %-10s %6.3f ns", l->format,
                   1e9 * (prompt ? l->prompt.median : l->step.median));
        else
            printf(" %9.1f", prompt ? l->prompt_times.median : l->step_times.median);
        if (l->family == SB_WORST_COUNT - 1)
            printf("\n");
    }
}

static void print_open(const sb_worst_report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const sb_worst_line *l = &r->lines[i];
        char text[32];
        snprintf(text, sizeof text, "%llu, %llu", (unsigned long long)l->sent,
                 (unsigned long long)l->exact);
        if (l->family == SB_WORST_normal)
            printf("  %-10s", l->format);
        printf(" %9s", l->tried ? text : "");
        if (l->family == SB_WORST_COUNT - 1)
            printf("\n");
    }
}

void sb_bench_print_worst(const sb_worst_report *r, const sb_bench_options *o)
{
    char title[160];
    printf("kernels %s; %llu outputs equal to the definition; medians of %zu passes, 1 thread\n",
           sb_dot_selected(), (unsigned long long)r->compared, o->passes);
    for (sb_worst_family f = 0; f < SB_WORST_COUNT; f++)
        printf("  %-8s %s\n", sb_worst_family_name(f), sb_worst_family_help(f));
    print_families("one input: time per weight with normal data, then how many times longer");
    print_times(r, 0);
    snprintf(title, sizeof title, "%d inputs at once: the same, per weight and input",
             (int)SB_WORST_INPUTS);
    print_families(title);
    print_times(r, 1);
    snprintf(title, sizeof title,
             "of %d outputs, one input: left open by the first rounding test, and by the next one",
             (int)SB_WORST_ROWS);
    print_families(title);
    print_open(r);
    const sb_worst_line *step = sb_worst_of_steps(r), *prompt = sb_worst_of_prompts(r);
    printf("\nat most %.1f times normal data with one input (%s, %s), %.1f with %d (%s, %s)\n",
           step->step_times.median, step->format, sb_worst_family_name(step->family),
           prompt->prompt_times.median, (int)SB_WORST_INPUTS, prompt->format,
           sb_worst_family_name(prompt->family));
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *noise(sb_bench_noise n)
{
    json_t *out = json_object();
    SB_PUT(out, "median", n.median);
    SB_PUT(out, "least", n.least);
    SB_PUT(out, "most", n.most);
    return out;
}

static json_t *line_json(const sb_bench_line *l)
{
    json_t *o = json_object();
    SB_PUT(o, "op", sb_bench_kind_name(l->kind));
    SB_PUT(o, "weights", l->format);
    SB_PUT(o, "calls", l->calls);
    SB_PUT(o, "bytes", l->bytes);
    SB_PUT(o, "seconds", noise(l->seconds));
    if (l->bytes && l->seconds.median > 0) {
        SB_PUT(o, "gb_per_s", 1e-9 * (double)l->bytes / l->seconds.median);
        SB_PUT(o, "share_of_stream", l->share_of_stream);
    }
    if (l->tried) {
        SB_PUT(o, "outputs_tried", l->tried);
        SB_PUT(o, "fallback_rate", rate(l->sent, l->tried));
        SB_PUT(o, "exact_rate", rate(l->exact, l->tried));
    }
    if (l->integers)
        SB_PUT(o, "outputs_of_integers", l->integers);
    return o;
}

static json_t *decode_json(const sb_bench_decode *d, const sb_bench_options *o)
{
    uint64_t tried = 0, sent = 0, exact = 0, integers = 0;
    json_t *ops = json_array();
    for (size_t i = 0; i < d->count; i++) {
        SB_ADD(ops, line_json(&d->lines[i]));
        tried += d->lines[i].tried;
        sent += d->lines[i].sent;
        exact += d->lines[i].exact;
        integers += d->lines[i].integers;
    }
    json_t *out = json_object();
    SB_PUT(out, "threads", d->threads);
    SB_PUT(out, "stream_bytes_per_s", noise(d->stream));
    SB_PUT(out, "token_seconds", noise(d->token));
    SB_PUT(out, "bytes", d->bytes);
    SB_PUT(out, "gb_per_s", 1e-9 * (double)d->bytes / d->token.median);
    SB_PUT(out, "share_of_stream", (double)d->bytes / d->token.median / d->stream.median);
    SB_PUT(out, "tokens_per_s", 1 / d->token.median);
    SB_PUT(out, "tokens_per_s_extrapolated", 1 / d->whole.median);
    SB_PUT(out, "outputs_tried", tried);
    SB_PUT(out, "outputs_of_integers", integers);
    SB_PUT(out, "fallback_rate", rate(sent, tried));
    SB_PUT(out, "exact_rate", rate(exact, tried));
    SB_PUT(out, "ops", ops);
    if (o->prefill) {
        SB_PUT(out, "prefill_tokens_per_s", noise(d->prefill));
        SB_PUT(out, "prefill_over_decode", d->prefill.median * d->token.median);
    }
    return out;
}

static json_t *versus_json(const sb_bench_versus *v)
{
    json_t *out = json_object();
    SB_PUT(out, "format", sb_f32_kind_name(v->kind));
    SB_PUT(out, "input_quantized", json_boolean(v->quantized_input));
    SB_PUT(out, "threads", v->threads);
    SB_PUT(out, "bytes", v->bytes);
    SB_PUT(out, "ratio", noise(v->ratio));
    SB_PUT(out, "cpu_ratio", noise(v->cpu_ratio));
    SB_PUT(out, "exact_gb_per_s", 1e-9 * (double)v->bytes / v->exact.median);
    SB_PUT(out, "f32_gb_per_s", 1e-9 * (double)v->bytes / v->plain.median);
    SB_PUT(out, "exact_share_of_stream", v->exact_share);
    SB_PUT(out, "f32_share_of_stream", v->plain_share);
    return out;
}

/* Adds the ratios of each format with the most threads. */
static void put_ratios(const sb_bench_report *r, json_t *document)
{
    json_t *list = json_array(), *ratios = json_object();
    for (size_t i = 0; i < r->versus_count; i++) {
        SB_ADD(list, versus_json(&r->versus[i]));
        SB_PUT(ratios, sb_f32_kind_name(r->versus[i].kind), r->versus[i].ratio.median);
    }
    SB_PUT(document, "f32_kernels", r->f32_kernels);
    SB_PUT(document, "exact_over_f32", ratios);
    SB_PUT(document, "versus", list);
}

static json_t *blas_json(const sb_bench_report *r, const sb_bench_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->blas_count; i++) {
        const sb_bench_blas *b = &r->blas[i];
        json_t *one = json_object();
        SB_PUT(one, "threads", b->threads);
        SB_PUT(one, "sgemv_bytes_per_s", noise(b->sgemv));
        SB_PUT(one, "dgemv_bytes_per_s", noise(b->dgemv));
        if (o->prefill) {
            SB_PUT(one, "sgemm_seconds", noise(b->sgemm));
            SB_PUT(one, "prefill_over_sgemm",
                   (double)o->prefill / r->decode[i].prefill.median / b->sgemm.median);
        }
        SB_ADD(list, one);
    }
    return list;
}

void sb_bench_json(const sb_bench_report *r, const sb_bench_options *o, json_t *document)
{
    json_t *runs = json_array();
    for (size_t i = 0; i < r->decode_count; i++)
        SB_ADD(runs, decode_json(&r->decode[i], o));
    SB_PUT(document, "kernels", sb_dot_selected());
    SB_PUT(document, "compared", r->compared);
    SB_PUT(document, "layers", r->layers);
    SB_PUT(document, "tokens", o->tokens);
    SB_PUT(document, "context", o->context);
    SB_PUT(document, "prefill", o->prefill);
    SB_PUT(document, "extrapolated_to_layers", o->layers);
    SB_PUT(document, "peak_bytes", r->peak_bytes);
    SB_PUT(document, "weight_bytes", r->weight_bytes);
    SB_PUT(document, "stream_array_bytes", r->stream_bytes);
    SB_PUT(document, "runs", runs);
    if (r->decode_count > 1)
        SB_PUT(document, "scaling",
               r->decode[0].token.median / r->decode[r->decode_count - 1].token.median);
    if (r->versus_count)
        put_ratios(r, document);
    if (r->blas_count)
        SB_PUT(document, "blas", blas_json(r, o));
}

void sb_bench_json_worst(const sb_worst_report *r, const sb_bench_options *o, json_t *document)
{
    json_t *list = json_array();
    for (size_t i = 0; i < r->count; i++) {
        const sb_worst_line *l = &r->lines[i];
        json_t *one = json_object();
        SB_PUT(one, "weights", l->format);
        SB_PUT(one, "family", sb_worst_family_name(l->family));
        SB_PUT(one, "seconds_per_weight", noise(l->step));
        SB_PUT(one, "times_normal", noise(l->step_times));
        SB_PUT(one, "prompt_seconds_per_weight", noise(l->prompt));
        SB_PUT(one, "prompt_times_normal", noise(l->prompt_times));
        if (l->tried) {
            SB_PUT(one, "outputs_tried", l->tried);
            SB_PUT(one, "fallback_rate", rate(l->sent, l->tried));
            SB_PUT(one, "exact_rate", rate(l->exact, l->tried));
        }
        SB_ADD(list, one);
    }
    SB_PUT(document, "kernels", sb_dot_selected());
    SB_PUT(document, "compared", r->compared);
    SB_PUT(document, "passes", o->passes);
    SB_PUT(document, "rows", SB_WORST_ROWS);
    SB_PUT(document, "columns", SB_WORST_COLS);
    SB_PUT(document, "prompt", SB_WORST_INPUTS);
    SB_PUT(document, "most_times_normal", sb_worst_of_steps(r)->step_times.median);
    SB_PUT(document, "most_prompt_times_normal", sb_worst_of_prompts(r)->prompt_times.median);
    SB_PUT(document, "worst", list);
}

/* --- on a busy machine ------------------------------------------------------------------------ */

void sb_bench_print_hogs(const sb_hogs_report *r)
{
    printf("beside %zu busy process%s, %zu pairs in turn:\n", r->hogs, r->hogs == 1 ? "" : "es",
           r->passes);
    printf("  a token on %zu thread%s: %.3f ms (%.3f to %.3f)\n", r->threads,
           r->threads == 1 ? "" : "s", 1e3 * r->many.median, 1e3 * r->many.least,
           1e3 * r->many.most);
    printf("  a token on 1 thread: %.3f ms (%.3f to %.3f)\n", 1e3 * r->one.median,
           1e3 * r->one.least, 1e3 * r->one.most);
    printf("  ratio: %.3f (%.3f to %.3f)\n", r->ratio.median, r->ratio.least, r->ratio.most);
}

void sb_bench_json_hogs(const sb_hogs_report *r, json_t *document)
{
    SB_PUT(document, "hogs", r->hogs);
    SB_PUT(document, "threads", r->threads);
    SB_PUT(document, "passes", r->passes);
    SB_PUT(document, "token_seconds", noise(r->many));
    SB_PUT(document, "token_seconds_of_one_thread", noise(r->one));
    SB_PUT(document, "ratio", noise(r->ratio));
}
