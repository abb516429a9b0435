#include "tools/cli/diff_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/ops/knob.h"
#include "tools/cli/cli.h"
#include "tools/cli/diff_audit.h"
#include "tools/cli/diff_explain.h"

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
    free(run->pairs);
}

/* --- the comparison --------------------------------------------------------------------------- */

/* The state of passing steps to the differ. */
typedef struct stream {
    sb_diff_run *run;
    sb_differ *differ;
    sb_keep keep;
    sb_diff_audit audit;
    uint64_t rows;  /* rows of a trace so far, for progress; a live engine reports its own */
    char first[96]; /* the first array with values; more: the number of others */
    size_t more;
    int logits; /* some row has logits */
} stream;

static void note_arrays(stream *s, const sb_step *step)
{
    for (size_t i = 0; i < step->taps.count; i++) {
        if (!step->taps.items[i].data)
            continue;
        s->logits |= strcmp(step->taps.items[i].name, "logits") == 0;
        s->more += *s->first != '\0';
        if (!*s->first)
            snprintf(s->first, sizeof s->first, "%s", step->taps.items[i].name);
    }
}

/* Keeps copies of the steps up to the first failing one. */
static sb_status take_step(void *ctx, const sb_step *step, sb_error *err)
{
    stream *s = ctx;
    sb_status status = s->run->explain ? sb_keep_step(&s->keep, step, err) : SB_OK;
    if (!status)
        status = sb_diff_audit_step(&s->audit, step, err);
    if (!status)
        status = sb_differ_step(s->differ, step, err);
    if (!status && sb_differ_failed(s->differ))
        sb_keep_failed(&s->keep);
    s->rows += step->again ? 0 : step->row_count;
    note_arrays(s, step);
    if (s->run->side->trace && step->row_count)
        sb_progress(NULL, "row", s->rows, sb_trace_rows(s->run->side->trace));
    return status;
}

static sb_status play(const sb_diff_run *run, stream *s, sb_error *err)
{
    sb_side *side = run->side;
    if (sb_side_recorded(side))
        return sb_side_play(side, take_step, s, err);
    sb_live live = {.backend = side->runner.backend,
                    .knobs = run->engine_knobs,
                    .fault = side->has_fault ? sb_plant_hook : NULL,
                    .fault_ctx = &side->plant,
                    .taps = run->taps,
                    .states = 1,
                    .rows = run->rows,
                    .drafter = run->eagle3};
    return sb_live_run(run->model, run->request, &live, take_step, s, err);
}

/* U-10: "how the engine undoes rejected drafts" - from the trace, or unknown. For an
 * engine of this program, from the options. */
static sb_trace_rollback rollback_of(const sb_diff_run *run)
{
    sb_trace_rollback way = SB_TRACE_ROLLBACK_unknown;
    if (run->side->trace)
        way = sb_trace_info(run->side->trace)->rollback;
    else if (run->side->kind == SB_SIDE_live)
        (void)sb_trace_rollback_of(sb_request_way(run->request), &way);
    return way;
}

/* U-1: "each sum is rounded once, as in the reference" - and the knobs are those of the comparison.
 */
static int same_arithmetic(const sb_diff_run *run)
{
    const sb_trace_head *head = run->side->trace ? sb_trace_info(run->side->trace) : NULL;
    return head && strcmp(head->arithmetic, "exact") == 0 && head->has_knobs &&
           sb_knobs_first_other(&head->knobs, &run->request->knobs) == SB_KNOB_COUNT;
}

static int is_eagle3(sb_trace_drafter drafter)
{
    return drafter == SB_TRACE_DRAFTER_eagle3 || drafter == SB_TRACE_DRAFTER_eagle3_sampled;
}

