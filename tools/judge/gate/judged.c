#include "tools/judge/gate/judged.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/judge/gate/case.h"

/* V-116: "A further output that GOT lacks is listed as not given" */
static sb_status look_for(const sb_gate_judged *j, const char *need, sb_gate_result *r,
                          sb_error *err)
{
    int all = strcmp(need, "all") == 0, known = all;
    for (size_t i = 1; i < j->c->outputs; i++) {
        const char *name = j->c->output[i].name;
        if (!all && strcmp(need, name) != 0)
            continue;
        known = 1;
        if (j->gots.got[i].data)
            continue;
        if (r->verdict != SB_VERDICT_FAIL) /* a FAIL keeps its own words */
            snprintf(r->words, sizeof r->words, "out.%s is required, but missing", name);
        r->verdict = SB_VERDICT_FAIL;
    }
    return known ? SB_OK
                 : sb_fail(err, SB_ERR_USAGE,
                           "--need is '%s', which is not an additional output of %s", SB_SHOW(need),
                           j->c->op->name);
}

static sb_status judge_case(const sb_gate_wish *wish, sb_gate_judged *j, sb_error *err)
{
    sb_status status;
    if (wish->arith) {
        status = sb_gate_arith_of(wish->arith, &j->ar, err);
        if (!status)
            status = sb_gate_judge(j->c, &j->ar, j->gots.got, &j->result, err);
    } else {
        j->rows = sb_gate_arith_count();
        status = sb_gate_infer(j->c, j->gots.got, &j->row, &j->result, err);
        if (!status)
            status = sb_gate_arith_at(j->row < j->rows ? j->row : j->rows - 1, &j->ar);
        if (!status && j->row < j->rows)
            status = sb_gate_reduce(j->c, j->gots.got, &j->ar, &j->result, err);
    }
    if (!status)
        status = sb_gate_power_in(j->c, &j->ar, j->gots.got, &j->power, err);
    if (!status)
        sb_gate_trust(j->c, &j->power, &j->result);
    if (!status && wish->need)
        status = look_for(j, wish->need, &j->result, err);
    return status;
}

sb_status sb_gate_judged_open(const sb_gate_wish *wish, const char *name, const char *file,
                              const char *got, sb_gate_judged *out, sb_error *err)
{
    sb_gate_arith of_file;
    memset(out, 0, sizeof *out);
    out->name = name;
    sb_status status = sb_gate_read(file, &out->c, &of_file, err);
    if (!status)
        status = sb_gate_got_open(got, out->c, &out->gots, err);
    if (!status) {
        status = judge_case(wish, out, err);
        if (status == SB_ERR_INPUT)
            status = sb_fail_in(err, status, SB_SHOW(got));
    }
    if (status)
        sb_gate_judged_close(out);
    return status;
}

void sb_gate_judged_close(sb_gate_judged *j)
{
    sb_gate_got_close(&j->gots);
    sb_gate_case_free(j->c);
    j->c = NULL;
}

void sb_gate_judged_title(const sb_gate_judged *j, char *text, size_t size)
{
    const sb_gate_case *c = j->c;
    snprintf(text, size, "%s%s%s, %s, input %s, regime %s, seed %" PRIu64, c->op->name,
             *c->format ? " " : "", c->format, sb_gate_shape_of(c).text, sb_dtype_name(c->input),
             sb_gate_regime_name(c->regime), c->seed);
}
