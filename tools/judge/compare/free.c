/* free.c - the sequences of a comparison, and the order in which the parts of a step are judged. */
#include "tools/judge/compare/free.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/free_parts.h"

sb_status sb_free_new(const sb_model *model, const sb_free_options *options, sb_free **out,
                      sb_error *err)
{
    sb_free *f = sb_alloc(1, sizeof *f);
    if (!f)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a comparison");
    f->model = model;
    f->options = *options;
    f->v = options->verdicts;
    if (options->knobs)
        f->knobs = *options->knobs;
    else
        sb_knobs_exact(&f->knobs);
    f->factor = sb_envelope_factor(model, &f->knobs, options->arithmetic, model->config.vocab_size);
    f->logits = sb_alloc(model->config.vocab_size, sizeof *f->logits);
    f->history = options->explain ? sb_history_new() : NULL;
    if (!f->logits || (options->explain && !f->history)) {
        sb_free_free(f);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    }
    sb_status status = sb_draws_new(model->config.vocab_size, &f->draws, err);
    if (status)
        sb_free_free(f);
    else
        *out = f;
    return status;
}

static void free_sequence(const sb_free *f, sb_free_sequence *s)
{
    sb_free_drop_hidden(f, s);
    sb_envelope_free(s->envelope);
    sb_trials_free(s->trials);
    sb_free_drop_drafts(s);
    sb_free_drop_rows(s);
    free(s->logits);
    s->envelope = NULL;
    s->trials = NULL;
    s->logits = NULL;
}

void sb_free_free(sb_free *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++)
        free_sequence(f, &f->sequences[i]);
    free(f->sequences);
    sb_history_free(f->history);
    sb_draws_free(f->draws);
    free(f->logits);
    free(f->bounds);
    free(f);
}

void sb_free_fail(sb_free *f, const sb_free_sequence *s, uint64_t position, sb_place *place)
{
    place->sequence = s->number;
    place->token = position;
    sb_verdicts_fail(f->v, place);
    f->v->verdict = sb_verdict_worse(f->v->verdict, SB_VERDICT_FAIL);
}

sb_state_verdict *sb_free_part(sb_free *f, const sb_free_sequence *s, sb_state_part part)
{
    if (s->has_round)
        return &f->v->rounds[s->round].state[part];
    return sb_free_begins(f, s) ? &f->v->hits[s->hit].state[part] : NULL;
}

int sb_free_begins(const sb_free *f, const sb_free_sequence *s)
{
    return s->has_hit && s->position + s->rows == f->v->hits[s->hit].position;
}

void sb_free_fail_origin(sb_free *f, const sb_free_sequence *s)
{
    if (s->has_round)
        f->v->rounds[s->round].verdict = SB_VERDICT_FAIL;
    else if (sb_free_begins(f, s))
        f->v->hits[s->hit].verdict = SB_VERDICT_FAIL;
}

static void lose(sb_free *f, sb_free_sequence *s, const char *why)
{
    s->lost = 1;
    f->v->verdict = sb_verdict_worse(f->v->verdict, SB_VERDICT_SKIPPED);
    if (!f->v->reason[0])
        snprintf(f->v->reason, sizeof f->v->reason, "sequence %u: %s", (unsigned)s->number, why);
}

static sb_status new_trials(const sb_free *f, sb_free_sequence *s, sb_error *err)
{
    const sb_session_options session = {
        .knobs = &f->knobs, .hook = f->options.twin, .hook_ctx = f->options.twin_ctx};
    return sb_trials_new(f->model, &session, &s->trials, err);
}

static sb_status open_sequence(sb_free *f, sb_free_sequence *s, sb_error *err)
{
    sb_envelope_options options = {.knobs = &f->knobs,
                                   .arithmetic = f->options.arithmetic,
                                   .perturbed = f->options.perturbed,
                                   .seed = f->options.seed,
                                   .mtp = f->options.mtp,
                                   .drafter = f->options.drafter,
                                   .replays = sb_trace_replays(f->options.rollback),
                                   .coverage = f->options.coverage,
                                   .twin = f->options.twin,
                                   .twin_ctx = f->options.twin_ctx};
    sb_status status = sb_envelope_new(f->model, &options, &s->envelope, err);
    if (!status && f->options.explain)
        status = new_trials(f, s, err);
    s->logits = sb_alloc(f->model->config.vocab_size, sizeof *s->logits);
    if (!status && !s->logits)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    return status;
}

