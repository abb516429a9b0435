/* free_call.c - one call of one sequence: feeds it, judges its choices of experts, then its rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/free_parts.h"

/* The engine's experts, if the step has them. */
static int engine_experts(void *ctx, uint32_t layer, size_t row, uint32_t *ids, size_t kept)
{
    const sb_free *f = ctx;
    char name[48];
    snprintf(name, sizeof name, "layers.%u.mlp.router_ids", (unsigned)layer);
    const sb_step_value *v = sb_step_find(&f->step->taps, name);
    size_t at = f->first + row;
    if (!v || !v->data || v->cols != kept || at >= v->rows)
        return 0;
    for (size_t i = 0; i < kept; i++) {
        float id = v->data[at * kept + i];
        ids[i] = id >= 0 && id < 65536 ? (uint32_t)id : UINT32_MAX;
    }
    return 1;
}

static int has_experts(const sb_step *step)
{
    for (size_t i = 0; i < step->taps.count; i++) {
        const sb_step_value *v = &step->taps.items[i];
        size_t n = strlen(v->name);
        if (v->data && n > 14 && strcmp(v->name + n - 14, "mlp.router_ids") == 0 &&
            strncmp(v->name, "layers.", 7) == 0)
            return 1;
    }
    return 0;
}

/* T-43: "a set that only the bound explains is adopted, any other set is a failure" */
static void judge_experts(sb_free *f, const sb_free_sequence *s, size_t first_verdict)
{
    size_t count;
    const sb_adopted *list = sb_envelope_adopted(s->envelope, &count);
    for (size_t i = 0; i < count; i++) {
        const sb_adopted *a = &list[i];
        sb_token_verdict *t = &f->v->tokens[first_verdict + a->row];
        sb_place place = {.layer = a->layer,
                          .op = "router",
                          .found = a->theirs,
                          .expected = a->ours,
                          .bound = a->bound};
        double ratio = sb_free_ratio(a->margin, a->bound);
        t->worst_ratio = ratio > t->worst_ratio ? ratio : t->worst_ratio;
        if (ratio <= 1) {
            f->v->near_ties++; /* a near tie of the experts, not of the token */
            continue;
        }
        snprintf(place.name, sizeof place.name, "layers.%u.mlp.router_ids", (unsigned)a->layer);
        snprintf(place.words, sizeof place.words,
                 "expert %u was chosen instead of %u, whose logit is %.3g larger; rounding "
                 "explains %.3g",
                 (unsigned)a->theirs, (unsigned)a->ours, a->margin, a->bound);
        sb_free_fail_row(f, s, t, &place);
    }
}

/* Adds an empty verdict for each row. */
static sb_status add_verdicts(sb_free *f, const sb_free_sequence *s, const sb_step_row *rows,
                              size_t n, sb_error *err)
{
    for (size_t i = 0; i < n; i++) {
        sb_token_verdict *t = sb_verdicts_token(f->v);
        if (!t)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for verdicts");
        t->sequence = s->number;
        t->position = rows[i].position;
        t->id = rows[i].token;
        f->varied |= f->rows > 0 && rows[i].token != f->any_token;
        f->any_token = rows[i].token;
        f->rows++;
    }
    return SB_OK;
}

/* Feeds the tokens to all sessions; makes drafts before that. */
static sb_status feed(sb_free *f, sb_free_sequence *s, const uint32_t *tokens, size_t n, int verify,
                      sb_round_verdict *round, sb_error *err)
{
    sb_status status = SB_OK;
    if (verify && sb_free_judges_drafts(f) && s->position)
        status = sb_free_drafts(f, s, tokens, n, round, err);
    if (status)
        return status;
    if (verify)
        status = sb_envelope_verify(s->envelope, tokens, n, err);
    else
        status = sb_envelope_feed(s->envelope, tokens, n, err);
    if (!status && s->trials)
        status = verify ? sb_trials_verify(s->trials, tokens, n, err)
                        : sb_trials_feed(s->trials, tokens, n, err);
    return status;
}

static sb_status run(sb_free *f, sb_free_sequence *s, const sb_step_row *rows,
                     const uint32_t *tokens, size_t n, sb_error *err)
{
    const sb_step_round *recorded = sb_free_find_round(f->step, s->number);
    int verify = recorded || rows[0].kind == SB_CALL_verify;
    size_t verdict = f->v->token_count, judged = f->rows_judged, failures = f->v->failures;
    sb_round_verdict round = {.sequence = s->number, .position = s->position};
    const int samples = sb_free_samples(f, s);
    sb_status status = feed(f, s, tokens, n, verify, &round, err);
    if (!status)
        status = sb_free_feed_draws(f, s, rows, n, err);
    if (!status)
        status = add_verdicts(f, s, rows, n, err);
    if (status)
        return status;
    s->within_tight = 1;
    judge_experts(f, s, verdict);
    status = sb_free_hidden(f, s, verdict, n, err);
    for (size_t i = 0; i < n && !status; i++) {
        const uint32_t *emitted = NULL;
        const int last = i + 1 == n && !verify;
        /* U-10: no model chose the accepted drafts of a forced round, but the token after them */
        int chosen = recorded && (!recorded->round.forced || i >= recorded->round.accepted);
        if (chosen && i < recorded->round.emitted && i <= SB_MAX_DRAFTS)
            emitted = &recorded->round.tokens[i];
        status = sb_free_row(f, s, verdict, i, last || (samples && emitted),
                             sb_free_is_greedy(f, s) ? emitted : NULL, err);
        if (!status && samples && (last || emitted))
            status = sb_free_draw_row(f, s, verdict + i, i, err);
        if (!status && samples && emitted)
            status = sb_free_drawn(f, s, verdict + i, *emitted, err);
    }
    s->within_tight &= f->rows_judged > judged; /* needs logits: tokens alone do not show it */
    if (f->v->failures > failures)
        sb_free_explain(f, s);
    s->rows = n;
    s->verify = verify;
    s->kept = 0;
    s->waits = !verify;
    s->token = verdict + n - 1;
    if (!status && recorded)
        status = sb_free_round(f, s, recorded, &round, verdict, n, err);
    return status;
}

sb_status sb_free_call(sb_free *f, sb_free_sequence *s, size_t first, size_t n, sb_error *err)
{
    const sb_step_row *rows = f->step->rows + first;
    uint32_t *tokens = sb_alloc(n, sizeof *tokens);
    sb_status status =
        tokens ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu rows", n);
    for (size_t i = 0; i < n && !status; i++) {
        tokens[i] = rows[i].token;
        if (rows[i].position != rows[0].position + i)
            status = sb_fail(err, SB_ERR_INPUT,
                             "sequence %u: position %llu follows %llu within one call",
                             (unsigned)s->number, (unsigned long long)rows[i].position,
                             (unsigned long long)rows[0].position + i - 1);
    }
    f->first = first;
    if (!status && rows[0].kind != SB_CALL_prompt)
        status = sb_free_chosen(f, s, tokens[0], err);
    s->waits = 0;
    s->position = rows[0].position;
    sb_envelope_adopt(s->envelope, has_experts(f->step) ? engine_experts : NULL, f);
    if (!status)
        status = sb_free_take_hidden(f, s, n, err);
    if (!status)
        status = run(f, s, rows, tokens, n, err);
    sb_free_drop_drafts(s);
    free(tokens);
    return status;
}
