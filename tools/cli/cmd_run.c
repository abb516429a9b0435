#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu/gpu.h"
#include "ref/base/machine.h"
#include "ref/container/show.h"
#include "tools/cli/cli.h"
#include "tools/cli/generated.h"
#include "tools/cli/runner.h"
#include "tools/report/part/document.h"

typedef struct output {
    json_t *list; /* NULL: text */
    const sb_request *request;
} output;

/* For --prompt: prints the ids of the text. */
static void print_prompt(const sb_request *r)
{
    for (size_t i = 0; r->tokenizer && i < r->sequences[0].count; i++)
        printf("%s%u", i ? "," : "prompt ", (unsigned)r->sequences[0].ids[i]);
    if (r->tokenizer)
        printf("\n");
}

static sb_status take_generated(void *ctx, size_t sequence, const sb_generated *generated,
                                sb_error *err)
{
    const output *o = ctx;
    (void)err;
    if (o->list) {
        SB_ADD(o->list, sb_generated_json(generated, o->request->tokenizer));
        return SB_OK;
    }
    if (o->request->sequence_count > 1)
        printf("sequence %zu\n", sequence);
    print_prompt(o->request);
    sb_generated_print(generated, o->request->tokenizer);
    return SB_OK;
}

static sb_status print_json(const sb_request *request, const json_t *list, sb_error *err)
{
    json_t *document = sb_document("run");
    sb_request_describe(request, document);
    if (request->tokenizer)
        SB_PUT(document, "prompt",
               sb_ids_json(request->sequences[0].ids, request->sequences[0].count));
    if (request->sequence_count == 1)
        json_object_update(document, json_array_get(list, 0));
    else
        json_object_set(document, "sequences", (json_t *)list);
    return sb_print_document(document, err);
}

/* The options of a run about memory. */
typedef struct memory {
    uint64_t limit; /* --resident-limit; 0: the model's limit */
    int stats;
} memory;

/* On a terminal: the bytes read of weights that do not stay in memory, in steps of 64 MiB. */
static void show_read(void *ctx, uint64_t bytes)
{
    static uint64_t shown;
    (void)ctx;
    if (bytes - shown < (uint64_t)64 << 20 || !isatty(STDERR_FILENO))
        return;
    shown = bytes;
    fprintf(stderr, "\rweights read %.2f GB\033[K", (double)bytes * 1e-9);
}

/* --stats: differs between machines, so it is not part of the result. */
static void print_stats(const sb_model *model)
{
    fprintf(stderr, "samebit: weights %.3f GB, peak resident set %.3f GB\n",
            (double)sb_pager_bytes(model->pager) * 1e-9, (double)sb_peak_resident() * 1e-9);
}

static sb_status run_all(const char *folder, const sb_repeated *overlays, const sb_request *request,
                         const memory *m, int as_json, sb_error *err)
{
    sb_model *model = NULL;
    output o = {as_json ? json_array() : NULL, request};
    sb_status status = sb_model_open_overlaid(folder, overlays->item, overlays->count, &model, err);
    if (!status && m->limit)
        sb_pager_limit(model->pager, m->limit);
    if (!status)
        sb_pager_watch(model->pager, show_read, NULL);
    if (!status)
        status = sb_runner_load(request->engine, &request->knobs, model, sb_progress_bytes, err);
    if (!status)
        status = sb_generate(model, request, take_generated, &o, err);
    sb_gpu_forget(request->engine);
    if (!status && m->stats)
        print_stats(model);
    sb_model_close(model);
    if (!status && as_json)
        status = print_json(request, o.list, err);
    json_decref(o.list);
    return status;
}

/* Tells the user if the reference computes because kernels lack the requested knobs: Y-12. */
static void note_inherited(const sb_request *r)
{
    if (!r->kernels)
        return;
    for (int op = 0; op < SB_OP_COUNT; op++)
        if (sb_gpu_computes((sb_op)op, &r->knobs))
            return;
    fprintf(stderr,
            "samebit: note: under profile %s%s the kernels compute no op and only draw tokens; "
            "they compute --profile sm121 (or sm121-w8a8, sm121-w4a4)\n",
            SB_SHOW(r->profile), r->settings.count ? " and --set" : "");
}

static sb_status check_step(const sb_request *r, sb_error *err)
{
    if (r->step && r->no_step)
        return sb_fail(err, SB_ERR_USAGE, "--step and --no-step exclude each other");
    if ((r->step || r->no_step) && !r->kernels)
        return sb_fail(err, SB_ERR_USAGE,
                       "--%s applies to kernels; expected --backend emu or gpu, found %s",
                       r->step ? "step" : "no-step", SB_SHOW(r->backend));
    return SB_OK;
}

