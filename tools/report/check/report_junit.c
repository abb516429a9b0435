/* report_junit.c - the report for build servers: one test case per check. */
#include "tools/report/check/report.h"
#include "tools/report/part/xml.h"

static void open_case(FILE *out, const char *name)
{
    sb_xml_open_case(out, "samebit.check", name);
}

static void finding_lines(FILE *out, const sb_report *r, const sb_report_check *c)
{
    for (size_t i = 0; i < c->count; i++) {
        const sb_finding *f = &r->check->findings.rows[c->first + i];
        fputs(sb_level_name(f->level), out);
        fputs(f->waived ? " waived " : " ", out);
        sb_xml_escape(out, f->tensor);
        fputs(*f->tensor ? ": " : "", out);
        sb_xml_escape(out, f->message);
        fputc('\n', out);
    }
}

/* Writes the test case of a check. ERROR and FATAL are failures. WARN, notes and waived findings
 * are only output of the case. */
static void check_case(FILE *out, const sb_report *r, unsigned number)
{
    const sb_check_row *row = sb_check_row_of(number);
    const sb_report_check *c = &r->checks[number];
    open_case(out, row->id);
    if (c->state == SB_STATE_skipped || c->state == SB_STATE_nothing) {
        sb_xml_skipped(out, c->why);
    } else if (c->worst >= SB_LEVEL_error) {
        sb_xml_open_failure(out, sb_level_name(c->worst), row->title);
        finding_lines(out, r, c);
        fputs("engines: ", out);
        sb_xml_escape(out, row->engines);
        fputs("\nwhat to do: ", out);
        sb_xml_escape(out, row->advice);
        fputs("\n</failure>\n", out);
    } else if (c->count) {
        fputs("      <system-out>", out);
        finding_lines(out, r, c);
        fputs("</system-out>\n", out);
    }
    sb_xml_close_case(out);
}

static void loaded_case(FILE *out, const sb_report *r)
{
    open_case(out, "loaded");
    if (!r->loaded) {
        sb_xml_skipped(out, "needs --loaded LIST");
    } else if (sb_loaded_bad(r->loaded)) {
        sb_xml_open_failure(out, "ERROR", "the engine holds the values of the files");
        for (size_t i = 0; i < r->loaded->count; i++) {
            const sb_loaded_row *row = &r->loaded->rows[i];
            if (row->verdict == SB_LOADED_ok || row->explained || row->waived)
                continue;
            fputs(sb_loaded_name(row->verdict), out);
            fputc(' ', out);
            sb_xml_escape(out, row->name);
            fputs(": ", out);
            sb_xml_escape(out, row->message);
            fputc('\n', out);
        }
        fputs("</failure>\n", out);
    }
    sb_xml_close_case(out);
}

static void mtp_case(FILE *out, const sb_report *r)
{
    open_case(out, "mtp");
    if (!r->mtp)
        sb_xml_skipped(out, "the MTP head was not audited");
    else if (r->need) {
        sb_xml_open_failure(out, sb_mtp_verdict_name(r->mtp->verdict), r->need);
        sb_xml_escape(out, r->mtp->why);
        fputs("\n", out);
        sb_xml_escape(out, r->mtp->next);
        fputs("</failure>\n", out);
    } else if (r->mtp->verdict == SB_MTP_NONE_DECLARED) {
        sb_xml_skipped(out, "no MTP head is declared");
    } else {
        fprintf(out, "      <system-out>%s: ", sb_mtp_verdict_name(r->mtp->verdict));
        sb_xml_escape(out, r->mtp->why);
        if (r->head) {
            fprintf(out, "; run %s: ", sb_head_verdict_name(r->head->verdict));
            sb_xml_escape(out, r->head->why);
        }
        fputs("</system-out>\n", out);
    }
    sb_xml_close_case(out);
}

static void print_suite(FILE *out, const void *ctx)
{
    const sb_report *r = ctx;
    size_t failures = 0, left_out = 0;
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++) {
        failures += r->checks[i].state == SB_STATE_found && r->checks[i].worst >= SB_LEVEL_error;
        left_out +=
            r->checks[i].state == SB_STATE_skipped || r->checks[i].state == SB_STATE_nothing;
    }
    failures += r->loaded && sb_loaded_bad(r->loaded);
    left_out += !r->loaded;
    failures += r->mtp && r->need;
    left_out += !r->mtp || (!r->need && r->mtp->verdict == SB_MTP_NONE_DECLARED);
    fprintf(out,
            "  <testsuite name=\"samebit check\" tests=\"%d\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"%zu\">\n    <properties>\n      <property name=\"checkpoint\" value=\"",
            SB_CHECK_LAST + 2, failures, left_out);
    sb_xml_escape(out, r->path);
    fprintf(out, "\"/>\n      <property name=\"verdict\" value=\"%s\"/>\n    </properties>\n",
            sb_check_verdict_name(r->verdict));
    for (unsigned i = 1; i <= SB_CHECK_LAST; i++)
        check_case(out, r, i);
    mtp_case(out, r);
    loaded_case(out, r);
    fputs("  </testsuite>\n", out);
}

sb_status sb_report_junit(const sb_report *report, const char *path, sb_error *err)
{
    return sb_xml_write(path, print_suite, report, err);
}
