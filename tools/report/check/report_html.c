/* report_html.c - the report as a page to hand on: the verdict, the map of the folder, and what was
 * not looked at. docs/report.md describes it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/text.h"
#include "tools/report/check/report_page.h"
#include "tools/report/part/print.h"

sb_page_tone sb_report_tone(const sb_report *r)
{
    return r->verdict == SB_CHECK_pass   ? SB_TONE_good
           : r->verdict == SB_CHECK_fail ? SB_TONE_bad
                                         : SB_TONE_open;
}

sb_page_tone sb_report_level_tone(sb_level level)
{
    return level >= SB_LEVEL_error  ? SB_TONE_bad
           : level == SB_LEVEL_warn ? SB_TONE_tie
                                    : SB_TONE_open;
}

size_t sb_report_level(const sb_report *r, sb_level level)
{
    return r->level[level] + (level == SB_LEVEL_warn ? r->unused_waivers : 0);
}

/* --- the head --------------------------------------------------------------------------------- */

static const char *meaning(const sb_report *r)
{
    if (r->verdict == SB_CHECK_mistrusted)
        return "none of the wanted checks could be made, so nothing is known about the files";
    if (r->level[SB_LEVEL_fatal])
        return "an engine must refuse these files";
    if (r->level[SB_LEVEL_error])
        return "an engine should refuse these files, unless you know better";
    if (r->need)
        return r->need;
    if (r->verdict == SB_CHECK_fail)
        return "the files are in order, but an engine holds other values";
    if (sb_report_level(r, SB_LEVEL_warn))
        return "no reason to refuse these files was found, but read the warnings";
    return "no reason to refuse these files was found";
}

/* The worst finding that counts, the first of its level; NULL: there is none of WARN or worse. */
static const sb_finding *worst_of(const sb_report *r)
{
    const sb_findings *f = &r->check->findings;
    const sb_finding *worst = NULL;
    for (size_t i = 0; i < f->count; i++)
        if (!f->rows[i].waived && f->rows[i].level >= SB_LEVEL_warn &&
            (!worst || f->rows[i].level > worst->level))
            worst = &f->rows[i];
    return worst;
}

static void print_worst(FILE *out, const sb_report *r)
{
    const sb_finding *f = worst_of(r);
    if (!f)
        return;
    fputs("<p class=\"short\">First ", out);
    sb_page_chip(out, sb_report_level_tone(f->level), sb_level_name(f->level));
    fputs(": ", out);
    if (*f->tensor) {
        sb_page_code(out, f->tensor);
        fputs(": ", out);
    }
    sb_page_text(out, f->message);
    fputs("</p>\n", out);
}

static void print_facts(FILE *out, const sb_report *r)
{
    const char *before = "";
    sb_page_facts(out);
    sb_page_fact(out, "findings");
    for (int level = SB_LEVEL_fatal; level >= SB_LEVEL_info; level--) {
        size_t n = sb_report_level(r, (sb_level)level);
        if (n) {
            fprintf(out, "%s%zu ", before, n);
            sb_page_chip(out, sb_report_level_tone((sb_level)level),
                         sb_level_name((sb_level)level));
            before = ", ";
        }
    }
    if (r->waived)
        fprintf(out, "%s%zu waived", before, r->waived);
    if (!*before && !r->waived)
        fputs("none", out);
    sb_page_fact_end(out);
    sb_page_fact(out, "checks");
    fprintf(out, "%zu passed, %zu with findings, %zu not applicable, %zu not made", r->passed,
            r->found, r->nothing, r->skipped);
    sb_page_fact_end(out);
    sb_page_fact(out, "MTP head");
    if (r->check->self.is_drafter)
        fputs("none: the folder is an EAGLE-3 drafter", out);
    else if (r->mtp)
        sb_page_chip(out, sb_report_mtp_tone(r->mtp->verdict),
                     sb_mtp_verdict_name(r->mtp->verdict));
    else
        fputs("not audited", out);
    sb_page_fact_end(out);
    if (r->loaded) {
        int bad = sb_loaded_bad(r->loaded);
        sb_page_fact(out, "loaded by the engine");
        sb_page_chip(out, bad ? SB_TONE_bad : SB_TONE_good, bad ? "FAIL" : "PASS");
        sb_page_fact_end(out);
    }
    sb_page_facts_end(out);
}

