/* forced_finish.c - the verdict per op, and whether the data could have shown a fault: T-16. */
#include "ref/base/text.h"
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

/* T-23: "A value that is not recorded counts as judged if". Each row has the op, a part of its
 * tap's name, and the later op. */
static const struct {
    sb_op op;
    const char *inside;
    sb_op behind;
} chains[] = {
    {SB_OP_l2norm, "", SB_OP_delta_rule},
    {SB_OP_l2norm, "", SB_OP_delta_rule_chunk},
    {SB_OP_gates, "linear_attn.g", SB_OP_delta_rule},
    {SB_OP_gates, "linear_attn.g", SB_OP_delta_rule_chunk},
    {SB_OP_split_gate, "", SB_OP_attn_gate},
    {SB_OP_swiglu, "mlp.experts.", SB_OP_moe_combine},
    {SB_OP_swiglu, "mlp.shared_expert", SB_OP_moe_combine},
    {SB_OP_linear, "mlp.experts.", SB_OP_moe_combine},
    {SB_OP_linear, "mlp.shared_expert", SB_OP_moe_combine},
};
enum { CHAINS = sizeof chains / sizeof *chains };

/* The gate of the shared expert is not inside the expert. */
int forced_in_chain(sb_op op, const char *tap)
{
    for (size_t i = 0; i < CHAINS; i++) {
        const char *at = strstr(tap, chains[i].inside);
        if (chains[i].op == op && at && at[strlen(chains[i].inside)] != '_')
            return 1;
    }
    return 0;
}

/* True if all calls of an op without a recorded output lie in chains whose ends were judged. */
static int in_chains(const sb_forced *f, sb_op op)
{
    const sb_op_verdict *ops = f->options.verdicts->ops;
    const forced_count *c = &f->counts[op];
    int judged = 0;
    for (size_t i = 0; i < CHAINS; i++) {
        const sb_op_verdict *behind = &ops[chains[i].behind];
        if (chains[i].op != op)
            continue;
        if (behind->skipped)
            return 0;
        judged |= behind->compared > 0;
    }
    return judged && c->chained > 0 && c->chained == c->unshown;
}

static sb_verdict verdict_of(const sb_forced *f, sb_op op, char *why, size_t room)
{
    const sb_op_verdict *v = &f->options.verdicts->ops[op];
    const forced_count *c = &f->counts[op];
    why[0] = '\0';
    if (v->compared == 0 && v->skipped == 0)
        return SB_VERDICT_none;
    if (v->worst > 1.0)
        return SB_VERDICT_FAIL;
    if ((v->compared == 0 || c->unshown) && !in_chains(f, op)) {
        snprintf(why, room, "%s: %zu element%s compared, %zu call%s could not be judged",
                 sb_op_name(op), v->compared, sb_s(v->compared), v->skipped, sb_s(v->skipped));
        return SB_VERDICT_SKIPPED;
    }
    if (v->compared == 0)
        return SB_VERDICT_WITHIN;
    if (c->nonzero == 0 || (v->compared > 1 && c->distinct == 0)) {
        snprintf(why, room, "%s: all %zu elements are %s", sb_op_name(op), v->compared,
                 c->nonzero ? "equal" : "zero");
        return SB_VERDICT_MISTRUSTED;
    }
    /* T-71: "more than half of the op's elements were not 0 and had a bound of 0" */
    if (is_evidence(c->differing, v->worst) && 2 * c->pinned <= v->compared) {
        snprintf(why, room,
                 "%s: %zu elements differ, but none comes near its bound: largest error/bound %.1e",
                 sb_op_name(op), c->differing, v->worst);
        return SB_VERDICT_MISTRUSTED;
    }
    if (v->near_ties)
        return SB_VERDICT_NEAR_TIE;
    return v->identical == v->compared ? SB_VERDICT_IDENTICAL : SB_VERDICT_WITHIN;
}

/* T-23: "An engine of another arithmetic that differs nowhere is not trusted" */
static int is_the_reference(const sb_forced *f)
{
    size_t open = 0, differing = 0;
    for (size_t op = 0; op < SB_OP_COUNT; op++) {
        open += f->options.verdicts->ops[op].open;
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

sb_status sb_forced_finish(sb_forced *f, sb_error *err)
{
    sb_verdicts *v = f->options.verdicts;
    size_t compared = 0;
    char why[SB_WORDS];
    (void)err;
    for (size_t op = 0; op < SB_OP_COUNT; op++) {
        v->ops[op].median = median_of(&f->counts[op]);
        v->ops[op].verdict = verdict_of(f, (sb_op)op, why, sizeof why);
        compared += v->ops[op].compared;
        weigh(v, v->ops[op].verdict, why);
    }
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
