/* free_sampler.c - hands the rows and tokens of sequences whose sampler is declared (U-12) to the
 * judgement of their draws (draws.h). */
#include <stdio.h>

#include "tools/judge/compare/free_parts.h"

sb_status sb_free_declare(sb_free *f, const sb_step *step, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < step->sampling_count && !status; i++)
        status = sb_draws_declare(f->draws, &step->samplings[i], err);
    return status;
}

int sb_free_samples(const sb_free *f, const sb_free_sequence *s)
{
    return sb_draws_has(f->draws, s->number);
}

int sb_free_is_greedy(const sb_free *f, const sb_free_sequence *s)
{
    return f->options.greedy && !sb_free_samples(f, s);
}

sb_status sb_free_feed_draws(sb_free *f, const sb_free_sequence *s, const sb_step_row *rows,
                             size_t n, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = sb_draws_feed(f->draws, s->number, rows[i].position, rows[i].token,
                               rows[i].kind == SB_CALL_prompt, err);
    return status;
}

sb_status sb_free_draw_row(sb_free *f, const sb_free_sequence *s, size_t verdict, size_t row,
                           sb_error *err)
{
    size_t cols = 0, one = 0;
    const size_t at = f->first + row;
    const float *theirs = sb_free_row_data(f->step, "logits", at, &cols),
                *uniform = sb_free_row_data(f->step, "uniforms", at, &one);
    const sb_step_round *round = sb_free_find_round(f->step, s->number);
    const sb_draw_row draw = {.position = f->step->rows[at].position,
                              .logits = theirs ? theirs : s->logits,
                              .pair = theirs ? 0 : f->v->tokens[verdict].envelope,
                              .uniform = one == 1 ? uniform : NULL,
                              .unfollowed = round && round->round.drafted > 0};
    if (round && round->round.forced)
        sb_draws_lose(f->draws, s->number);
    return sb_draws_row(f->draws, s->number, &draw, err);
}

sb_status sb_free_drawn(sb_free *f, const sb_free_sequence *s, size_t verdict, uint32_t token,
                        sb_error *err)
{
    sb_verdict found = SB_VERDICT_none;
    sb_token_verdict *t = &f->v->tokens[verdict];
    sb_status status = sb_draws_token(f->draws, s->number, token, &found, err);
    /* not the near tie of a token: its share of all tokens says nothing (T-46) */
    t->verdict =
        sb_verdict_worse(t->verdict, found == SB_VERDICT_NEAR_TIE ? SB_VERDICT_WITHIN : found);
    f->compared += found != SB_VERDICT_none;
    return status;
}

void sb_free_judge_draws(sb_free *f)
{
    sb_verdicts *v = f->v;
    sb_draws_finish(f->draws, &v->sampler);
    v->verdict = sb_verdict_worse(v->verdict, v->sampler.verdict);
    if (v->sampler.has_first)
        sb_verdicts_fail(v, &v->sampler.first);
}
