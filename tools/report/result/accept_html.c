/* accept_html.c - the page of samebit accept. */

#include <inttypes.h>
#include <string.h>

#include "ref/base/text.h"
#include "tools/report/part/page.h"
#include "tools/report/part/print.h"
#include "tools/report/result/accept.h"

static sb_page_tone tone_of(sb_accept_verdict verdict)
{
    switch (verdict) {
    case SB_ACCEPT_CONSISTENT:
    case SB_ACCEPT_EQUAL:
        return SB_TONE_good;
    case SB_ACCEPT_UNKNOWN:
        return SB_TONE_open;
    default:
        return SB_TONE_bad;
    }
}

static sb_page_span span_of(const sb_interval *at)
{
    return (sb_page_span){at->low, at->rate, at->high};
}

/* --- the head --------------------------------------------------------------------------------- */

static void print_facts(FILE *out, const sb_accept *a)
{
    double mean = (double)a->accepted / (double)a->drafting;
    sb_page_facts(out);
    sb_page_fact_count(out, "positions", a->count);
    if (a->uneven)
        sb_page_fact_count(out, "with a draft", a->drafting);
    sb_page_fact(out, "accepted at each, mean");
    fprintf(out, "%.4f of %zu drafts", mean, a->drafts);
    sb_page_fact_end(out);
    sb_page_fact(out, "with the bonus token");
    fprintf(out, "%.4f", 1 + mean);
    sb_page_fact_end(out);
    sb_page_fact(out, "the text is the target's choice at");
    fprintf(out, "%" PRIu64 " of %zu", a->chosen, a->count);
    sb_page_fact_end(out);
    sb_page_fact(out, "the best constant draft, accepted");
    fprintf(out, "%" PRIu64 " of %zu", a->most_common, a->count);
    sb_page_fact_end(out);
    sb_page_facts_end(out);
}

static void print_head(FILE *out, const sb_accept_document *p, const char *word, const char *name)
{
    const sb_accept *a = p->accept;
    sb_page_head(out, p->observed_file ? tone_of(p->comparison->verdict) : SB_TONE_open, word, name,
                 p->drafter ? ", the drafts of a drafter" : ", the drafts of its MTP head",
                 p->observed_file
                     ? p->comparison->why
                     : "no counters of an engine were compared; --observed reads them");
    print_facts(out, a);
    sb_page_list(out);
    sb_page_item(out, "checkpoint", p->folder);
    sb_page_item(out, "profile", p->profile);
    if (p->drafter)
        sb_page_item(out, "drafter", p->drafter);
    fputs("<dt>along</dt><dd>", out);
    sb_page_count(out, a->texts, "text");
    fputs(", ", out);
    sb_page_count(out, a->tokens, "token");
    fputs("</dd>\n", out);
    sb_page_list_end(out);
    sb_page_head_end(out);
}

/* --- predicted -------------------------------------------------------------------------------- */

static void print_depths(FILE *out, const sb_accept *a)
{
    sb_page_section(
        out, "depths", "Acceptance by depth",
        "At how many positions all drafts up to this depth are accepted, with the 95 % interval. "
        "The last column counts only positions that reached this depth. The scale is 0 to 1.");
    sb_page_table(out, "depths", "depth|accepted|of|rate|95 %||of those reached");
    for (size_t j = 0; j < a->drafts; j++) {
        const sb_accept_depth *d = &a->depth[j];
        const sb_page_span span = span_of(&d->interval);
        fprintf(out,
                "<tr><td>%zu</td><td>%" PRIu64 "</td><td>%" PRIu64
                "</td><td>%.4f</td><td>%.4f to %.4f</td><td>",
                j + 1, d->rate.accepted, d->rate.of, span.rate, span.low, span.high);
        sb_page_interval(out, &span, NULL);
        fputs("</td><td>", out);
        if (d->reached)
            fprintf(out, "%.4f of %" PRIu64, (double)d->rate.accepted / (double)d->reached,
                    d->reached);
        else
            fputs("none", out);
        fputs("</td></tr>\n", out);
    }
    sb_page_table_end(out);
    if (a->chain.rounds)
        fprintf(out,
                "<p>An engine that writes this text from position %" PRIu64 " on counts %" PRIu64
                " rounds, %" PRIu64 " drafts, %" PRIu64 " accepted.</p>\n",
                a->chain.from, a->chain.rounds, a->chain.drafted, a->chain.accepted);
    sb_page_section_end(out);
}

