#include "tools/cli/bench_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "ref/ops/knobs.h"
#include "tools/bench/moves_kernels.h"
#include "tools/cli/bench_device.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/report/part/document.h"

enum { MOST_DRAFTS = 64, MOST_ROWS = 1 << 20, WARM = 3, PASSES = 15, LOOKS = 5 };

typedef enum kind { DECODE, VERIFY, PREFILL, KINDS } kind;
static const char *const kinds[KINDS] = {"decode", "verify", "prefill"};
static const char *const units[KINDS] = {"tokens", "rows", "tokens"};

/* The parts of a round besides the call of all layers. */
enum { ENTRIES, DRAFT, ACCEPTED, HEADS };
static const struct {
    sb_moves_part part;
    const char *id, *title;
} heads[HEADS] = {
    {SB_MOVES_ENTRIES, "entries", "keys and values of the rows in the MTP head"},
    {SB_MOVES_DRAFT, "draft", "one draft of the MTP head"},
    {SB_MOVES_ACCEPTED, "accept", "accepting the drafts"},
};

typedef struct request {
    kind kind;
    const char *preset, *recipe, *bandwidth, *latency, *accept, *kv, *backend, *profile;
    uint64_t context, draft, rows, layers, seed;
    int json;
    double seconds; /* of a phase */
    const sb_moves_recipe *of;
    sb_knobs knobs;    /* of the profile */
    const char *words; /* description of the profile */
    sb_floor_options options;
    sb_moves_model model;
    sb_moves step;
    sb_moves_kernels kernels;
    sb_moves_kernels head[HEADS]; /* for verify: kernels of the MTP head */
    uint32_t width;
    sb_moves_round round[MOST_DRAFTS]; /* of i + 1 drafts */
    int measured;                      /* 1: `report` is filled in; 0: `why` has the reason */
    sb_device_report report;
    sb_error why;
} request;

static const char about[] =
    "Prints the ledger of one step: for each op the bytes that memory must move and the\n"
    "multiply-adds, and the highest speed of a machine with this memory rate and launch latency.\n"
    "It is calculated from the shapes of a preset: without --backend no weight is made, nothing\n"
    "runs and nothing is measured (docs/ledger.md). verify also prints the cost of a round of\n"
    "speculation in plain steps, and the lowest acceptance at which it pays.\n"
    "\n"
    "With --backend gpu the step is run (docs/bench-gpu.md). Its weights are drawn on the device\n"
    "from a seed, so no checkpoint is needed. The card's rates are measured in the same run, and\n"
    "each op is shown with its time and its bytes. Without a device the ledger is printed, and\n"
    "each missing part is SKIPPED by name. With --backend emu everything runs without times, on a\n"
    "small preset (T1 to T6).";

static const char more[] = "example:\n"
                           "  samebit bench verify --preset 35b-a3b --recipe nvfp4-all --draft 3\n"
                           "  samebit bench decode --preset 35b-a3b --backend gpu --context 4096\n";

/* B-14: "The output says where each number comes from" */
static const char *const origins[] = {
    "weights: the tensors that samebit make plans; for experts, the expected number of different "
    "ones",
    "kept: state, convolution, keys and values, read and written",
    "activations: 2 bytes per value in and out; a cache may hold them, so no sum includes them",
    "rate: 255 GB/s is the best reported read rate of a GB10's memory; other reports have 231 to "
    "234",
    "latency: 2.3 us is the reported time between two kernels on a GB10, without graphs",
    "phases: calls of samebit's ops that wait for the call before; fused kernels have fewer",
    "kernels: those of the profile, as a resident step starts them, up to 9 rows fused; none was "
    "run",
    "again: bytes that blocks read a further time; a cache may serve them, so no sum includes them",
};
enum { ORIGINS = sizeof origins / sizeof *origins };

static const char no_device[] = "no device: nothing was measured";
static const char skipped[] = "time, GB/s and share of the floor of each kernel; rates of the card";

