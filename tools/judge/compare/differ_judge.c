/* differ_judge.c - the overall verdict. */
#include <stdio.h>
#include <string.h>

#include "ref/run/backend.h"
#include "tools/judge/compare/differ.h"

/* The heaviest verdict of the compared parts, and of the parts not compared. */
typedef struct weight {
    sb_verdict compared, missing;
    const char *missing_op; /* the first op that was not judged */
} weight;

static void weigh(weight *w, sb_verdict verdict)
{
    if (verdict == SB_VERDICT_SKIPPED || verdict == SB_VERDICT_INHERITED)
        w->missing = sb_verdict_worse(w->missing, verdict);
    else
        w->compared = sb_verdict_worse(w->compared, verdict);
}

static weight weigh_all(const sb_verdicts *v)
{
    weight w = {SB_VERDICT_none, SB_VERDICT_none, NULL};
    for (size_t i = 0; i < v->token_count; i++)
        weigh(&w, v->tokens[i].verdict);
    for (size_t i = 0; i < v->round_count; i++) {
        weigh(&w, v->rounds[i].verdict);
        for (size_t part = 0; part < SB_STATE_PARTS; part++)
            weigh(&w, v->rounds[i].state[part].verdict);
    }
    for (size_t i = 0; i < v->hit_count; i++)
        for (size_t part = 0; part < SB_STATE_PARTS; part++)
            weigh(&w, v->hits[i].state[part].verdict);
    weigh(&w, v->sampler.verdict);
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        weigh(&w, v->ops[i].verdict);
        if (v->ops[i].verdict == SB_VERDICT_SKIPPED && !w.missing_op)
            w.missing_op = sb_op_name(i);
    }
    return w;
}

static void say(sb_verdicts *v, sb_verdict verdict, const char *reason)
{
    if (verdict <= v->verdict)
        return;
    v->verdict = verdict;
    snprintf(v->reason, sizeof v->reason, "%s", reason);
}

/* Names a MISTRUSTED op, if no reason is given yet. */
static void say_ops(sb_verdicts *v)
{
    char text[SB_WORDS];
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        const sb_op_verdict *op = &v->ops[i];
        if (op->verdict != SB_VERDICT_MISTRUSTED)
            continue;
        snprintf(text, sizeof text,
                 "op %s: %zu elements compared, %zu identical, median error/bound %.2g: these data "
                 "could not reveal a fault",
                 sb_op_name(i), op->compared, op->identical, op->median);
        say(v, SB_VERDICT_MISTRUSTED, text);
    }
}

static void say_ties(sb_verdicts *v, double limit)
{
    char text[SB_WORDS];
    size_t ties = 0;
    for (size_t i = 0; i < v->token_count; i++)
        ties += v->tokens[i].verdict == SB_VERDICT_NEAR_TIE;
    if (!ties || (double)ties <= limit * (double)v->token_count)
        return;
    snprintf(text, sizeof text,
             "%zu of %zu tokens are near ties, more than the allowed share of %.2g", ties,
             v->token_count, limit);
    say(v, SB_VERDICT_MISTRUSTED, text);
}

static void say_failure(sb_verdicts *v)
{
    const sb_place *p = &v->first_failure;
    char text[SB_WORDS];
    if (!v->has_failure) {
        say(v, SB_VERDICT_FAIL, "a difference beyond its bound");
        return;
    }
    snprintf(text, sizeof text, "token %llu, %s: %.240s", (unsigned long long)p->token, p->op,
             *p->words ? p->words : p->name);
    say(v, SB_VERDICT_FAIL, text);
}

void sb_differ_judge(sb_verdicts *v, int forced_required, double tie_limit)
{
    weight w = weigh_all(v);
    if (w.compared == SB_VERDICT_FAIL || v->has_failure)
        say_failure(v);
    if (w.compared == SB_VERDICT_MISTRUSTED) {
        say_ops(v);
        say(v, SB_VERDICT_MISTRUSTED, "these data could not reveal a fault");
    }
    say_ties(v, tie_limit);
    if (!v->token_count)
        say(v, SB_VERDICT_MISTRUSTED, "nothing was compared: there are no rows");
    if (forced_required && w.missing_op) {
        char text[SB_WORDS];
        snprintf(text, sizeof text,
                 "op %s could not be judged: not all of its inputs and outputs are recorded",
                 w.missing_op);
        say(v, SB_VERDICT_SKIPPED, text);
    }
    if (v->lost) { /* the rest of the sequence was not judged */
        char why[SB_WORDS];
        memcpy(why, v->reason, sizeof why);
        say(v, SB_VERDICT_SKIPPED, *why ? why : "the tokens of a sequence could not be followed");
    }
    if (w.compared == SB_VERDICT_none && w.missing != SB_VERDICT_none)
        say(v, w.missing, sb_verdict_name(w.missing));
    if (v->verdict == SB_VERDICT_none || v->verdict < w.compared)
        v->verdict = w.compared;
}