static void print_subject(FILE *out, const sb_report *r)
{
    const sb_check *c = r->check;
    sb_page_list(out);
    sb_page_item(out, c->self.is_drafter ? "drafter" : "checkpoint", r->path);
    if (c->target.checkpoint)
        sb_page_item(out, "target", sb_checkpoint_path(c->target.checkpoint));
    if (r->against)
        sb_page_item(out, c->stranger.checkpoint ? "not its original" : "against", r->against);
    for (size_t i = 0; i < c->options->overlay_count; i++)
        sb_page_item(out, "laid over", c->options->overlays[i]);
    fprintf(out, "<dt>read</dt><dd>");
    sb_page_count(out, sb_checkpoint_count(c->self.checkpoint), "tensor");
    fprintf(out, " of %" PRIu64 " bytes in ", sb_checkpoint_bytes(c->self.checkpoint));
    sb_page_count(out, sb_checkpoint_shards(c->self.checkpoint), "file");
    fprintf(out, ", %s</dd>\n", sb_report_read(c).text);
    sb_page_list_end(out);
}

static void print_head(FILE *out, const sb_report *r)
{
    sb_page_head(out, sb_report_tone(r), sb_check_verdict_name(r->verdict), sb_path_title(r->path),
                 r->against ? ", against its original" : ", from its files alone", meaning(r));
    print_worst(out, r);
    print_facts(out, r);
    print_subject(out, r);
    sb_page_head_end(out);
}

/* --- the map ---------------------------------------------------------------------------------- */

static void print_columns(FILE *out, const sb_folder_map *m, size_t column)
{
    fputs(sb_folder_place_text(sb_folder_first(m, column)).text, out);
    if (m->per_column > 1)
        fprintf(out, " to %s", sb_folder_place_text(sb_folder_last(m, column)).text);
}

static void print_column(FILE *out, const void *ctx, size_t column)
{
    fputs(sb_folder_place_short(sb_folder_first(ctx, column)).text, out);
}

static void print_row(FILE *out, const void *ctx, size_t row)
{
    size_t more;
    sb_page_text(out, sb_folder_row_name(ctx, row, &more));
}

static void print_field(FILE *out, const void *ctx, size_t row, size_t column)
{
    static const char *const classes[] = {"", "h2", "n", "ht", "h6"};
    const sb_folder_map *m = ctx;
    size_t more;
    const sb_folder_cell *c = sb_folder_cell_at(m, row, column);
    if (!c->state)
        return; /* the ground of the map */
    sb_page_field(out, row, column, classes[c->state]);
    sb_page_text(out, sb_folder_row_name(m, row, &more));
    if (more)
        fprintf(out, " and %zu more", more);
    fputs(", ", out);
    print_columns(out, m, column);
    fputs(": ", out);
    sb_page_count(out, c->tensors, "tensor");
    if (c->missing)
        fprintf(out, ", %zu missing", c->missing);
    if (c->findings) {
        fputs(", ", out);
        sb_page_count(out, c->findings, "finding");
    }
    sb_page_field_end(out);
}

static const sb_page_key keys[] = {{"h2", "no finding"}, {"ht", "a warning"},     {"h6", "damage"},
                                   {"n", "waived"},      {"e", "no tensor here"}, {NULL, NULL}};

void sb_report_html_map(FILE *out, const sb_folder_map *m)
{
    const sb_page_map shown = {.ctx = m,
                               .label = "findings by file and layer",
                               .rows = m->rows,
                               .columns = m->columns,
                               .wide = 40,
                               .field = print_field,
                               .row = print_row,
                               .column = print_column,
                               .keys = keys};
    sb_page_section(
        out, "map", "Where: file by layer",
        "Each field is one layer in one file of the folder. Red is damage: a finding of level "
        "ERROR or FATAL about a tensor in this place, or a tensor that is missing although the "
        "index names it here. The row <i>in no file</i> has the findings about tensors that no "
        "file holds. The row <i>the folder</i> has the findings that are about no single tensor.");
    if (m->per_row > 1)
        fprintf(
            out,
            "<p class=\"hint binned\">Up to %zu files share a row. The row shows the worst of them.</p>\n",
            m->per_row);
    if (m->per_column > 1)
        fprintf(
            out,
            "<p class=\"hint binned\">Up to %zu layers share a column. The column shows the worst of them.</p>\n",
            m->per_column);
    sb_page_map_print(out, &shown);
    sb_page_section_end(out);
}

/* --- what was not looked at ------------------------------------------------------------------- */

/* 1 if the check is the first with its state and reason. */
static int is_first(const sb_report *r, unsigned number)
{
    const sb_report_check *c = &r->checks[number];
    for (unsigned i = 1; i < number; i++)
        if (r->checks[i].state == c->state && r->checks[i].why &&
            strcmp(r->checks[i].why, c->why) == 0)
            return 0;
    return 1;
}

static void print_reasons(FILE *out, const sb_report *r, sb_check_state state)
{
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        const sb_report_check *c = &r->checks[i];
        if (c->state != state || !c->why || !is_first(r, i))
            continue;
        fputs("<tr><td class=\"words\">", out);
        sb_page_text(out, c->why);
        fputs("</td><td class=\"words\">", out);
        for (unsigned k = i; k <= SB_CHECK_LAST; k++)
            if (r->checks[k].state == state && r->checks[k].why &&
                strcmp(r->checks[k].why, c->why) == 0)
                fprintf(out, "%s<code>%s</code>", k > i ? ", " : "", sb_check_row_of(k)->id);
        fputs("</td></tr>\n", out);
    }
}