int sb_is_bench_step(const char *word)
{
    for (unsigned i = 0; i < KINDS; i++)
        if (strcmp(word, kinds[i]) == 0)
            return 1;
    return 0;
}

/* --- options ---------------------------------------------------------------------------------- */

static sb_status check_range(const char *option, uint64_t value, uint64_t least, uint64_t most,
                             sb_error *err)
{
    if (value >= least && value <= most)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "--%s is %" PRIu64 "; expected %" PRIu64 " to %" PRIu64,
                   option, value, least, most);
}

/* Refuses options that have no effect. */
static sb_status check_given(const request *r, const sb_command_line *line, sb_error *err)
{
    for (size_t i = 0; i < line->opt_count; i++) {
        const char *name = line->opts[i].name;
        int drafts = strcmp(name, "draft") == 0 || strcmp(name, "accept") == 0;
        if (!(line->given >> i & 1))
            continue;
        if (strcmp(name, "seed") == 0 && !r->backend)
            return sb_fail(err, SB_ERR_USAGE, "--seed needs --backend");
        if ((drafts && r->kind != VERIFY) || (strcmp(name, "rows") == 0 && r->kind != PREFILL))
            return sb_fail(err, SB_ERR_USAGE, "--%s is an option of bench %s, not of bench %s",
                           name, kinds[drafts ? VERIFY : PREFILL], kinds[r->kind]);
    }
    return r->preset ? SB_OK
                     : sb_fail(err, SB_ERR_USAGE, "--preset is missing: the shape of the model");
}

static sb_status read_numbers(request *r, sb_error *err)
{
    sb_floor_options *o = &r->options;
    sb_status status = check_range("context", r->context, 0, UINT32_MAX, err);
    if (!status)
        status = check_range("draft", r->draft, 1, MOST_DRAFTS, err);
    if (!status)
        status = check_range("rows", r->rows, 1, MOST_ROWS, err);
    if (!status)
        status = check_range("layers", r->layers, 0, SB_MAX_LAYERS, err);
    if (!status && r->backend && r->kind == VERIFY)
        status = check_range("draft", r->draft, 1, SB_DEVICE_DRAFTS, err);
    if (!status)
        status = sb_opt_decimal("bandwidth", r->bandwidth, 0.001, 1e6, &o->bandwidth, err);
    if (!status)
        status = sb_opt_decimal("latency", r->latency, 0, 1e6, &r->seconds, err);
    if (!status)
        status = sb_opt_decimal("accept", r->accept, 0, 1, &o->accept, err);
    o->bandwidth *= 1e9;
    r->seconds *= 1e-6;
    o->context = r->context;
    o->draft = r->kind == VERIFY ? (uint32_t)r->draft : 0;
    o->state_bytes = 4;
    r->width = r->kind == DECODE ? 1 : r->kind == VERIFY ? o->draft + 1 : (uint32_t)r->rows;
    return status;
}

/* B-16: "`sm121`, `sm121-w8a8` or `sm121-w4a4`" */
static sb_status read_profile(request *r, sb_error *err)
{
    for (size_t i = 0; i < sb_profile_count(); i++) {
        const char *name = sb_profile_name(i);
        if (strncmp(name, "sm121", 5) != 0 || strcmp(name, r->profile) != 0)
            continue;
        r->words = sb_profile_help(i);
        return sb_knobs_profile(&r->knobs, name, err);
    }
    return sb_fail(
        err, SB_ERR_USAGE,
        "--profile is '%s', expected sm121, sm121-w8a8 or sm121-w4a4, the profiles of the kernels",
        SB_SHOW(r->profile));
}

