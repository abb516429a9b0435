/* free_token.c - one row: its logits, or the largest of them, or its token. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/root.h"
#include "tools/judge/compare/free_parts.h"

/* T-46: "the root mean square of the row's logits about their mean" */
static double spread_of(const float *logits, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)logits[i];
    for (size_t i = 0; i < n; i++)
        squares += ((double)logits[i] - sum / (double)n) * ((double)logits[i] - sum / (double)n);
    return sb_sqrt64(squares / (double)n);
}

static sb_row_bound bound_of(const sb_free *f, const sb_noise *noise)
{
    sb_row_bound b = {.tight = f->factor * noise->tight, .loose = f->factor * noise->loose};
    b.pair = sb_near_pair(b.loose);
    return b;
}

double sb_free_ratio(double error, double bound)
{
    if (error == 0)
        return 0;
    return bound > 0 ? error / bound : INFINITY;
}

static sb_token_verdict *verdict_at(sb_free *f, size_t i)
{
    return &f->v->tokens[i];
}

const float *sb_free_row_data(const sb_step *step, const char *name, size_t row, size_t *cols)
{
    const sb_step_value *v = sb_step_find(&step->taps, name);
    long long at = v && v->data ? sb_step_logits_row(step, v, row) : -1;
    if (at < 0 || (size_t)at >= v->rows)
        return NULL;
    *cols = v->cols;
    return v->data + (size_t)at * v->cols;
}

void sb_free_choice(sb_free *f, sb_token_verdict *t, sb_verdict otherwise)
{
    int tie = t->top[1] != t->top[0];
    t->verdict = sb_verdict_worse(t->verdict, tie ? SB_VERDICT_NEAR_TIE : otherwise);
    f->v->near_ties += (size_t)tie;
    f->near_tokens += (size_t)tie;
}

void sb_free_fail_row(sb_free *f, const sb_free_sequence *s, sb_token_verdict *t, sb_place *place)
{
    t->verdict = SB_VERDICT_FAIL;
    sb_free_fail(f, s, t->position, place);
}

static void fail_logits(sb_free *f, const sb_free_sequence *s, sb_token_verdict *t,
                        const float *ours, const float *theirs, const sb_near_difference *d,
                        double bound)
{
    sb_place place = {.layer = SB_NO_LAYER,
                      .op = "logits",
                      .name = "logits",
                      .rank = 1,
                      .element = {d->at},
                      .found = (double)theirs[d->at],
                      .expected = (double)ours[d->at],
                      .bound = bound};
    snprintf(place.words, sizeof place.words,
             "logit %zu is %.9g, expected %.9g within %.3g; the top-1 token is %s", d->at,
             place.found, place.expected, bound,
             t->has_top[1] && t->top[1] == t->top[0] ? "unchanged" : "another token");
    sb_free_fail_row(f, s, t, &place);
}

/* Judges all logits of a row. */
static void judge_logits(sb_free *f, sb_free_sequence *s, sb_token_verdict *t, const float *ours,
                         const float *theirs, const sb_row_bound *b)
{
    size_t V = f->model->config.vocab_size;
    sb_near_difference d = sb_near_compare(ours, theirs, V);
    double ratio = sb_free_ratio(d.largest, b->loose);
    t->worst_ratio = ratio > t->worst_ratio ? ratio : t->worst_ratio;
    f->compared++;
    f->constant += (size_t)d.constant;
    sb_free_see_row(f, 0, &d);
    s->within_tight &= d.largest <= b->tight;
    if (d.finite) {
        t->top[1] = sb_near_top_of(theirs, V).token;
        t->has_top[1] = t->has_kl = 1;
        t->kl = sb_near_kl(ours, theirs, V);
    }
    if (s->trials)
        sb_trials_see_reference(s->trials, ratio);
    f->choices++;
    if (!(ratio <= 1))
        fail_logits(f, s, t, ours, theirs, &d, b->loose);
    else
        sb_free_choice(f, t, d.identical ? SB_VERDICT_IDENTICAL : SB_VERDICT_WITHIN);
}

/* Notes the distance of each trial's logits (rollback.h). */
static sb_status see_logits(sb_free *f, sb_free_sequence *s, size_t row, const float *theirs,
                            const sb_row_bound *b, sb_error *err)
{
    size_t V = f->model->config.vocab_size;
    sb_status status = SB_OK;
    for (size_t i = 0; s->trials && i < sb_trials_count(s->trials) && !status; i++) {
        status = sb_trial_logits(s->trials, i, row, f->logits, err);
        if (!status)
            sb_trial_see(s->trials, i,
                         sb_free_ratio(sb_near_compare(f->logits, theirs, V).largest, b->loose));
    }
    return status;
}

static sb_status see_token(sb_free *f, sb_free_sequence *s, size_t row, uint32_t token,
                           double bound, sb_error *err)
{
    size_t V = f->model->config.vocab_size;
    sb_status status = SB_OK;
    for (size_t i = 0; s->trials && i < sb_trials_count(s->trials) && !status; i++) {
        status = sb_trial_logits(s->trials, i, row, f->logits, err);
        double gap = INFINITY;
        if (token < V)
            gap = (double)f->logits[sb_near_top_of(f->logits, V).token] - (double)f->logits[token];
        if (!status)
            sb_trial_see(s->trials, i, sb_free_ratio(gap, bound));
    }
    return status;
}

