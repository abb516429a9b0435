#include "tools/report/result/accept.h"

#include <inttypes.h>
#include <stdio.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/report/part/document.h"

/* --- text ------------------------------------------------------------------------------------- */

static void print_positions(const sb_accept *a)
{
    printf("text position    token  accepted  drafts | target, margin of its first row\n");
    for (size_t i = 0; i < a->count; i++) {
        const sb_accept_row *r = &a->rows[i];
        printf("%4zu %8" PRIu64 " %8u %9zu ", r->text, r->position, (unsigned)r->token,
               r->accepted);
        sb_ids_print("", r->drafts, r->drafted);
        sb_ids_print(" |", r->target, r->drafted + 1);
        printf(" %.9g\n", (double)r->margin[0]);
    }
}

static double mean_accepted(const sb_accept *a)
{
    return (double)a->accepted / (double)a->drafting;
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

static void print_measured(const sb_accept_document *d, int verbose)
{
    const sb_accept *a = d->accept;
    printf("%s: %zu text%s, %" PRIu64 " token%s, %zu position%s, %zu draft%s at each, profile %s\n",
           SB_SHOW(d->folder), a->texts, sb_s(a->texts), a->tokens, sb_s(a->tokens), a->count,
           sb_s(a->count), a->drafts, sb_s(a->drafts), d->profile);
    if (d->drafter && !a->uneven)
        printf("drafter %s\n", SB_SHOW(d->drafter));
    else if (d->drafter)
        printf("drafter %s: drafts at %zu of the positions, at most %zu each; rates are of these\n",
               SB_SHOW(d->drafter), a->drafting, a->drafts);
    if (verbose)
        print_positions(a);
    print_depths(a);
    printf("the text is the target's choice at %" PRIu64 " of %zu position%s\n", a->chosen,
           a->count, sb_s(a->count));
    printf("the best constant draft, %u, would be accepted at %" PRIu64 "\n",
           (unsigned)a->common_token, a->most_common);
    if (d->answered)
        print_counted("reference:", a->chain.rounds, a->chain.drafted, a->chain.accepted,
                      a->chain.by_depth, a->drafts);
    else if (a->chain.rounds)
        printf("an engine that writes this text from position %" PRIu64 " on counts %" PRIu64
               " round%s, %" PRIu64 " draft%s, %" PRIu64 " accepted\n",
               a->chain.from, a->chain.rounds, sb_s(a->chain.rounds), a->chain.drafted,
               sb_s(a->chain.drafted), a->chain.accepted);
}

static void print_observed(const sb_accept_document *d)
{
    const sb_observed *o = d->observed;
    const sb_accept_comparison *c = d->comparison;
    sb_accept_definitions means = sb_observed_definitions(o);
    printf("%s, %s: %zu part%s", SB_SHOW(d->observed_file), sb_engine_name(o->engine), o->parts,
           sb_s(o->parts));
    if (o->has_rounds)
        printf(", %" PRIu64 " round%s", o->rounds, sb_s(o->rounds));
    if (o->has_drafted)
        printf(", %" PRIu64 " draft%s", o->drafted, sb_s(o->drafted));
    if (o->has_accepted)
        printf(", %" PRIu64 " accepted", o->accepted);
    if (means.has_length)
        printf("; mean acceptance length %.4f, with the bonus token %.4f", means.length,
               means.bonus_length);
    if (means.has_rate)
        printf("; %.4f of the drafts", means.rate);
    printf("\n");
    if (d->answered && c->verdict != SB_ACCEPT_UNKNOWN)
        print_counted("engine:", o->rounds, o->drafted, o->accepted, o->by_depth, o->depths);
    for (size_t i = 0; i < c->count; i++) {
        const sb_accept_line *l = &c->lines[i];
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
    printf("%s: %s\n", sb_accept_verdict_name(c->verdict), c->why);
}

void sb_accept_print(const sb_accept_document *d, int verbose)
{
    print_measured(d, verbose);
    if (d->observed_file)
        print_observed(d);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *positions_json(const sb_accept *a)
{
    json_t *out = json_array();
    for (size_t i = 0; i < a->count; i++) {
        const sb_accept_row *r = &a->rows[i];
        json_t *row = json_object(), *margins = json_array();
        for (size_t k = 0; k <= r->drafted; k++)
            SB_ADD(margins, r->margin[k]);
        SB_PUT(row, "text", r->text);
        SB_PUT(row, "position", r->position);
        SB_PUT(row, "token", r->token);
        SB_PUT(row, "drafts", sb_ids_json(r->drafts, r->drafted));
        SB_PUT(row, "target", sb_ids_json(r->target, r->drafted + 1));
        SB_PUT(row, "margin", margins);
        SB_PUT(row, "accepted", r->accepted);
        SB_ADD(out, row);
    }
    return out;
}

static json_t *depths_json(const sb_accept *a)
{
    json_t *out = json_array();
    for (size_t j = 0; j < a->drafts; j++) {
        const sb_accept_depth *d = &a->depth[j];
        json_t *row = json_object();
        SB_PUT(row, "drafted", d->rate.of);
        SB_PUT(row, "accepted", d->rate.accepted);
        SB_PUT(row, "rate", d->interval.rate);
        SB_PUT(row, "low", d->interval.low);
        SB_PUT(row, "high", d->interval.high);
        SB_PUT(row, "reached", d->reached);
        SB_PUT(row, "design_effect", d->rate.effect);
        SB_ADD(out, row);
    }
    return out;
}

static json_t *lines_json(const sb_accept_comparison *c)
{
    json_t *out = json_array();
    for (size_t i = 0; i < c->count; i++) {
        const sb_accept_line *l = &c->lines[i];
        json_t *line = json_object();
        SB_PUT(line, "depth", SB_KNOWN(l->depth, l->depth));
        SB_PUT(line, "engine", sb_rate_interval(&l->engine, SB_Z_SHOWN).rate);
        SB_PUT(line, "reference", sb_rate_interval(&l->reference, SB_Z_SHOWN).rate);
        SB_PUT(line, "difference", l->difference.rate);
        SB_PUT(line, "low", l->difference.low);
        SB_PUT(line, "high", l->difference.high);
        SB_PUT(line, "verdict", sb_accept_verdict_name(l->verdict));
        SB_ADD(out, line);
    }
    return out;
}

static json_t *observed_json(const sb_accept_document *d)
{
    const sb_observed *o = d->observed;
    sb_accept_definitions means = sb_observed_definitions(o);
    json_t *out = json_object();
    SB_PUT(out, "file", sb_report_string(d->observed_file));
    SB_PUT(out, "engine", sb_engine_name(o->engine));
    SB_PUT(out, "parts", o->parts);
    SB_PUT(out, "rounds", SB_KNOWN(o->has_rounds, o->rounds));
    SB_PUT(out, "drafted", SB_KNOWN(o->has_drafted, o->drafted));
    SB_PUT(out, "accepted", SB_KNOWN(o->has_accepted, o->accepted));
    SB_PUT(out, "accepted_by_depth", sb_counts_json(o->by_depth, o->depths));
    SB_PUT(out, "accepted_per_round", SB_KNOWN(means.has_length, means.length));
    SB_PUT(out, "emitted_per_round", SB_KNOWN(means.has_length, means.bonus_length));
    SB_PUT(out, "accepted_per_draft", SB_KNOWN(means.has_rate, means.rate));
    SB_PUT(out, "compared", lines_json(d->comparison));
    SB_PUT(out, "verdict", sb_accept_verdict_name(d->comparison->verdict));
    SB_PUT(out, "why", d->comparison->why);
    return out;
}

static json_t *chain_json(const sb_accept *a)
{
    json_t *out = json_object();
    SB_PUT(out, "from", a->chain.from);
    SB_PUT(out, "rounds", a->chain.rounds);
    SB_PUT(out, "drafted", a->chain.drafted);
    SB_PUT(out, "accepted", a->chain.accepted);
    SB_PUT(out, "accepted_by_depth", sb_counts_json(a->chain.by_depth, a->drafts));
    return out;
}

json_t *sb_accept_json(const sb_accept_document *d)
{
    const sb_accept *a = d->accept;
    json_t *out = sb_document("accept"), *constant = json_object();
    SB_PUT(constant, "token", a->common_token);
    SB_PUT(constant, "accepted", a->most_common);
    SB_PUT(out, "profile", d->profile);
    SB_PUT(out, "drafts", a->drafts);
    if (d->drafter) {
        SB_PUT(out, "drafter", d->drafter);
        SB_PUT(out, "positions_with_drafts", a->drafting);
    }
    SB_PUT(out, "positions", positions_json(a));
    SB_PUT(out, "by_depth", depths_json(a));
    SB_PUT(out, "accepted_per_round", mean_accepted(a));
    SB_PUT(out, "emitted_per_round", 1 + mean_accepted(a));
    SB_PUT(out, "chosen", a->chosen);
    SB_PUT(out, "best_constant", constant);
    SB_PUT(out, "rounds", SB_KNOWN(a->chain.rounds, chain_json(a)));
    SB_PUT(out, "observed", SB_KNOWN(d->observed_file, observed_json(d)));
    return out;
}