static sb_status read_names(request *r, sb_error *err)
{
    sb_status status = sb_moves_recipe_find(r->recipe, &r->of, err);
    if (!status)
        status = read_profile(r, err);
    if (status)
        return status;
    r->options.kv_bytes = r->of->kv_bytes;
    if (!r->kv)
        return SB_OK;
    r->options.kv_bytes = strcmp(r->kv, "fp8") == 0 ? 1 : 2;
    if (strcmp(r->kv, "fp8") != 0 && strcmp(r->kv, "bf16") != 0)
        return sb_fail(err, SB_ERR_USAGE, "--kv is '%s', expected bf16 or fp8", SB_SHOW(r->kv));
    return SB_OK;
}

static sb_status parse(request *r, sb_command_line *line, int argc, char **argv, sb_error *err)
{
    const sb_opt opts[] = {
        {"preset", 0, SB_OPT_STRING, &r->preset, "P",
         "shape of the model: 35b-a3b, 122b-a10b, ..."},
        {"recipe", 0, SB_OPT_STRING, &r->recipe, "R",
         "formats of the weights: nvidia-mix (default), nvfp4-all, fp8, bf16"},
        {"context", 0, SB_OPT_NUMBER, &r->context, "N", "tokens in the cache before the step (0)"},
        {"draft", 0, SB_OPT_NUMBER, &r->draft, "K", "verify: drafts per round (3)"},
        {"accept", 0, SB_OPT_STRING, &r->accept, "a",
         "verify: probability that a draft is accepted if the drafts before it were (0.6)"},
        {"rows", 0, SB_OPT_NUMBER, &r->rows, "T", "prefill: tokens of the prompt (4096)"},
        {"bandwidth", 0, SB_OPT_STRING, &r->bandwidth, "GBs",
         "read rate of the memory, in 10^9 bytes per second (255)"},
        {"latency", 0, SB_OPT_STRING, &r->latency, "US",
         "microseconds from one phase to the next (2.3)"},
        {"layers", 0, SB_OPT_NUMBER, &r->layers, "N", "number of layers, instead of the preset's"},
        {"backend", 0, SB_OPT_INPUT, &r->backend, "gpu|emu", "also run the step on this backend"},
        {"profile", 0, SB_OPT_STRING, &r->profile, "P",
         "profile of the kernels: sm121 (default), or with quantized inputs sm121-w8a8, "
         "sm121-w4a4"},
        {"seed", 0, SB_OPT_NUMBER, &r->seed, "N",
         "seed of the weights and tokens for --backend (42)"},
        {"kv", 0, SB_OPT_STRING, &r->kv, "bf16|fp8",
         "type of keys and values, instead of the recipe's"},
        SB_OPT_JSON(&r->json),
    };
    char usage[64];
    snprintf(usage, sizeof usage, "bench %s --preset P [options]", kinds[r->kind]);
    *line = (sb_command_line){.usage = usage,
                              .about = about,
                              .opts = opts,
                              .opt_count = sizeof opts / sizeof *opts,
                              .more = more};
    sb_status status = sb_parse(line, argc, argv, err);
    if (status || line->helped)
        return status;
    status = check_given(r, line, err);
    if (!status)
        status = read_numbers(r, err);
    return status ? status : read_names(r, err);
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_row(const char *title, const sb_moves_row *row, double all)
{
    printf("  %-27s %5" PRIu32 " %6" PRIu32 " %14.0f %12.0f %6.2f %% %13.0f %16.0f\n", title,
           row->calls, row->phases, row->weights, row->kept, 100 * sb_moves_bytes(row) / all,
           row->activations, row->macs);
}

static void print_table(const sb_moves *step)
{
    double all = sb_moves_bytes(&step->total);
    printf("  %-27s %5s %6s %14s %12s %8s %13s %16s\n", "op", "calls", "phases", "weights", "kept",
           "share", "activations", "multiply-adds");
    for (unsigned i = 0; i < SB_MOVES_OPS; i++)
        if (step->row[i].calls)
            print_row(sb_moves_op_title((sb_moves_op)i), &step->row[i], all);
    print_row("the step", &step->total, all);
}

/* B-16: "The weights are those of B-11 plus what packing adds" */
static void print_packing(const request *r)
{
    const sb_moves_kernels *k = &r->kernels;
    printf(
        "packing: kernels read %.0f bytes of weights, %.0f more than the checkpoint has: %.2f %%\n",
        k->total.weights, k->total.weights - k->stored,
        100 * (k->total.weights - k->stored) / k->stored);
}

static void print_kernel(const sb_moves_kernel *k, const char *op, const char *kernel, int width,
                         double all)
{
    printf("  %-27s %-*s %8" PRIu32 " %14.0f %12.0f %6.2f %% %13.0f %14.0f\n", op, width, kernel,
           k->launches, k->weights, k->kept, all > 0 ? 100 * (k->weights + k->kept) / all : 0,
           k->activations, k->again);
}

static void print_kernels(const sb_moves_kernels *k, const char *all_of)
{
    double all = k->total.weights + k->total.kept;
    int width = 16;
    for (uint32_t i = 0; i < k->count; i++) {
        const int own = (int)strlen(sb_cost_id(k->row[i].kernel));
        width = own > width ? own : width;
    }
    printf("  %-27s %-*s %8s %14s %12s %8s %13s %14s\n", "op", width, "kernel", "launches",
           "weights", "kept", "share", "activations", "again");
    for (uint32_t i = 0; i < k->count; i++)
        print_kernel(&k->row[i], sb_moves_op_title(k->row[i].op), sb_cost_id(k->row[i].kernel),
                     width, all);
    print_kernel(&k->total, all_of, "", width, all);
}

/* The sum over all parts of a round. */
static sb_moves_kernel round_of(const request *r)
{
    sb_moves_kernel sum = r->kernels.total;
    for (unsigned i = 0; i < HEADS; i++) {
        const sb_moves_kernel *part = &r->head[i].total;
        const uint32_t times = i == DRAFT ? r->options.draft : 1;
        sum.launches += times * part->launches;
        sum.weights += times * part->weights;
        sum.kept += times * part->kept;
        sum.activations += times * part->activations;
        sum.again += times * part->again;
        sum.macs += times * part->macs;
    }
    return sum;
}

static void print_head(const request *r)
{
    const sb_moves_kernel round = round_of(r);
    for (unsigned i = 0; i < HEADS; i++) {
        printf("%s:\n", heads[i].title);
        print_kernels(&r->head[i], i == DRAFT ? "the draft" : "all of it");
    }
    printf("a round of %" PRIu32 " drafts: %" PRIu32 " launches of %s us: %.3f ms; kernels read "
           "%.0f bytes of weights and move %.0f that are kept\n",
           r->options.draft, round.launches, r->latency, 1e3 * round.launches * r->seconds,
           round.weights, round.kept);
}

/* B-13: "the rate of multiply-adds per second from which on memory is the limit" */
static double enough_macs(const request *r)
{
    return r->step.total.macs / (sb_moves_bytes(&r->step.total) / r->options.bandwidth);
}

/* B-13: "launches x latency" */
static double launches_seconds(const request *r)
{
    return r->kernels.total.launches * r->seconds;
}

static void print_time(const request *r)
{
    double bytes = sb_moves_bytes(&r->step.total), moved = bytes / r->options.bandwidth;
    double whole = sb_moves_seconds(&r->step, r->options.bandwidth, r->seconds);
    printf("memory: %.0f bytes at %s GB/s: %.3f ms, at most %.2f %s per second\n", bytes,
           r->bandwidth, 1e3 * moved, r->width / moved, units[r->kind]);
    printf("phases of the ops: %" PRIu32 " of %s us: %.3f ms\n", r->step.total.phases, r->latency,
           1e3 * r->step.total.phases * r->seconds);
    printf("both, implied: %.3f ms, %.2f %s per second\n", 1e3 * whole, r->width / whole,
           units[r->kind]);
    printf("launches of the kernels: %" PRIu32 " of %s us: %.3f ms, in no sum\n",
           r->kernels.total.launches, r->latency, 1e3 * launches_seconds(r));
    printf(
        "memory is the limit only if a machine does %.2f * 10^12 multiply-adds per second or more\n",
        enough_macs(r) / 1e12);
}

static const char *outcome(const request *r, uint32_t drafts, const sb_moves_round *round)
{
    double gain = sb_floor_emitted(drafts, r->options.accept) / (round->verify + round->drafts);
    return gain < 1 ? "LOSES" : "PAYS";
}

static void print_rounds(const request *r)
{
    printf("a round, in plain steps of one token:\n"
           "  %6s %9s %9s %9s %9s %9s  %s at %s\n",
           "drafts", "verify", "(experts)", "drafting", "round", "break-even", "tokens", r->accept);
    for (uint32_t i = 0; i < r->options.draft; i++) {
        const sb_moves_round *round = &r->round[i];
        printf("  %6" PRIu32 " %9.3f %9.3f %9.3f %9.3f ", i + 1, round->verify, round->experts,
               round->drafts, round->verify + round->drafts);
        if (round->break_even <= 1)
            printf("%10.3f", round->break_even);
        else
            printf("%10s", "never");
        printf("  %.3f: %s\n", sb_floor_emitted(i + 1, r->options.accept),
               outcome(r, i + 1, round));
    }
}

static sb_bench_measured measured_of(const request *r)
{
    return (sb_bench_measured){.report = &r->report,
                               .step = &r->step,
                               .ledger = &r->kernels,
                               .model = &r->model,
                               .options = &r->options,
                               .rows = r->width,
                               .is_graph = r->kind != PREFILL,
                               .unit = units[r->kind],
                               .profile = r->profile,
                               .latency = r->seconds,
                               .emulated = strcmp(r->backend, "emu") == 0};
}

static void print_text(const request *r)
{
    printf("%s%s%s of %s: %" PRIu32 " row%s after %" PRIu64 " tokens\n"
           "%s: %s\n",
           r->measured ? "" : no_device, r->measured ? "" : "\n", kinds[r->kind], r->preset,
           r->width, r->width == 1 ? "" : "s", r->context, r->of->name, r->of->words);
    print_table(&r->step);
    print_time(r);
    if (r->kind == VERIFY)
        print_rounds(r);
    print_kernels(&r->kernels, "the step");
    print_packing(r);
    if (r->kind == VERIFY)
        print_head(r);
    printf("profile: %s: %s\n", r->profile, r->words);
    for (unsigned i = 0; i < ORIGINS; i++)
        printf("%s\n", origins[i]);
    if (r->measured) {
        const sb_bench_measured m = measured_of(r);
        sb_bench_print_measured(&m);
    } else {
        printf("SKIPPED: %s%s%s\n", skipped, r->backend ? ": " : "", r->backend ? r->why.text : "");
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *row_json(const char *id, const char *class, const sb_moves_row *row)
{
    json_t *out = json_object();
    SB_PUT(out, "op", id);
    SB_PUT(out, "class", class);
    SB_PUT(out, "calls", row->calls);
    SB_PUT(out, "phases", row->phases);
    SB_PUT(out, "weights", row->weights);
    SB_PUT(out, "kept", row->kept);
    SB_PUT(out, "activations", row->activations);
    SB_PUT(out, "multiply_adds", row->macs);
    return out;
}

static json_t *rows_json(const sb_moves *step)
{
    json_t *out = json_array();
    for (unsigned i = 0; i < SB_MOVES_OPS; i++) {
        sb_moves_op op = (sb_moves_op)i;
        if (step->row[i].calls)
            SB_ADD(out, row_json(sb_moves_op_id(op), sb_floor_class_id(sb_moves_op_class(op)),
                                 &step->row[i]));
    }
    return out;
}

static json_t *kernel_json(const char *op, const char *kernel, const sb_moves_kernel *k)
{
    json_t *out = json_object();
    SB_PUT(out, "op", op);
    SB_PUT(out, "kernel", kernel);
    SB_PUT(out, "launches", k->launches);
    SB_PUT(out, "weights", k->weights);
    SB_PUT(out, "kept", k->kept);
    SB_PUT(out, "activations", k->activations);
    SB_PUT(out, "again", k->again);
    SB_PUT(out, "multiply_adds", k->macs);
    return out;
}

static json_t *kernels_json(const sb_moves_kernels *k)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < k->count; i++)
        SB_ADD(out, kernel_json(sb_moves_op_id(k->row[i].op), sb_cost_name(k->row[i].kernel),
                                &k->row[i]));
    return out;
}

static json_t *head_json(const request *r)
{
    json_t *out = json_array();
    for (unsigned i = 0; i < HEADS; i++) {
        json_t *row = json_object();
        SB_PUT(row, "part", heads[i].id);
        SB_PUT(row, "times", (i == DRAFT ? r->options.draft : 1));
        SB_PUT(row, "kernels", kernels_json(&r->head[i]));
        SB_PUT(row, "all", kernel_json(NULL, heads[i].id, &r->head[i].total));
        SB_ADD(out, row);
    }
    return out;
}

static json_t *rounds_json(const request *r)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < r->options.draft; i++) {
        const sb_moves_round *round = &r->round[i];
        json_t *row = json_object();
        SB_PUT(row, "draft", i + 1);
        SB_PUT(row, "verify", round->verify);
        SB_PUT(row, "experts", round->experts);
        SB_PUT(row, "drafts", round->drafts);
        SB_PUT(row, "tokens", sb_floor_emitted(i + 1, r->options.accept));
        SB_PUT(row, "break_even_accept", SB_KNOWN(round->break_even <= 1, round->break_even));
        SB_PUT(row, "outcome", outcome(r, i + 1, round));
        SB_ADD(out, row);
    }
    return out;
}

