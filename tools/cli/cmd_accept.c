/* cmd_accept.c - samebit accept: the drafts of the MTP head along a text, and which of them the
 * target accepts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/judge/accept/verdict.h"
#include "tools/report/result/accept.h"
#include "tools/cli/cli.h"
#include "tools/cli/drafter.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"
#include "tools/report/part/document.h"

#define NOT_GIVEN UINT64_MAX

typedef struct wishes {
    sb_prompts from;
    const char *folder, *observed_file, *profile, *html, *given;
    const char *const *arguments; /* the command line */
    size_t argument_count;
    sb_repeated settings, overlays;
    uint64_t depth, threads;
    int as_json, verbose;
    sb_knobs knobs;
    sb_drafter drafter;
} wishes;

typedef struct run {
    const wishes *w;
    sb_sequence *sequences;
    size_t count;
    sb_sequence given; /* tokens of the prompts: one number for all texts, or one for each */
    sb_observed observed;
    sb_accept accept;
    sb_accept_comparison comparison;
    uint32_t drafts[SB_MAX_DRAFTS];
    size_t round, begins; /* number of the next round of this text, and of its first token */
} run;

/* --- the command ------------------------------------------------------------------------------ */

static size_t given_of(const run *r, size_t text)
{
    const sb_sequence *g = &r->given;
    return g->count ? g->ids[g->count > 1 ? text : 0] : 0;
}

/* The tokens of each prompt: its text has more of them, because an answer follows. */
static sb_status check_given(const run *r, sb_error *err)
{
    const sb_sequence *g = &r->given;
    if (g->count > 1 && g->count != r->count)
        return sb_fail(err, SB_ERR_USAGE,
                       "--given has %zu numbers, expected one or %zu: a text each", g->count,
                       r->count);
    for (size_t i = 0; i < r->count; i++)
        if (given_of(r, i) < 1 || given_of(r, i) > r->sequences[i].count)
            return sb_fail(err, SB_ERR_USAGE,
                           "--given: %zu tokens of text %zu, which has %zu: expected 1 to %zu",
                           given_of(r, i), i, r->sequences[i].count, r->sequences[i].count);
    return SB_OK;
}

/* E-18: a file of rounds has drafts only where the rounds of the answer begin, each of them after
 * what the round before it emitted. Returns 0 at other positions. */
static int begins_round(run *r, size_t at, const sb_accept *so_far, size_t first)
{
    if (at == first) {
        r->round = 0;
        r->begins = first;
    } else if (at == r->begins + 1) {
        r->begins += so_far->rows[so_far->count - 1].accepted + 1;
    }
    return at == r->begins;
}

static sb_status propose(void *ctx, size_t text, size_t at, const sb_accept *so_far,
                         sb_round_ask *ask, sb_error *err)
{
    run *r = ctx;
    const sb_drafter *d = &r->w->drafter;
    sb_draft_place place = {.sequence = text,
                            .round = at,
                            .position = at,
                            .text = r->sequences[text].ids,
                            .count = at + 1};
    ask->given = r->drafts;
    if (d->file && d->file->form == SB_DRAFTS_rounds) {
        /* E-16: "Rounds follow as long as the text has a token that is not emitted yet" */
        const int last = at + 1 == r->sequences[text].count;
        if (!begins_round(r, at, so_far, given_of(r, text)) || last) {
            ask->drafts = 0;
            return SB_OK;
        }
        place.round = r->round++;
    }
    return sb_drafter_propose(d, &place, r->drafts, ask, err);
}

