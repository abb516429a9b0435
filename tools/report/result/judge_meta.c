/* judge_meta.c - the output of `samebit judge --metamorphic`. */
#include "tools/report/result/judge.h"
#include "tools/report/part/document.h"
#include "tools/report/part/xml.h"

void sb_judge_meta_text(const sb_gate_meta *m, FILE *out)
{
    for (int k = 0; k < SB_GATE_METAS; k++) {
        const sb_gate_meta_row *row = &m->row[k];
        if (row->verdict == SB_VERDICT_none)
            continue;
        fprintf(out, "%-13s %-9s %zu call%s%s%s\n", sb_gate_meta_name((sb_gate_meta_kind)k),
                sb_verdict_name(row->verdict), row->calls, row->calls == 1 ? "" : "s",
                *row->words ? ": " : "", row->words);
    }
    fprintf(out, "%s%s%s\n", sb_verdict_name(m->verdict), *m->words ? ": " : "", m->words);
}

json_t *sb_judge_meta_json(const sb_gate_meta *m)
{
    json_t *d = sb_document("judge"), *rows = json_array();
    for (int k = 0; k < SB_GATE_METAS; k++) {
        json_t *row = json_object();
        SB_PUT(row, "name", sb_gate_meta_name((sb_gate_meta_kind)k));
        SB_PUT(row, "verdict", sb_verdict_name(m->row[k].verdict));
        SB_PUT(row, "calls", m->row[k].calls);
        SB_PUT(row, "words", m->row[k].words);
        SB_ADD(rows, row);
    }
    SB_PUT(d, "verdict", sb_verdict_name(m->verdict));
    SB_PUT(d, "words", m->words);
    SB_PUT(d, "variants", rows);
    return d;
}

static int fails(const sb_gate_meta *m, int k)
{
    return m->row[k].verdict == SB_VERDICT_FAIL;
}

/* One test case per kind, and one for the trust in them. */
static void print_suite(FILE *out, const void *ctx)
{
    const sb_gate_meta *m = ctx;
    int failures = m->verdict == SB_VERDICT_MISTRUSTED, skipped = 0;
    for (int k = 0; k < SB_GATE_METAS; k++) {
        failures += fails(m, k);
        skipped += m->row[k].verdict == SB_VERDICT_SKIPPED;
    }
    fprintf(out,
            "  <testsuite name=\"samebit judge --metamorphic\" tests=\"%d\" failures=\"%d\" "
            "errors=\"0\" skipped=\"%d\">\n",
            SB_GATE_METAS + 1, failures, skipped);
    sb_xml_open_case(out, "samebit.judge.metamorphic", "trust");
    if (m->verdict == SB_VERDICT_MISTRUSTED) {
        sb_xml_open_failure(out, "MISTRUSTED", m->words);
        fputs("</failure>\n", out);
    }
    sb_xml_close_case(out);
    for (int k = 0; k < SB_GATE_METAS; k++) {
        sb_xml_open_case(out, "samebit.judge.metamorphic", sb_gate_meta_name((sb_gate_meta_kind)k));
        if (fails(m, k)) {
            sb_xml_open_failure(out, "FAIL", m->row[k].words);
            fputs("</failure>\n", out);
        } else if (m->row[k].verdict == SB_VERDICT_SKIPPED) {
            sb_xml_skipped(out, m->row[k].words);
        }
        sb_xml_close_case(out);
    }
    fputs("  </testsuite>\n", out);
}

sb_status sb_judge_meta_junit(const sb_gate_meta *meta, const char *path, sb_error *err)
{
    return sb_xml_write(path, print_suite, meta, err);
}
