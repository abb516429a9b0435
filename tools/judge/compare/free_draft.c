/* free_draft.c - drafts of a round: the inputs of the engine's head, its logits, and its tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/compare/free_parts.h"

void sb_free_drop_drafts(sb_free_sequence *s)
{
    for (size_t i = 0; i < s->drafts; i++)
        free(s->drafted[i].logits);
    s->drafts = 0;
}

int sb_free_judges_drafts(const sb_free *f)
{
    return f->options.drafter || (f->options.mtp && !f->options.external);
}

/* The number of logits of a draft. */
static size_t width_of(const sb_free *f)
{
    return f->options.drafter ? sb_eagle3_config_of(f->options.drafter)->draft_vocab
                              : f->model->config.vocab_size;
}

static const char *tap_of(const sb_free *f)
{
    return f->options.drafter ? "drafter.logits" : "mtp.logits";
}

/* The token of a row of the head. */
static uint32_t token_of(const sb_free *f, size_t row)
{
    return f->options.drafter ? sb_eagle3_vocabulary(f->options.drafter)[row] : (uint32_t)row;
}

/* The row of the head for a token; the number of rows if it has none. */
static size_t row_of(const sb_free *f, uint32_t token)
{
    const size_t n = width_of(f);
    size_t row = f->options.drafter ? 0 : token < n ? token : n;
    while (f->options.drafter && row < n && token_of(f, row) != token)
        row++;
    return row;
}

sb_status sb_free_take_draft(sb_free *f, sb_free_sequence *s, size_t row, sb_error *err)
{
    size_t V = width_of(f), cols = 0;
    if (!sb_free_judges_drafts(f) || s->lost || s->drafts == SB_MAX_DRAFTS)
        return SB_OK;
    const float *logits = sb_free_row_data(f->step, tap_of(f), row, &cols);
    sb_free_draft *d = &s->drafted[s->drafts];
    *d = (sb_free_draft){f->step->rows[row].position, f->step->rows[row].token, NULL};
    if (logits && cols != V)
        return sb_fail(err, SB_ERR_INPUT, "a row of draft logits has %zu columns; expected %zu",
                       cols, V);
    s->drafts++;
    if (!logits)
        return SB_OK;
    d->logits = sb_alloc(V, sizeof *d->logits);
    if (!d->logits)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the logits of a draft");
    memcpy(d->logits, logits, V * sizeof *logits);
    return SB_OK;
}

/* Notes a failure of draft j. */
static void fail_draft(sb_free *f, const sb_free_sequence *s, sb_round_verdict *round, size_t j,
                       sb_place *place)
{
    place->layer = f->model->config.layers + (f->options.drafter ? 1 : 0);
    snprintf(place->op, sizeof place->op, "draft");
    snprintf(place->name, sizeof place->name, "%s", tap_of(f));
    round->verdict = SB_VERDICT_FAIL;
    sb_free_fail(f, s, s->position + j, place);
}

/* U-4: "A row of kind draft is one step of the MTP head or of the drafter, fed the token at its
 * position" */
static void judge_fed(sb_free *f, const sb_free_sequence *s, sb_round_verdict *round, size_t j,
                      uint32_t token)
{
    const sb_free_draft *d = &s->drafted[j];
    uint64_t position = s->position + j;
    sb_place place = {.found = (double)d->position, .expected = (double)position};
    if (d->position == position && d->token == token)
        return;
    snprintf(place.words, sizeof place.words,
             "draft %zu was made after token %u at position %llu; expected token %u at %llu", j,
             (unsigned)d->token, (unsigned long long)d->position, (unsigned)token,
             (unsigned long long)position);
    fail_draft(f, s, round, j, &place);
}

/* T-44: "Logits of a draft are compared with those of the head, in the same way as logits of a row
 * with those of the model". f->logits are the head's. */