/* Finds the sequence of this number. Opens a new one if there is none or it has ended. */
static sb_status find(sb_free *f, uint32_t number, sb_free_sequence **out, sb_error *err)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->sequences[i].number == number) {
            sb_free_sequence *s = *out = &f->sequences[i];
            if (!s->ended)
                return SB_OK;
            *s = (sb_free_sequence){.number = number};
            return open_sequence(f, s, err);
        }
    sb_free_sequence *more = sb_grow(f->sequences, f->count, &f->room, sizeof *more);
    if (!more)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for sequences");
    f->sequences = more;
    sb_free_sequence *s = &f->sequences[f->count];
    *s = (sb_free_sequence){.number = number};
    f->count++;
    *out = s;
    return open_sequence(f, s, err);
}

static void restart(sb_free_sequence *s)
{
    sb_envelope *envelope = s->envelope;
    sb_trials *trials = s->trials;
    float *logits = s->logits;
    sb_free_drop_drafts(s);
    sb_free_drop_rows(s);
    sb_envelope_reset(envelope);
    if (trials)
        sb_trials_reset(trials);
    *s = (sb_free_sequence){
        .number = s->number, .envelope = envelope, .trials = trials, .logits = logits};
}

/* The counts of a round, and the count of another sequence in the same step, which an engine could
 * have taken by mistake. */
static sb_trial_round counts_of(const sb_free *f, const sb_free_sequence *s, size_t kept)
{
    sb_trial_round round = {.kept = kept, .before = s->accepted[1]};
    for (size_t i = 0; i < f->count; i++)
        if (f->sequences[i].number != s->number && f->sequences[i].call == s->call) {
            round.has_other = 1;
            round.other = f->sequences[i].accepted[0];
        }
    return round;
}

/* Fails a sequence whose engine continues at another position than the round implies. */
static void wrong_place(sb_free *f, sb_free_sequence *s, uint64_t next)
{
    sb_place place = {.layer = SB_NO_LAYER, .op = "position"};
    uint64_t expected = s->position + s->kept;
    snprintf(place.words, sizeof place.words,
             "the call after the round begins at position %llu; expected %llu, because %zu tokens "
             "were emitted",
             (unsigned long long)next, (unsigned long long)expected, s->kept);
    place.found = (double)next;
    place.expected = (double)expected;
    sb_free_fail(f, s, next, &place);
    s->misplaced = 1;
    if (!s->has_round)
        return;
    sb_round_verdict *round = &f->v->rounds[s->round];
    round->verdict = SB_VERDICT_FAIL;
    const char *like = NULL;
    size_t before = s->accepted[1] + 1 < s->rows ? s->accepted[1] + 1 : s->rows;
    if (next == s->position + before)
        like = "the accepted count came from the previous round";
    if (next + 1 == expected)
        like = "the row of the last accepted draft was not kept";
    if (next == expected + 1)
        like = "the bonus token counted as an accepted draft: one row more is kept";
    if (like && !round->hypothesis[0])
        snprintf(round->hypothesis, sizeof round->hypothesis, "behaves as if %s", like);
}

/* U-4: "The next row of the sequence is the token emitted last, at the position after those that
 * were kept". A further prompt is not the engine's output and not judged. */
static void judge_fed(sb_free *f, sb_free_sequence *s, const sb_step_row *next)
{
    sb_place place = {.layer = SB_NO_LAYER, .op = "round", .name = "round"};
    if (!s->verify || !s->kept || next->token == s->last || next->kind == SB_CALL_prompt ||
        next->position != s->position + s->kept)
        return;
    snprintf(place.words, sizeof place.words, "token %u was emitted last, but token %u is fed next",
             (unsigned)s->last, (unsigned)next->token);
    place.found = next->token;
    place.expected = s->last;
    sb_free_fail(f, s, next->position, &place);
    if (s->has_round)
        f->v->rounds[s->round].verdict = SB_VERDICT_FAIL;
}

/* Cuts the last call to its kept rows. Their number follows from the position of the next row or
 * from the round. `next` is NULL if there is no next row. */
