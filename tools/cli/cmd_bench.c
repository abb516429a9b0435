#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/bench/hogs.h"
#include "tools/bench/made.h"
#include "tools/cli/bench_plan.h"
#include "tools/report/result/bench.h"
#include "tools/cli/bench_step.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/make/make.h"
#include "tools/report/part/document.h"

static const char about[] =
    "Decodes tokens with the reference, one at a time. For every kind of op it prints the share of\n"
    "the memory bandwidth that the op uses; the bandwidth is measured in the same run. Before that,\n"
    "outputs of every linear layer are compared with the definition; if one bit differs, nothing is\n"
    "timed (exit status 1). CKPT is a checkpoint folder. Without it a checkpoint is made in a\n"
    "temporary folder, in $TMPDIR or here, and removed at the end.\n"
    "\n"
    "--worst needs no checkpoint. It makes rows whose sums are hard to round: products of all\n"
    "exponents, products that cancel, sums halfway between two numbers. For every stored format it\n"
    "prints how many times longer they take than rows as in a model, with one input (a step) and\n"
    "with many (a prompt), and how many outputs the first rounding test and the next one leave open.\n"
    "\n"
    "--hogs N only times tokens, beside N processes that never sleep: with the default number of\n"
    "threads and with one thread, in turn. It prints the median of the ratio.";

static const char more[] =
    "example:\n"
    "  samebit bench cpu --preset 35b-a3b --format nvidia-mix --layers 4 --vs f32\n"
    "  samebit bench cpu --worst\n"
    "\n"
    "samebit bench plan: what each command costs for a checkpoint; samebit bench decode | verify |\n"
    "prefill: bytes and multiply-adds of a step, without running it; each has a --help of its own\n";

typedef struct wishes {
    sb_make_options make;
    sb_bench_options bench;
    sb_knobs knobs;
    const char *folder; /* NULL: make one */
    const char *threads, *vs, *profile, *library;
    uint64_t layers, tokens, context, prefill, passes, stream, extrapolate, hogs;
    int worst, as_json;
} wishes;

static int is_one_of(const char *name, const char *const *list)
{
    while (*list && strcmp(name, *list) != 0)
        list++;
    return *list != NULL;
}

/* Refuses options that have no effect. */
static sb_status check_given(const wishes *w, const sb_command_line *line, sb_error *err)
{
    static const char *const makes[] = {"format", "layers", NULL};
    static const char *const not_hogs[] = {"prefill", "threads",   "vs",    "blas", "extrapolate",
                                           "stream",  "self-test", "worst", NULL};
    static const char *const of_worst[] = {"worst", "passes", "self-test", "json", NULL};
    for (size_t i = 0; i < line->opt_count; i++) {
        const char *name = line->opts[i].name;
        if (!(line->given >> i & 1))
            continue;
        if (w->hogs && is_one_of(name, not_hogs))
            return sb_fail(err, SB_ERR_USAGE, "--hogs only times tokens: it excludes --%s", name);
        if (w->worst && !is_one_of(name, of_worst))
            return sb_fail(err, SB_ERR_USAGE, "--worst makes its own rows: it excludes --%s", name);
        if (!w->worst && !w->make.preset && is_one_of(name, makes))
            return sb_fail(err, SB_ERR_USAGE,
                           "--%s applies to --preset; a checkpoint folder is used as it is", name);
    }
    if (w->worst && line->operands > 1)
        return sb_fail(err, SB_ERR_USAGE, "--worst makes its own rows: expected no folder");
    return SB_OK;
}

