/* cmd_diff.c - samebit diff: an engine against the reference, token by token. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/file.h"
#include "ref/container/show.h"
#include "gpu/gpu.h"
#include "tools/cli/cli.h"
#include "tools/cli/diff_bundle.h"
#include "tools/cli/diff_files.h"
#include "tools/cli/diff_ids.h"
#include "tools/cli/diff_needs.h"
#include "tools/cli/diff_propose.h"
#include "tools/judge/compare/envelope.h"
#include "tools/report/diff/diff.h"
#include "tools/report/part/document.h"

typedef struct wishes {
    const char *folder, *engine, *versus, *taps, *arithmetic, *functions, *drafter;
    sb_diff_files files;
    const char *const *arguments; /* the command line */
    size_t argument_count;
    sb_repeated overlays, engine_settings;
    const sb_command_line *line;
    sb_request request;
    sb_dumped dumped;
    uint64_t rows, runs, given, chunk;
    float need_ops; /* below 0: not given */
    int forced, free, explain, allow_self, sampled, as_json, quiet, all, propose;
    int has_generate, has_profile, has_dump;
} wishes;

static const uint64_t unsaid = UINT64_MAX; /* chunk: the option was not given */

/* --- the request ------------------------------------------------------------------------------ */

/* Puts the knobs required by an engine of this program before the user's knobs. */
static sb_status add_wanted(sb_request *r, const sb_runner *runner, sb_error *err)
{
    sb_repeated own = r->settings;
    r->settings.count = 0;
    for (const char *const *s = runner->settings; *s; s++) {
        if (r->settings.count + own.count == SB_MAX_REPEATS)
            return sb_fail(err, SB_ERR_USAGE, "--set is given too many times");
        r->settings.item[r->settings.count++] = *s;
    }
    memcpy(r->settings.item + r->settings.count, own.item, own.count * sizeof *own.item);
    r->settings.count += own.count;
    return SB_OK;
}

/* True if --drafter is the folder of a drafter. */
static int gives_drafter(const wishes *w)
{
    return w->drafter && sb_is_folder(w->drafter);
}

/* Tokens of a trace come from the trace, those of a dump also from the command line. Without
 * options for knobs, a trace's own knobs are used. */
static sb_status settle_recorded(wishes *w, const sb_side *side, sb_error *err)
{
    sb_request *r = &w->request;
    if (w->has_dump)
        w->dumped.from = r->from;
    if ((sb_prompts_given(&r->from) && !w->has_dump) || r->draft || w->has_generate)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s contains its own tokens; expected no --tokens, -n or --draft",
                       SB_SHOW(side->spec));
    sb_status status = sb_request_check_settings(r, err);
    const sb_trace_head *head = side->trace ? sb_trace_info(side->trace) : NULL;
    if (!status && head && head->has_knobs && !w->has_profile && !r->settings.count) {
        r->knobs = head->knobs;
        if (*head->profile)
            r->profile = head->profile;
    }
    return status;
}

/* True if the user gave no profile and the engine has kernels, so that their profile is used. */
static int takes_own_profile(const wishes *w, const sb_side *side)
{
    return side->kind == SB_SIDE_live && side->runner.kernels && !w->has_profile;
}

static sb_status settle_live(wishes *w, const sb_side *side, sb_error *err)
{
    sb_request *r = &w->request;
    if (takes_own_profile(w, side))
        r->profile = "sm121";
    if (!w->has_generate && r->from.tokens_file)
        r->generate = 0;
    if (gives_drafter(w) && !r->draft)
        return sb_fail(err, SB_ERR_USAGE, "--drafter applies to drafts; expected --draft as well");
    sb_status status = add_wanted(r, &side->runner, err);
    return status ? status : sb_request_check(r, w->folder, err);
}

static sb_status settle_side(wishes *w, const sb_side *side, sb_error *err)
{
    sb_status status =
        side->kind == SB_SIDE_live ? settle_live(w, side, err) : settle_recorded(w, side, err);
    if (!status)
        sb_set_threads((unsigned)w->request.threads);
    return status;
}

/* --- the result ------------------------------------------------------------------------------- */

static const char *ways(const sb_diff_run *run)
{
    if (run->side->kind == SB_SIDE_ids)
        return "tokens";
    return !run->has_forced ? "free" : run->free ? "forced and free" : "forced";
}

