/* judge_html.c - the page of samebit judge: a matrix of kernels, formats and regimes, and the
 * cases. docs/report.md describes it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/json_out.h"
#include "tools/report/result/judge.h"
#include "tools/report/diff/diff.h"
#include "tools/report/diff/html.h"
#include "tools/report/part/document.h"

enum { LISTED = 200 }; /* cases on the page; the others are counted */

static void print_chip(FILE *out, sb_verdict verdict)
{
    sb_page_chip(out, sb_diff_tone(verdict), sb_verdict_name(verdict));
}

/* A case that could not be judged is SKIPPED. */
static sb_verdict verdict_of(const sb_gate_judged *j)
{
    return j->c ? (sb_verdict)j->result.verdict : SB_VERDICT_SKIPPED;
}

/* --- the matrix ------------------------------------------------------------------------------- */

typedef struct cell {
    size_t cases;
    sb_verdict verdict;
    double worst;
} cell;

/* A kernel with one format of weights and one type of inputs. */
typedef struct row {
    const sb_gate_case *of; /* any of its cases */
    cell cells[SB_GATE_REGIMES];
} row;

static int same_kernel(const sb_gate_case *a, const sb_gate_case *b)
{
    return strcmp(a->op->name, b->op->name) == 0 && strcmp(a->format, b->format) == 0 &&
           a->input == b->input;
}

static int by_kernel(const void *left, const void *right)
{
    const sb_gate_case *a = ((const row *)left)->of, *b = ((const row *)right)->of;
    int name = strcmp(a->op->name, b->op->name), format = strcmp(a->format, b->format);
    return name ? name : format ? format : (int)a->input - (int)b->input;
}

/* Returns the number of rows; rows has room for as many as there are cases. */
static size_t fill(const sb_judge_report *r, row *rows)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        const sb_gate_judged *j = &r->cases[i];
        size_t k = 0;
        if (!j->c)
            continue;
        while (k < count && !same_kernel(rows[k].of, j->c))
            k++;
        if (k == count)
            rows[count++].of = j->c;
        cell *c = &rows[k].cells[j->c->regime];
        c->cases++;
        c->verdict = sb_verdict_worse(c->verdict, verdict_of(j));
        c->worst = j->result.worst > c->worst ? j->result.worst : c->worst;
    }
    if (count)
        qsort(rows, count, sizeof *rows, by_kernel);
    return count;
}

static void print_cell(FILE *out, const cell *c)
{
    if (!c->cases) {
        fputs("<td class=\"cell\">-</td>", out);
        return;
    }
    fputs("<td class=\"cell\">", out);
    print_chip(out, c->verdict);
    fprintf(out, "<br/>%s", sb_page_ratio(c->worst).text);
    if (c->cases > 1)
        fprintf(out, " of %zu", c->cases);
    fputs("</td>", out);
}

static void print_rows(FILE *out, const row *rows, size_t count)
{
    int used[SB_GATE_REGIMES] = {0};
    char columns[512] = "kernel";
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < SB_GATE_REGIMES; k++)
            used[k] |= rows[i].cells[k].cases != 0;
    for (size_t k = 0; k < SB_GATE_REGIMES; k++) {
        size_t n = strlen(columns);
        if (used[k])
            snprintf(columns + n, sizeof columns - n, "|<%s",
                     sb_gate_regime_name((sb_gate_regime)k));
    }
    sb_page_table(out, "matrix", columns);
    for (size_t i = 0; i < count; i++) {
        const sb_gate_case *c = rows[i].of;
        fprintf(out, "<tr><td class=\"cell\"><code>%s</code><br/>%s%s%s</td>", c->op->name,
                c->format, *c->format ? ", " : "", sb_dtype_name(c->input));
        for (size_t k = 0; k < SB_GATE_REGIMES; k++)
            if (used[k])
                print_cell(out, &rows[i].cells[k]);
        fputs("</tr>\n", out);
    }
    sb_page_table_end(out);
}

static void print_matrix(FILE *out, const sb_judge_report *r)
{
    row *rows = sb_alloc(r->count, sizeof *rows);
    if (!rows) {
        sb_json_lose(); /* the page is incomplete */
        return;
    }
    size_t count = fill(r, rows);
    if (count) {
        sb_page_section(out, "matrix", "Kernel and format by regime of inputs",
                        "The worst verdict, and below it the largest error / bound; up to 1 is "
                        "within the bound. With several shapes or seeds also the number of cases.");
        print_rows(out, rows, count);
        sb_page_section_end(out);
    }
    free(rows);
}

