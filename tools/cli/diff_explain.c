#include "tools/cli/diff_explain.h"

#include <stdio.h>

#include "ref/base/text.h"
#include "tools/cli/cli.h"
#include "tools/judge/fault/planted.h"

/* The changes that may explain a failure. If ops were judged alone, the mistakes of every kind in
 * the failing op are tried, too. */
static sb_status suspects(const sb_diff_run *run, sb_changes *changes, sb_error *err)
{
    sb_status status = sb_changes_of_knobs(changes, run->model, &run->request->knobs,
                                           run->verdicts.first_failure.layer, err);
    if (!status)
        status = sb_changes_of_mistakes(changes, sb_mistakes, err);
    if (!status)
        status = sb_changes_of_mistakes(changes, sb_specials, err);
    if (!status && run->has_forced)
        status = sb_changes_of_mistakes(changes, sb_op_faults, err);
    return status;
}

/* True if an op failed when judged alone; otherwise the failure lies between the ops. */
static int op_failed(const sb_verdicts *v)
{
    for (int i = 0; i < SB_OP_COUNT; i++)
        if (v->ops[i].verdict == SB_VERDICT_FAIL)
            return 1;
    return 0;
}

/* The rollback mistakes are tried in free runs. Without those, this makes them. */
static sb_status try_rollbacks(sb_diff_run *run, const sb_differ_options *options,
                               const sb_keep *keep, sb_error *err)
{
    sb_differ_options o = *options;
    sb_verdicts v = {0};
    sb_differ *differ = NULL;
    if (run->free || keep->dropped)
        return SB_OK;
    o.with_forced = 0;
    o.with_free = 1;
    o.verdicts = &v;
    sb_status status = sb_differ_new(run->model, &o, &differ, err);
    for (size_t i = 0; i < keep->count && !status; i++)
        status = sb_differ_step(differ, &keep->steps[i], err);
    if (!status)
        status = sb_differ_finish(differ, err);
    for (size_t i = 0; i < v.round_count && !status; i++)
        if (*v.rounds[i].hypothesis)
            sb_diff_note(run, "sequence %u, round %llu %s", (unsigned)v.rounds[i].sequence,
                         (unsigned long long)v.rounds[i].round, v.rounds[i].hypothesis);
    for (size_t i = 0; i < v.hit_count && !status; i++)
        if (*v.hits[i].hypothesis)
            sb_diff_note(run, "sequence %u %s", (unsigned)v.hits[i].sequence, v.hits[i].hypothesis);
    sb_differ_free(differ);
    sb_verdicts_free(&v);
    return status;
}

/* Says where an explanation was not tried. */
static void note_extent(sb_diff_run *run, const sb_keep *keep)
{
    const sb_verdicts *v = &run->verdicts;
    if (!v->explanation_count || !v->explanations[0].fits)
        return;
    if (keep->dropped)
        sb_diff_note(run, "the explanation was not tried on the first %zu step%s", keep->dropped,
                     sb_s(keep->dropped));
    if (keep->more)
        sb_diff_note(run, "the explanation was tried on %zu steps only, up to token %llu",
                     keep->count, (unsigned long long)sb_keep_end(keep));
}

static sb_status search(sb_diff_run *run, const sb_differ_options *options, const sb_keep *keep,
                        sb_error *err)
{
    sb_changes changes = {.count = 0};
    sb_differ_options again = *options;
    const sb_verdicts *v = &run->verdicts;
    again.with_forced = run->has_forced;
    sb_status status = suspects(run, &changes, err);
    if (!status)
        status = sb_explain(run->model, &again, keep, &changes, sb_progress, &run->verdicts, err);
    sb_changes_free(&changes);
    if (status)
        return status;
    if (run->has_forced && !v->explanation_count && !op_failed(v))
        sb_diff_note(run, "every op is right on its own inputs: the mistake lies between the ops, "
                          "in a state, a cache or a rollback");
    else if (!v->explanation_count)
        sb_diff_note(run, "no explanation: none of the known changes explains it");
    else if (!run->has_forced)
        sb_diff_note(run, "explained from outputs only, without values of ops: a change that "
                          "rounds more also widens the bounds and may fit without being the cause");
    note_extent(run, keep);
    return v->explanation_count ? SB_OK : try_rollbacks(run, options, keep, err);
}

/* U-11: the hit of a sequence that failed in its first call, or in the state before it; else NULL.
 * Its parent has passed these ops. */
static const sb_hit_verdict *failed_hit(const sb_verdicts *v)
{
    const sb_hit_verdict *hit = sb_verdicts_hit_of(v, v->first_failure.sequence);
    return hit && hit->verdict == SB_VERDICT_FAIL &&
                   v->first_failure.token < hit->position + hit->rows
               ? hit
               : NULL;
}

sb_status sb_diff_explain(sb_diff_run *run, const sb_differ_options *options, const sb_keep *keep,
                          sb_error *err)
{
    const sb_hit_verdict *hit = failed_hit(&run->verdicts);
    if (hit) {
        sb_diff_note(run,
                     "sequence %u fails where it continues sequence %u: the mistake lies in the "
                     "state that it begins with",
                     (unsigned)hit->sequence, (unsigned)hit->parent);
        return try_rollbacks(run, options, keep, err);
    }
    if (!keep->lost)
        return search(run, options, keep, err);
    sb_diff_note(run, "no explanation: too many steps before the failure to repeat them");
    return SB_OK;
}
