#include "tools/report/result/judge.h"

#include <string.h>

#include "ref/container/show.h"
#include "ref/ops/knob.h"
#include "tools/report/part/document.h"
#include "tools/report/part/xml.h"

/* --- text ------------------------------------------------------------------------------------- */

static void print_output(const sb_gate_judged *j, size_t i, FILE *out)
{
    const sb_gate_output *o = &j->c->output[i];
    const sb_gate_tally *t = &j->result.of[i];
    fprintf(out, "  out%s%s: ", *o->name ? "." : "", o->name);
    if (!t->given) {
        fprintf(out, "missing, not judged\n");
        return;
    }
    fprintf(
        out,
        "%s, %zu elements: %zu have the same bits as profile exact, %zu are outside of their bound",
        sb_dtype_name(j->gots.got[i].dtype), t->count, t->identical, t->outside);
    if (t->near_ties)
        fprintf(out, ", %zu are near ties", t->near_ties);
    if (t->unbounded)
        fprintf(out, ", %zu have no bound", t->unbounded);
    if (o->kind == SB_GATE_VALUES && !j->ar.exact) {
        if (t->worst - t->worst == 0.0)
            fprintf(out, "; worst error / bound %.3g", t->worst);
        else
            fprintf(out, "; worst error / bound infinite");
    }
    fprintf(out, "\n");
}

static void print_arith(const sb_gate_judged *j, FILE *out)
{
    sb_gate_point point[SB_KNOB_COUNT];
    size_t count = sb_gate_points(&j->ar, point);
    if (!j->rows)
        fprintf(out, "  arithmetic %s, as requested\n", j->ar.name);
    else if (j->row < j->rows)
        fprintf(out, "  arithmetic %s, the tightest of %zu under which the output passes: %s\n",
                j->ar.name, j->rows, sb_gate_arith_help(j->row));
    else
        fprintf(
            out,
            "  arithmetic: none of %zu explains the output; the numbers belong to the widest, %s\n",
            j->rows, j->ar.name);
    if (!count)
        fprintf(out, "  rounding points: none, binary32 between ops\n");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "  rounding point %s=%s: %s\n", point[i].knob, point[i].value, point[i].help);
}

static void print_power(const sb_gate_power *p, FILE *out)
{
    fprintf(out, "  these inputs would have shown %zu of %zu planted mistakes", p->caught,
            p->planted);
    fprintf(out, "%s%s\n", *p->shown ? ": " : "", p->shown);
    if (*p->missed)
        fprintf(out, "  not shown: %s\n", p->missed);
}

static void print_case(const sb_gate_judged *j, FILE *out)
{
    char title[400];
    if (!j->c) {
        fprintf(out, "%s: could not be judged: %s\n", SB_SHOW(j->name), SB_SHOW(j->why.text));
        return;
    }
    sb_gate_judged_title(j, title, sizeof title);
    fprintf(out, "%s: %s: %s\n", SB_SHOW(j->name), sb_verdict_name((sb_verdict)j->result.verdict),
            j->result.words);
    fprintf(out, "  %s\n", title);
    for (size_t i = 0; i < j->c->outputs; i++)
        print_output(j, i, out);
    print_arith(j, out);
    print_power(&j->power, out);
    if (*j->result.note)
        fprintf(out, "  note: %s\n", j->result.note);
    if (j->gots.same_as)
        fprintf(out, "  note: out equals in.%s, bit for bit\n", j->gots.same_as);
    if (*j->gots.ignored)
        fprintf(out, "  note: ignored: %s\n", SB_SHOW(j->gots.ignored));
}

static void print_change(const sb_judge_report *r, FILE *out)
{
    fprintf(out, "since %s: %zu worse, %zu better, %zu output%s with changed bits\n",
            SB_SHOW(r->baseline), r->change->worse, r->change->better, r->change->changed,
            r->change->changed == 1 ? "" : "s");
    for (size_t i = 0; i < json_array_size(r->change->rows); i++) {
        const json_t *row = json_array_get(r->change->rows, i);
        fprintf(out, "  %s%s: %s\n", json_is_true(json_object_get(row, "worse")) ? "WORSE " : "",
                SB_SHOW(json_string_value(json_object_get(row, "name"))),
                json_string_value(json_object_get(row, "what")));
    }
}