static sb_status parse(wishes *w, sb_command_line *line, int argc, char **argv, sb_error *err)
{
    const sb_opt opts[] = {
        {"preset", 0, SB_OPT_STRING, &w->make.preset, "P", "make a checkpoint of this shape"},
        {"format", 0, SB_OPT_STRING, &w->make.format, "F", "format of this checkpoint (bf16)"},
        {"layers", 0, SB_OPT_NUMBER, &w->layers, "N", "number of layers of this checkpoint (4)"},
        {"tokens", 0, SB_OPT_NUMBER, &w->tokens, "N", "number of timed tokens (16; at most 256)"},
        {"context", 0, SB_OPT_NUMBER, &w->context, "C", "tokens fed before the timed ones (0)"},
        {"prefill", 0, SB_OPT_NUMBER, &w->prefill, "N", "also time a prompt of N tokens"},
        {"threads", 0, SB_OPT_STRING, &w->threads, "LIST", "numbers of threads: 1,2"},
        {"vs", 0, SB_OPT_STRING, &w->vs, "f32",
         "also time the same matrices with rows added in binary32, in turn"},
        {"blas", 0, SB_OPT_STRING, &w->library, "FILE",
         "also time binary32 and binary64 weights in this OpenBLAS; auto: the system's"},
        {"passes", 0, SB_OPT_NUMBER, &w->passes, "N",
         "passes of --vs, --blas, --worst or --hogs (7; at most 64)"},
        {"profile", 0, SB_OPT_STRING, &w->profile, "P", "exact (default), w4a4, ..."},
        {"extrapolate", 0, SB_OPT_NUMBER, &w->extrapolate, "N",
         "extrapolate to a model of N layers (40)"},
        {"stream", 0, SB_OPT_NUMBER, &w->stream, "MIB",
         "size of the array that measures the memory"},
        {"worst", 0, SB_OPT_FLAG, &w->worst, NULL,
         "compare rows that are hard to round with rows as in a model, for every format"},
        {"hogs", 0, SB_OPT_NUMBER, &w->hogs, "N",
         "time tokens beside N busy processes, with all threads and with one (at most 256)"},
        {"self-test", 0, SB_OPT_FLAG, &w->bench.plant, NULL,
         "change one output: the comparison must find it, and nothing is timed"},
        SB_OPT_JSON(&w->as_json),
    };
    *line = (sb_command_line){.usage = "bench cpu (CKPT | --preset P | --worst) [options]",
                              .about = about,
                              .opts = opts,
                              .opt_count = sizeof opts / sizeof *opts,
                              .more = more,
                              .max_operands = 2};
    sb_status status = sb_parse(line, argc, argv, err);
    return status || line->helped ? status : check_given(w, line, err);
}

