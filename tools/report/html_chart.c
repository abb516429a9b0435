/* html_chart.c - charts over tokens and rounds. */
#include <inttypes.h>

#include "ref/base/bytes.h"
#include "tools/report/html_parts.h"

/* Charts are drawn in these units and stretched. */
enum { CHART_WIDE = 1000, CHART_HIGH = 200 };

/* The range of the KL chart is fixed, so that charts can be compared: 1e-16 to 1e2 nats. */
static const double lowest = 1e-16, highest = 1e2;

/* The binary logarithm, linear between powers of two; for drawing only. */
static double octaves(double x)
{
    uint64_t bits = sb_bits_f64(x), ones = 0x3ffULL << 52;
    double part = sb_f64_from_bits((bits & 0xfffffffffffffULL) | ones) - 1.0;
    return (double)(bits >> 52 & 0x7ff) - 1023.0 + part;
}

static double height_of(double kl)
{
    double x = kl > lowest ? kl < highest ? kl : highest : lowest;
    return (double)CHART_HIGH * (octaves(highest) - octaves(x)) /
           (octaves(highest) - octaves(lowest));
}

typedef struct bins {
    size_t count, size; /* number of bins, and items per bin */
} bins;

static bins bins_of(size_t things)
{
    bins b = {.size = (things + HTML_POINTS - 1) / HTML_POINTS};
    b.count = b.size ? (things + b.size - 1) / b.size : 0;
    return b;
}

static double middle(const bins *b, size_t i)
{
    return (double)CHART_WIDE * ((double)i + 0.5) / (double)b->count;
}

/* --- divergence --------------------------------------------------------------------------------
 */

/* The mean and the largest divergence of a bin; 0 if none of its tokens has one. */
static int bin_kl(const sb_verdicts *v, const bins *b, size_t bin, double *mean, double *max)
{
    size_t n = 0;
    *mean = *max = 0;
    for (size_t i = bin * b->size; i < (bin + 1) * b->size && i < v->token_count; i++) {
        if (!v->tokens[i].has_kl)
            continue;
        n++;
        *mean += v->tokens[i].kl;
        *max = v->tokens[i].kl > *max ? v->tokens[i].kl : *max;
    }
    *mean = n ? *mean / (double)n : 0;
    return n > 0;
}

static int differs(const sb_token_verdict *t)
{
    return t->has_top[0] && t->has_top[1] && t->top[0] != t->top[1];
}

/* way 0: the largest; 1: the mean; 2: a dot for each. */
static void print_line(FILE *out, const sb_verdicts *v, const bins *b, int way)
{
    static const char *const classes[] = {"max", "mean", "dots"};
    int drawn = 0;
    fprintf(out, "<path class=\"%s\" d=\"", classes[way]);
    for (size_t i = 0; i < b->count; i++) {
        double mean, max;
        int has = bin_kl(v, b, i, &mean, &max);
        if (has)
            fprintf(out, "%s%.1f %.1f%s", drawn && way != 2 ? "L" : "M", middle(b, i),
                    height_of(way == 0 ? max : mean), way == 2 ? "h0" : "");
        drawn = has;
    }
    fputs("\"/>\n", out);
}

static size_t print_flips(FILE *out, const sb_verdicts *v, const bins *b)
{
    size_t flips = 0;
    fputs("<path class=\"flip\" d=\"", out);
    for (size_t bin = 0; bin < b->count; bin++) {
        size_t here = 0;
        for (size_t i = bin * b->size; i < (bin + 1) * b->size && i < v->token_count; i++)
            here += differs(&v->tokens[i]) != 0;
        if (here)
            fprintf(out, "M%.1f %dv-14", middle(b, bin), CHART_HIGH);
        flips += here;
    }
    fputs("\"/>\n", out);
    return flips;
}

static void print_kl_frame(FILE *out)
{
    static const struct {
        double at;
        const char *words;
    } marks[] = {{1, "1"}, {1e-4, "1e-4"}, {1e-8, "1e-8"}, {1e-12, "1e-12"}, {1e-16, "0"}};
    fputs("<div class=\"grid\">\n<div class=\"ticks\">", out);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        fprintf(out, "<span style=\"top:%.0fpx\">%s</span>", height_of(marks[i].at),
                marks[i].words);
    fprintf(out,
            "</div>\n<div>\n<svg class=\"chart\" viewBox=\"0 0 %d %d\" "
            "preserveAspectRatio=\"none\" style=\"height:%dpx\" role=\"img\" "
            "aria-label=\"KL divergence by token\">\n<path class=\"rule\" d=\"",
            CHART_WIDE, CHART_HIGH, CHART_HIGH);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        fprintf(out, "M0 %.1fh%d", height_of(marks[i].at), CHART_WIDE);
    fputs("\"/>\n", out);
}

