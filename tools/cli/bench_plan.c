#include "tools/cli/bench_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/bench/child.h"
#include "tools/bench/cpu.h"
#include "tools/bench/scale.h"
#include "tools/cli/cli.h"
#include "tools/cli/commands.h"
#include "tools/cli/opts.h"
#include "tools/report/part/document.h"

enum { CORES = 8, FEW = 2, WORDS = 16, MOST_TOKENS = 64, TEXT = 8 * (FEW + MOST_TOKENS) };

static const char about[] =
    "Prints what each command costs for a checkpoint of this shape with more layers: time and\n"
    "memory. CKPT has at least one layer of the real width. Each command runs on CKPT, on one\n"
    "thread in its own process; its processor seconds and its peak of memory are measured.\n"
    "Everything else is extrapolated with these formulas:\n"
    "\n"
    "  headers      seconds x tensors of the whole / tensors of CKPT\n"
    "  check        seconds x bytes of the whole / bytes of CKPT\n"
    "  per token    (seconds of many tokens - seconds of 2) / their difference, x F, where F is\n"
    "               a token of the whole over a token of CKPT, each op of each layer timed\n"
    "  on C cores   seconds / C: the least time. Reading from a disk, the speed of memory and\n"
    "               what does not run in parallel are not included\n"
    "  memory       checks: as measured. Others: as measured, with the weights of the whole in\n"
    "               place of those of CKPT; the system may drop such pages\n"
    "\n"
    "The diff contains the run of its engine, a simulated one. Every fourth layer of the whole has\n"
    "full attention. If CKPT has only one kind of layer, this kind is used for both.";

typedef enum growth { TENSORS, BYTES, TOKENS } growth;

