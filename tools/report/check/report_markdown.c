/* report_markdown.c - the report in Markdown: for the summary of a CI job, or an issue. */
#include <stdlib.h>

#include "tools/report/check/report.h"
#include "tools/report/part/print.h"

enum { SHOWN = 50 }; /* number of findings that are listed; the others are counted */

/* Text from a file inside a cell of a table: no character of it ends the cell or begins markup. */
static int print_cell(FILE *out, const char *text)
{
    char *clean = sb_report_clean(text);
    for (const char *c = clean ? clean : ""; *c; c++) {
        if (*c == '\\' || *c == '`' || *c == '*' || *c == '_' || *c == '[' || *c == '|')
            fputc('\\', out);
        if (*c == '<')
            fputs("&lt;", out);
        else
            fputc(*c, out);
    }
    free(clean);
    return clean != NULL;
}

static int print_findings(FILE *out, const sb_report *r)
{
    const sb_findings *all = &r->check->findings;
    size_t shown = 0, more = 0;
    int whole = 1;
    for (size_t i = 0; i < all->count; i++) {
        const sb_finding *f = &all->rows[i];
        if (f->waived || f->level < SB_LEVEL_warn)
            continue;
        if (shown == SHOWN) {
            more++;
            continue;
        }
        if (!shown++)
            fputs("\n| level | check | tensor | finding |\n|---|---|---|---|\n", out);
        fprintf(out, "| %s | %s | ", sb_level_name(f->level), sb_check_row_of(f->check)->id);
        whole &= print_cell(out, *f->tensor ? f->tensor : "-");
        fputs(" | ", out);
        whole &= print_cell(out, f->message);
        fputs(" |\n", out);
    }
    if (more)
        fprintf(out, "\nand %zu more\n", more);
    return whole;
}

static int print_markdown(FILE *out, const void *ctx)
{
    const sb_report *r = ctx;
    int whole = 1;
    fprintf(out, "### samebit check: %s\n\n", sb_check_verdict_name(r->verdict));
    whole &= print_cell(out, r->path);
    if (r->against) {
        fputs(" against ", out);
        whole &= print_cell(out, r->against);
    }
    fprintf(out, ": %zu FATAL, %zu ERROR, %zu WARN, %zu INFO, %zu waived. ",
            r->level[SB_LEVEL_fatal], r->level[SB_LEVEL_error], r->level[SB_LEVEL_warn],
            r->level[SB_LEVEL_info], r->waived);
    fprintf(out,
            "%zu checks passed, %zu raised findings, %zu not applicable, %zu skipped; read: %s.\n",
            r->passed, r->found, r->nothing, r->skipped, sb_report_read(r->check).text);
    if (r->mtp) {
        fprintf(out, "\nMTP head: **%s**, ", sb_mtp_verdict_name(r->mtp->verdict));
        whole &= print_cell(out, r->mtp->why);
        fputs("\n", out);
    }
    return whole & print_findings(out, r);
}

sb_status sb_report_markdown(const sb_report *r, const char *path, sb_error *err)
{
    return sb_print_file(path, print_markdown, r, "summary", err);
}
