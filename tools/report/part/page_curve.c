/* page_curve.c - a curve of values along a text, on a logarithmic scale. */
#include <inttypes.h>

#include "tools/report/part/page.h"

/* Charts are drawn in these units and stretched. */
enum { WIDE = 1000, HIGH = 200 };

/* The range is fixed, so that pages can be compared: 1e-16 to 1e2 nats. */
static const double lowest = 1e-16, highest = 1e2;

static double height_of(double value)
{
    double x = value > lowest ? value < highest ? value : highest : lowest;
    return (double)HIGH * (sb_page_octaves(highest) - sb_page_octaves(x)) /
           (sb_page_octaves(highest) - sb_page_octaves(lowest));
}

sb_page_bins sb_page_bins_of(size_t things)
{
    sb_page_bins b = {.size = (things + SB_PAGE_POINTS - 1) / SB_PAGE_POINTS};
    b.count = b.size ? (things + b.size - 1) / b.size : 0;
    return b;
}

static double middle(const sb_page_bins *b, size_t i)
{
    return (double)WIDE * ((double)i + 0.5) / (double)b->count;
}

/* The mean and the largest value of a bin; 0 if no item of the bin has a value. */
static int bin_of(const sb_page_curve *c, const sb_page_bins *b, size_t bin, double *mean,
                  double *max)
{
    size_t n = 0;
    double value;
    *mean = *max = 0;
    for (size_t i = bin * b->size; i < (bin + 1) * b->size && i < c->count; i++) {
        if (!c->value(c->ctx, i, &value))
            continue;
        n++;
        *mean += value;
        *max = value > *max ? value : *max;
    }
    *mean = n ? *mean / (double)n : 0;
    return n > 0;
}

/* way 0: a line through the largest values; 1: a line through the means; 2: a dot at each mean. */
static void print_line(FILE *out, const sb_page_curve *c, const sb_page_bins *b, int way)
{
    static const char *const classes[] = {"max", "mean", "dots"};
    int drawn = 0;
    fprintf(out, "<path class=\"%s\" d=\"", classes[way]);
    for (size_t i = 0; i < b->count; i++) {
        double mean, max;
        int has = bin_of(c, b, i, &mean, &max);
        if (has)
            fprintf(out, "%s%.1f %.1f%s", drawn && way != 2 ? "L" : "M", middle(b, i),
                    height_of(way == 0 ? max : mean), way == 2 ? "h0" : "");
        drawn = has;
    }
    fputs("\"/>\n", out);
}

static size_t print_flags(FILE *out, const sb_page_curve *c, const sb_page_bins *b)
{
    size_t flags = 0;
    fputs("<path class=\"flip\" d=\"", out);
    for (size_t bin = 0; bin < b->count; bin++) {
        size_t here = 0;
        for (size_t i = bin * b->size; i < (bin + 1) * b->size && i < c->count; i++)
            here += c->flag(c->ctx, i) != 0;
        if (here)
            fprintf(out, "M%.1f %dv-14", middle(b, bin), HIGH);
        flags += here;
    }
    fputs("\"/>\n", out);
    return flags;
}

static void print_frame(FILE *out, const char *label)
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
            "aria-label=\"%s\">\n<path class=\"rule\" d=\"",
            WIDE, HIGH, HIGH, label);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        fprintf(out, "M0 %.1fh%d", height_of(marks[i].at), WIDE);
    fputs("\"/>\n", out);
}

void sb_page_ends(FILE *out, const char *unit, uint64_t first, uint64_t last)
{
    fprintf(out,
            "<div class=\"axis\"><span class=\"start\" style=\"left:0\">%s %" PRIu64
            "</span><span class=\"end\" style=\"left:100%%\">%" PRIu64 "</span></div>\n",
            unit, first, last);
}

size_t sb_page_curve_print(FILE *out, const sb_page_curve *c)
{
    sb_page_bins b = sb_page_bins_of(c->count);
    if (b.size > 1)
        fprintf(out,
                "<p class=\"hint binned\">Up to %zu tokens share a point: the strong line shows "
                "their mean, the thin line their largest value.</p>\n",
                b.size);
    print_frame(out, c->label);
    if (b.size > 1)
        print_line(out, c, &b, 0);
    print_line(out, c, &b, 1);
    if (b.count <= 64)
        print_line(out, c, &b, 2);
    size_t flags = print_flags(out, c, &b);
    fputs("</svg>\n", out);
    sb_page_ends(out, c->unit, c->first, c->last);
    fputs("</div>\n</div>\n", out);
    return flags;
}
