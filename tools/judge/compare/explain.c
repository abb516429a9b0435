#include "tools/judge/compare/explain.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"

enum { BEST = 4 }; /* single changes that are tried in pairs */

/* A measure of the failures of a comparison. */
typedef struct badness {
    /* sum over all ratios of the doublings beyond the bound, plus the number of failures */
    double score;
    double worst;
} badness;

/* One or two changes, and the remaining badness. */
typedef struct trial {
    const sb_change *first, *second;
    badness left;
} trial;

typedef struct search {
    const sb_model *model;
    const sb_differ_options *options;
    const sb_keep *keep;
    badness before;
    trial *trials; /* trials that help, the best first */
    size_t count;
    sb_error *err;
} search;

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

static badness badness_of(const sb_verdicts *v)
{
    badness b = {0, 0};
    for (size_t i = 0; i < SB_OP_COUNT; i++) {
        double worst = v->ops[i].worst;
        b.score += doublings(worst);
        b.worst = worst > b.worst || worst != worst ? worst : b.worst;
    }
    for (size_t i = 0; i < v->token_count; i++) {
        double worst = v->tokens[i].worst_ratio;
        b.worst = worst > b.worst || worst != worst ? worst : b.worst;
        b.score += doublings(worst) + (v->tokens[i].verdict == SB_VERDICT_FAIL);
    }
    for (size_t i = 0; i < v->round_count; i++)
        b.score += v->rounds[i].verdict == SB_VERDICT_FAIL;
    b.score += v->has_failure != 0;
    return b;
}

static void apply(const sb_change *change, sb_differ_options *o, sb_knobs *knobs)
{
    if (!change)
        return;
    if (change->value != SB_VALUE_COUNT)
        knobs->value[sb_knob_of_value(change->value)] = change->value;
    if (change->begin)
        change->begin(change->twin_ctx);
    if (change->twin) {
        o->forced.twin = o->free.twin = change->twin;
        o->forced.twin_ctx = o->free.twin_ctx = change->twin_ctx;
    }
}

/* Compares the kept steps with the reference changed. Sets *possible to 0 if the model cannot run
 * with the change. */
static sb_status measure_trial(const search *s, trial *t, int *possible)
{
    sb_verdicts verdicts = {0};
    sb_differ_options o = *s->options;
    sb_knobs knobs = *s->options->forced.knobs;
    sb_differ *differ = NULL;
    apply(t->first, &o, &knobs);
    apply(t->second, &o, &knobs);
    o.forced.knobs = o.free.knobs = &knobs;
    o.forced.bundle = NULL;
    o.free.explain = 0;
    o.verdicts = &verdicts;
    sb_status status = sb_differ_new(s->model, &o, &differ, s->err);
    for (size_t i = 0; i < s->keep->count && !status; i++)
        status = sb_differ_step(differ, &s->keep->steps[i], s->err);
    if (!status)
        status = sb_differ_finish(differ, s->err);
    /* T-46: noise that could hide any fault explains nothing */
    *possible = !status && (sb_differ_forced(differ) || verdicts.verdict != SB_VERDICT_MISTRUSTED);
    t->left = badness_of(&verdicts);
    sb_differ_free(differ);
    sb_verdicts_free(&verdicts);
    return status == SB_ERR_MEMORY ? status : SB_OK;
}

/* Inserts a trial in order; among equals the earlier stays first. */
static void insert(search *s, const trial *t)
{
    size_t at = s->count++;
    for (; at > 0 && s->trials[at - 1].left.score > t->left.score; at--)
        s->trials[at] = s->trials[at - 1];
    s->trials[at] = *t;
}

/* Keeps a trial with a score below `limit`. */
static sb_status try_one(search *s, const sb_change *first, const sb_change *second, double limit)
{
    trial t = {.first = first, .second = second};
    int possible;
    sb_status status = measure_trial(s, &t, &possible);
    if (!status && possible && t.left.score < limit)
        insert(s, &t);
    return status;
}

static int excludes(const sb_change *a, const sb_change *b)
{
    return (a->twin && b->twin) || (a->value != SB_VALUE_COUNT && b->value != SB_VALUE_COUNT &&
                                    sb_knob_of_value(a->value) == sb_knob_of_value(b->value));
}

/* Tries pairs of the best single changes, if none of them explains everything. */
static sb_status try_pairs(search *s)
{
    const sb_change *best[BEST];
    size_t n = s->count < BEST ? s->count : BEST;
    sb_status status = SB_OK;
    if (n < 2 || s->trials[0].left.worst <= 1)
        return SB_OK;
    double limit = s->trials[0].left.score - 1;
    for (size_t i = 0; i < n; i++)
        best[i] = s->trials[i].first;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n && !status; j++)
            if (!excludes(best[i], best[j]))
                status = try_one(s, best[i], best[j], limit);
    return status;
}

/* "behaves like A"; a second change is added without the first words. */
static void write_explanation(const search *s, const trial *t, sb_explanation *e)
{
    enum { LIKE = sizeof "behaves like " - 1 };
    *e = (sb_explanation){.before = s->before.worst, .after = t->left.worst};
    snprintf(e->change, sizeof e->change, "%.46s%s%.46s", t->first->name, t->second ? " " : "",
             t->second ? t->second->name : "");
    snprintf(e->words, sizeof e->words, "%.150s%s%.140s", t->first->words,
             t->second ? ", and " : "", t->second ? t->second->words + LIKE : "");
}

/* If some changes leave no difference, writes only these changes. */
static void write_explanations(const search *s, sb_verdicts *v)
{
    int vanishes = s->count && s->trials[0].left.score == 0;
    for (size_t i = 0; i < s->count && i < SB_EXPLANATIONS; i++) {
        if (vanishes && s->trials[i].left.score > 0)
            break;
        write_explanation(s, &s->trials[i], &v->explanations[v->explanation_count++]);
    }
}

sb_status sb_explain(const sb_model *model, const sb_differ_options *options, const sb_keep *keep,
                     const sb_changes *changes, sb_explain_progress progress, sb_verdicts *verdicts,
                     sb_error *err)
{
    sb_error ignored;
    search s = {.model = model, .options = options, .keep = keep, .err = &ignored};
    trial none = {.first = NULL};
    int possible;
    if (!keep->count)
        return SB_OK;
    s.trials = sb_alloc(changes->count + BEST * BEST, sizeof *s.trials);
    if (!s.trials)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for explanations");
    sb_status status = measure_trial(&s, &none, &possible);
    s.before = none.left;
    double limit = s.before.score > 2 ? s.before.score - 1 : s.before.score / 2;
    for (size_t i = 0; i < changes->count && !status; i++) {
        status = try_one(&s, &changes->items[i], NULL, limit);
        if (progress)
            progress(NULL, "explanation", i + 1, changes->count);
    }
    if (!status)
        status = try_pairs(&s);
    if (!status)
        write_explanations(&s, verdicts);
    free(s.trials);
    return status ? sb_fail(err, status, "%s", ignored.text) : SB_OK;
}