static void print_compared(FILE *out, const sb_report *r)
{
    const sb_report_compared *c = &r->compared;
    if (!r->check->master.checkpoint)
        return;
    fprintf(out, "<h3>Against the original</h3>\n<p>%zu of %zu tensors were compared.",
            c->tensors - c->not_compared, c->tensors);
    for (size_t i = 0; i < c->role_count && i < SB_REPORT_LINES; i++) {
        fprintf(out, "%s%zu ", i ? ", " : " Not compared: ", c->roles[i].count);
        sb_page_code(out, c->roles[i].name);
    }
    if (c->role_count > SB_REPORT_LINES)
        fprintf(out, " and %zu more roles", c->role_count - SB_REPORT_LINES);
    fputs("</p>\n", out);
    if (r->shards.count) {
        fprintf(
            out,
            "<p>%zu files of the original are not here. Therefore %zu tensors were not compared: ",
            r->shards.count, r->shards.tensors);
        for (size_t i = 0; i < r->shards.count && i < SB_REPORT_LINES; i++) {
            fputs(i ? ", " : "", out);
            sb_page_code(out, r->shards.names[i]);
        }
        fprintf(out, "%s.</p>\n", r->shards.count > SB_REPORT_LINES ? " and more" : "");
    }
}

static void print_unlooked(FILE *out, const sb_report *r)
{
    const char *unseen = sb_report_unseen(r);
    sb_page_section(out, "unlooked", "What was not looked at",
                    "A check that was not made says nothing about the files.");
    if (unseen) {
        fputs("<p>Only the original (<code>--against</code>) or the hashes of the hub show: ", out);
        sb_page_text(out, unseen);
        fputs("</p>\n", out);
    }
    if (r->skipped) {
        sb_page_table(out, "skipped", "<not made, because|<checks");
        print_reasons(out, r, SB_STATE_skipped);
        sb_page_table_end(out);
    } else {
        fputs("<p>No check was left out.</p>\n", out);
    }
    if (r->nothing) {
        sb_page_table(out, "nothing", "<not applicable, because|<checks");
        print_reasons(out, r, SB_STATE_nothing);
        sb_page_table_end(out);
    }
    print_compared(out, r);
    sb_page_section_end(out);
}

/* --- the page --------------------------------------------------------------------------------- */

static int print_loaded_lines(FILE *out, const void *report)
{
    const sb_report *r = report;
    const sb_report_style style = {.lines = SB_REPORT_LINES};
    sb_report_loaded_text(r->loaded, r->waivers, &style, out);
    return 1;
}

/* The same lines as in the text. */
static void print_loaded(FILE *out, const sb_report *r)
{
    char *text;
    size_t size;
    if (!r->loaded ||
        sb_print_memory(print_loaded_lines, r, "loaded parameters", &text, &size, NULL))
        return; /* without memory the page is marked as incomplete */
    sb_page_section(out, "loaded", "What the engine holds",
                    "The parameters in the memory of an engine, compared with the files.");
    sb_page_lines(out, "loaded", text + strspn(text, "\n"));
    sb_page_section_end(out);
    free(text);
}

typedef struct page {
    const sb_report *report;
    const sb_folder_map *map;
} page;

static int print_page(FILE *out, const void *ctx)
{
    const page *p = ctx;
    const sb_report *r = p->report;
    sb_page_open(out, sb_check_verdict_name(r->verdict), sb_path_title(r->path));
    print_head(out, r);
    sb_report_html_map(out, p->map);
    sb_report_html_findings(out, r);
    sb_report_html_mtp(out, r);
    print_loaded(out, r);
    print_unlooked(out, r);
    sb_page_again(out, r->arguments, r->argument_count);
    sb_page_item(out, "checkpoint", r->path);
    if (r->check->target.checkpoint)
        sb_page_item(out, "target", sb_checkpoint_path(r->check->target.checkpoint));
    if (r->against)
        sb_page_item(out, "original", r->against);
    sb_page_again_end(out);
    sb_page_close(out);
    return 1;
}

sb_status sb_report_html(const sb_report *r, const char *path, sb_error *err)
{
    sb_folder_map map;
    sb_status status = sb_folder_map_make(
        r, (sb_folder_limits){SB_PAGE_ROWS, SB_PAGE_COLUMNS, SB_PAGE_FIELDS}, &map, err);
    if (!status)
        status = sb_print_file(path, print_page, &(page){r, &map}, "page", err);
    sb_folder_map_free(&map);
    return status;
}
