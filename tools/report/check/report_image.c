/* report_image.c - the verdict and the map of the folder as a picture for the page of a model: one
 * SVG file without network and script, light and dark. */
#include <inttypes.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/report/check/report_page.h"
#include "tools/report/part/print.h"
#include "tools/report/part/xml.h"

enum {
    WIDE = 800,
    MARGIN = 20,
    NAMES = 190, /* the width of the names of files */
    TOP = 122,   /* the head */
    ROW = 18,
    MOST_ROWS = 24,
    MOST_COLUMNS = 120,
    NAME_CHARS = 26
};

/* The colours are those of pages (page_style.c). */
static const char style[] =
    "text{font-family:Verdana,DejaVu Sans,sans-serif;font-size:12px;fill:#5b636d}"
    ".card{fill:#fff;stroke:#dde1e6}.ink{fill:#1a1d21}.name{font-size:16px;font-weight:bold}"
    ".word{font-size:28px;font-weight:bold}"
    ".good{fill:#1f7a45}.bad{fill:#b3202c}.open{fill:#5b636d}"
    ".e{fill:#e9ebee}.s{fill:#a3c9e8}.n{fill:#b7bdc5}.w{fill:#f3d36b}.d{fill:#c2202e}"
    "@media(prefers-color-scheme:dark){text{fill:#a2abb5}.card{fill:#1d2125;stroke:#343a41}"
    ".ink{fill:#e8eaed}.good{fill:#5cc98a}.bad{fill:#ff7d7d}.open{fill:#a2abb5}"
    ".e{fill:#2b3036}.s{fill:#28587f}.n{fill:#565d66}.w{fill:#a98516}.d{fill:#ff4d4d}}";

static const char *const classes[] = {"e", "s", "n", "w", "d"}; /* by sb_folder_state */

typedef struct picture {
    const sb_report *report;
    const sb_folder_map *map;
} picture;

static void open_text(FILE *out, unsigned x, unsigned y, const char *class)
{
    fprintf(out, "  <text x=\"%u\" y=\"%u\" class=\"%s\">", x, y, class);
}

/* A name of at most `most` bytes, without the end of all files, its middle left out. */
static void print_name(FILE *out, const char *name, size_t most)
{
    static const char end[] = ".safetensors";
    char text[sizeof(sb_shown)];
    const char *shown = SB_SHOW(name);
    size_t n = strlen(shown), half = (most - 3) / 2;
    n -= sb_ends(shown, end) ? sizeof end - 1 : 0;
    if (n <= most)
        snprintf(text, sizeof text, "%.*s", (int)n, shown);
    else
        snprintf(text, sizeof text, "%.*s...%.*s", (int)half, shown, (int)half, shown + n - half);
    sb_clean_text(text); /* a character that was cut */
    sb_xml_escape(out, text);
}

static void print_head(FILE *out, const sb_report *r, const sb_folder_map *m)
{
    const sb_check *c = r->check;
    const char *tone = sb_page_tone_name(sb_report_tone(r));
    fprintf(out, "  <rect x=\"%d\" y=\"%d\" width=\"6\" height=\"86\" class=\"%s\"/>\n", MARGIN,
            MARGIN, tone);
    fprintf(out, "  <text x=\"38\" y=\"46\" class=\"word %s\">%s</text>\n", tone,
            sb_check_verdict_name(r->verdict));
    open_text(out, 38, 68, "ink name");
    print_name(out, sb_path_title(r->path), 64);
    fputs("</text>\n", out);
    open_text(out, 38, 88, "");
    fprintf(out, "%zu FATAL, %zu ERROR, %zu WARN", r->level[SB_LEVEL_fatal],
            r->level[SB_LEVEL_error], sb_report_level(r, SB_LEVEL_warn));
    fprintf(out, "; of %d checks %zu passed, %zu with findings, %zu not made", SB_CHECK_LAST,
            r->passed, r->found, r->skipped);
    fputs("</text>\n", out);
    open_text(out, 38, 106, "");
    fprintf(out, "%zu tensors in %zu files, %s%s%s; samebit check",
            sb_checkpoint_count(c->self.checkpoint), sb_checkpoint_shards(c->self.checkpoint),
            sb_report_read(c).text, r->mtp ? "; MTP head " : "",
            r->mtp ? sb_mtp_verdict_name(r->mtp->verdict) : "");
    if (m->per_row > 1)
        fprintf(out, "; %zu files share a row", m->per_row);
    fputs("</text>\n", out);
}

