#include "tools/cli/diff_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/cli/cli.h"

void sb_diff_note(sb_diff_run *run, const char *format, ...)
{
    size_t used = strlen(run->notes);
    va_list args;
    va_start(args, format);
    vsnprintf(run->notes + used, sizeof run->notes - used, format, args);
    va_end(args);
    used = strlen(run->notes);
    if (used + 1 < sizeof run->notes)
        memcpy(run->notes + used, "\n", 2);
}

void sb_diff_run_free(sb_diff_run *run)
{
    sb_verdicts_free(&run->verdicts);
}

/* --- the comparison -----------------------------------------------------------------------------
 */

/* Steps on their way into the differ. */
typedef struct stream {
    sb_diff_run *run;
    sb_differ *differ;
    sb_keep keep;
} stream;

/* The copies end with the first step that fails. */
static sb_status take(void *ctx, const sb_step *step, sb_error *err)
{
    stream *s = ctx;
    sb_status status = s->run->explain ? sb_keep_step(&s->keep, step, err) : SB_OK;
    if (!status)
        status = sb_differ_step(s->differ, step, err);
    s->keep.frozen = s->run->verdicts.has_failure;
    return status;
}

static sb_status play(const sb_diff_run *run, stream *s, sb_error *err)
{
    const sb_side *side = run->side;
    if (side->kind == SB_SIDE_trace)
        return sb_trace_play(side->trace, take, s, err);
    sb_live live = {.backend = side->sim ? &side->sim->backend : NULL,
                    .knobs = run->engine_knobs,
                    .fault = side->has_fault ? sb_planted_run : NULL,
                    .fault_ctx = (void *)&side->planted,
                    .taps = run->taps,
                    .states = 1,
                    .rows = run->rows};
    return sb_live_run(run->model, run->request, &live, take, s, err);
}

static void set_options(sb_diff_run *run, sb_differ_options *o)
{
    sb_differ_defaults(o, &run->request->knobs, run->arithmetic, &run->verdicts);
    o->with_forced = run->forced;
    o->with_free = run->free;
    o->forced.bundle = run->bundle;
    o->free.explain = run->explain;
    o->free.seed = run->seed;
    if (run->perturbed)
        o->free.perturbed = (size_t)run->perturbed;
}

/* --- the explanation ----------------------------------------------------------------------------
 */

static sb_status add_mistakes(sb_changes *changes, sb_planted *planted, sb_error *err)
{
    for (size_t i = 0; i < sb_mistake_count(); i++) {
        const sb_mistake *mistake = sb_mistake_at(i);
        sb_change *change = mistake->benign ? NULL : sb_changes_add(changes);
        if (mistake->benign)
            continue;
        if (!change)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for explanations");
        sb_planted_make(&planted[i], mistake);
        change->twin = sb_planted_run;
        change->twin_ctx = &planted[i];
        snprintf(change->name, sizeof change->name, "mistake %s", mistake->name);
        snprintf(change->words, sizeof change->words, "behaves like a mistake: %s", mistake->what);
    }
    return SB_OK;
}

static sb_status explain(sb_diff_run *run, const sb_differ_options *options, const sb_keep *keep,
                         sb_error *err)
{
    sb_changes changes = {0};
    sb_differ_options again = *options;
    sb_planted *planted = sb_alloc(sb_mistake_count(), sizeof *planted);
    /* on its own way an op is judged alone: what drifts behind it explains nothing */
    again.with_forced = run->has_forced;
    again.with_free = !run->has_forced;
    sb_status status =
        planted ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for explanations");
    if (!status)
        status = sb_changes_of_knobs(&changes, &run->request->knobs, err);
    if (!status)
        status = add_mistakes(&changes, planted, err);
    if (!status && keep->lost)
        sb_diff_note(run,
                     "no explanation: the steps up to the failure are too many to be repeated");
    else if (!status)
        status = sb_explain(run->model, &again, keep, &changes, sb_progress, &run->verdicts, err);
    sb_changes_free(&changes);
    free(planted);
    return status;
}

/* --- trust --------------------------------------------------------------------------------------
 */

static void mistrust(sb_verdicts *v, const char *why)
{
    if (v->verdict >= SB_VERDICT_MISTRUSTED)
        return;
    v->verdict = SB_VERDICT_MISTRUSTED;
    snprintf(v->reason, sizeof v->reason, "%s", why);
}

static int other_knob(const sb_knobs *a, const sb_knobs *b, sb_knob *which)
{
    for (int i = 0; i < SB_KNOB_COUNT; i++)
        if (a->value[i] != b->value[i]) {
            *which = (sb_knob)i;
            return 1;
        }
    return 0;
}

/* A trace says under which knobs it was made: under others, what passes shows nothing. */
static void check_knobs(sb_diff_run *run)
{
    sb_knob which;
    char why[SB_WORDS];
    const sb_trace_head *head = run->side->trace ? sb_trace_info(run->side->trace) : NULL;
    if (!head || !head->has_knobs || !other_knob(&head->knobs, &run->request->knobs, &which))
        return;
    snprintf(why, sizeof why,
             "the trace says %s=%s (profile %.40s), and it was compared under %s=%s",
             sb_knob_name(which), sb_knob_value_name(head->knobs.value[which]), head->profile,
             sb_knob_name(which), sb_knob_value_name(run->request->knobs.value[which]));
    sb_diff_note(run, "%s", why);
    mistrust(&run->verdicts, why);
}

static void check_trust(sb_diff_run *run)
{
    if (sb_side_is_reference(run->side) && !run->allow_self)
        mistrust(&run->verdicts,
                 "the reference was compared with itself, which shows nothing of an engine");
    check_knobs(run);
}

sb_status sb_diff_run_side(sb_diff_run *run, sb_error *err)
{
    stream s = {.run = run, .keep = {.whole = run->forced == 0}};
    sb_differ_options options;
    int unknown;
    sb_status status = sb_side_check(run->side, run->model, &unknown, err);
    if (!status && unknown && run->side->kind == SB_SIDE_trace)
        sb_diff_note(run, "the trace does not say of which checkpoint it is");
    set_options(run, &options);
    if (!status)
        status = sb_differ_new(run->model, &options, &s.differ, err);
    if (!status)
        status = play(run, &s, err);
    if (!status)
        status = sb_differ_finish(s.differ, err);
    if (!status) {
        run->steps = sb_differ_steps(s.differ);
        run->sequences = sb_differ_sequences(s.differ);
        run->has_forced = sb_differ_forced(s.differ);
        check_trust(run);
    }
    if (!status && run->explain && run->verdicts.has_failure)
        status = explain(run, &options, &s.keep, err);
    sb_differ_free(s.differ);
    sb_keep_free(&s.keep);
    return status;
}