static sb_status print_json(const request *r, sb_error *err)
{
    double moved = sb_moves_bytes(&r->step.total) / r->options.bandwidth;
    json_t *document = sb_document("bench"), *words = json_array();
    for (unsigned i = 0; i < ORIGINS; i++)
        SB_ADD(words, origins[i]);
    SB_PUT(document, "what", kinds[r->kind]);
    SB_PUT(document, "preset", r->preset);
    SB_PUT(document, "recipe", r->of->name);
    SB_PUT(document, "rows", r->width);
    SB_PUT(document, "context", r->context);
    SB_PUT(document, "measured", json_boolean(r->measured));
    SB_PUT(document, "bandwidth", r->options.bandwidth);
    SB_PUT(document, "latency_s", r->seconds);

    SB_PUT(document, "profile", r->profile);
    SB_PUT(document, "ops", rows_json(&r->step));
    SB_PUT(document, "step", row_json("step", NULL, &r->step.total));
    SB_PUT(document, "kernels", kernels_json(&r->kernels));
    SB_PUT(document, "kernels_step", kernel_json(NULL, "step", &r->kernels.total));
    SB_PUT(document, "weights_stored", r->kernels.stored);
    SB_PUT(document, "memory_s", moved);
    SB_PUT(document, "phases_s", r->step.total.phases * r->seconds);
    SB_PUT(document, "implied_s", sb_moves_seconds(&r->step, r->options.bandwidth, r->seconds));
    SB_PUT(document, "launches_s", launches_seconds(r));
    SB_PUT(document, "limit_multiply_adds_per_s", enough_macs(r));
    if (r->kind == VERIFY) {
        SB_PUT(document, "accept", r->options.accept);
        SB_PUT(document, "rounds", rounds_json(r));
        const sb_moves_kernel round = round_of(r);
        SB_PUT(document, "kernels_head", head_json(r));
        SB_PUT(document, "kernels_round", kernel_json(NULL, "round", &round));
    }
    SB_PUT(document, "origins", words);
    if (r->measured) {
        const sb_bench_measured m = measured_of(r);
        SB_PUT(document, "run", sb_bench_json_measured(&m));
    } else {
        SB_PUT(document, "skipped", skipped);
        if (r->backend)
            SB_PUT(document, "reason", r->why.text);
    }
    return sb_print_document(document, err);
}

