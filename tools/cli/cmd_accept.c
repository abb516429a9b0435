/* cmd_accept.c - samebit accept: the drafts of the MTP head along a text, and which of them the
 * target accepts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/judge/accept/verdict.h"
#include "tools/report/check/report.h"
#include "tools/cli/accept_html.h"
#include "tools/cli/cli.h"
#include "tools/cli/opts.h"
#include "tools/cli/prompt.h"

typedef struct wishes {
    sb_prompts from;
    const char *folder, *observed_file, *profile, *html, *given;
    const char *const *arguments; /* the command line */
    size_t argument_count;
    sb_repeated settings, overlays;
    uint64_t depth, threads;
    int as_json, verbose;
    sb_knobs knobs;
} wishes;

typedef struct run {
    const wishes *w;
    sb_sequence *sequences;
    size_t count;
    sb_sequence given; /* tokens of the prompts: one number for all texts, or one for each */
    sb_observed observed;
    sb_accept accept;
    sb_accept_comparison comparison;
} run;

/* --- text ------------------------------------------------------------------------------------- */

static void print_positions(const sb_accept *a)
{
    printf("text position    token  accepted  drafts | target, margin of its first row\n");
    for (size_t i = 0; i < a->count; i++) {
        const sb_accept_row *r = &a->rows[i];
        printf("%4zu %8" PRIu64 " %8u %9zu ", r->text, r->position, (unsigned)r->token,
               r->accepted);
        sb_ids_print("", r->drafts, a->drafts);
        sb_ids_print(" |", r->target, a->drafts + 1);
        printf(" %.9g\n", (double)r->margin[0]);
    }
}

static double mean_accepted(const sb_accept *a)
{
    return (double)a->accepted / (double)a->count;
}

static void print_depths(const sb_accept *a)
{
    printf("depth   drafted  accepted    rate     low    high  of those reached\n");
    for (size_t j = 0; j < a->drafts; j++) {
        const sb_accept_depth *d = &a->depth[j];
        printf("%5zu %9" PRIu64 " %9" PRIu64 "  %.4f  %.4f  %.4f  ", j + 1, d->rate.of,
               d->rate.accepted, d->interval.rate, d->interval.low, d->interval.high);
        if (d->reached)
            printf("%.4f of %" PRIu64 "\n", (double)d->rate.accepted / (double)d->reached,
                   d->reached);
        else
            printf("none\n");
    }
    printf("mean acceptance length %.4f, with the bonus token %.4f\n", mean_accepted(a),
           1 + mean_accepted(a));
}

static void print_counted(const char *who, uint64_t rounds, uint64_t drafted, uint64_t accepted,
                          const uint64_t *by_depth, size_t depths)
{
    printf("%-10s %" PRIu64 " round%s, %" PRIu64 " draft%s, %" PRIu64 " accepted", who, rounds,
           sb_s(rounds), drafted, sb_s(drafted), accepted);
    for (size_t j = 0; j < depths; j++)
        printf("%s%" PRIu64, j ? ", " : "; by depth ", by_depth[j]);
    printf("\n");
}

static void print_text(const run *r)
{
    const sb_accept *a = &r->accept;
    printf("%s: %zu text%s, %" PRIu64 " token%s, %zu position%s, %zu draft%s at each, profile %s\n",
           SB_SHOW(r->w->folder), a->texts, sb_s(a->texts), a->tokens, sb_s(a->tokens), a->count,
           sb_s(a->count), a->drafts, sb_s(a->drafts), r->w->profile);
    if (r->w->verbose)
        print_positions(a);
    print_depths(a);
    printf("the text is the target's choice at %" PRIu64 " of %zu position%s\n", a->chosen,
           a->count, sb_s(a->count));
    printf("the best constant draft, %u, would be accepted at %" PRIu64 "\n",
           (unsigned)a->common_token, a->most_common);
    if (r->given.count)
        print_counted("reference:", a->chain.rounds, a->chain.drafted, a->chain.accepted,
                      a->chain.by_depth, a->drafts);
    else if (a->chain.rounds)
        printf("an engine that writes this text from position %" PRIu64 " on counts %" PRIu64
               " round%s, %" PRIu64 " draft%s, %" PRIu64 " accepted\n",
               a->chain.from, a->chain.rounds, sb_s(a->chain.rounds), a->chain.drafted,
               sb_s(a->chain.drafted), a->chain.accepted);
}

