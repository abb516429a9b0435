#include "tools/cli/diff_audit.h"

#include <math.h>
#include <stdio.h>

/* The token of a finding: the token of its row, or the first of its sequence in the step. */
static uint64_t token_of(const sb_finding *f, const sb_step *step)
{
    if (f->row >= 0 && (size_t)f->row < step->row_count)
        return step->rows[f->row].position;
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].sequence == f->sequence)
            return step->rows[i].position;
    for (size_t i = 0; i < step->state_count; i++)
        if (step->states[i].sequence == f->sequence)
            return step->states[i].position;
    return 0;
}

sb_status sb_diff_audit_step(sb_diff_audit *a, const sb_step *step, sb_error *err)
{
    const sb_finding *list;
    size_t before = a->found;
    sb_status status = a->audit ? sb_audit_step(a->audit, step, err) : SB_OK;
    a->found = a->audit ? sb_audit_findings(a->audit, &list) : 0;
    if (status || before || !a->found)
        return status;
    a->first = (sb_place){.sequence = list->sequence,
                          .token = token_of(list, step),
                          .layer = SB_NO_LAYER,
                          .found = (double)NAN,
                          .expected = (double)NAN,
                          .bound = (double)NAN};
    snprintf(a->first.op, sizeof a->first.op, "%s", list->check);
    sb_finding_text(list, a->first.words, sizeof a->first.words);
    return SB_OK;
}

int sb_diff_audit_join(const sb_diff_audit *a, sb_verdicts *v)
{
    int other = v->has_failure;
    if (!a->found)
        return 0;
    v->failures += a->found;
    v->verdict = SB_VERDICT_FAIL;
    if (other)
        return 1;
    v->has_failure = 1;
    v->first_failure = a->first;
    v->around.count = 0;
    snprintf(v->reason, sizeof v->reason, "%s", a->first.words);
    return 0;
}