/* --- the run ---------------------------------------------------------------------------------- */

/* B-19: "Where there is no device, the ledger is printed all the same" - with status 0. */
static sb_status run_step(request *r, sb_error *err)
{
    const sb_backend *backend = NULL;
    sb_status status = sb_bench_backend(r->backend, &backend, &r->why);
    if (status == SB_ERR_SKIPPED)
        return SB_OK;
    if (status)
        return sb_fail(err, status, "%s", r->why.text);
    const int emulated = strcmp(r->backend, "emu") == 0;
    const sb_device_options options = {.backend = backend,
                                       .profile = r->profile,
                                       .fp8_cache = r->options.kv_bytes < 2,
                                       .model = {.preset = r->preset,
                                                 .format = r->of->format,
                                                 .further = r->of->further,
                                                 .modules = r->of->modules,
                                                 .layers = (unsigned)r->layers,
                                                 .seed = r->seed,
                                                 .mtp = r->kind == VERIFY},
                                       .rows = r->width,
                                       .prompt = r->kind == PREFILL,
                                       .context = r->context,
                                       .warm = emulated ? 1 : WARM,
                                       .passes = emulated ? 2 : PASSES,
                                       .looks = emulated ? 2 : LOOKS,
                                       .drafts = r->options.draft};
    status = sb_device_run(&options, &r->report, err);
    r->measured = !status;
    return status;
}