/* The subject of the verdict. If only one of two files of token ids is wrong, the wrong one. */
static const char *subject_of(const wishes *w, const sb_diff_run *run)
{
    int wrong[2] = {0, 0};
    for (size_t i = 0; i < run->pair_count; i++)
        for (int side = 0; side < 2; side++)
            wrong[side] |= run->pairs[i].verdict == SB_VERDICT_FAIL && !run->pairs[i].could[side];
    return run->side->kind == SB_SIDE_ids && w->versus && wrong[1] && !wrong[0] ? w->versus
                                                                                : run->side->spec;
}

static sb_diff_report report_of(const wishes *w, const sb_diff_run *run)
{
    return (sb_diff_report){.verdicts = &run->verdicts,
                            .checkpoint = w->folder,
                            .engine = run->side->spec,
                            .versus = run->side->kind == SB_SIDE_ids ? w->versus : NULL,
                            .of = subject_of(w, run),
                            .profile = w->request.profile,
                            .arithmetic = run->arithmetic.name,
                            .ways = ways(run),
                            .notes = *run->notes ? run->notes : NULL,
                            .layers = run->model->config.layers,
                            .steps = run->steps,
                            .sequences = run->sequences};
}

static int passed(const sb_diff_run *run)
{
    sb_verdict verdict = run->verdicts.verdict;
    return verdict != SB_VERDICT_none && verdict <= SB_VERDICT_NEAR_TIE;
}

/* The passing side of two traces or two engines. */
static const char *which(const sb_diff_run *runs)
{
    return passed(&runs[0])   ? passed(&runs[1]) ? "both" : "engine"
           : passed(&runs[1]) ? "versus"
                              : "neither";
}

static json_t *pairs_json(const sb_diff_run *run)
{
    json_t *list = json_array();
    for (size_t i = 0; i < run->pair_count; i++) {
        const sb_ids_verdict *p = &run->pairs[i];
        json_array_append_new(
            list,
            json_pack("{s:I,s:b,s:s,s:o,s:o,s:b,s:b,s:s}", "common", (json_int_t)p->common, "parts",
                      p->parts, "verdict", sb_verdict_name(p->verdict), "tokens",
                      p->parts ? sb_ids_json(p->tokens, 2) : json_null(), "top",
                      p->parts ? json_integer((json_int_t)p->top) : json_null(), "engine_could",
                      p->could[0], "versus_could", p->could[1], "words", SB_SHOW(p->words)));
    }
    return list;
}

static json_t *one_document(const sb_diff_run *run, const sb_diff_report *r, json_t *into)
{
    json_t *document = sb_diff_json(r, into);
    if (document)
        json_object_set_new(document, "bundle", sb_diff_bundle_json(run));
    return document;
}

static json_t *document_of(const sb_diff_run *run, const sb_diff_reports *r,
                           const sb_proposals *proposals)
{
    json_t *document = one_document(&run[0], &r->item[0], sb_document("diff"));
    if (document && r->count > 1) {
        json_object_set_new(document, "versus", one_document(&run[1], &r->item[1], json_object()));
        json_object_set_new(document, "right", json_string(r->right));
    }
    if (document && run->side->kind == SB_SIDE_ids)
        json_object_set_new(document, "pairs", pairs_json(run));
    if (document && proposals)
        json_object_set_new(document, "proposed", sb_proposals_json(proposals));
    return document;
}

static sb_status print_reports(const wishes *w, const sb_diff_run *runs, size_t count,
                               const sb_proposals *proposals, sb_error *err)
{
    sb_diff_style style = {.all = w->all, .quiet = w->quiet};
    sb_diff_reports r = {.count = count,
                         .right = count > 1 ? which(runs) : NULL,
                         .arguments = w->arguments,
                         .argument_count = w->argument_count,
                         .digest = ""};
    for (size_t i = 0; i < count; i++) {
        r.item[i] = report_of(w, &runs[i]);
        if (!w->as_json)
            sb_diff_text(&r.item[i], &style, stdout);
    }
    if (count > 1 && !w->as_json)
        printf("right: %s\n", r.right);
    if (proposals && !w->as_json)
        sb_proposals_print(proposals, stdout);
    json_t *document = document_of(&runs[0], &r, proposals);
    sb_status status = w->as_json ? sb_print_document(json_incref(document), err) : SB_OK;
    if (!status)
        status = sb_diff_files_write(&w->files, &r, document, runs[0].model, err);
    for (size_t i = 0; i < count && !status; i++)
        sb_diff_bundle_say(&runs[i], w->files.bundle, w->files.own != NULL);
    json_decref(document);
    if (!status && fflush(stdout) != 0)
        status = sb_fail(err, SB_ERR_IO, "the report could not be written to stdout");
    return status;
}