/* --- the cases -------------------------------------------------------------------------------- */

static int is_fine(const sb_gate_judged *j)
{
    return sb_diff_fine(verdict_of(j));
}

static void print_words(FILE *out, const sb_gate_judged *j)
{
    char title[400];
    if (!j->c) {
        sb_page_text(out, j->why.text);
        return;
    }
    sb_gate_judged_title(j, title, sizeof title);
    sb_page_text(out, title);
    fputs("<br/>", out);
    sb_page_text(out, j->result.words);
    if (*j->result.note) {
        fputs("<br/>", out);
        sb_page_text(out, j->result.note);
    }
}

static void print_numbers(FILE *out, const sb_gate_judged *j)
{
    if (!j->c) {
        fputs("<td></td><td></td><td></td><td></td><td></td>", out);
        return;
    }
    fprintf(out, "<td>%s</td><td>", sb_page_ratio(j->result.worst).text);
    sb_page_bar(out, j->result.worst);
    fprintf(out,
            "</td><td>%zu of %zu</td><td>%zu of %zu</td><td class=\"left\"><code>%s</code>%s</td>",
            j->result.outside, j->result.count, j->power.caught, j->power.planted, j->ar.name,
            j->rows && j->row == j->rows ? ", the widest" : "");
}

/* A line, and for a case that is not in order a second one with words. */
static void print_case(FILE *out, const sb_gate_judged *j)
{
    const char *class = verdict_of(j) == SB_VERDICT_FAIL ? " class=\"hit\"" : "";
    fprintf(out, "<tr%s><td>", class);
    print_chip(out, verdict_of(j));
    fputs("</td><td class=\"left\">", out);
    sb_page_code(out, j->name);
    fputs("</td>", out);
    print_numbers(out, j);
    fputs("</tr>\n", out);
    if (is_fine(j))
        return;
    fprintf(out, "<tr%s><td></td><td class=\"words\" colspan=\"6\">", class);
    print_words(out, j);
    fputs("</td></tr>\n", out);
}