static sb_status measure_texts(run *r, sb_error *err)
{
    const wishes *w = r->w;
    const int proposes = w->drafter.kind == SB_DRAFTER_ngram || w->drafter.file;
    sb_model *model = NULL;
    sb_accept_options options = {.knobs = &w->knobs,
                                 .propose = proposes ? propose : NULL,
                                 .propose_ctx = r,
                                 .drafter =
                                     w->drafter.kind == SB_DRAFTER_eagle3 ? w->drafter.name : NULL,
                                 .drafts = (size_t)w->depth,
                                 .answered = r->given.count > 0,
                                 .progress = sb_progress};
    sb_accept_text *texts = calloc(r->count + 1, sizeof *texts);
    sb_status status =
        texts ? sb_model_open_overlaid(w->folder, w->overlays.item, w->overlays.count, &model, err)
              : sb_fail(err, SB_ERR_MEMORY, "out of memory for texts");
    for (size_t i = 0; i < r->count && !status; i++)
        texts[i] = (sb_accept_text){r->sequences[i].ids, r->sequences[i].count, given_of(r, i)};
    if (!status && w->drafter.file)
        status = sb_draft_file_check(w->drafter.file, model->config.vocab_size, r->count, err);
    if (!status)
        status = sb_accept_measure(model, texts, r->count, &options, &r->accept, err);
    sb_model_close(model);
    free(texts);
    return status;
}

static sb_status verdict(const run *r, sb_error *err)
{
    const sb_accept_comparison *c = &r->comparison;
    if (!r->w->observed_file || c->verdict == SB_ACCEPT_CONSISTENT || c->verdict == SB_ACCEPT_EQUAL)
        return SB_OK;
    return sb_fail(err, c->verdict == SB_ACCEPT_UNKNOWN ? SB_ERR_SKIPPED : SB_ERR_DIFF,
                   "%s: %s: %s", SB_SHOW(r->w->observed_file), sb_accept_verdict_name(c->verdict),
                   c->why);
}

static sb_status show(const run *r, sb_error *err)
{
    const wishes *w = r->w;
    const sb_accept_document d = {.folder = w->folder,
                                  .profile = w->profile,
                                  .drafter = sb_drafter_name(&w->drafter),
                                  .accept = &r->accept,
                                  .answered = r->given.count > 0,
                                  .observed_file = w->observed_file,
                                  .observed = &r->observed,
                                  .comparison = &r->comparison,
                                  .arguments = w->arguments,
                                  .argument_count = w->argument_count};
    sb_status status = w->html ? sb_accept_html(&d, w->html, err) : SB_OK;
    if (status || w->as_json)
        return status ? status : sb_print_document(sb_accept_json(&d), err);
    sb_accept_print(&d, w->verbose);
    return sb_print_end("table", err);
}

static sb_status accept_all(const wishes *w, sb_error *err)
{
    run r = {.w = w};
    sb_status status =
        w->observed_file ? sb_observed_load(w->observed_file, &r.observed, err) : SB_OK;
    if (!status)
        status = sb_prompts_read(&w->from, w->folder, NULL, &r.sequences, &r.count, err);
    if (!status && w->given)
        status = sb_numbers_parse(w->given, "--given", &r.given, err);
    if (!status && r.given.count)
        status = check_given(&r, err);
    if (!status)
        status = measure_texts(&r, err);
    if (!status && w->observed_file)
        (r.given.count ? sb_accept_compare_counters : sb_accept_compare)(&r.accept, &r.observed,
                                                                         &r.comparison);
    if (!status)
        status = show(&r, err);
    if (!status)
        status = verdict(&r, err);
    sb_accept_free(&r.accept);
    sb_numbers_free(&r.given);
    sb_sequences_free(r.sequences, r.count);
    return status;
}

/* -K, which a file of drafts gives itself: the largest number of its drafts. */
static sb_status check_depth(wishes *w, sb_error *err)
{
    const sb_draft_file *f = w->drafter.file;
    const uint64_t most = f ? (f->depth ? f->depth : 1) : 4;
    if (w->depth == NOT_GIVEN)
        w->depth = most;
    if (w->depth < 1 || w->depth > SB_MAX_DRAFTS)
        return sb_fail(err, SB_ERR_USAGE, "-K is %" PRIu64 "; expected 1 to %d", w->depth,
                       SB_MAX_DRAFTS);
    if (f && w->depth < most)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: found a round of %" PRIu64 " drafts; expected at most %" PRIu64
                       ", the number of -K",
                       SB_SHOW(w->drafter.path), most, w->depth);
    if (f && f->form == SB_DRAFTS_rounds && !w->given)
        return sb_fail(err, SB_ERR_USAGE,
                       "--draft-file %s has rounds and not positions, so --given has to say where "
                       "the first round begins",
                       SB_SHOW(w->drafter.path));
    return SB_OK;
}