/* The exit status, and one line for users who read only stderr. */
static sb_status conclude(const wishes *w, const sb_diff_run *run, sb_error *err)
{
    const sb_verdicts *v = &run->verdicts;
    if (passed(run))
        return SB_OK;
    return sb_fail(err, v->verdict == SB_VERDICT_FAIL ? SB_ERR_DIFF : SB_ERR_SKIPPED, "%s: %s: %s",
                   SB_SHOW(subject_of(w, run)), sb_verdict_name(v->verdict),
                   *v->reason ? SB_SHOW(v->reason) : sb_diff_meaning(v->verdict));
}

/* --- the run ---------------------------------------------------------------------------------- */

/* U-10: "who made the drafts" - from the command line, or the trace; otherwise unknown */
static sb_trace_drafter drafter_of(const wishes *w, const sb_side *side)
{
    sb_trace_drafter drafter = SB_TRACE_DRAFTER_unknown;
    if (w->drafter && !gives_drafter(w))
        (void)sb_trace_drafter_of(w->drafter, &drafter);
    else if (side->trace)
        drafter = sb_trace_info(side->trace)->drafter;
    return drafter;
}

/* U-10: the library of the engine's functions, from the command line, or the trace; otherwise
 * unknown. */
static const char *functions_of(const wishes *w, const sb_side *side)
{
    const char *declared = side->trace ? sb_trace_info(side->trace)->functions : "";
    return w->functions ? w->functions : *declared ? declared : NULL;
}

/* U-10: "how many rows a chunk of the delta rule has" - from the command line, its named
 * arithmetic, or the trace; otherwise unknown. */
static uint64_t chunk_of(const wishes *w, const sb_side *side)
{
    const sb_arithmetic *named = w->arithmetic ? sb_arithmetic_of(w->arithmetic) : NULL;
    if (w->chunk != unsaid)
        return w->chunk;
    return side->trace && !(named && named->chunk) ? sb_trace_info(side->trace)->delta_chunk : 0;
}

static sb_status prepare(const wishes *w, const sb_model *model, const sb_eagle3 *eagle3,
                         sb_side *side, sb_diff_run *run, sb_error *err)
{
    int both = w->forced == w->free;
    *run = (sb_diff_run){.model = model,
                         .side = side,
                         .request = &w->request,
                         .engine_knobs = w->request.knobs,
                         .taps = w->taps,
                         .bundle = w->files.replay,
                         .rows = w->rows,
                         .perturbed = w->runs,
                         .seed = w->request.seed,
                         .need_ops = (double)w->need_ops,
                         .forced = w->forced ? 1
                                   : w->free ? 0
                                             : -1,
                         .free = both || w->free,
                         .explain = w->explain,
                         .allow_self = w->allow_self,
                         .eagle3 = eagle3,
                         .drafter = drafter_of(w, side),
                         .sampled = w->sampled};
    const sb_arithmetic *named = w->arithmetic ? sb_arithmetic_of(w->arithmetic) : NULL;
    const char *functions = functions_of(w, side);
    const uint64_t chunk = chunk_of(w, side);
    sb_status status = sb_arithmetic_with(named ? named : sb_side_arithmetic(side), functions,
                                          chunk, &run->arithmetic, err);
    run->declared = functions && (named || side->kind == SB_SIDE_live);
    if (takes_own_profile(w, side) && strcmp(w->request.profile, "sm121") == 0)
        sb_diff_note(run, "profile sm121, which these kernels compute (--profile chooses another)");
    if (!status && functions)
        sb_diff_note(run, "functions: %s (T-81)", run->arithmetic.functions->help);
    if (!status && chunk)
        sb_diff_note(run, "chunks of the delta rule: %" PRIu64 " rows (T-87)", chunk);
    for (size_t i = 0; i < w->engine_settings.count && !status; i++)
        status = sb_knobs_set(&run->engine_knobs, w->engine_settings.item[i], err);
    return status;
}