/* Takes the token as the largest logit in a row without logits. */
static void take_alone(sb_free *f, sb_token_verdict *t, uint32_t token, double ratio)
{
    t->top[1] = token;
    t->has_top[1] = 1;
    t->worst_ratio = ratio > t->worst_ratio ? ratio : t->worst_ratio;
    f->compared++;
    f->choices++;
    f->alone++;
    f->open_tokens += t->margin <= t->envelope;
}

static void fail_token(sb_free *f, const sb_free_sequence *s, sb_token_verdict *t, uint32_t token,
                       double gap)
{
    sb_place place = {.layer = SB_NO_LAYER,
                      .op = "token",
                      .name = "token",
                      .found = token,
                      .expected = t->top[0],
                      .bound = t->envelope};
    if (t->top[1] != token)
        snprintf(place.words, sizeof place.words,
                 "token %u was emitted, but the engine's own logits give %u", (unsigned)token,
                 (unsigned)t->top[1]);
    else
        snprintf(
            place.words, sizeof place.words,
            "token %u was emitted, expected %u, whose logit is %.3g larger; rounding explains %.3g",
            (unsigned)token, (unsigned)t->top[0], gap, t->envelope);
    sb_free_fail_row(f, s, t, &place);
}

/* T-44: "A token further below is a failure, with or without logits of its row" */
static void judge_token(sb_free *f, sb_free_sequence *s, size_t verdict, const float *ours,
                        uint32_t token)
{
    sb_token_verdict *t = verdict_at(f, verdict);
    double gap = token < f->model->config.vocab_size ? (double)ours[t->top[0]] - (double)ours[token]
                                                     : INFINITY;
    double ratio = sb_free_ratio(gap, t->envelope);
    const int alone = !t->has_top[1];
    if (s->trials)
        sb_trials_see_reference(s->trials, ratio);
    if (alone)
        take_alone(f, t, token, ratio);
    const int same = t->top[1] == token;
    if (ratio > 1 && !(same && t->verdict == SB_VERDICT_FAIL))
        fail_token(f, s, t, token, gap);
    else if (!same) /* the engine may take any of equal logits */
        t->verdict = sb_verdict_worse(t->verdict, SB_VERDICT_NEAR_TIE);
    else if (alone)
        sb_free_choice(f, t, SB_VERDICT_WITHIN);
}

sb_status sb_free_chosen(sb_free *f, sb_free_sequence *s, uint32_t token, sb_error *err)
{
    if (s->waits && sb_free_samples(f, s))
        return sb_free_drawn(f, s, s->token, token, err);
    if (!s->waits || !f->options.greedy)
        return SB_OK;
    judge_token(f, s, s->token, s->logits, token);
    return see_token(f, s, s->rows - 1, token, f->v->tokens[s->token].envelope, err);
}

/* Judges one row. Computes the reference's logits only if something is compared with them. */
sb_status sb_free_row(sb_free *f, sb_free_sequence *s, size_t first_verdict, size_t row, int needed,
                      const uint32_t *emitted, sb_error *err)
{
    size_t at = f->first + row, cols = 0;
    const float *theirs = sb_free_row_data(f->step, "logits", at, &cols);
    int listed = sb_free_has_logprobs(f, at);
    sb_noise noise = {0};
    if (!theirs && !listed && !needed && !emitted)
        return SB_OK;
    if (theirs && cols != f->model->config.vocab_size)
        return sb_fail(err, SB_ERR_INPUT, "a row of logits has %zu columns; expected %u", cols,
                       (unsigned)f->model->config.vocab_size);
    sb_status status = sb_envelope_logits(s->envelope, row, s->logits, &noise, err);
    if (status)
        return status;
    sb_row_bound b = bound_of(f, &noise);
    sb_near_top top = sb_near_top_of(s->logits, f->model->config.vocab_size);
    sb_token_verdict *t = verdict_at(f, first_verdict + row);
    t->top[0] = top.token;
    t->has_top[0] = 1;
    t->margin = top.margin;
    t->envelope = b.pair;
    if (theirs || listed) {
        f->rows_judged++;
        f->rows_wide += b.pair > spread_of(s->logits, f->model->config.vocab_size);
    }
    if (theirs)
        judge_logits(f, s, t, s->logits, theirs, &b);
    const int tight = s->within_tight;
    if (listed)
        sb_free_logprobs(f, s, t, at, &b);
    if (theirs) /* T-43: if the row has logits, these decide, not the log-probabilities */
        s->within_tight = tight;
    if (theirs)
        status = see_logits(f, s, row, theirs, &b, err);
    if (!status && emitted) {
        judge_token(f, s, first_verdict + row, s->logits, *emitted);
        if (!theirs)
            status = see_token(f, s, row, *emitted, t->envelope, err);
    }
    return status;
}