static sb_status settle_call(sb_free *f, sb_free_sequence *s, const uint64_t *next, sb_error *err)
{
    size_t kept = s->kept ? s->kept : s->rows;
    uint64_t end = s->position + (s->verify ? kept : s->rows);
    if (next && *next != end) {
        if (s->verify && s->kept)
            wrong_place(f, s, *next);
        if (!s->verify || *next <= s->position || *next > s->position + s->rows) {
            lose(f, s,
                 s->rows ? "the rows are not consecutive"
                         : "it begins behind position 0, and the steps that fed the tokens before "
                           "are not known: it names no parent (U-11)");
            return SB_OK;
        }
        kept = (size_t)(*next - s->position);
    }
    if (!s->verify)
        return SB_OK;
    sb_status status = sb_envelope_keep(s->envelope, kept, err);
    s->anew |= sb_envelope_chose_anew(s->envelope);
    s->within_tight &= !sb_envelope_chose_anew(s->envelope);
    if (!status && s->trials) {
        sb_trial_round round = counts_of(f, s, kept);
        status = sb_trials_keep(s->trials, &round, err);
    }
    s->rows = kept;
    s->verify = 0;
    s->kept = 0;
    return status;
}

/* Judges one sequence of the step. */
static sb_status take_sequence(sb_free *f, sb_free_sequence *s, const sb_step_state *state,
                               size_t first, size_t n, sb_error *err)
{
    const sb_step *step = f->step;
    const uint64_t *next = n ? &step->rows[first].position : state ? &state->position : NULL;
    sb_status status = SB_OK;
    if (n && *next == 0 && s->rows)
        restart(s);
    if (n && !s->lost)
        judge_fed(f, s, &step->rows[first]);
    if (!s->lost)
        status = settle_call(f, s, next, err);
    if (status || s->lost)
        return status;
    if (n && s->within_tight && !s->flipped) {
        status = sb_envelope_rejoin(s->envelope, err);
        s->anew = 0;
    }
    s->within_tight = 0;
    if (!status && n && s->trials)
        status = sb_trials_begin(s->trials, n, err);
    if (!status && state)
        status = sb_free_state(f, s, state, err);
    return status || !n ? status : sb_free_call(f, s, first, n, err);
}

static const sb_step_state *state_of(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->state_count; i++)
        if (step->states[i].sequence == sequence)
            return &step->states[i];
    return NULL;
}

const sb_step_round *sb_free_find_round(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->round_count; i++)
        if (step->rounds[i].sequence == sequence)
            return &step->rounds[i];
    return NULL;
}

static int has_rows(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].sequence == sequence)
            return 1;
    return 0;
}

/* Takes a draft. Without a sequence of its number nothing can be judged. */
static sb_status take_draft(sb_free *f, size_t row, sb_error *err)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->sequences[i].number == f->step->rows[row].sequence && !f->sequences[i].ended)
            return sb_free_take_draft(f, &f->sequences[i], row, err);
    return SB_OK;
}

/* Ends a sequence. Keeps the members that counts_of reads. */
static sb_status end_sequence(sb_free *f, uint32_t number, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < f->count && !status; i++) {
        sb_free_sequence *s = &f->sequences[i];
        if (s->number != number || s->ended)
            continue;
        if (!s->lost)
            status = settle_call(f, s, NULL, err);
        free_sequence(f, s);
        s->ended = 1;
    }
    return status;
}

/* Notes the hits of the sequences that continue others in this step. */
static sb_status begin_hits(sb_free *f, const sb_step *step, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < step->prefix_count && !status; i++) {
        sb_free_sequence *s = NULL;
        const sb_hit_verdict *hit = sb_verdicts_hit_of(f->v, step->prefixes[i].sequence);
        status = find(f, step->prefixes[i].sequence, &s, err);
        if (status || !hit)
            continue;
        s->has_hit = 1;
        s->hit = (size_t)(hit - f->v->hits);
        if (f->options.explain && !s->trials)
            status = new_trials(f, s, err);
        if (!status)
            status = sb_free_suspect_hit(f, s, err);
    }
    return status;
}

/* The step is judged as any other, and everything but its sequence is then as before. */
sb_status sb_free_again(sb_free *f, const sb_step *step, sb_error *err)
{
    sb_verdicts unused = {0};
    sb_free before = *f;
    f->v = &unused;
    f->options.explain = 0;
    sb_status status = sb_free_step(f, step, err);
    before.sequences = f->sequences;
    before.count = f->count;
    before.room = f->room;
    before.bounds = f->bounds;
    before.bounds_room = f->bounds_room;
    *f = before;
    for (size_t i = 0; i < f->count; i++)
        if (step->row_count && f->sequences[i].number == step->rows[0].sequence)
            f->sequences[i].waits = 0; /* its token has no verdict */
    sb_verdicts_free(&unused);
    return status;
}

