/* report_badge.c - the verdict in a few words, for the page of a model: a picture, or the JSON from
 * which shields.io draws a picture. */
#include <string.h>

#include "ref/base/text.h"
#include "tools/report/check/report.h"
#include "tools/report/part/print.h"
#include "tools/report/part/xml.h"

enum { WORDS = 96, CHAR_WIDE = 7, MARGIN = 10, HIGH = 20 };

typedef struct badge {
    const sb_report *report;
    int is_json;
} badge;

static const char *color_of(const sb_report *r)
{
    if (r->verdict == SB_CHECK_fail)
        return "#cc3333";
    return r->verdict == SB_CHECK_pass ? "#2b7a3d" : "#8a6d00";
}

/* "PASS, MTP FILE-OK" */
static void describe(const sb_report *r, char words[WORDS])
{
    snprintf(words, WORDS, "%s%s%s", sb_check_verdict_name(r->verdict), r->mtp ? ", MTP " : "",
             r->mtp ? sb_mtp_verdict_name(r->mtp->verdict) : "");
}

static void print_box(FILE *out, int x, int wide, const char *color, const char *text)
{
    fprintf(out,
            "  <rect x=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n"
            "  <text x=\"%d\" y=\"14\" textLength=\"%d\">",
            x, wide, HIGH, color, x + MARGIN, wide - 2 * MARGIN);
    sb_xml_escape(out, text);
    fputs("</text>\n", out);
}

static void print_picture(FILE *out, const sb_report *r)
{
    static const char title[] = "samebit check";
    char words[WORDS];
    describe(r, words);
    const int left = (int)strlen(title) * CHAR_WIDE + 2 * MARGIN;
    const int right = (int)strlen(words) * CHAR_WIDE + 2 * MARGIN;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" role=\"img\" "
            "aria-label=\"%s: %s\">\n  <g font-family=\"Verdana,DejaVu Sans,sans-serif\" "
            "font-size=\"11\" fill=\"#fff\">\n",
            left + right, HIGH, title, words);
    print_box(out, 0, left, "#444", title);
    print_box(out, left, right, color_of(r), words);
    fputs("  </g>\n</svg>\n", out);
}

static void print_endpoint(FILE *out, const sb_report *r)
{
    char words[WORDS];
    describe(r, words);
    fprintf(
        out,
        "{\"schemaVersion\": 1, \"label\": \"samebit check\", \"message\": \"%s\", \"color\": \"%s\"}\n",
        words, color_of(r) + 1);
}

static int print_badge(FILE *out, const void *ctx)
{
    const badge *b = ctx;
    if (b->is_json)
        print_endpoint(out, b->report);
    else
        print_picture(out, b->report);
    return 1;
}

sb_status sb_report_badge(const sb_report *r, const char *path, sb_error *err)
{
    const badge b = {r, sb_ends(path, ".json")};
    return sb_print_file(path, print_badge, &b, "badge", err);
}