static const struct row {
    const char *name, *command;
    growth growth;
    unsigned copies;
} rows[] = {
#define SB_PLAN(name, command, growth, copies) {#name, command, growth, copies},
#include "tools/cli/bench_plan.def"
#undef SB_PLAN
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct plan {
    const char *folder, *against, *cores_list;
    uint64_t extrapolate, tokens, passes;
    int as_json;
    double cores[CORES];
    size_t core_count;
    sb_bench_scale scale;
    double factor; /* a token of the whole over a token of CKPT */
    struct result {
        sb_bench_child few, many;                /* many: TOKENS only */
        char why[sizeof(((sb_error *)0)->text)]; /* not measured, and why; "" if it was */
        double seconds;                          /* of the whole, or of a token of it */
        double bytes;
    } result[ROWS];
} plan;

/* --- one command ------------------------------------------------------------------------------ */

typedef struct call {
    const plan *plan;
    const struct row *row;
    uint64_t tokens;
} call;

/* "1,1,1" */
static void ids(char text[TEXT], uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        memcpy(text + 2 * i, ",1", 3);
    memmove(text, text + 1, strlen(text));
}

/* Runs the command of a row, in the child. */
static sb_status run_command(void *ctx, sb_error *err)
{
    const call *c = ctx;
    char words[TEXT], count[32], list[TEXT] = "", path[32] = "", *argv[WORDS + 1] = {NULL}, *rest;
    int argc = 0;
    const sb_command *command;
    snprintf(words, sizeof words, "%s", c->row->command);
    snprintf(count, sizeof count, "%llu", (unsigned long long)c->tokens);
    ids(list, c->tokens);
    for (char *w = strtok_r(words, " ", &rest); w && argc < WORDS; w = strtok_r(NULL, " ", &rest)) {
        const char *is = w;
        if (strcmp(w, "CKPT") == 0)
            is = c->plan->folder;
        else if (strcmp(w, "ORIGINAL") == 0)
            is = c->plan->against;
        else if (strcmp(w, "N") == 0)
            is = count;
        else if (strcmp(w, "IDS") == 0)
            is = list;
        else if (strcmp(w, "TEXT") == 0) {
            FILE *file = tmpfile();
            if (!file || fprintf(file, "%s\n", list) < 0 || fflush(file) != 0)
                return sb_fail(err, SB_ERR_IO, "cannot write a temporary file");
            rewind(file);
            snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
            is = path;
        }
        argv[argc++] = strdup(is);
    }
    sb_status status = sb_command_find(argv[0], &command, err);
    return status ? status : command->run(argc, argv, err);
}

/* The least of all passes. A difference that the command finds (status 1) is no failure here. */
static sb_status measure_passes(const plan *p, const struct row *row, uint64_t tokens,
                                sb_bench_child *least, char *why, size_t room, sb_error *err)
{
    call c = {p, row, tokens};
    for (uint64_t i = 0; i < p->passes; i++) {
        sb_bench_child now;
        sb_status status = sb_bench_in_child(run_command, &c, &now, err);
        if (status)
            return status;
        if (now.status && now.status != SB_ERR_DIFF) {
            snprintf(why, room, "%s", now.err.text);
            return SB_OK;
        }
        if (i == 0 || now.processor < least->processor)
            *least = now;
    }
    return SB_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static double at_least_0(double x)
{
    return x > 0 ? x : 0;
}

static void extrapolate(const plan *p, const struct row *row, struct result *r)
{
    const sb_bench_scale *s = &p->scale;
    const double peak =
        (double)(r->many.peak_bytes > r->few.peak_bytes ? r->many.peak_bytes : r->few.peak_bytes);
    r->bytes = row->copies
                   ? at_least_0(peak - row->copies * s->here.bytes) + row->copies * s->whole.bytes
                   : peak;
    if (row->growth == TENSORS)
        r->seconds = r->few.processor * s->whole.tensors / s->here.tensors;
    else if (row->growth == BYTES)
        r->seconds = r->few.processor * s->whole.bytes / s->here.bytes;
    else
        r->seconds =
            at_least_0(r->many.processor - r->few.processor) / (double)p->tokens * p->factor;
}

static sb_status measure_row(plan *p, size_t i, sb_error *err)
{
    const struct row *row = &rows[i];
    struct result *r = &p->result[i];
    if (strstr(row->command, "ORIGINAL") && !p->against) {
        snprintf(r->why, sizeof r->why, "needs --against");
        return SB_OK;
    }
    sb_status status = measure_passes(p, row, FEW, &r->few, r->why, sizeof r->why, err);
    if (!status && !*r->why && row->growth == TOKENS)
        status = measure_passes(p, row, FEW + p->tokens, &r->many, r->why, sizeof r->why, err);
    if (!status && !*r->why)
        extrapolate(p, row, r);
    return status;
}

/* F of the text above: 1 if the whole is CKPT. */
static sb_status measure_factor(plan *p, const sb_model *model, sb_error *err)
{
    p->factor = 1;
    if (p->scale.whole_layers == p->scale.layers)
        return SB_OK;
    const sb_bench_options options = {.tokens = (size_t)p->tokens,
                                      .threads = {1},
                                      .thread_count = 1,
                                      .stream_mib = 1,
                                      .layers = p->scale.whole_layers};
    sb_bench_report *report = sb_alloc(1, sizeof *report);
    if (!report)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a report");
    sb_status status = sb_bench_cpu(model, &options, report, err);
    if (!status)
        p->factor = report->decode[0].whole.median / report->decode[0].token.median;
    free(report);
    return status;
}

static sb_status measure_all(plan *p, sb_error *err)
{
    sb_model *model = NULL;
    sb_status status = sb_model_open(p->folder, &model, err);
    if (!status)
        p->scale = sb_bench_scale_of(model->checkpoint, &model->config, (uint32_t)p->extrapolate);
    if (!status)
        status = measure_factor(p, model, err);
    sb_model_close(model);
    for (size_t i = 0; i < ROWS && !status; i++) {
        status = measure_row(p, i, err);
        sb_progress(NULL, "commands", i + 1, ROWS);
    }
    return status;
}

/* --- output ----------------------------------------------------------------------------------- */

static const char *unit(const struct row *row)
{
    return row->growth == TOKENS ? "a token" : "once";
}

static void print_text(const plan *p)
{
    const sb_bench_scale *s = &p->scale;
    printf("measured: %s, %u layers, %.3f GB, one thread, least of %llu\n", SB_SHOW(p->folder),
           s->layers, 1e-9 * s->here.bytes, (unsigned long long)p->passes);
    printf("extrapolated: %u layers (%u with full attention), %.3f GB; a token x %.2f%s\n",
           s->whole_layers, s->whole_full, 1e-9 * s->whole.bytes, p->factor,
           s->has_full && s->has_linear ? "" : "; one kind of layer is used for both");
    printf("  %-8s %-8s %12s %12s", "command", "", "measured s", "whole s");
    for (size_t c = 0; c < p->core_count; c++)
        printf("   %3.0f cores", p->cores[c]);
    printf(" %10s\n", "memory GB");
    for (size_t i = 0; i < ROWS; i++) {
        const struct result *r = &p->result[i];
        if (*r->why) {
            printf("  %-8s not measured: %s\n", rows[i].name, r->why);
            continue;
        }
        printf("  %-8s %-8s %12.4g %12.4g", rows[i].name, unit(&rows[i]),
               rows[i].growth == TOKENS
                   ? at_least_0(r->many.processor - r->few.processor) / (double)p->tokens
                   : r->few.processor,
               r->seconds);
        for (size_t c = 0; c < p->core_count; c++)
            printf(" %11.4g", r->seconds / p->cores[c]);
        printf(" %10.3f\n", 1e-9 * r->bytes);
    }
    printf(
        "seconds are processor seconds; C cores need at least seconds / C (--help has the formulas)\n");
}

static json_t *measured_json(const sb_bench_child *m)
{
    json_t *out = json_object();
    SB_PUT(out, "seconds", m->seconds);
    SB_PUT(out, "processor_seconds", m->processor);
    SB_PUT(out, "peak_bytes", m->peak_bytes);
    return out;
}

static json_t *row_json(const plan *p, size_t i)
{
    static const char *const formulas[] = {
        [TENSORS] = "tensors", [BYTES] = "bytes", [TOKENS] = "tokens"};
    const struct result *r = &p->result[i];
    json_t *row = json_object();
    SB_PUT(row, "name", rows[i].name);
    SB_PUT(row, "command", rows[i].command);
    SB_PUT(row, "formula", formulas[rows[i].growth]);
    if (*r->why) {
        SB_PUT(row, "not_measured", r->why);
        return row;
    }
    SB_PUT(row, "measured", measured_json(&r->few));
    if (rows[i].growth == TOKENS)
        SB_PUT(row, "measured_more_tokens", measured_json(&r->many));
    json_t *cores = json_array();
    for (size_t c = 0; c < p->core_count; c++) {
        json_t *with = json_object();
        SB_PUT(with, "cores", p->cores[c]);
        SB_PUT(with, "seconds", r->seconds / p->cores[c]);
        SB_ADD(cores, with);
    }
    json_t *whole = json_object();
    SB_PUT(whole, "processor_seconds", r->seconds);
    SB_PUT(whole, "bytes", r->bytes);
    SB_PUT(whole, "least", cores);
    SB_PUT(row, "extrapolated", whole);
    return row;
}

static json_t *size_json(uint32_t layers, sb_bench_size of)
{
    json_t *out = json_object();
    SB_PUT(out, "layers", layers);
    SB_PUT(out, "bytes", of.bytes);
    SB_PUT(out, "tensors", of.tensors);
    return out;
}

static sb_status print_json(const plan *p, sb_error *err)
{
    json_t *document = sb_document("bench"), *list = json_array();
    SB_PUT(document, "what", "plan");
    SB_PUT(document, "folder", p->folder);
    SB_PUT(document, "here", size_json(p->scale.layers, p->scale.here));
    SB_PUT(document, "whole", size_json(p->scale.whole_layers, p->scale.whole));
    SB_PUT(document, "token_factor", p->factor);
    SB_PUT(document, "tokens", p->tokens);
    for (size_t i = 0; i < ROWS; i++)
        SB_ADD(list, row_json(p, i));
    SB_PUT(document, "rows", list);
    return sb_print_document(document, err);
}

/* --- options ---------------------------------------------------------------------------------- */

/* "2,8,20" */
static sb_status parse_cores(plan *p, sb_error *err)
{
    const char *at = p->cores_list;
    for (;;) {
        char number[8] = "";
        const size_t n = strcspn(at, ",");
        uint64_t value;
        if (n < sizeof number)
            memcpy(number, at, n);
        if (!sb_parse_u64(number, &value) || value < 1 || value > 1024 || p->core_count == CORES)
            return sb_fail(err, SB_ERR_USAGE,
                           "--cores '%s': expected at most %d numbers from 1 to 1024, as in 2,8",
                           SB_SHOW(p->cores_list), (int)CORES);
        p->cores[p->core_count++] = (double)value;
        if (!at[n])
            return SB_OK;
        at += n + 1;
    }
}

static sb_status in_range(const char *name, uint64_t value, uint64_t least, uint64_t most,
                          sb_error *err)
{
    if (value >= least && value <= most)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "--%s is %llu; expected %llu to %llu", name,
                   (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
}

sb_status sb_bench_plan(int argc, char **argv, sb_error *err)
{
    plan *p = sb_alloc(1, sizeof *p);
    if (!p)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a plan");
    p->cores_list = "2,8,20";
    p->tokens = 8;
    p->passes = 3;
    const sb_opt opts[] = {
        {"against", 0, SB_OPT_INPUT, &p->against, "CKPT", "the original, for check --against"},
        {"extrapolate", 0, SB_OPT_NUMBER, &p->extrapolate, "N",
         "extrapolate to a model of N layers (the layers of CKPT)"},
        {"cores", 0, SB_OPT_STRING, &p->cores_list, "LIST", "numbers of cores: 2,8,20"},
        {"tokens", 0, SB_OPT_NUMBER, &p->tokens, "N", "tokens by which two runs differ (8)"},
        {"passes", 0, SB_OPT_NUMBER, &p->passes, "N", "repetitions, the fastest counts (3)"},
        SB_OPT_JSON(&p->as_json),
    };
    sb_command_line line = {
        .usage = "bench plan CKPT [options]",
        .about = about,
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more = "example:\n  samebit bench plan CKPT --extrapolate 40 --cores 2,8,20\n",
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    p->folder = line.operand[0];
    if (!status && !line.helped)
        status = in_range("extrapolate", p->extrapolate, 0, 4096, err);
    if (!status && !line.helped)
        status = in_range("tokens", p->tokens, 1, MOST_TOKENS, err);
    if (!status && !line.helped)
        status = in_range("passes", p->passes, 1, 16, err);
    if (!status && !line.helped)
        status = parse_cores(p, err);
    if (!status && !line.helped)
        status = measure_all(p, err);
    if (!status && !line.helped && p->as_json)
        status = print_json(p, err);
    else if (!status && !line.helped)
        print_text(p);
    free(p);
    return status;
}
