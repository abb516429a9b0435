/* free_round.c - speculative rounds: accepted drafts and emitted tokens. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/judge/compare/free_parts.h"

/* The contradiction within a round; NULL if there is none. */
static const char *contradiction(const sb_free *f, const sb_round *r, size_t first, size_t rows)
{
    if (r->drafted > SB_MAX_DRAFTS || r->drafted + 1 != rows)
        return "the number of drafts does not fit the number of rows";
    if (r->accepted > r->drafted)
        return "it accepts more drafts than it has";
    if (r->emitted < 1 || r->emitted > r->accepted + 1)
        return "the emitted tokens are not the accepted drafts and one more token";
    for (size_t i = 0; i < r->drafted; i++)
        if (r->drafts[i] != f->step->rows[first + 1 + i].token)
            return "its drafts differ from the verified tokens";
    for (size_t i = 0; i < r->emitted && i < r->accepted; i++)
        if (r->tokens[i] != r->drafts[i])
            return "a draft is accepted, but another token is emitted instead";
    if (!r->forced && r->emitted == r->accepted + 1 && r->accepted < r->drafted &&
        r->tokens[r->accepted] == r->drafts[r->accepted])
        return "a draft is rejected, but the same token is emitted";
    return NULL;
}

/* S-9: "accepts drafts from the first on, as long as each is the token that the row before it
 * gives" */
static size_t accepted_here(const sb_free *f, const sb_round *r, size_t first_verdict)
{
    size_t n = 0;
    while (n < r->drafted && f->v->tokens[first_verdict + n].has_top[0] &&
           f->v->tokens[first_verdict + n].top[0] == r->drafts[n])
        n++;
    return n;
}

static void fail_round(sb_free *f, sb_free_sequence *s, sb_round_verdict *round, const char *why)
{
    sb_place place = {.layer = SB_NO_LAYER,
                      .op = "round",
                      .name = "round",
                      .found = (double)NAN, /* a contradiction has no number */
                      .expected = (double)NAN,
                      .bound = (double)NAN};
    snprintf(place.words, sizeof place.words, "round %llu: %s", (unsigned long long)round->round,
             why);
    round->verdict = SB_VERDICT_FAIL;
    sb_free_fail(f, s, s->position, &place);
}

sb_status sb_free_round(sb_free *f, sb_free_sequence *s, const sb_step_round *recorded,
                        const sb_round_verdict *round, size_t first_verdict, size_t rows,
                        sb_error *err)
{
    const sb_round *r = &recorded->round;
    sb_round_verdict *v = sb_verdicts_round(f->v);
    if (!v)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for verdicts");
    *v = *round;
    v->round = recorded->number;
    s->has_round = 1;
    s->round = f->v->round_count - 1;
    s->call = f->steps;
    v->drafted[1] = r->drafted <= SB_MAX_DRAFTS ? r->drafted : 0;
    memcpy(v->drafts[1], r->drafts, v->drafted[1] * sizeof *r->drafts);
    v->accepted[0] = v->accepted[1] = r->accepted;
    s->accepted[1] = s->accepted[0];
    s->accepted[0] = r->accepted;
    const int whole = r->drafted <= SB_MAX_DRAFTS && r->drafted + 1 == rows;
    if (sb_free_is_greedy(f, s) && r->emitted == r->accepted + 1 && !r->forced && whole)
        v->accepted[0] = accepted_here(f, r, first_verdict);
    const char *why = contradiction(f, r, f->first, rows);
    if (why) {
        fail_round(f, s, v, why);
        return SB_OK;
    }
    s->kept = r->emitted;
    s->last = r->tokens[r->emitted - 1];
    for (size_t i = 0; i < r->emitted; i++)
        v->verdict = sb_verdict_worse(v->verdict, f->v->tokens[first_verdict + i].verdict);
    if (v->verdict == SB_VERDICT_none)
        v->verdict = sb_free_is_greedy(f, s) ? SB_VERDICT_WITHIN : SB_VERDICT_none;
    return SB_OK;
}

/* T-47: true if a state that a round left is the first that is wrong. A failure before it, or of a
 * token alone, is no mistake of rounds. */
static int is_of_round(const sb_verdicts *v, const sb_round_verdict *round)
{
    int wrong = 0;
    for (size_t i = 0; i < SB_STATE_PARTS; i++)
        wrong |= round->state[i].verdict == SB_VERDICT_FAIL;
    return wrong && v->first_failure.sequence == round->sequence &&
           v->first_failure.token >= round->position;
}

void sb_free_explain(sb_free *f, sb_free_sequence *s)
{
    if (!s->trials || !(s->has_round || s->has_hit) || s->misplaced)
        return;
    if (!s->has_round) {
        sb_hit_verdict *hit = &f->v->hits[s->hit];
        sb_trials_say(s->trials, hit->hypothesis, sizeof hit->hypothesis);
        s->explained = 1;
        s->explained_hit = 1;
        return;
    }
    if (s->explained_hit)
        return;
    if (!s->explained) {
        s->explained = 1;
        s->explained_round = s->round;
    }
    sb_round_verdict *round = &f->v->rounds[s->explained_round];
    if (!sb_trials_say(s->trials, round->hypothesis, sizeof round->hypothesis) &&
        !is_of_round(f->v, round))
        round->hypothesis[0] = '\0';
}