/* --- the command ------------------------------------------------------------------------------ */

static void count_kernels(request *r)
{
    sb_kernel_call call = {.rows = r->width,
                           .prompt = r->kind == PREFILL,
                           .trail = r->kind == VERIFY,
                           .fused = r->width <= SB_MOVES_FUSED_ROWS,
                           .knobs = &r->knobs};
    sb_moves_kernels_of(&r->model, &r->options, &call, &r->kernels);
    for (unsigned i = 0; i < HEADS && r->kind == VERIFY; i++) {
        call.part = heads[i].part;
        call.rows = i == DRAFT ? 1 : r->width;
        call.fused = call.rows <= SB_MOVES_FUSED_ROWS;
        sb_moves_kernels_of(&r->model, &r->options, &call, &r->head[i]);
    }
}

sb_status sb_bench_step(int argc, char **argv, sb_error *err)
{
    static request r; /* static because its model has room for a thousand layers */
    sb_command_line line;
    r = (request){.recipe = "nvidia-mix",
                  .bandwidth = "255",
                  .latency = "2.3",
                  .accept = "0.6",
                  .draft = 3,
                  .rows = 4096,
                  .profile = "sm121",
                  .seed = 42};
    while (strcmp(kinds[r.kind], argv[0]) != 0)
        r.kind++;
    sb_status status = parse(&r, &line, argc, argv, err);
    if (status || line.helped)
        return status;
    status = sb_moves_model_cut(r.preset, r.of, (unsigned)r.layers, &r.model, err);
    if (status)
        return status;
    sb_moves_compute(&r.model, &r.options, 0, r.width, &r.step);
    count_kernels(&r);
    for (uint32_t i = 0; i < r.options.draft; i++)
        sb_moves_round_of(&r.model, &r.options, i + 1, r.seconds, &r.round[i]);
    if (r.backend)
        status = run_step(&r, err);
    if (!status && r.json)
        status = print_json(&r, err);
    else if (!status)
        print_text(&r);
    if (!status && r.measured && sb_bench_is_wrong(&r.report))
        status =
            sb_fail(err, SB_ERR_DIFF, "a kernel that measures the card computed a wrong result");
    return status;
}