static sb_status diff_sides(wishes *w, sb_side *sides, size_t count, sb_error *err)
{
    sb_model *model = NULL;
    sb_eagle3 *eagle3 = NULL;
    sb_diff_run runs[2] = {{.notes = ""}, {.notes = ""}};
    sb_proposals proposals = {.count = 0};
    sb_status status = settle_side(w, &sides[0], err);
    if (!status)
        status =
            sb_model_open_overlaid(w->folder, w->overlays.item, w->overlays.count, &model, err);
    if (!status && gives_drafter(w))
        status = sb_eagle3_open(w->drafter, model, &eagle3, err);
    for (size_t i = 0; i < count && !status; i++)
        status = sb_runner_check_memory(sides[i].runner.backend, model, err);
    for (size_t i = 0; i < count && !status; i++) {
        status = sb_side_open_dump(&sides[i], &w->dumped, model, w->folder, err);
        if (!status)
            status = prepare(w, model, eagle3, &sides[i], &runs[i], err);
        if (!status)
            status = sb_runner_load(sides[i].runner.backend, &runs[i].engine_knobs, model,
                                    sb_progress_bytes, err);
        if (!status)
            status = sides[i].kind == SB_SIDE_ids
                         ? sb_diff_run_ids(&runs[i], w->versus, w->given, err)
                         : sb_diff_run_side(&runs[i], err);
    }
    if (!status && w->propose)
        status = sb_propose(model, &w->request.knobs, &runs[0].verdicts.coverage, w->request.seed,
                            &proposals, err);
    if (!status)
        status = print_reports(w, runs, count, w->propose ? &proposals : NULL, err);
    sb_proposals_free(&proposals);
    for (size_t i = 0; i < count && !status; i++)
        status = conclude(w, &runs[i], err);
    for (size_t i = 0; i < count; i++)
        sb_diff_run_free(&runs[i]);
    for (size_t i = 0; i < count; i++)
        sb_gpu_forget(sides[i].runner.backend);
    sb_eagle3_close(eagle3);
    sb_model_close(model);
    return status;
}

static sb_status diff_all(wishes *w, sb_error *err)
{
    sb_side sides[2] = {{.spec = ""}, {.spec = ""}};
    size_t count = w->versus ? 2 : 1;
    sb_status status = sb_side_open(w->engine, &w->dumped, &sides[0], err);
    if (!status && w->versus)
        status = sb_side_open(w->versus, &w->dumped, &sides[1], err);
    if (!status && w->versus && !sb_side_alike(&sides[0], &sides[1]))
        status = sb_fail(err, SB_ERR_USAGE,
                         "--engine and --versus differ in kind; expected two traces or files of "
                         "other programs, two files of token ids, or two engines");
    if (!status && w->versus && sb_side_same(&sides[0], &sides[1]))
        status = sb_fail(err, SB_ERR_SKIPPED, "MISTRUSTED: --engine and --versus are the same: %s",
                         SB_SHOW(w->engine));
    w->has_dump = sides[0].kind == SB_SIDE_dump || sides[1].kind == SB_SIDE_dump;
    if (!status)
        status = sb_diff_needs(w->line, sides, count, err);
    if (!status)
        status = diff_sides(w, sides, sides[0].kind == SB_SIDE_ids ? 1 : count, err);
    sb_side_close(&sides[0]);
    sb_side_close(&sides[1]);
    sb_dumped_clear(&w->dumped);
    return status;
}

/* --- the command line ------------------------------------------------------------------------- */

static const char about[] =
    "Compares an engine with the reference, token by token. Each op is judged alone on the\n"
    "engine's own recorded inputs (forced), and both sides run on their own from the tokens\n"
    "(free). Every limit is derived, none is chosen. The first wrong token, layer, op and element\n"
    "are named.\n"
    "\n"
    "E is a trace folder (docs/trace.md), a file written by another program (docs/dumps.md, samebit\n"
    "trace --kinds), a file of token ids, or an engine of this program: sim:NAME (plain float32),\n"
    "emu (the kernels of the GPU path on an emulator; emu:SEED shuffles the order of its threads),\n"
    "gpu (the same kernels on a device), ref. +MISTAKE after an engine's name plants a mistake.";

static const char more[] =
    "Verdict and exit status: IDENTICAL, WITHIN, NEAR_TIE 0; FAIL 1; wrong use 2; input refused 3;\n"
    "MISTRUSTED, SKIPPED, INHERITED 4. If the values of ops are recorded, a tap that was judged in no\n"
    "layer of its kind makes the result SKIPPED; --need-ops asks for less or more, --free leaves the\n"
    "ops out. docs/diff.md has more.\n"
    "\n"
    "examples:\n"
    "  samebit diff CKPT --engine sim:sequential --tokens 1,2,3 -n 16 --draft 3\n"
    "  samebit diff CKPT --engine trace-of-my-engine --profile vllm --explain\n"
    "  samebit diff CKPT --engine on.ids --versus off.ids\n";