/* The heaviest verdicts first, else in the order of names. */
static int by_weight(const void *left, const void *right)
{
    const sb_gate_judged *a = *(const sb_gate_judged *const *)left,
                         *b = *(const sb_gate_judged *const *)right;
    if (verdict_of(a) != verdict_of(b))
        return verdict_of(a) > verdict_of(b) ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void print_cases(FILE *out, const sb_judge_report *r)
{
    const sb_gate_judged **order = sb_alloc(r->count, sizeof *order);
    if (!order) {
        sb_json_lose();
        return;
    }
    for (size_t i = 0; i < r->count; i++)
        order[i] = &r->cases[i];
    qsort(order, r->count, sizeof *order, by_weight);
    sb_page_section(out, "cases", "The cases",
                    "The worst cases come first. Planted: how many planted mistakes would be found "
                    "with these inputs. The arithmetic is the requested one, or the tightest one "
                    "that explains the output.");
    sb_page_table(out, "cases",
                  "verdict|<case|worst error / bound||outside|planted, shown|<arithmetic");
    for (size_t i = 0; i < r->count && i < LISTED; i++)
        print_case(out, order[i]);
    sb_page_table_end(out);
    if (r->count > LISTED)
        fprintf(out, "<p>... and %zu more, none of them worse.</p>\n", r->count - LISTED);
    sb_page_section_end(out);
    free(order);
}

/* --- the baseline ----------------------------------------------------------------------------- */

static void print_change(FILE *out, const sb_judge_report *r)
{
    const sb_judge_change *change = r->change;
    if (!change)
        return;
    sb_page_section(out, "baseline", "Since the baseline",
                    "The same cases in an earlier judgement.");
    fprintf(out, "<p>%zu worse, %zu better, %zu outputs with other bits, since ", change->worse,
            change->better, change->changed);
    sb_page_code(out, r->baseline);
    fputs(".</p>\n", out);
    if (json_array_size(change->rows)) {
        sb_page_table(out, "baseline", "case|<|<what changed");
        for (size_t i = 0; i < json_array_size(change->rows); i++) {
            const json_t *one = json_array_get(change->rows, i);
            fputs("<tr><td class=\"words\">", out);
            sb_page_code(out, json_string_value(json_object_get(one, "name")));
            fputs("</td><td class=\"left\">", out);
            if (json_is_true(json_object_get(one, "worse")))
                sb_page_chip(out, SB_TONE_bad, "WORSE");
            fputs("</td><td class=\"words\">", out);
            sb_page_text(out, json_string_value(json_object_get(one, "what")));
            fputs("</td></tr>\n", out);
        }
        sb_page_table_end(out);
    }
    sb_page_section_end(out);
}

/* --- the page --------------------------------------------------------------------------------- */

static void print_head(FILE *out, const sb_judge_report *r, sb_verdict verdict)
{
    size_t counts[SB_VERDICT_FAIL + 1] = {0};
    const char *before = "";
    double worst = 0;
    for (size_t i = 0; i < r->count; i++) {
        const sb_gate_judged *j = &r->cases[i];
        counts[verdict_of(j)]++;
        worst = j->c && j->result.worst > worst ? j->result.worst : worst;
    }
    sb_page_head(out, sb_diff_tone(verdict), sb_verdict_name(verdict), sb_path_title(r->got),
                 ", the output of kernels",
                 verdict == r->verdict ? sb_diff_meaning(verdict)
                                       : "no case fails, but some are worse than in the baseline");
    sb_page_facts(out);
    sb_page_fact(out, "cases");
    for (int i = SB_VERDICT_FAIL; i >= 0; i--)
        if (counts[i]) {
            fprintf(out, "%s%zu ", before, counts[i]);
            print_chip(out, (sb_verdict)i);
            before = ", ";
        }
    sb_page_fact_end(out);
    sb_page_fact(out, "largest error / bound; up to 1 is within the bound");
    fputs(sb_page_ratio(worst).text, out);
    sb_page_fact_end(out);
    if (r->change) {
        sb_page_fact(out, "since the baseline");
        fprintf(out, "%zu worse, %zu better", r->change->worse, r->change->better);
        sb_page_fact_end(out);
    }
    sb_page_facts_end(out);
    sb_page_head_end(out);
}

static void print_foot(FILE *out, const sb_judge_report *r)
{
    sb_page_again(out, r->arguments, r->argument_count);
    sb_page_item(out, "vectors", r->file);
    sb_page_item(out, "output", r->got);
    sb_page_again_end(out);
    sb_page_close(out);
}

static int print_page(FILE *out, const void *report)
{
    const sb_judge_report *r = report;
    sb_verdict verdict = sb_judge_change_fails(r) ? SB_VERDICT_FAIL : r->verdict;
    sb_page_open(out, sb_verdict_name(verdict), sb_path_title(r->got));
    print_head(out, r, verdict);
    print_matrix(out, r);
    print_change(out, r);
    print_cases(out, r);
    print_foot(out, r);
    return 1;
}

sb_status sb_judge_html(const sb_judge_report *r, const char *path, sb_error *err)
{
    return sb_print_file(path, print_page, r, "page", err);
}

/* --- the metamorphic gate --------------------------------------------------------------------- */

typedef struct meta_page {
    const sb_gate_meta *meta;
    const sb_judge_report *report;
} meta_page;

static int print_meta_page(FILE *out, const void *ctx)
{
    const sb_gate_meta *m = ((const meta_page *)ctx)->meta;
    const sb_judge_report *r = ((const meta_page *)ctx)->report;
    sb_page_open(out, sb_verdict_name(m->verdict), sb_path_title(r->got));
    sb_page_head(out, sb_diff_tone(m->verdict), sb_verdict_name(m->verdict), sb_path_title(r->got),
                 ", the same bits in every batch?", m->words);
    sb_page_head_end(out);
    sb_page_section(out, "relations", "Which changes keep the bits",
                    "One case is computed in many calls. Every element that two calls share must "
                    "have the same bits in both.");
    sb_page_table(out, "relations", "calls|<verdict|number|elements|<in words");
    for (size_t i = 0; i < SB_GATE_METAS; i++) {
        const sb_gate_meta_row *one = &m->row[i];
        fprintf(out, "<tr><td>%s</td><td class=\"left\">", sb_gate_meta_name((sb_gate_meta_kind)i));
        print_chip(out, one->verdict);
        fprintf(out, "</td><td>%zu</td><td>%zu</td><td class=\"words\">", one->calls,
                one->elements);
        sb_page_text(out, one->words);
        fputs("</td></tr>\n", out);
    }
    sb_page_table_end(out);
    sb_page_section_end(out);
    print_foot(out, r);
    return 1;
}

sb_status sb_judge_meta_html(const sb_gate_meta *meta, const sb_judge_report *report,
                             const char *path, sb_error *err)
{
    return sb_print_file(path, print_meta_page, &(meta_page){meta, report}, "page", err);
}