static void print_ends(FILE *out, uint64_t first, uint64_t last)
{
    fprintf(out,
            "<div class=\"axis\"><span class=\"start\" style=\"left:0\">position %" PRIu64
            "</span><span class=\"end\" style=\"left:100%%\">%" PRIu64 "</span></div>\n",
            first, last);
}

void html_kl(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    bins b = bins_of(v->token_count);
    if (!sb_diff_add(v).with_kl)
        return;
    html_open(
        out, "kl", "Divergence of the next token",
        "KL divergence in nats of the reference's distribution from the engine's, both on "
        "their own. The scale is logarithmic and the same in every report: 0 is the bottom. A "
        "red stroke: another token is the likeliest.");
    if (b.size > 1)
        fprintf(
            out,
            "<p class=\"hint binned\">%zu tokens share a point: their mean (strong) and largest "
            "(thin).</p>\n",
            b.size);
    size_t lower = sb_diff_add(v).lower_kl;
    if (lower)
        fprintf(out,
                "<p class=\"hint lower\">Of %zu tokens only a part of the distribution is known: "
                "their divergence is at least what is shown.</p>\n",
                lower);
    print_kl_frame(out);
    if (b.size > 1)
        print_line(out, v, &b, 0);
    print_line(out, v, &b, 1);
    if (b.count <= 64)
        print_line(out, v, &b, 2);
    size_t flips = print_flips(out, v, &b);
    fputs("</svg>\n", out);
    print_ends(out, v->tokens[0].position, v->tokens[v->token_count - 1].position);
    fprintf(out, "</div>\n</div>\n<p>Another likeliest token: %zu of %zu.</p>\n", flips,
            v->token_count);
    html_close(out);
}

/* --- acceptance --------------------------------------------------------------------------------
 */

static void print_share(FILE *out, size_t part, size_t whole)
{
    if (!whole) {
        fputs("<td class=\"left\">-</td>", out);
        return;
    }
    fputs("<td class=\"left\">", out);
    html_bar(out, (double)part / (double)whole);
    fprintf(out, " %zu of %zu</td>", part, whole);
}

/* Prints, for the drafts at this place in their rounds, how many there were and how many were
 * accepted. */
static void print_place(FILE *out, const sb_verdicts *v, size_t place)
{
    size_t drafted[2] = {0, 0}, accepted[2] = {0, 0};
    for (size_t i = 0; i < v->round_count; i++)
        for (int side = 0; side < 2; side++) {
            const sb_round_verdict *round = &v->rounds[i];
            drafted[side] += round->drafted[side] > place;
            accepted[side] += round->accepted[side] > place;
        }
    fprintf(out, "<tr><td>draft %zu</td>", place + 1);
    print_share(out, accepted[0], drafted[0]);
    print_share(out, accepted[1], drafted[1]);
    fputs("</tr>\n", out);
}

static double mean_accepted(const sb_verdicts *v, const bins *b, size_t bin, int side)
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
    bins b = bins_of(v->round_count);
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
    print_ends(out, v->rounds[0].position, v->rounds[v->round_count - 1].position);
    fputs("</div>\n</div>\n<p class=\"legend\"><span><i class=\"eng\"></i>engine</span><span><i "
          "class=\"ref\"></i>reference</span></p>\n",
          out);
    if (b.size > 1)
        fprintf(out, "<p class=\"hint binned\">%zu rounds share a bar: their mean.</p>\n", b.size);
}

void html_acceptance(FILE *out, const sb_diff_report *r)
{
    const sb_verdicts *v = r->verdicts;
    size_t most = 0;
    for (size_t i = 0; i < v->round_count; i++)
        for (int side = 0; side < 2; side++)
            most = v->rounds[i].drafted[side] > most ? v->rounds[i].drafted[side] : most;
    if (!most)
        return;
    html_open(out, "acceptance", "Acceptance of drafts",
              "How many of the tokens that the MTP head proposed were kept, by their place in the "
              "round, and round by round. Both sides have to agree.");
    fputs("<div class=\"scroll\"><table>\n<tr><th>place</th><th class=\"left\">reference</th><th "
          "class=\"left\">engine</th></tr>\n",
          out);
    for (size_t place = 0; place < most; place++)
        print_place(out, v, place);
    fputs("</table></div>\n<h3>Accepted in each round</h3>\n", out);
    print_rounds(out, v, most);
    html_close(out);
}