static void print_observed(const run *r)
{
    const sb_observed *o = &r->observed;
    sb_accept_definitions d = sb_observed_definitions(o);
    printf("%s, %s: %zu part%s", SB_SHOW(r->w->observed_file), sb_engine_name(o->engine), o->parts,
           sb_s(o->parts));
    if (o->has_rounds)
        printf(", %" PRIu64 " round%s", o->rounds, sb_s(o->rounds));
    if (o->has_drafted)
        printf(", %" PRIu64 " draft%s", o->drafted, sb_s(o->drafted));
    if (o->has_accepted)
        printf(", %" PRIu64 " accepted", o->accepted);
    if (d.has_length)
        printf("; mean acceptance length %.4f, with the bonus token %.4f", d.length,
               d.bonus_length);
    if (d.has_rate)
        printf("; %.4f of the drafts", d.rate);
    printf("\n");
    if (r->given.count && r->comparison.verdict != SB_ACCEPT_UNKNOWN)
        print_counted("engine:", o->rounds, o->drafted, o->accepted, o->by_depth, o->depths);
    for (size_t i = 0; i < r->comparison.count; i++) {
        const sb_accept_line *l = &r->comparison.lines[i];
        sb_interval engine = sb_rate_interval(&l->engine, SB_Z_SHOWN),
                    own = sb_rate_interval(&l->reference, SB_Z_SHOWN);
        if (l->depth)
            printf("depth %zu: ", l->depth);
        else
            printf("all drafts: ");
        printf("engine %.4f, reference %.4f, difference %+.4f (%+.4f to %+.4f): %s\n", engine.rate,
               own.rate, l->difference.rate, l->difference.low, l->difference.high,
               sb_accept_verdict_name(l->verdict));
    }
    printf("%s: %s\n", sb_accept_verdict_name(r->comparison.verdict), r->comparison.why);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *positions_json(const sb_accept *a)
{
    json_t *out = json_array();
    for (size_t i = 0; i < a->count; i++) {
        const sb_accept_row *r = &a->rows[i];
        json_t *margins = json_array();
        for (size_t k = 0; k <= a->drafts; k++)
            json_array_append_new(margins, json_real((double)r->margin[k]));
        json_array_append_new(out, json_pack("{s:I,s:I,s:I,s:o,s:o,s:o,s:I}", "text",
                                             (json_int_t)r->text, "position",
                                             (json_int_t)r->position, "token", (json_int_t)r->token,
                                             "drafts", sb_ids_json(r->drafts, a->drafts), "target",
                                             sb_ids_json(r->target, a->drafts + 1), "margin",
                                             margins, "accepted", (json_int_t)r->accepted));
    }
    return out;
}

static json_t *depths_json(const sb_accept *a)
{
    json_t *out = json_array();
    for (size_t j = 0; j < a->drafts; j++) {
        const sb_accept_depth *d = &a->depth[j];
        json_array_append_new(
            out, json_pack("{s:I,s:I,s:f,s:f,s:f,s:I,s:f}", "drafted", (json_int_t)d->rate.of,
                           "accepted", (json_int_t)d->rate.accepted, "rate", d->interval.rate,
                           "low", d->interval.low, "high", d->interval.high, "reached",
                           (json_int_t)d->reached, "design_effect", d->rate.effect));
    }
    return out;
}

static json_t *by_depth_json(const uint64_t *counts, size_t depths)
{
    json_t *out = json_array();
    for (size_t j = 0; j < depths; j++)
        json_array_append_new(out, json_integer((json_int_t)counts[j]));
    return out;
}

static json_t *count_json(int known, uint64_t value)
{
    return known ? json_integer((json_int_t)value) : json_null();
}

static json_t *real_json(int known, double value)
{
    return known ? json_real(value) : json_null();
}

static json_t *observed_json(const run *r)
{
    const sb_observed *o = &r->observed;
    sb_accept_definitions d = sb_observed_definitions(o);
    json_t *lines = json_array();
    for (size_t i = 0; i < r->comparison.count; i++) {
        const sb_accept_line *l = &r->comparison.lines[i];
        sb_interval engine = sb_rate_interval(&l->engine, SB_Z_SHOWN),
                    own = sb_rate_interval(&l->reference, SB_Z_SHOWN);
        json_array_append_new(lines,
                              json_pack("{s:o,s:f,s:f,s:f,s:f,s:f,s:s}", "depth",
                                        count_json(l->depth != 0, l->depth), "engine", engine.rate,
                                        "reference", own.rate, "difference", l->difference.rate,
                                        "low", l->difference.low, "high", l->difference.high,
                                        "verdict", sb_accept_verdict_name(l->verdict)));
    }
    return json_pack("{s:o,s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:s}", "file",
                     sb_report_string(r->w->observed_file), "engine", sb_engine_name(o->engine),
                     "parts", (json_int_t)o->parts, "rounds", count_json(o->has_rounds, o->rounds),
                     "drafted", count_json(o->has_drafted, o->drafted), "accepted",
                     count_json(o->has_accepted, o->accepted), "accepted_by_depth",
                     by_depth_json(o->by_depth, o->depths), "accepted_per_round",
                     real_json(d.has_length, d.length), "emitted_per_round",
                     real_json(d.has_length, d.bonus_length), "accepted_per_draft",
                     real_json(d.has_rate, d.rate), "compared", lines, "verdict",
                     sb_accept_verdict_name(r->comparison.verdict), "why", r->comparison.why);
}

static sb_status print_json(const run *r, sb_error *err)
{
    const sb_accept *a = &r->accept;
    json_t *document = sb_document("accept");
    json_object_set_new(document, "profile", json_string(r->w->profile));
    json_object_set_new(document, "drafts", json_integer((json_int_t)a->drafts));
    json_object_set_new(document, "positions", positions_json(a));
    json_object_set_new(document, "by_depth", depths_json(a));
    json_object_set_new(document, "accepted_per_round", json_real(mean_accepted(a)));
    json_object_set_new(document, "emitted_per_round", json_real(1 + mean_accepted(a)));
    json_object_set_new(document, "chosen", json_integer((json_int_t)a->chosen));
    json_object_set_new(document, "best_constant",
                        json_pack("{s:I,s:I}", "token", (json_int_t)a->common_token, "accepted",
                                  (json_int_t)a->most_common));
    json_object_set_new(document, "rounds",
                        a->chain.rounds
                            ? json_pack("{s:I,s:I,s:I,s:I,s:o}", "from", (json_int_t)a->chain.from,
                                        "rounds", (json_int_t)a->chain.rounds, "drafted",
                                        (json_int_t)a->chain.drafted, "accepted",
                                        (json_int_t)a->chain.accepted, "accepted_by_depth",
                                        by_depth_json(a->chain.by_depth, a->drafts))
                            : json_null());
    json_object_set_new(document, "observed", r->w->observed_file ? observed_json(r) : json_null());
    return sb_print_document(document, err);
}

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

static sb_status measure(run *r, sb_error *err)
{
    const wishes *w = r->w;
    sb_model *model = NULL;
    sb_accept_options options = {.knobs = &w->knobs,
                                 .drafts = (size_t)w->depth,
                                 .answered = r->given.count > 0,
                                 .progress = sb_progress};
    sb_accept_text *texts = calloc(r->count + 1, sizeof *texts);
    sb_status status =
        texts ? sb_model_open_overlaid(w->folder, w->overlays.item, w->overlays.count, &model, err)
              : sb_fail(err, SB_ERR_MEMORY, "out of memory for texts");
    for (size_t i = 0; i < r->count && !status; i++)
        texts[i] = (sb_accept_text){r->sequences[i].ids, r->sequences[i].count, given_of(r, i)};
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

static sb_status write_page(const run *r, sb_error *err)
{
    const wishes *w = r->w;
    const sb_accept_page page = {.folder = w->folder,
                                 .profile = w->profile,
                                 .observed_file = w->observed_file,
                                 .accept = &r->accept,
                                 .observed = &r->observed,
                                 .comparison = &r->comparison,
                                 .arguments = w->arguments,
                                 .argument_count = w->argument_count};
    return w->html ? sb_accept_html(&page, w->html, err) : SB_OK;
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
        status = measure(&r, err);
    if (!status && w->observed_file)
        (r.given.count ? sb_accept_compare_counters : sb_accept_compare)(&r.accept, &r.observed,
                                                                         &r.comparison);
    if (!status)
        status = write_page(&r, err);
    if (!status && w->as_json) {
        status = print_json(&r, err);
    } else if (!status) {
        print_text(&r);
        if (w->observed_file)
            print_observed(&r);
        if (fflush(stdout) != 0)
            status = sb_fail(err, SB_ERR_IO, "the table could not be written to stdout");
    }
    if (!status)
        status = verdict(&r, err);
    sb_accept_free(&r.accept);
    sb_numbers_free(&r.given);
    sb_sequences_free(r.sequences, r.count);
    return status;
}

static sb_status read_wishes(wishes *w, sb_error *err)
{
    if (w->depth < 1 || w->depth > SB_MAX_DRAFTS)
        return sb_fail(err, SB_ERR_USAGE, "-K is %" PRIu64 "; expected 1 to %d", w->depth,
                       SB_MAX_DRAFTS);
    if (w->threads > 4096)
        return sb_fail(err, SB_ERR_USAGE, "--threads is at most 4096");
    sb_status status = sb_prompts_check(&w->from, err);
    if (!status)
        status = sb_knobs_profile(&w->knobs, w->profile, err);
    for (size_t i = 0; i < w->settings.count && !status; i++)
        status = sb_knobs_set(&w->knobs, w->settings.item[i], err);
    return status;
}

sb_status sb_cmd_accept(int argc, char **argv, sb_error *err)
{
    wishes w = {.profile = "exact", .depth = 4};
    const sb_opt opts[] = {
        SB_PROMPT_OPTS(&w.from, "the text to measure along"),
        {"drafts", 'K', SB_OPT_NUMBER, &w.depth, "K", "drafts at each position, 1 to 8 (4)"},
        {"observed", 0, SB_OPT_INPUT, &w.observed_file, "FILE",
         "counters of vLLM, SGLang or llama-server to compare"},
        {"given", 0, SB_OPT_STRING, &w.given, "LIST",
         "tokens of the prompt that each text begins with; the rest is an engine's answer, and "
         "--observed must have the counters of its rounds, to the unit"},
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
    if (status)
        return status;
    sb_set_threads((unsigned)w.threads);
    return accept_all(&w, err);
}