static void print_row(FILE *out, const sb_folder_map *m, size_t row, unsigned y)
{
    size_t more;
    double wide = (double)(WIDE - 2 * MARGIN - NAMES) / (double)m->columns;
    double gap = wide > 4 ? 1 : 0;
    open_text(out, MARGIN, y + 13, "");
    print_name(out, sb_folder_row_name(m, row, &more), NAME_CHARS);
    fputs("</text>\n", out);
    fprintf(out, "  <rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%d\" class=\"e\"/>\n",
            MARGIN + NAMES, y, WIDE - 2 * MARGIN - NAMES, ROW - 2);
    for (size_t i = 0; i < m->columns; i++) {
        const sb_folder_cell *c = sb_folder_cell_at(m, row, i);
        if (c->state)
            fprintf(out,
                    "  <rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" class=\"%s\"/>\n",
                    (double)(MARGIN + NAMES) + wide * (double)i, y, wide - gap, ROW - 2,
                    classes[c->state]);
    }
}

/* The names of the first, the middle and the last column. */
static void print_axis(FILE *out, const sb_folder_map *m, unsigned y)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    for (unsigned i = 0; i < 3; i++) {
        size_t column = i * (m->columns - 1) / 2;
        double left = (double)(MARGIN + NAMES), wide = (double)(WIDE - MARGIN) - left;
        double x = i == 0   ? left
                   : i == 2 ? left + wide
                            : left + wide * ((double)column + 0.5) / (double)m->columns;
        if ((i && m->columns == 1) || (i == 1 && m->columns < 5))
            continue;
        fprintf(
            out, "  <text x=\"%.2f\" y=\"%u\" text-anchor=\"%s\">%s</text>\n", x, y, anchors[i],
            sb_folder_place_short(i == 2 ? sb_folder_last(m, column) : sb_folder_first(m, column))
                .text);
    }
}

static void print_keys(FILE *out, unsigned y)
{
    static const char *const words[] = {"no tensor", "no finding", "waived", "warning", "damage"};
    static const int order[] = {SB_FOLDER_sound, SB_FOLDER_warn, SB_FOLDER_bad, SB_FOLDER_waived,
                                SB_FOLDER_none};
    for (unsigned i = 0; i < 5; i++) {
        unsigned x = MARGIN + NAMES + 100 * i;
        fprintf(out, "  <rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\" class=\"%s\"/>\n", x,
                y - 10, classes[order[i]]);
        open_text(out, x + 18, y, "");
        fprintf(out, "%s</text>\n", words[order[i]]);
    }
}

static int print_picture(FILE *out, const void *ctx)
{
    const picture *p = ctx;
    const sb_folder_map *m = p->map;
    unsigned below = TOP + ROW * (unsigned)m->rows, high = below + 56;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" "
            "height=\"%u\" role=\"img\" aria-label=\"samebit check: %s\">\n  <style>%s</style>\n"
            "  <rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%u\" rx=\"8\" class=\"card\"/>\n",
            WIDE, high, WIDE, high, sb_check_verdict_name(p->report->verdict), style, WIDE - 1,
            high - 1);
    print_head(out, p->report, m);
    for (size_t row = 0; row < m->rows; row++)
        print_row(out, m, row, TOP + ROW * (unsigned)row);
    print_axis(out, m, below + 14);
    print_keys(out, below + 40);
    fputs("</svg>\n", out);
    return 1;
}

sb_status sb_report_image(const sb_report *r, const char *path, sb_error *err)
{
    sb_folder_map map;
    sb_status status = sb_folder_map_make(
        r, (sb_folder_limits){MOST_ROWS, MOST_COLUMNS, MOST_ROWS * MOST_COLUMNS}, &map, err);
    if (!status)
        status = sb_print_file(path, print_picture, &(picture){r, &map}, "picture", err);
    sb_folder_map_free(&map);
    return status;
}