enum { RUN_OPTS = 12 };

sb_status sb_cmd_run(int argc, char **argv, sb_error *err)
{
    sb_request request;
    sb_opt opts[SB_REQUEST_OPTS + RUN_OPTS];
    sb_repeated overlays = {.count = 0};
    memory m = {0, 0};
    int as_json = 0;
    sb_request_opts(&request, opts);
    const sb_opt own[RUN_OPTS] = {
        SB_OPT_JSON(&as_json),
        {"overlay", 0, SB_OPT_REPEATED, &overlays, "P=DIR",
         "replace the tensors P by those of DIR, as samebit graft does"},
        {"state-in", 0, SB_OPT_INPUT, &request.state_in, "F", "continue from this state file"},
        {"state-out", 0, SB_OPT_OUTPUT, &request.state_out, "F", "write the state at the end"},
        {"trace", 0, SB_OPT_OUTPUT, &request.trace, "DIR", "record every call in a new folder"},
        {"taps", 0, SB_OPT_STRING, &request.taps, "LIST",
         "taps whose values the trace keeps: all, none, patterns"},
        {"resident-limit", 0, SB_OPT_NUMBER, &m.limit, "B",
         "bytes of weights that stay in memory; never changes a bit"},
        SB_DRAFTER_OPTS(&request.drafter),
        {"step", 0, SB_OPT_FLAG, &request.step, NULL,
         "with kernels: whole calls where they run (default of gpu); the same bits"},
        {"no-step", 0, SB_OPT_FLAG, &request.no_step, NULL,
         "with kernels: op by op (default of emu); names a tap that is not finite"},
        {"stats", 0, SB_OPT_FLAG, &m.stats, NULL, "print peak memory to stderr"},
    };
    memcpy(opts + SB_REQUEST_OPTS, own, sizeof own);
    sb_command_line line = {
        .usage = "run CKPT (--tokens 1,2,3 | --tokens-file F | --prompt TEXT) [options]",
        .about =
            "Feeds a prompt to the reference and generates tokens: greedily (ties go to the lowest id), or\n"
            "sampled with --temp. Prints a digest of the logits for every generated position, and at\n"
            "the end the digests of the state in which all tokens but the last have been fed.\n"
            "CKPT is a checkpoint folder. End-of-sequence ids do not stop the run.\n"
            "\n"
            "With --draft the MTP head drafts and the trunk verifies, round after round. Every round\n"
            "is printed, and the number of accepted drafts. A list of numbers applies to the rounds in\n"
            "turn and starts again at its end; @FILE reads the list from a file. docs/mtp.md has more.\n"
            "\n"
            "--backend emu and gpu compute with kernels under --profile sm121, sm121-w8a8 or sm121-w4a4.\n"
            "Under any other profile, such as exact, the reference computes the ops and the kernels\n"
            "only draw tokens (docs/gpu.md). gpu runs whole calls on the device, and so does emu with\n"
            "--step; a run with --trace, and one that a step cannot compute, goes op by op, with a note.\n"
            "\n"
            "Weights are read in place from the files. If they take more than three quarters of the\n"
            "machine's memory, or more than --resident-limit, only that much stays in memory and the\n"
            "rest is released after each layer.",
        .opts = opts,
        .opt_count = SB_REQUEST_OPTS + RUN_OPTS,
        .more = "examples:\n"
                "  samebit run CKPT --tokens 1,2,3 -n 8 --json\n"
                "  samebit run CKPT --tokens 1,2,3 -n 8 --draft 3\n"
                "  samebit run CKPT --tokens 1,2,3 -n 8 --draft 3,0 --force-accept 2,0 --temp 0.7\n"
                "  samebit run CKPT --prompt 'the same bits' -n 8 --state-out a.state\n"
                "  samebit run CKPT --tokens-file F -n 64 --draft 4 --drafter ngram:2-5\n"
                "  samebit run CKPT --tokens 1,2,3 -n 8 --draft 3 --trace t --taps 'logits,*.g'\n"
                "  samebit run CKPT --tokens 1,2,3 -n 8 --profile sm121 --backend emu\n",
        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    if (request.taps && !request.trace)
        return sb_fail(err, SB_ERR_USAGE,
                       "--taps selects the values of a trace; expected --trace DIR");
    status = sb_request_check(&request, line.operand[0], err);
    if (!status)
        status = check_step(&request, err);
    if (!status)
        note_inherited(&request);
    if (!status)
        status = run_all(line.operand[0], &overlays, &request, &m, as_json, err);
    sb_request_free(&request);
    return status;
}