void sb_judge_text(const sb_judge_report *r, FILE *out)
{
    size_t failed = 0;
    for (size_t i = 0; i < r->count; i++) {
        print_case(&r->cases[i], out);
        failed += r->cases[i].c && r->cases[i].result.verdict == SB_VERDICT_FAIL;
    }
    if (r->change)
        print_change(r, out);
    if (r->count != 1)
        fprintf(out, "%zu cases, %zu fail: %s\n", r->count, failed, sb_verdict_name(r->verdict));
}

/* --- json ------------------------------------------------------------------------------------- */

static json_t *change_json(const sb_judge_report *r)
{
    json_t *out = json_object();
    SB_PUT(out, "file", SB_SHOW(r->baseline));
    SB_PUT(out, "worse", r->change->worse);
    SB_PUT(out, "better", r->change->better);
    SB_PUT(out, "changed", r->change->changed);
    SB_PUT(out, "rows", json_incref(r->change->rows));
    return out;
}

json_t *sb_judge_json(const sb_judge_report *r)
{
    json_t *d = sb_document("judge"), *cases = json_array();
    for (size_t i = 0; i < r->count; i++)
        SB_ADD(cases, sb_judge_case_json(&r->cases[i]));
    SB_PUT(d, "verdict", sb_verdict_name(r->verdict));
    SB_PUT(d, "cases", cases);
    if (r->change)
        SB_PUT(d, "baseline", change_json(r));
    return d;
}

/* --- junit ------------------------------------------------------------------------------------ */

static void print_junit_case(FILE *out, const sb_gate_judged *j)
{
    char class_name[64], title[400];
    snprintf(class_name, sizeof class_name, "samebit.judge.%.40s", j->c ? j->c->op->name : "none");
    sb_xml_open_case(out, class_name, j->name);
    if (!j->c) {
        sb_xml_open_failure(out, "REFUSED", "could not be judged");
        sb_xml_escape(out, j->why.text);
        fputs("\n</failure>\n", out);
    } else if (j->result.verdict >= SB_VERDICT_MISTRUSTED) {
        sb_gate_judged_title(j, title, sizeof title);
        sb_xml_open_failure(out, sb_verdict_name((sb_verdict)j->result.verdict), j->result.words);
        sb_xml_escape(out, title);
        fputs("\narithmetic ", out);
        sb_xml_escape(out, j->ar.name);
        fputs("\n</failure>\n", out);
    }
    sb_xml_close_case(out);
}

int sb_judge_change_fails(const sb_judge_report *r)
{
    return r->change && (r->change->worse || (r->same_bits && r->change->changed));
}

static void print_junit_change(FILE *out, const sb_judge_report *r)
{
    const sb_judge_change *change = r->change;
    sb_xml_open_case(out, "samebit.judge", "baseline");
    if (sb_judge_change_fails(r)) {
        sb_xml_open_failure(out, "FAIL", "differs from the baseline");
        for (size_t i = 0; i < json_array_size(change->rows); i++) {
            const json_t *row = json_array_get(change->rows, i);
            sb_xml_escape(out, json_string_value(json_object_get(row, "name")));
            fputs(": ", out);
            sb_xml_escape(out, json_string_value(json_object_get(row, "what")));
            fputc('\n', out);
        }
        fputs("</failure>\n", out);
    }
    sb_xml_close_case(out);
}

static void print_suite(FILE *out, const void *ctx)
{
    const sb_judge_report *r = ctx;
    size_t failures = (size_t)sb_judge_change_fails(r);
    for (size_t i = 0; i < r->count; i++)
        failures += !r->cases[i].c || r->cases[i].result.verdict >= SB_VERDICT_MISTRUSTED;
    fprintf(out,
            "  <testsuite name=\"samebit judge\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
            "skipped=\"0\">\n    <properties>\n      <property name=\"verdict\" value=\"%s\"/>\n"
            "    </properties>\n",
            r->count + (r->change != NULL), failures, sb_verdict_name(r->verdict));
    for (size_t i = 0; i < r->count; i++)
        print_junit_case(out, &r->cases[i]);
    if (r->change)
        print_junit_change(out, r);
    fputs("  </testsuite>\n", out);
}

sb_status sb_judge_junit(const sb_judge_report *report, const char *path, sb_error *err)
{
    return sb_xml_write(path, print_suite, report, err);
}
