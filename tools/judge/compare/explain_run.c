/* explain_run.c - one comparison of the kept steps with a changed reference. */
#include <stdlib.h>

#include "tools/judge/compare/explain_parts.h"

/* Doublings from 1 to x, at most 64. The last one counts in part, so that the result grows with x.
 */
static double doublings(double x)
{
    double n = 0;
    if (x != x)
        return 64;
    for (; x >= 2 && n < 64; n++)
        x /= 2;
    return n >= 64 ? 64 : x > 1 ? n + (x - 1) : n;
}

static void add_worst(explain_result *r, double worst)
{
    r->score += doublings(worst);
    r->worst = worst > r->worst || worst != worst ? worst : r->worst;
}

static int is_judged(sb_verdict v)
{
    return v != SB_VERDICT_none && v != SB_VERDICT_SKIPPED;
}

static void add_states(explain_result *r, const sb_state_verdict state[SB_STATE_PARTS])
{
    for (size_t i = 0; i < SB_STATE_PARTS; i++)
        r->states += is_judged(state[i].verdict) != 0;
}

static explain_result result_of(const sb_verdicts *v)
{
    explain_result r = {.score = v->has_failure != 0};
    sb_judged all = sb_verdicts_judged(v);
    r.values = all.alone + all.inside;
    for (size_t i = 0; i < SB_OP_COUNT; i++)
        add_worst(&r, v->ops[i].worst);
    for (size_t i = 0; i < v->token_count; i++) {
        const sb_token_verdict *t = &v->tokens[i];
        add_worst(&r, t->worst_ratio);
        r.score += t->verdict == SB_VERDICT_FAIL;
        r.tokens += is_judged(t->verdict) != 0;
        r.kl = t->has_kl && t->kl > r.kl ? t->kl : r.kl;
    }
    for (size_t i = 0; i < v->round_count; i++) {
        r.score += v->rounds[i].verdict == SB_VERDICT_FAIL;
        add_states(&r, v->rounds[i].state);
    }
    for (size_t i = 0; i < v->hit_count; i++) {
        r.score += v->hits[i].verdict == SB_VERDICT_FAIL;
        add_states(&r, v->hits[i].state);
    }
    for (size_t i = 0; i < v->hidden_count; i++)
        r.hidden += v->hidden[i].rows - v->hidden[i].wide;
    r.failed = v->has_failure || v->verdict == SB_VERDICT_FAIL;
    return r;
}

int explain_judges_all(const explain_result *r, const explain_result *before)
{
    return r->values >= before->values && r->tokens >= before->tokens &&
           r->states >= before->states && r->hidden >= before->hidden;
}

/* The hooks of one way. Two ways run at once, and a mistake may have a memory. */
typedef struct hooks {
    sb_sited forced, free;
} hooks;

static void apply(const explain_trial *t, sb_differ_options *o, sb_knobs *knobs, hooks *h)
{
    for (size_t i = 0; i < t->count; i++) {
        const sb_change *c = t->change[i];
        if (c->value != SB_VALUE_COUNT)
            knobs->value[sb_knob_of_value(c->value)] = c->value;
        if (!c->fault)
            continue;
        h->forced =
            (sb_sited){.site = t->place[i], .plant = {.fault = c->fault, .layer = SB_EVERY_LAYER}};
        h->free = h->forced;
        o->forced.twin = &h->forced;
        o->free.twin = sb_sited_hook;
        o->free.twin_ctx = &h->free;
        /* sessions that share a memory would mix their rows; the ops decide (T-24) */
        if (o->with_forced &&
            (c->fault->kind == SB_OP_FAULT_stale || t->place[i].expert != SB_NOWHERE))
            o->with_free = 0;
    }
}

static sb_status play(const explain_search *s, sb_differ *differ, const explain_way *way)
{
    const sb_keep *k = s->keep;
    size_t from = way->site && !way->early ? k->from : 0, end = way->site ? k->failed : k->count;
    sb_status status = SB_OK;
    for (size_t i = from; i < end && !status; i++) {
        const sb_step *step = &k->steps[i];
        sb_step view = *step;
        /* a query that sees later rows needs them */
        const int cut = way->site && way->watch && i + 1 == end && way->site->op != SB_OP_attention;
        if (cut && !sb_keep_cut(step, way->watch->token, &view))
            return SB_ERR_MEMORY;
        status = sb_differ_step(differ, &view, s->err);
        if (view.taps.items != step->taps.items)
            free(view.taps.items);
    }
    return status ? status : sb_differ_finish(differ, s->err);
}

sb_status explain_run(const explain_search *s, const explain_trial *t, const explain_way *way,
                      explain_result *result, sb_verdicts *verdicts)
{
    sb_verdicts own = {0}, *v = verdicts ? verdicts : &own;
    sb_differ_options o = *s->options;
    sb_knobs knobs = *s->options->forced.knobs;
    sb_differ *differ = NULL;
    sb_forced_watch watch = {.at = way->watch};
    hooks h = {.forced = {.ran = 0}};
    if (s->keep->dropped && o.with_forced)
        o.with_free = 0; /* it needs every step */
    if (way->site) {
        o.with_forced = 1;
        o.with_free = 0;
    }
    apply(t, &o, &knobs, &h);
    o.forced.knobs = o.free.knobs = &knobs;
    o.forced.bundle = NULL;
    o.forced.site = way->site;
    o.forced.watch = way->watch ? &watch : NULL;
    o.free.explain = 0;
    o.free.perturbed = way->perturbed ? way->perturbed : o.free.perturbed;
    o.verdicts = v;
    sb_status status = sb_differ_new(s->model, &o, &differ, s->err);
    if (!status)
        status = play(s, differ, way);
    *result = result_of(v);
    result->watched = watch.seen;
    result->apart = watch.apart;
    /* T-46: noise that could hide any fault explains nothing */
    result->failed |= status || (!sb_differ_forced(differ) && v->verdict == SB_VERDICT_MISTRUSTED);
    sb_differ_free(differ);
    sb_sited_clear(&h.forced);
    sb_sited_clear(&h.free);
    if (!verdicts)
        sb_verdicts_free(&own);
    return status == SB_ERR_MEMORY ? status : SB_OK;
}