/* How often 0, 1, ... drafts were accepted. */
static void print_lengths(FILE *out, const sb_accept *a)
{
    size_t counts[SB_MAX_DRAFTS + 1] = {0};
    for (size_t i = 0; i < a->count; i++)
        counts[a->rows[i].accepted]++;
    sb_page_section(out, "lengths", "Accepted at a position",
                    "At how many positions this number of drafts was accepted in a row.");
    sb_page_table(out, "lengths", "drafts|positions|<");
    for (size_t j = 0; j <= a->drafts; j++) {
        fprintf(out, "<tr><td>%zu</td><td>%zu</td><td class=\"left\">", j, counts[j]);
        sb_page_bar(out, (double)counts[j] / (double)a->count);
        fprintf(out, " %.1f %%</td></tr>\n", 100.0 * (double)counts[j] / (double)a->count);
    }
    sb_page_table_end(out);
    sb_page_section_end(out);
}

/* --- observed --------------------------------------------------------------------------------- */

static void print_counters(FILE *out, const sb_accept_document *p)
{
    const sb_observed *o = p->observed;
    sb_accept_definitions d = sb_observed_definitions(o);
    sb_page_facts(out);
    sb_page_fact_text(out, "engine", sb_engine_name(o->engine));
    if (o->has_rounds)
        sb_page_fact_count(out, "rounds", o->rounds);
    if (o->has_drafted)
        sb_page_fact_count(out, "drafts", o->drafted);
    if (o->has_accepted)
        sb_page_fact_count(out, "accepted", o->accepted);
    if (d.has_length) {
        sb_page_fact(out, "accepted in a round, mean");
        fprintf(out, "%.4f", d.length);
        sb_page_fact_end(out);
        sb_page_fact(out, "with the bonus token");
        fprintf(out, "%.4f", d.bonus_length);
        sb_page_fact_end(out);
    }
    if (d.has_rate) {
        sb_page_fact(out, "accepted of the drafts");
        fprintf(out, "%.4f", d.rate);
        sb_page_fact_end(out);
    }
    sb_page_facts_end(out);
}

static void print_line(FILE *out, const sb_accept_line *l)
{
    sb_interval engine = sb_rate_interval(&l->engine, SB_Z_SHOWN),
                own = sb_rate_interval(&l->reference, SB_Z_SHOWN);
    const sb_page_span first = span_of(&own), second = span_of(&engine);
    if (l->depth)
        fprintf(out, "<tr><td>depth %zu</td>", l->depth);
    else
        fputs("<tr><td>all drafts</td>", out);
    fputs("<td class=\"left\">", out);
    sb_page_chip(out, tone_of(l->verdict), sb_accept_verdict_name(l->verdict));
    fprintf(out, "</td><td>%.4f</td><td>%.4f</td><td>", own.rate, engine.rate);
    sb_page_interval(out, &first, &second);
    fprintf(out, "</td><td>%+.4f</td><td>%+.4f to %+.4f</td></tr>\n", l->difference.rate,
            l->difference.low, l->difference.high);
}

static void print_observed(FILE *out, const sb_accept_document *p)
{
    const sb_accept_comparison *c = p->comparison;
    if (!p->observed_file)
        return;
    sb_page_section(
        out, "observed", "Observed and predicted",
        "Rates with their 95 % intervals on a scale of 0 to 1. The verdict is about the difference "
        "of the two rates: BELOW or ABOVE if its 99.9 % interval does not contain 0.");
    print_counters(out, p);
    if (c->count) {
        sb_page_table(out, "observed", "of|<verdict|predicted|observed||difference|99.9 %");
        for (size_t i = 0; i < c->count; i++)
            print_line(out, &c->lines[i]);
        sb_page_table_end(out);
        fputs("<p class=\"legend\"><span><i class=\"ref\"></i>predicted</span><span><i "
              "class=\"eng\"></i>observed</span></p>\n",
              out);
    }
    sb_page_section_end(out);
}

/* --- the page --------------------------------------------------------------------------------- */

static int print_page(FILE *out, const void *page)
{
    const sb_accept_document *p = page;
    const char *word =
        p->observed_file ? sb_accept_verdict_name(p->comparison->verdict) : "MEASURED";
    const char *name = sb_path_title(p->folder);
    sb_page_open(out, word, name);
    print_head(out, p, word, name);
    print_observed(out, p);
    print_depths(out, p->accept);
    print_lengths(out, p->accept);
    sb_page_again(out, p->arguments, p->argument_count);
    sb_page_item(out, "checkpoint", p->folder);
    if (p->observed_file)
        sb_page_item(out, "counters", p->observed_file);
    sb_page_again_end(out);
    sb_page_close(out);
    return 1;
}

sb_status sb_accept_html(const sb_accept_document *page, const char *path, sb_error *err)
{
    return sb_print_file(path, print_page, page, "page", err);
}