enum { OPTS = 39 };

static void make_opts(wishes *w, sb_opt opts[OPTS])
{
    sb_request *r = &w->request;
    const sb_opt table[OPTS] = {
        {"engine", 0, SB_OPT_INPUT, &w->engine, "E", "the engine to compare with the reference"},
        {"versus", 0, SB_OPT_INPUT, &w->versus, "E",
         "a second engine of the same kind: which of the two is right?"},
        {"generate", 'n', SB_OPT_NUMBER, &r->generate, "N",
         "tokens that the engine generates (16; 0 with --tokens-file)"},
        {"profile", 0, SB_OPT_STRING, &r->profile, "P",
         "rounding profile of the engine (default: the trace's own, else exact)"},
        SB_PROMPT_OPTS(&r->from, "the prompt"),
        {"draft", 0, SB_OPT_STRING, &r->draft, "K",
         "drafts per round, 0 to 8; 3,0,2: per round in turn"},
        {"rollback", 0, SB_OPT_STRING, &r->rollback, "WAY",
         "how the engine rolls back: snapshots or replay"},
        {"rows", 0, SB_OPT_NUMBER, &w->rows, "R", "rows per call while tokens are fed (64)"},
        {"given", 0, SB_OPT_NUMBER, &w->given, "N",
         "for a file of token ids: the first N tokens of each sequence are the prompt"},
        SB_DUMPED_OPTS(&w->dumped),
        {"set", 0, SB_OPT_REPEATED, &r->settings, "KNOB=VALUE", "override a knob of the profile"},
        {"engine-set", 0, SB_OPT_REPEATED, &w->engine_settings, "KNOB=VALUE",
         "override a knob of the engine alone: plants a fault"},
        {"overlay", 0, SB_OPT_REPEATED, &w->overlays, "P=DIR",
         "replace the tensors P by those of DIR, as samebit graft does"},
        {"forced", 0, SB_OPT_FLAG, &w->forced, NULL,
         "judge each op alone; leave out the free runs"},
        {"free", 0, SB_OPT_FLAG, &w->free, NULL, "compare the free runs; leave out the ops"},
        {"need-ops", 0, SB_OPT_REAL, &w->need_ops, "SHARE",
         "the share of values of ops that has to be judged, 0 to 1 (default: every kind "
         "somewhere)"},
        {"seed", 0, SB_OPT_NUMBER, &r->seed, "S", "seed of the noise (42)"},
        {"runs", 0, SB_OPT_NUMBER, &w->runs, "N", "perturbed runs that measure the noise"},
        {"explain", 0, SB_OPT_FLAG, &w->explain, NULL,
         "search for the change that explains a failure"},
        {"bundle", 0, SB_OPT_OUTPUT, &w->files.bundle, "F",
         "write the first failing op for samebit replay; F.tar: with all reports"},
        {"arithmetic", 0, SB_OPT_STRING, &w->arithmetic, "NAME",
         "how the engine sums: hopper_f16, ... (library, or the sim's own)"},
        {"functions", 0, SB_OPT_STRING, &w->functions, "NAME",
         "library of the engine's exp, log, ...: cuda_fast, triton, ... (any)"},
        {"delta-chunk", 0, SB_OPT_NUMBER, &w->chunk, "N",
         "rows per chunk of the engine's delta rule: 16, 32, .. 512 (default: the trace's, else "
         "64)"},
        {"taps", 0, SB_OPT_STRING, &w->taps, "GLOB",
         "the taps that an engine of this program shows (all)"},
        {"allow-self", 0, SB_OPT_FLAG, &w->allow_self, NULL,
         "accept a comparison of the reference with itself"},
        {"sampled", 0, SB_OPT_FLAG, &w->sampled, NULL,
         "the engine samples: its tokens need not have the largest logit"},
        {"threads", 0, SB_OPT_NUMBER, &r->threads, "T", "threads; never changes a bit"},
        SB_OPT_JSON(&w->as_json),
        {"report", 0, SB_OPT_OUTPUT, &w->files.report, "F",
         "write a page for a browser (docs/report.md)"},
        {"jsonl", 0, SB_OPT_OUTPUT, &w->files.jsonl, "F", "write the result as lines of JSON, too"},
        {"junit", 0, SB_OPT_OUTPUT, &w->files.junit, "F", "write the result as JUnit XML, too"},
        {"propose", 0, SB_OPT_FLAG, &w->propose, NULL,
         "print prompts that reach what the compared data did not reach"},
        {"quiet", 'q', SB_OPT_FLAG, &w->quiet, NULL, "print the closing line only"},
        {"all", 0, SB_OPT_FLAG, &w->all, NULL, "print a line for every token"},
        {"drafter", 0, SB_OPT_STRING, &w->drafter, "WHO",
         "who drafts: own (the checkpoint's head), sampled (the same, drawn at random), external, "
         "or the folder of an EAGLE-3 drafter, which is judged, too (default: the trace's, else "
         "own)"},
    };
    memcpy(opts, table, sizeof table);
}