static void set_options(sb_diff_run *run, sb_differ_options *o)
{
    const int external = run->drafter == SB_TRACE_DRAFTER_external || is_eagle3(run->drafter);
    sb_differ_defaults(o, &run->request->knobs, &run->arithmetic, &run->verdicts);
    o->with_forced = run->forced;
    o->with_free = run->free;
    o->forced.bundle = run->bundle;
    o->forced.declared = run->declared;
    o->forced.has_need = run->need_ops >= 0.0;
    o->forced.need = run->need_ops;
    /* T-67: "A trace or dump" of another program contains values, but not the form that made
     * them */
    o->forced.any_form = sb_side_recorded(run->side) && !sb_side_is_reference(run->side);
    o->forced.rollback = o->free.rollback = rollback_of(run);
    o->forced.external = o->free.external = external || run->eagle3;
    o->forced.drafter = o->free.drafter = run->eagle3;
    o->free.explain = run->explain;
    o->free.prefix_block = run->side->trace ? sb_trace_info(run->side->trace)->prefix_block : 0;
    /* not for a live engine: its call of one row may be the rest of a prompt */
    o->free.greedy = !run->sampled && sb_side_recorded(run->side);
    o->free.sampled =
        run->drafter == SB_TRACE_DRAFTER_sampled || run->drafter == SB_TRACE_DRAFTER_eagle3_sampled;
    o->free.same_arithmetic = same_arithmetic(run);
    o->free.seed = run->seed;
    for (int i = 0; i < SB_OP_COUNT && run->side->kind == SB_SIDE_live; i++)
        o->inherited[i] = sb_runner_inherits(&run->side->runner, (sb_op)i, &run->engine_knobs) != 0;
    o->free.perturbed = (size_t)run->perturbed;
}

/* What may cut toward zero. */
static const char *unit_words(const sb_diff_run *run, sb_op op, char words[SB_WORDS])
{
    const sb_fit_verdict *fit = &run->verdicts.fit;
    *words = '\0';
    if (run->verdicts.ops[op].bias.direction != SB_BIAS_toward)
        return words;
    if (op != SB_OP_linear || !fit->groups)
        snprintf(words, SB_WORDS, " (matrix units cut toward zero: docs/atoms.md)");
    else if (fit->tightest)
        snprintf(words, SB_WORDS, "; %s is the tightest matrix unit of docs/atoms.md that fits",
                 fit->tightest);
    else
        snprintf(words, SB_WORDS, "; no matrix unit of docs/atoms.md fits");
    return words;
}

/* T-98: names a bias that is a finding only, because the arithmetic or the functions are not
 * declared. */
static void note_biases(sb_diff_run *run)
{
    char words[SB_WORDS];
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_bias *bias = &run->verdicts.ops[i].bias;
        if (bias->direction == SB_BIAS_none || run->declared)
            continue;
        sb_diff_note(run, "%s%s", bias->words, unit_words(run, (sb_op)i, words));
    }
}

/* --- trust ------------------------------------------------------------------------------------ */

static void mistrust(sb_verdicts *v, const char *why)
{
    if (v->verdict >= SB_VERDICT_MISTRUSTED)
        return;
    v->verdict = SB_VERDICT_MISTRUSTED;
    snprintf(v->reason, sizeof v->reason, "%s", why);
}

/* Passing a trace under other knobs than its own proves nothing. */
static void check_knobs(sb_diff_run *run)
{
    sb_knob which;
    char why[SB_WORDS];
    const sb_trace_head *head = run->side->trace ? sb_trace_info(run->side->trace) : NULL;
    if (!head || !head->has_knobs)
        return;
    which = sb_knobs_first_other(&head->knobs, &run->request->knobs);
    if (which == SB_KNOB_COUNT)
        return;
    snprintf(why, sizeof why, "the trace says %s=%s (profile %.40s), but the comparison used %s=%s",
             sb_knob_name(which), sb_knob_value_name(head->knobs.value[which]), head->profile,
             sb_knob_name(which), sb_knob_value_name(run->request->knobs.value[which]));
    sb_diff_note(run, "%s", why);
    mistrust(&run->verdicts, why);
    sb_verdicts *v = &run->verdicts;
    size_t said = strlen(v->reason);
    if (v->verdict == SB_VERDICT_FAIL)
        snprintf(v->reason + said, sizeof v->reason - said, "; %s", why);
}

static int compared_any(const sb_verdicts *v)
{
    size_t n = v->round_count;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        n += v->ops[i].compared;
    for (size_t i = 0; i < v->token_count; i++)
        n += v->tokens[i].verdict != SB_VERDICT_none;
    return n > 0;
}

/* Mistrusts a run in which values were read but nothing was judged, for example hidden states
 * alone: an op is judged only if all its inputs are there, too. */
