/* forced_finish.c - the verdict per op, and whether the data could have shown a fault: T-16. */
#include "tools/judge/compare/forced_parts.h"

#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"

/* T-16: "A bound says nothing if every recorded error is below 2^-13 of it" */
static const double widest = 0x1p-13;

/* Among this number of open elements, an engine of another arithmetic must differ somewhere. */
enum { FORCED_OPEN = 64 };

/* T-16: "(2^12 w)^n is less than 2^-20": the probability that n errors under a fitting bound all
 * stay below w. */
static int is_evidence(size_t differing, double worst)
{
    double chance = 1.0;
    for (size_t i = 0; i < differing && chance >= 0x1p-20; i++)
        chance *= 0x1p12 * worst;
    return worst < widest && chance < 0x1p-20;
}

/* The lower edge of the bin of the median element. */
static double median_of(const forced_count *c)
{
    size_t seen = 0;
    for (uint64_t bin = 0; bin < FORCED_BINS; bin++) {
        seen += c->ratio[bin];
        if (seen > 0 && 2 * seen >= c->differing) {
            uint64_t lowest = (uint64_t)(1023 + FORCED_LOWEST) * FORCED_OCTAVE;
            return sb_f64_from_bits((lowest + bin) << 50);
        }
    }
    return 0.0;
}

/* T-91: "every tap was judged in some layer of each kind". Finds a tap of this op that was not;
 * NULL: there is none. */
static const sb_tap_judged *never_judged(const sb_verdicts *v, sb_op op)
{
    for (size_t i = 0; i < v->tap_count; i++)
        if (v->taps[i].op == op && v->taps[i].values.alone + v->taps[i].values.inside == 0)
            return &v->taps[i];
    return NULL;
}

static sb_verdict verdict_of(const sb_forced *f, sb_op op, char *why, size_t room)
{
    const sb_op_verdict *v = &f->options.verdicts->ops[op];
    const forced_count *c = &f->counts[op];
    why[0] = '\0';
    const sb_tap_judged *missing = never_judged(f->options.verdicts, op);
    size_t judged = v->values.alone + v->values.inside;
    if (judged + v->values.not_judged + v->compared == 0)
        return SB_VERDICT_none;
    if (v->worst > 1.0)
        return SB_VERDICT_FAIL;
    if (judged + v->compared == 0 || (missing && !f->options.has_need)) {
        snprintf(why, room, "%s: %s was never judged (%s)", sb_op_name(op),
                 missing ? missing->name : "its state", missing ? missing->where : "any layer");
        return f->options.has_need ? SB_VERDICT_none : SB_VERDICT_SKIPPED;
    }
    if (v->compared == 0)
        return SB_VERDICT_WITHIN;
    if (c->nonzero == 0 || (v->compared > 1 && c->distinct == 0)) {
        snprintf(why, room, "%s: all %zu elements are %s", sb_op_name(op), v->compared,
                 c->nonzero ? "equal" : "zero");
        return SB_VERDICT_MISTRUSTED;
    }
    /* T-71: "more than half of the op's elements were not 0 and had a bound of 0" */
    if (is_evidence(c->differing, c->worst) && 2 * c->pinned <= v->compared) {
        snprintf(why, room,
                 "%s: %zu elements differ, but none comes near its bound: largest error/bound %.1e",
                 sb_op_name(op), c->differing, c->worst);
        return SB_VERDICT_MISTRUSTED;
    }
    if (v->near_ties)
        return SB_VERDICT_NEAR_TIE;
    return v->identical == v->compared ? SB_VERDICT_IDENTICAL : SB_VERDICT_WITHIN;
}

/* T-98: "it fails with reason bias" - if nothing else of the op failed. */
static void judge_bias(sb_forced *f, sb_op op)
{
    sb_verdicts *v = f->options.verdicts;
    const sb_op_bias *bias = &v->ops[op].bias;
    sb_place place = bias->place;
    if (bias->direction == SB_BIAS_none || !f->options.declared ||
        v->ops[op].verdict == SB_VERDICT_FAIL)
        return;
    v->ops[op].verdict = SB_VERDICT_FAIL;
    snprintf(place.words, sizeof place.words, "%s", bias->words);
    sb_verdicts_fail(v, &place);
}

/* T-23: "An engine of another arithmetic that differs nowhere is not trusted" */
static int is_the_reference(const sb_forced *f)
{
    size_t open = 0, differing = 0;
    for (size_t op = 0; op < SB_OP_COUNT; op++) {
        open += f->counts[op].open;
        differing += f->options.verdicts->ops[op].compared - f->options.verdicts->ops[op].identical;
    }
    return f->options.arithmetic->any_order && open >= FORCED_OPEN && differing == 0;
}

static void weigh(sb_verdicts *v, sb_verdict verdict, const char *why)
{
    if (verdict > v->verdict && why[0])
        snprintf(v->reason, sizeof v->reason, "%s", why);
    v->verdict = sb_verdict_worse(v->verdict, verdict);
}

/* T-91: less than the share that --need-ops asks for */
static void say_share(const sb_forced *f)
{
    sb_judged all = sb_verdicts_judged(f->options.verdicts);
    size_t judged = all.alone + all.inside, values = judged + all.not_judged;
    char why[SB_WORDS];
    if (!f->options.has_need || (double)judged >= f->options.need * (double)values)
        return;
    snprintf(why, sizeof why, "%zu of %zu values of ops were judged, a share of %.3g; needed: %.3g",
             judged, values, (double)judged / (double)values, f->options.need);
    weigh(f->options.verdicts, SB_VERDICT_SKIPPED, why);
}

sb_status sb_forced_finish(sb_forced *f, sb_error *err)
{
    sb_verdicts *v = f->options.verdicts;
    size_t compared = 0;
    char why[SB_WORDS];
    (void)err;
    const sb_arithmetic *ar = f->options.arithmetic;
    if (f->fit)
        sb_fit_finish(f->fit, sb_bias_found(f->bias, SB_OP_linear), v);
    v->fit.declared = ar->atom || ar->fp8 || ar->fp4;
    sb_bias_finish(f->bias, v);
    for (size_t op = 0; op < SB_OP_COUNT; op++) {
        v->ops[op].median = median_of(&f->counts[op]);
        v->ops[op].verdict = verdict_of(f, (sb_op)op, why, sizeof why);
        judge_bias(f, (sb_op)op);
        compared += v->ops[op].compared;
        weigh(v, v->ops[op].verdict, why);
    }
    say_share(f);
    if (compared == 0)
        weigh(v, SB_VERDICT_MISTRUSTED, "nothing was compared");
    else if (is_the_reference(f))
        weigh(v, SB_VERDICT_MISTRUSTED,
              "every element has the reference's bits, although this arithmetic may give others");
    if (v->has_failure) {
        v->verdict = SB_VERDICT_FAIL;
        snprintf(v->reason, sizeof v->reason, "%s", v->first_failure.words);
    }
    return SB_OK;
}
