/* report_html_findings.c - the findings on the page: what to do, and each by layer and tensor. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json_out.h"
#include "tools/report/check/report_page.h"

enum { LISTED = 400 }; /* findings on the page; the others are counted */

static void print_level(FILE *out, const sb_finding *f)
{
    sb_page_chip(out, f->waived ? SB_TONE_open : sb_report_level_tone(f->level),
                 sb_level_name(f->level));
}

/* --- what to do ------------------------------------------------------------------------------- */

static void print_advice(FILE *out, const sb_report *r)
{
    sb_page_table(out, "advice", "findings|<check|<engines, and what to do");
    for (int level = SB_LEVEL_fatal; level >= SB_LEVEL_warn; level--)
        for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
            const sb_report_check *c = &r->checks[i];
            const sb_check_row *row = sb_check_row_of(i);
            if (c->count == c->waived || (int)c->worst != level)
                continue;
            fprintf(out, "<tr><td>%zu ", c->count - c->waived);
            sb_page_chip(out, sb_report_level_tone(c->worst), sb_level_name(c->worst));
            fprintf(out, "</td><td class=\"words\"><code>%s</code>: ", row->id);
            sb_page_text(out, row->title);
            fputs("</td><td class=\"words\">", out);
            sb_page_text(out, row->engines);
            fputs("<br/><b>What to do</b>: ", out);
            sb_page_text(out, row->advice);
            fputs("</td></tr>\n", out);
        }
    sb_page_table_end(out);
}

/* --- by layer and tensor ---------------------------------------------------------------------- */

/* A finding in the order of the page. */
typedef struct entry {
    const sb_finding *finding;
    sb_folder_place place;
    size_t at; /* its number in the report */
} entry;

/* Findings about no tensor come first. */
static int by_place(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    int whole = (*b->finding->tensor == 0) - (*a->finding->tensor == 0);
    if (whole)
        return whole;
    if (a->place.part != b->place.part)
        return a->place.part < b->place.part ? -1 : 1;
    if (a->place.layer != b->place.layer)
        return a->place.layer < b->place.layer ? -1 : 1;
    int name = strcmp(a->finding->tensor, b->finding->tensor);
    if (name)
        return name;
    if (a->finding->level != b->finding->level)
        return a->finding->level > b->finding->level ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* The findings that the page lists, the worst levels first, those that are waived last. */
static size_t choose(const sb_findings *f, entry *list)
{
    size_t n = 0;
    for (int round = SB_LEVEL_fatal; round >= -1; round--)
        for (size_t i = 0; i < f->count && n < LISTED; i++) {
            const sb_finding *row = &f->rows[i];
            if (row->waived ? round == -1 : (int)row->level == round)
                list[n++] = (entry){row, sb_folder_place_of(row->tensor), i};
        }
    qsort(list, n, sizeof *list, by_place);
    return n;
}

static int same_place(const entry *a, const entry *b)
{
    return (*a->finding->tensor == 0) == (*b->finding->tensor == 0) &&
           a->place.part == b->place.part && a->place.layer == b->place.layer;
}

static void print_finding(FILE *out, const sb_report *r, const sb_finding *f)
{
    fputs("<tr><td>", out);
    print_level(out, f);
    fprintf(out, "</td><td class=\"left\"><code>%s</code></td><td class=\"words\">",
            sb_check_row_of(f->check)->id);
    sb_page_text(out, f->message);
    if (f->waived && r->waivers) {
        fputs(" <i>waived: ", out);
        sb_page_text(out, r->waivers->rows[f->waived - 1].why);
        fputs("</i>", out);
    }
    fputs("</td></tr>\n", out);
}

static void print_list(FILE *out, const sb_report *r, const entry *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const sb_finding *f = list[i].finding;
        int opens = !i || !same_place(&list[i], &list[i - 1]);
        if (opens) {
            if (i)
                sb_page_table_end(out);
            fprintf(out, "<h3>%s</h3>\n",
                    *f->tensor ? sb_folder_place_text(list[i].place).text
                               : "the folder as a whole");
            sb_page_table(out, "findings", "level|<check|<finding");
        }
        if (*f->tensor && (opens || strcmp(f->tensor, list[i - 1].finding->tensor) != 0)) {
            fputs("<tr class=\"name\"><td colspan=\"3\">", out);
            sb_page_code(out, f->tensor);
            fputs("</td></tr>\n", out);
        }
        print_finding(out, r, f);
    }
    if (count)
        sb_page_table_end(out);
}

void sb_report_html_findings(FILE *out, const sb_report *r)
{
    const sb_findings *f = &r->check->findings;
    entry *list = sb_alloc(f->count < LISTED ? f->count : LISTED, sizeof *list);
    if (!list) {
        sb_json_lose(); /* the page is incomplete */
        return;
    }
    size_t n = choose(f, list);
    if (r->level[SB_LEVEL_warn] + r->level[SB_LEVEL_error] + r->level[SB_LEVEL_fatal]) {
        sb_page_section(out, "advice", "What it means",
                        "Checks with findings of level WARN and worse: what engines do with such "
                        "files, and what to do.");
        print_advice(out, r);
        sb_page_section_end(out);
    }
    sb_page_section(out, "findings", "Findings, by layer and tensor",
                    "FATAL: an engine must refuse the file. ERROR: an engine should refuse it, "
                    "unless you know better. WARN: look at it. INFO: worth knowing.");
    print_list(out, r, list, n);
    if (!n)
        fputs("<p>There are no findings.</p>\n", out);
    if (f->count > n)
        fprintf(out,
                "<p>... and %zu more, none of them worse; <code>--json</code> lists all.</p>\n",
                f->count - n);
    sb_page_section_end(out);
    free(list);
}