sb_status sb_free_step(sb_free *f, const sb_step *step, sb_error *err)
{
    f->step = step;
    f->steps++;
    sb_status status = sb_free_declare(f, step, err);
    if (!status)
        status = begin_hits(f, step, err);
    for (size_t i = 0, n; i < step->row_count && !status; i += n) {
        const sb_step_row *row = &step->rows[i];
        sb_free_sequence *s = NULL;
        for (n = 1; i + n < step->row_count && step->rows[i + n].sequence == row->sequence;)
            n++;
        if (row->kind == SB_CALL_draft) {
            for (size_t k = 0; k < n && !status; k++)
                status = take_draft(f, i + k, err);
            continue;
        }
        status = find(f, row->sequence, &s, err);
        if (!status)
            status = take_sequence(f, s, state_of(step, row->sequence), i, n, err);
    }
    for (size_t i = 0; i < step->state_count && !status; i++) {
        sb_free_sequence *s = NULL;
        if (has_rows(step, step->states[i].sequence))
            continue;
        status = find(f, step->states[i].sequence, &s, err);
        if (!status)
            status = take_sequence(f, s, &step->states[i], 0, 0, err);
    }
    for (size_t i = 0; i < step->ended_count && !status; i++)
        status = end_sequence(f, step->ended[i], err);
    if (!status && f->history && !step->again)
        status = sb_history_step(f->history, step, err);
    f->step = NULL;
    return status;
}

/* T-46: "more than a tenth of the tokens are NEAR_TIE" and the other conditions. 1 if the
 * comparison says nothing; `why` then gives the reason with its numbers. */
static int vacuous(const sb_free *f, char *why, size_t room)
{
    const char *words = NULL;
    if (f->compared == 0)
        words = "no row was compared";
    else if (f->rows > 1 && !f->varied)
        words = "all tokens are the same";
    else if (f->constant == f->compared)
        words = "the engine's logits are constant";
    if (words)
        snprintf(why, room, "%s", words);
    else if ((double)f->near_tokens > SB_NEAR_TIE_LIMIT * (double)f->choices)
        snprintf(why, room,
                 "too many tokens are near ties: the noise could hide a fault (%zu of %zu near "
                 "ties, limit %g)",
                 f->near_tokens, f->choices, SB_NEAR_TIE_LIMIT);
    else if (2 * f->rows_wide > f->rows_judged)
        snprintf(why, room,
                 "rounding alone could change the logits beyond recognition at more than half of "
                 "the tokens (%zu of %zu)",
                 f->rows_wide, f->rows_judged);
    else if (f->alone && 2 * f->open_tokens > f->alone)
        snprintf(why, room, "rounding alone could change more than half of the tokens (%zu of %zu)",
                 f->open_tokens, f->alone);
    else
        return 0;
    return 1;
}

sb_status sb_free_finish(sb_free *f, sb_error *err)
{
    sb_status status = SB_OK;
    sb_verdicts *v = f->v;
    for (size_t i = 0; i < f->count && !status; i++)
        if (!f->sequences[i].lost && !f->sequences[i].ended)
            status = settle_call(f, &f->sequences[i], NULL, err);
    sb_free_judge_digests(f);
    sb_free_judge_draws(f);
    for (size_t i = 0; i < v->token_count; i++)
        v->verdict = sb_verdict_worse(v->verdict, v->tokens[i].verdict);
    for (size_t i = 0; i < v->round_count; i++)
        v->verdict = sb_verdict_worse(v->verdict, v->rounds[i].verdict);
    if (v->verdict != SB_VERDICT_FAIL && vacuous(f, v->reason, sizeof v->reason)) {
        v->verdict = SB_VERDICT_MISTRUSTED;
    } else if (v->verdict != SB_VERDICT_FAIL && f->doubt[0]) {
        v->verdict = SB_VERDICT_MISTRUSTED;
        snprintf(v->reason, sizeof v->reason, "%s", f->doubt);
    }
    if (v->has_failure && v->verdict == SB_VERDICT_FAIL)
        sb_verdicts_reason(v, f->model->config.layers);
    return status;
}