/* Fails with a list of the arithmetics. */
static sb_status no_arithmetic(const char *name, sb_error *err)
{
    char names[1024];
    size_t used = 0;
    for (size_t i = 0; i < sb_arithmetic_count() && used < sizeof names; i++) {
        int n = snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                         sb_arithmetic_at(i)->name);
        used += n > 0 ? (size_t)n : sizeof names;
    }
    return sb_fail(err, SB_ERR_USAGE, "there is no arithmetic '%s'; expected one of: %s",
                   SB_SHOW(name), names);
}

static sb_status check_wishes(const wishes *w, sb_error *err)
{
    if (w->arithmetic && !sb_arithmetic_of(w->arithmetic))
        return no_arithmetic(w->arithmetic, err);
    if (w->need_ops > 1.0f)
        return sb_fail(err, SB_ERR_USAGE, "--need-ops is a share; expected at most 1");
    if (w->need_ops >= 0.0f && w->free && !w->forced)
        return sb_fail(err, SB_ERR_USAGE, "--need-ops has no effect with --free");
    if (!w->engine)
        return sb_fail(err, SB_ERR_USAGE,
                       "expected --engine: a trace folder, a file of another program, a file of "
                       "token ids, or sim:NAME, emu, gpu");
    sb_trace_drafter drafter;
    if (w->drafter && !gives_drafter(w) &&
        (!sb_trace_drafter_of(w->drafter, &drafter) || drafter >= SB_TRACE_DRAFTER_eagle3))
        return sb_fail(err, SB_ERR_USAGE,
                       "--drafter is '%s'; expected own, sampled, external or the folder of an "
                       "EAGLE-3 drafter",
                       SB_SHOW(w->drafter));
    if (w->rows < 1 || w->rows > 65536)
        return sb_fail(err, SB_ERR_USAGE, "--rows is %" PRIu64 "; expected 1 to 65536", w->rows);
    if (w->runs < 1 || w->runs > 64)
        return sb_fail(err, SB_ERR_USAGE, "--runs is %" PRIu64 "; expected 1 to 64", w->runs);
    if (w->given > SB_POSITION_LIMIT)
        return sb_fail(err, SB_ERR_USAGE, "--given is %" PRIu64 "; at most %d", w->given,
                       SB_POSITION_LIMIT);
    if (w->chunk != unsaid && !sb_chunk_is_bounded(w->chunk))
        return sb_fail(err, SB_ERR_USAGE,
                       "--delta-chunk is %" PRIu64 "; expected a power of two from 16 to 512",
                       w->chunk);
    if (w->quiet && w->all)
        return sb_fail(err, SB_ERR_USAGE, "--quiet and --all exclude each other");
    return SB_OK;
}

sb_status sb_cmd_diff(int argc, char **argv, sb_error *err)
{
    wishes w = {
        .rows = 64, .runs = SB_PERTURBED, .taps = "all", .chunk = unsaid, .need_ops = -1.0f};
    sb_opt opts[OPTS], unused[SB_REQUEST_OPTS];
    sb_request_opts(&w.request, unused);
    make_opts(&w, opts);
    sb_command_line line = {.usage =
                                "diff CKPT --engine E [--tokens 1,2,3 | --tokens-file F] [options]",
                            .about = about,
                            .opts = opts,
                            .opt_count = OPTS,
                            .more = more,
                            .min_operands = 1,
                            .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    w.folder = line.operand[0];
    w.line = &line;
    w.has_generate = (line.given >> 2) & 1;
    w.has_profile = (line.given >> 3) & 1;
    w.arguments = (const char *const *)argv;
    w.argument_count = (size_t)argc;
    status = check_wishes(&w, err);
    if (!status)
        status = sb_diff_files_begin(&w.files, err);
    if (!status)
        status = diff_all(&w, err);
    sb_diff_files_end(&w.files);
    sb_request_free(&w.request);
    return status;
}