static sb_status read_wishes(wishes *w, sb_error *err)
{
    if (w->threads > 4096)
        return sb_fail(err, SB_ERR_USAGE, "--threads is at most 4096");
    sb_status status = sb_prompts_check(&w->from, err);
    if (!status)
        status = sb_drafter_read(&w->drafter, err);
    if (!status)
        status = check_depth(w, err);
    if (!status)
        status = sb_knobs_profile(&w->knobs, w->profile, err);
    for (size_t i = 0; i < w->settings.count && !status; i++)
        status = sb_knobs_set(&w->knobs, w->settings.item[i], err);
    return status;
}

sb_status sb_cmd_accept(int argc, char **argv, sb_error *err)
{
    wishes w = {.profile = "exact", .depth = NOT_GIVEN};
    const sb_opt opts[] = {
        SB_PROMPT_OPTS(&w.from, "the text to measure along"),
        {"drafts", 'K', SB_OPT_NUMBER, &w.depth, "K",
         "drafts at each position, 1 to 8 (4, or as many as --draft-file has)"},
        {"observed", 0, SB_OPT_INPUT, &w.observed_file, "FILE",
         "counters of vLLM, SGLang or llama-server to compare"},
        {"given", 0, SB_OPT_STRING, &w.given, "LIST",
         "tokens of the prompt that each text begins with; the rest is an engine's answer, and "
         "--observed must have the counters of its rounds, to the unit"},
        SB_DRAFTER_OPTS(&w.drafter),
        {"overlay", 0, SB_OPT_REPEATED, &w.overlays, "P=DIR",
         "replace the tensors P by those of DIR, as samebit graft does"},
        {"profile", 0, SB_OPT_STRING, &w.profile, "P",
         "exact (default) or another of info --profiles"},
        {"set", 0, SB_OPT_REPEATED, &w.settings, "KNOB=VALUE", "override a knob of the profile"},
        {"threads", 0, SB_OPT_NUMBER, &w.threads, "T", "threads; never changes a bit"},
        SB_OPT_JSON(&w.as_json),
        {"html", 0, SB_OPT_OUTPUT, &w.html, "FILE",
         "also write a page for a browser (docs/report.md)"},
        {"verbose", 'v', SB_OPT_FLAG, &w.verbose, NULL, "print a line for every position"},
    };
    sb_command_line line = {
        .usage = "accept CKPT (--tokens-file F | --text F) [-K 4] [--observed FILE] [options]",
        .about =
            "Measures the MTP head along given texts; nothing is generated. For every position it finds\n"
            "what the head would propose and how much of it the target would accept. The result is the\n"
            "acceptance by depth, with 95 % intervals. --observed compares it with the counters of an\n"
            "engine that ran texts of this kind. Exit status: CONSISTENT 0, BELOW or ABOVE 1, UNKNOWN 4.\n"
            "With --given the texts are what the engine itself answered. Exit status: EQUAL 0, DIFFERS 1.\n"
            "docs/accept.md has the definitions.",
        .opts = opts,
        .opt_count = sizeof opts / sizeof *opts,
        .more =
            "examples:\n  samebit accept CKPT --tokens-file texts -K 4\n"
            "  curl -s HOST:8000/metrics > m; samebit accept CKPT --tokens-file texts -K 3 --observed m\n"
            "  samebit accept CKPT --tokens-file answers --given 5,73,9 -K 2 --observed m\n",

        .min_operands = 1,
        .max_operands = 1};
    sb_status status = sb_parse(&line, argc, argv, err);
    if (status || line.helped)
        return status;
    w.folder = line.operand[0];
    w.arguments = (const char *const *)argv;
    w.argument_count = (size_t)argc;
    status = read_wishes(&w, err);
    if (!status) {
        sb_set_threads((unsigned)w.threads);
        status = accept_all(&w, err);
    }
    sb_drafter_free(&w.drafter);
    return status;
}
