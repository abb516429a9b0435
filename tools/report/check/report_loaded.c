/* report_loaded.c - the section about an engine: parameters that differ from the files. */
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/report/check/report.h"

static int decides(const sb_loaded_row *row)
{
    return row->verdict != SB_LOADED_ok && !row->explained && !row->waived;
}

static void print_rows(const sb_loaded *l, const sb_waivers *w, sb_loaded_verdict verdict,
                       const sb_report_style *style, FILE *out)
{
    size_t all = 0, shown = 0;
    for (size_t i = 0; i < l->count; i++)
        all += l->rows[i].verdict == verdict && (decides(&l->rows[i]) || style->verbose);
    if (!all || verdict == SB_LOADED_ok)
        return;
    fprintf(out, "  %s (%zu): %s\n", sb_loaded_name(verdict), all, sb_loaded_text(verdict));
    for (size_t i = 0; i < l->count && shown < style->lines; i++) {
        const sb_loaded_row *row = &l->rows[i];
        if (row->verdict != verdict || !(decides(row) || style->verbose))
            continue;
        fprintf(out, "    %s: %s", SB_SHOW(row->name), row->message);
        if (row->explained)
            fputs(" [explained]", out);
        if (row->waived && w)
            fprintf(out, " [waived, line %u: %s]", w->rows[row->waived - 1].line,
                    SB_SHOW(w->rows[row->waived - 1].why));
        fputc('\n', out);
        shown++;
    }
    if (all > shown)
        fprintf(out, "    and %zu more (--verbose or --json lists all)\n", all - shown);
}

/* Prints the usual reason why speculation gains nothing: the engine's class has no MTP head. */
static void print_mtp(const sb_loaded *l, FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->rows[i].verdict == SB_LOADED_dropped && decides(&l->rows[i]) &&
             strncmp(l->rows[i].name, "mtp.", 4) == 0;
    if (n)
        fprintf(
            out,
            "  %zu of the dropped modules belong to the MTP head: this engine does not draft with it\n",
            n);
}

static void print_zeros(const sb_loaded *l, FILE *out)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->rows[i].one_zero != 0;
    if (n)
        fprintf(out,
                "  %zu parameters are equal but for the signs of zeros: ModelOpt's own "
                "dequantization decodes code 8 as +0\n",
                n);
}

void sb_report_loaded_text(const sb_loaded *l, const sb_waivers *w, const sb_report_style *style,
                           FILE *out)
{
    fprintf(out, "\nLOADED %s: %s%s%s, %zu parameters, %zu OK, %zu explained, %zu waived\n",
            sb_loaded_bad(l) ? "FAIL" : "PASS", SB_SHOW(l->path), *l->program ? " of " : "",
            *l->program ? SB_SHOW(l->program) : "", l->parameters, l->counts[SB_LOADED_ok],
            l->explained, l->waived);
    for (unsigned v = 0; v < SB_LOADED_COUNT; v++)
        print_rows(l, w, (sb_loaded_verdict)v, style, out);
    print_zeros(l, out);
    print_mtp(l, out);
    if (sb_loaded_bad(l))
        fputs("  what to do: if the checks above found no fault in the files, the loader of the "
              "engine is wrong: report it there with these lines\n",
              out);
}

/* How many parameters follow each law of dequantization. */
static json_t *laws_json(const sb_loaded *l)
{
    json_t *out = json_object();
    for (size_t i = 0; i < l->count; i++) {
        const char *law = l->rows[i].law;
        if (law &&
            json_object_set_new(
                out, law, json_integer(1 + json_integer_value(json_object_get(out, law)))) != 0)
            break;
    }
    return out;
}

json_t *sb_report_loaded_json(const sb_loaded *l, const sb_waivers *w)
{
    json_t *out = json_object(), *rows = json_array();
    int failed = 0;
    for (size_t i = 0; i < l->count; i++) {
        const sb_loaded_row *row = &l->rows[i];
        if (row->verdict == SB_LOADED_ok)
            continue;
        failed |=
            json_array_append_new(
                rows,
                json_pack("{s:s,s:o,s:o,s:b,s:o}", "verdict", sb_loaded_name(row->verdict), "name",
                          sb_report_string(row->name), "message", sb_report_string(row->message),
                          "explained", row->explained, "waived",
                          row->waived && w ? sb_report_string(w->rows[row->waived - 1].why)
                                           : json_null())) != 0;
    }
    failed |=
        json_object_set_new(out, "verdict", json_string(sb_loaded_bad(l) ? "FAIL" : "PASS")) != 0;
    failed |= json_object_set_new(out, "list", sb_report_string(l->path)) != 0;
    failed |= json_object_set_new(out, "program", sb_report_string(l->program)) != 0;
    failed |= json_object_set_new(out, "parameters", json_integer((json_int_t)l->parameters)) != 0;
    failed |=
        json_object_set_new(out, "ok", json_integer((json_int_t)l->counts[SB_LOADED_ok])) != 0;
    failed |= json_object_set_new(out, "explained", json_integer((json_int_t)l->explained)) != 0;
    failed |= json_object_set_new(out, "waived", json_integer((json_int_t)l->waived)) != 0;
    failed |= json_object_set_new(out, "laws", laws_json(l)) != 0;
    failed |= json_object_set_new(out, "differences", rows) != 0;
    if (!failed)
        return out;
    json_decref(out);
    return NULL;
}