static void check_read(sb_diff_run *run, const stream *s)
{
    char why[SB_WORDS], others[48] = "";
    if (!*s->first || compared_any(&run->verdicts))
        return;
    if (s->more)
        snprintf(others, sizeof others, " and %zu other array%s", s->more, sb_s(s->more));
    snprintf(why, sizeof why,
             "read %s%s, but nothing was judged: expected logits, log-probabilities, or all inputs "
             "and outputs of an op",
             s->first, others);
    run->verdicts.verdict = SB_VERDICT_MISTRUSTED;
    snprintf(run->verdicts.reason, sizeof run->verdicts.reason, "%s", why);
}

static void check_trust(sb_diff_run *run)
{
    if (sb_side_is_reference(run->side) && !run->allow_self)
        mistrust(&run->verdicts,
                 "the reference was compared with itself: that shows nothing about an engine");
    check_knobs(run);
}

/* Adds the findings about the trace itself. This comes after the explanation, which is about
 * values. */
static void check_itself(sb_diff_run *run, const sb_diff_audit *audit)
{
    sb_level_words lacks = {""};
    if (audit->audit)
        lacks =
            sb_level_lacks(sb_audit_level(audit->audit), sb_trace_info(run->side->trace)->level);
    if (*lacks.text)
        sb_diff_note(run, "%s", lacks.text);
    if (sb_diff_audit_join(audit, &run->verdicts))
        sb_diff_note(run, "the trace contradicts itself, %zu finding%s of samebit trace: %s",
                     audit->found, sb_s(audit->found), audit->first.words);
}

/* Adds a hint if a longer chunk may be the cause: the longest chunk has eight times 64 rows. */
static void hint_chunk(sb_diff_run *run)
{
    enum { MOST = 8 };
    const sb_verdicts *v = &run->verdicts;
    const char *op = v->first_failure.op;
    int delta = strcmp(op, sb_op_name(SB_OP_delta_rule)) == 0 ||
                strcmp(op, sb_op_name(SB_OP_delta_rule_chunk)) == 0;
    double worst = v->ops[SB_OP_delta_rule].worst > v->ops[SB_OP_delta_rule_chunk].worst
                       ? v->ops[SB_OP_delta_rule].worst
                       : v->ops[SB_OP_delta_rule_chunk].worst;
    if (v->has_failure && delta && worst <= (double)MOST && !run->arithmetic.chunk &&
        sb_side_recorded(run->side))
        sb_diff_note(run, "the number of rows in a chunk of the engine's delta rule is unknown and "
                          "64 was assumed; longer chunks have wider bounds (--delta-chunk)");
}

sb_status sb_diff_run_side(sb_diff_run *run, sb_error *err)
{
    stream s = {.run = run, .keep = {.whole = run->forced == 0}};
    sb_differ_options options;
    int unknown;
    sb_status status = sb_side_check(run->side, run->model, &unknown, err);
    if (!status && unknown && run->side->kind == SB_SIDE_trace)
        sb_diff_note(run, "the trace does not name its checkpoint");
    set_options(run, &options);
    if (!status && run->side->trace)
        status =
            sb_audit_new(&run->model->config, sb_trace_info(run->side->trace), &s.audit.audit, err);
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
        check_read(run, &s);
        if (run->verdicts.digests)
            sb_diff_note(
                run,
                "%zu digest%s of states differ%s from the reference's and %s not judged: their "
                "data are missing, and an engine with another order of sums has other digests",
                run->verdicts.digests, sb_s(run->verdicts.digests),
                run->verdicts.digests == 1 ? "s" : "", run->verdicts.digests == 1 ? "was" : "were");
        if (run->has_forced && !s.logits)
            sb_diff_note(run, "no logits are recorded: lm_head was not judged as an op");
        if (run->sampled && !run->verdicts.sampler.sequences)
            sb_diff_note(run, "no sampler is declared (U-12), so any token passes as a draw");
        if (is_eagle3(run->drafter) && !run->eagle3)
            sb_diff_note(run, "an EAGLE-3 drafter made the drafts, and its folder is not given: "
                              "they were not judged, nor its values (--drafter DIR)");
        note_biases(run);
        check_trust(run);
        hint_chunk(run);
    }
    if (!status && run->explain && run->verdicts.has_failure)
        status = sb_diff_explain(run, &options, &s.keep, err);
    check_itself(run, &s.audit);
    sb_audit_free(s.audit.audit);
    sb_differ_free(s.differ);
    sb_keep_free(&s.keep);
    return status;
}
