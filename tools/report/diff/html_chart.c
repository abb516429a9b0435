/* html_chart.c - charts over tokens and rounds. */
#include <inttypes.h>

#include "tools/report/diff/html_parts.h"

/* --- divergence ------------------------------------------------------------------------------- */

static int kl_of(const void *verdicts, size_t i, double *value)
{
    const sb_token_verdict *t = &((const sb_verdicts *)verdicts)->tokens[i];
    *value = t->kl;
    return t->has_kl;
}

static int differs(const void *verdicts, size_t i)
{
    const sb_token_verdict *t = &((const sb_verdicts *)verdicts)->tokens[i];
    return t->has_top[0] && t->has_top[1] && t->top[0] != t->top[1];
}

void html_kl(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    if (!sb_diff_add(v).with_kl)
        return;
    sb_page_section(
        out, "kl", "Divergence of the next token",
        "KL divergence in nats of the reference's distribution from the engine's; both sides run "
        "on their own. The scale is logarithmic and the same in every report, with 0 at the "
        "bottom. A red stroke marks a token where the most likely token differs.");
    size_t lower = sb_diff_add(v).lower_kl;
    if (lower)
        fprintf(out,
                "<p class=\"hint lower\">For %zu tokens only a part of the distribution is known. "
                "Their divergence is at least as large as shown.</p>\n",
                lower);
    const sb_page_curve curve = {.ctx = v,
                                 .label = "KL divergence by token",
                                 .unit = "position",
                                 .count = v->token_count,
                                 .value = kl_of,
                                 .flag = differs,
                                 .first = v->tokens[0].position,
                                 .last = v->tokens[v->token_count - 1].position};
    size_t flips = sb_page_curve_print(out, &curve);
    fprintf(out, "<p>Tokens where the most likely token differs: %zu of %zu.</p>\n", flips,
            v->token_count);
    sb_page_section_end(out);
}

/* --- acceptance ------------------------------------------------------------------------------- */

/* The drawing has these units, and is stretched. */
enum { CHART_WIDE = 1000, CHART_HIGH = 200 };

static void print_share(FILE *out, size_t part, size_t whole)
{
    if (!whole) {
        fputs("<td class=\"left\">-</td>", out);
        return;
    }
    fputs("<td class=\"left\">", out);
    sb_page_bar(out, (double)part / (double)whole);
    fprintf(out, " %zu of %zu</td>", part, whole);
}

/* Prints, for the drafts at this place in their rounds, how many there were and how many were
 * accepted. */
static void print_place(FILE *out, const sb_verdicts *v, size_t place)
{
    const sb_diff_sums at = sb_diff_depth(v, place);
    fprintf(out, "<tr><td>draft %zu</td>", place + 1);
    print_share(out, at.accepted[0], at.drafted[0]);
    print_share(out, at.accepted[1], at.drafted[1]);
    fputs("</tr>\n", out);
}

static double mean_accepted(const sb_verdicts *v, const sb_page_bins *b, size_t bin, int side)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = bin * b->size; i < (bin + 1) * b->size && i < v->round_count; i++) {
        sum += (double)v->rounds[i].accepted[side];
        n++;
    }
    return n ? sum / (double)n : 0;
}

/* True if every round has the reference's acceptance; only then its line is drawn. */
static int all_have_reference(const sb_verdicts *v)
{
    for (size_t i = 0; i < v->round_count; i++)
        if (!v->rounds[i].has_reference)
            return 0;
    return 1;
}

/* Prints bars for the engine and a line for the reference, up to the largest number of drafts. */
static void print_rounds(FILE *out, const sb_verdicts *v, size_t most)
{
    sb_page_bins b = sb_page_bins_of(v->round_count);
    double wide = (double)CHART_WIDE / (double)b.count;
    fprintf(out,
            "<div class=\"grid\">\n<div class=\"ticks\"><span style=\"top:8px\">%zu</span><span "
            "style=\"top:72px\">0</span></div>\n<div style=\"width:min(100%%,%zupx)\">\n<svg "
            "class=\"chart accepted\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
            "style=\"height:80px\" role=\"img\" aria-label=\"accepted drafts by round\">\n",
            most, b.count * 40, CHART_WIDE, CHART_HIGH);
    for (size_t i = 0; i < b.count; i++) {
        double high = 180.0 * mean_accepted(v, &b, i, 1) / (double)most;
        fprintf(out, "<rect class=\"eng\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                ((double)i + 0.15) * wide, 190.0 - high, 0.7 * wide, high + 2.0);
    }
    fputs("<path class=\"ref\" d=\"", out);
    for (size_t i = 0; i < b.count && all_have_reference(v); i++)
        fprintf(out, "%s%.1f %.1fh%.1f", i ? "L" : "M", (double)i * wide,
                190.0 - 180.0 * mean_accepted(v, &b, i, 0) / (double)most, wide);
    fputs("\"/>\n</svg>\n", out);
    sb_page_ends(out, "position", v->rounds[0].position, v->rounds[v->round_count - 1].position);
    fputs("</div>\n</div>\n<p class=\"legend\"><span><i class=\"eng\"></i>engine</span><span><i "
          "class=\"ref\"></i>reference</span></p>\n",
          out);
    if (b.size > 1)
        fprintf(
            out,
            "<p class=\"hint binned\">Up to %zu rounds share a bar. The bar shows their mean.</p>\n",
            b.size);
}

void html_acceptance(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    const size_t most = sb_diff_depths(v);
    if (!most)
        return;
    sb_page_section(out, "acceptance", "Acceptance of drafts",
                    "How many drafts were accepted, by their place in the round "
                    "and round by round. Both sides have to agree.");
    sb_page_table(out, "places", "place|<reference|<engine");
    for (size_t place = 0; place < most; place++)
        print_place(out, v, place);
    sb_page_table_end(out);
    fputs("<h3>Accepted in each round</h3>\n", out);
    print_rounds(out, v, most);
    sb_page_section_end(out);
}