static void judge_logits(sb_free *f, const sb_free_sequence *s, sb_round_verdict *round, size_t j,
                         double bound)
{
    const float *theirs = s->drafted[j].logits;
    sb_near_difference d = sb_near_compare(f->logits, theirs, width_of(f));
    sb_place place = {.rank = 1,
                      .element = {d.at},
                      .found = (double)theirs[d.at],
                      .expected = (double)f->logits[d.at],
                      .bound = bound};
    sb_free_see_row(f, 1, &d);
    if (sb_free_ratio(d.largest, bound) <= 1) {
        if (!d.identical)
            round->verdict = sb_verdict_worse(round->verdict, SB_VERDICT_WITHIN);
        return;
    }
    snprintf(place.words, sizeof place.words,
             "logit %zu of draft %zu is %.9g, expected %.9g within %.3g", d.at, j, place.found,
             place.expected, bound);
    fail_draft(f, s, round, j, &place);
}

/* Judges the token of draft j, with or without logits. */
static void judge_token(sb_free *f, const sb_free_sequence *s, sb_round_verdict *round, size_t j,
                        uint32_t theirs, double bound)
{
    const size_t V = width_of(f), row = row_of(f, theirs), top = sb_near_top_of(f->logits, V).token;
    const uint32_t ours = token_of(f, top);
    double gap = row < V ? (double)f->logits[top] - (double)f->logits[row] : bound + 1;
    sb_place place = {.rank = 1, .element = {j}, .found = theirs, .expected = ours, .bound = bound};
    round->drafts[0][j] = ours;
    round->drafts[1][j] = theirs;
    round->drafted[0] = round->drafted[1] = j + 1;
    if (f->options.sampled && row < V)
        return;
    f->choices++;
    if (row == V && f->options.drafter) {
        snprintf(
            place.words, sizeof place.words,
            "draft %zu is token %u, which is not in the vocabulary of the drafter; it gives %u", j,
            (unsigned)theirs, (unsigned)ours);
        fail_draft(f, s, round, j, &place);
    } else if (gap > bound) {
        snprintf(place.words, sizeof place.words,
                 "draft %zu is token %u; the %s gives %u, whose logit is %.3g larger; rounding "
                 "explains %.3g",
                 j, (unsigned)theirs, f->options.drafter ? "drafter" : "head", (unsigned)ours, gap,
                 bound);
        fail_draft(f, s, round, j, &place);
    } else if (ours != theirs) {
        round->verdict = sb_verdict_worse(round->verdict, SB_VERDICT_NEAR_TIE);
        f->v->near_ties++;
        f->near_tokens++;
    }
}

/* T-41 for the logits of a draft: the sums of a drafter have other lengths. */
static double factor_of(const sb_free *f)
{
    if (!f->options.drafter)
        return f->factor;
    const sb_eagle3_config *c = sb_eagle3_config_of(f->options.drafter);
    const size_t fused = (size_t)c->states * c->target_hidden;
    sb_model of = {.config = c->layer};
    if (fused > 2 * (size_t)of.config.hidden_size) /* the sums of fc are longer than those of q */
        of.config.hidden_size = (uint32_t)((fused + 1) / 2);
    return sb_envelope_factor(&of, &f->knobs, f->options.arithmetic, c->draft_vocab);
}

/* The reference's head makes one proposal after each of the engine's drafts; also after the last
 * draft if the engine's head did. */
sb_status sb_free_drafts(sb_free *f, sb_free_sequence *s, const uint32_t *tokens, size_t n,
                         sb_round_verdict *round, sb_error *err)
{
    const double factor = factor_of(f);
    sb_status status = SB_OK;
    if (n - 1 > SB_MAX_DRAFTS)
        return sb_fail(err, SB_ERR_INPUT, "a round has %zu drafts; expected at most %d", n - 1,
                       SB_MAX_DRAFTS);
    sb_envelope_forget_drafts(s->envelope);
    for (size_t j = 0; j < n && (j + 1 < n || j < s->drafts) && !status; j++) {
        sb_noise noise = {0};
        status = sb_envelope_draft(s->envelope, tokens[j], f->logits, &noise, err);
        if (status)
            break;
        if (j < s->drafts)
            judge_fed(f, s, round, j, tokens[j]);
        if (j < s->drafts && s->drafted[j].logits)
            judge_logits(f, s, round, j, factor * noise.loose);
        if (j + 1 < n)
            judge_token(f, s, round, j, tokens[j + 1], sb_near_pair(factor * noise.loose));
    }
    round->has_reference = 1;
    sb_envelope_forget_drafts(s->envelope);
    return status;
}