static sb_status in_range(const char *name, uint64_t value, uint64_t least, uint64_t most,
                          sb_error *err)
{
    if (value >= least && value <= most)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "--%s is %llu; expected %llu to %llu", name,
                   (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
}

/* "1,2,4" */
static sb_status parse_threads(wishes *w, sb_error *err)
{
    const char *at = w->threads;
    for (;;) {
        char number[8] = "";
        size_t n = strcspn(at, ",");
        uint64_t value;
        if (n < sizeof number)
            memcpy(number, at, n);
        if (!sb_parse_u64(number, &value) || value < 1 || value > 1024 ||
            w->bench.thread_count == SB_BENCH_THREADS)
            return sb_fail(err, SB_ERR_USAGE,
                           "--threads '%s': expected at most %d numbers from 1 to 1024, as in 1,2",
                           SB_SHOW(w->threads), (int)SB_BENCH_THREADS);
        w->bench.threads[w->bench.thread_count++] = (unsigned)value;
        if (!at[n])
            return SB_OK;
        at += n + 1;
    }
}

static sb_status check_numbers(wishes *w, sb_error *err)
{
    sb_status status = in_range("layers", w->layers, 1, 1024, err);
    if (!status)
        status = in_range("tokens", w->tokens, 1, SB_BENCH_TOKENS, err);
    if (!status)
        status = in_range("context", w->context, 0, 1 << 20, err);
    if (!status)
        status = in_range("prefill", w->prefill, 0, 1 << 16, err);
    if (!status)
        status = in_range("passes", w->passes, 1, SB_BENCH_PASSES, err);
    if (!status)
        status = in_range("hogs", w->hogs, 0, SB_HOGS_MOST, err);
    if (!status)
        status = in_range("extrapolate", w->extrapolate, 1, 4096, err);
    return status ? status : in_range("stream", w->stream, 0, 1 << 20, err);
}

static sb_status check(wishes *w, const sb_command_line *line, sb_error *err)
{
    if (line->operands == 0 || strcmp(line->operand[0], "cpu") != 0)
        return sb_fail(err, SB_ERR_USAGE,
                       "expected what to measure: cpu, plan, decode, verify or prefill");
    w->folder = line->operands > 1 ? line->operand[1] : NULL;
    if (!w->worst && !w->folder == !w->make.preset)
        return sb_fail(err, SB_ERR_USAGE, "expected a checkpoint folder or --preset");
    if (w->vs && strcmp(w->vs, "f32") != 0)
        return sb_fail(err, SB_ERR_USAGE, "--vs '%s': expected f32", SB_SHOW(w->vs));
    sb_status status = check_numbers(w, err);
    if (!status)
        status = parse_threads(w, err);
    if (!status)
        status = sb_knobs_profile(&w->knobs, w->profile, err);
    w->make.layers = (unsigned)w->layers;
    w->bench.knobs = &w->knobs;
    w->bench.tokens = (size_t)w->tokens;
    w->bench.context = (size_t)w->context;
    w->bench.prefill = (size_t)w->prefill;
    w->bench.passes = (size_t)w->passes;
    w->bench.stream_mib = (size_t)w->stream;
    w->bench.layers = (unsigned)w->extrapolate;
    return status;
}

/* Makes a checkpoint in a temporary folder. The folder exists if path is not "", also after a
 * failure. */
static sb_status make(wishes *w, char path[SB_BENCH_PATH], sb_error *err)
{
    sb_status status = sb_bench_made_new(path, err);
    if (status) {
        *path = '\0';
        return status;
    }
    w->make.dir = path;
    w->make.replace = 1;
    w->make.no_mtp = 1;
    w->make.recipe = "plain";
    w->make.progress = sb_progress_bytes;
    return sb_make(&w->make, err);
}

static sb_status measure_model(const wishes *w, const char *folder, sb_bench_report *report,
                               sb_error *err)
{
    sb_model *model = NULL;
    sb_status status = sb_model_open(folder, &model, err);
    if (!status)
        status = sb_bench_cpu(model, &w->bench, report, err);
    if (!status && w->vs)
        status = sb_bench_against_f32(model, &w->bench, report, err);
    if (!status && w->library)
        status = sb_bench_against_blas(
            model, &w->bench, strcmp(w->library, "auto") == 0 ? NULL : w->library, report, err);
    sb_model_close(model);
    return status;
}

static sb_status print(const wishes *w, const sb_bench_report *report, sb_error *err)
{
    if (!w->as_json) {
        sb_bench_print(report, &w->bench);
        return SB_OK;
    }
    json_t *document = sb_document("bench");
    SB_PUT(document, "what", "cpu");
    if (w->folder)
        SB_PUT(document, "folder", w->folder);
    else {
        SB_PUT(document, "preset", w->make.preset);
        SB_PUT(document, "format", w->make.format);
    }
    SB_PUT(document, "profile", w->profile);
    sb_bench_json(report, &w->bench, document);
    return sb_print_document(document, err);
}

static sb_status run_worst(const wishes *w, sb_error *err)
{
    sb_worst_report *report = sb_alloc(1, sizeof *report);
    if (!report)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a report");
    sb_status status = sb_bench_worst(w->bench.passes, w->bench.plant, sb_progress, report, err);
    if (!status && !w->as_json)
        sb_bench_print_worst(report, &w->bench);
    if (!status && w->as_json) {
        json_t *document = sb_document("bench");
        SB_PUT(document, "what", "cpu");
        sb_bench_json_worst(report, &w->bench, document);
        status = sb_print_document(document, err);
    }
    free(report);
    return status;
}

static sb_status beside_hogs(const wishes *w, const char *folder, sb_error *err)
{
    sb_model *model = NULL;
    sb_hogs_report report;
    sb_status status = sb_model_open(folder, &model, err);
    if (!status)
        status = sb_bench_hogs(model, &w->bench, (size_t)w->hogs, &report, err);
    sb_model_close(model);
    if (!status && !w->as_json)
        sb_bench_print_hogs(&report);
    if (status || !w->as_json)
        return status;
    json_t *document = sb_document("bench");
    SB_PUT(document, "what", "cpu");
    sb_bench_json_hogs(&report, document);
    return sb_print_document(document, err);
}

static sb_status run_checkpoint(wishes *w, sb_error *err)
{
    static char made[SB_BENCH_PATH]; /* static: a thread may read it until the process ends */
    sb_status status = SB_OK;
    sb_bench_report *report = sb_alloc(1, sizeof *report);
    if (!report)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a report");
    w->bench.progress = sb_progress;
    if (!w->folder)
        status = make(w, made, err);
    if (!status && w->hogs)
        status = beside_hogs(w, w->folder ? w->folder : made, err);
    else if (!status)
        status = measure_model(w, w->folder ? w->folder : made, report, err);
    if (*made)
        sb_bench_made_remove(made);
    if (!status && !w->hogs)
        status = print(w, report, err);
    free(report);
    return status;
}

sb_status sb_cmd_bench(int argc, char **argv, sb_error *err)
{
    wishes w = {.make = {.format = "bf16", .layout = "text", .storage = "qwen3.6", .seed = 42},
                .layers = 4,
                .tokens = 16,
                .passes = 7,
                .extrapolate = 40,
                .threads = "1,2",
                .profile = "exact"};
    sb_command_line line;
    if (argc > 1 && strcmp(argv[1], "plan") == 0)
        return sb_bench_plan(argc - 1, argv + 1, err);
    if (argc > 1 && sb_is_bench_step(argv[1]))
        return sb_bench_step(argc - 1, argv + 1, err);
    sb_status status = parse(&w, &line, argc, argv, err);
    if (status || line.helped)
        return status;
    status = check(&w, &line, err);
    if (status)
        return status;
    return w.worst ? run_worst(&w, err) : run_checkpoint(&w, err);
}
