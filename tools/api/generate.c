/* generate.c - generation of ref/samebit.h: one token, a round with drafts, or many tokens. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/api/api.h"

/* Makes the rounds of a session on first use. */
static sb_status need_rounds(samebit_session *s, sb_error *err)
{
    if (s->rounds)
        return SB_OK;
    return sb_rounds_new(s->session, &s->round_options, &s->rounds, err);
}

/* Picks the token after the last row; `logits` (V) gets the row's logits. */
static sb_status pick(samebit_session *s, float *logits, uint32_t *token, sb_error *err)
{
    size_t rows = sb_session_rows(s->session);
    if (!rows)
        return sb_fail(err, SB_ERR_USAGE, "no token has been fed whose logits could be looked at");
    sb_status status = need_rounds(s, err);
    if (!status)
        status = sb_session_logits(s->session, rows - 1, logits, err);
    if (!status)
        status =
            sb_rounds_pick(s->rounds, logits, sb_session_state(s->session)->position, token, err);
    return status;
}

static sb_status new_logits(const samebit_session *s, float **out, sb_error *err)
{
    *out = sb_alloc(s->checkpoint->model->config.vocab_size, sizeof **out);
    return *out ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
}

samebit_status samebit_session_pick(samebit_session *session, uint32_t *token, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && token);
    float *logits = NULL;
    sb_status status = sb_api_start_on(session->threads, sb_api_error(err));
    if (!status)
        status = new_logits(session, &logits, sb_api_error(err));
    if (!status)
        status = pick(session, logits, token, sb_api_error(err));
    free(logits);
    return sb_api_status(status);
}

static void show_round(const sb_round *from, samebit_round *to)
{
    _Static_assert((int)SAMEBIT_DRAFTS == (int)SB_MAX_DRAFTS, "as many drafts");
    *to = (samebit_round){.position = from->position,
                          .drafted = (uint32_t)from->drafted,
                          .accepted = (uint32_t)from->accepted,
                          .emitted = (uint32_t)from->emitted};
    memcpy(to->drafts, from->drafts, from->drafted * sizeof *to->drafts);
    memcpy(to->tokens, from->tokens, from->emitted * sizeof *to->tokens);
}

samebit_status samebit_session_round(samebit_session *session, uint32_t token, uint32_t k,
                                     const uint32_t *given, size_t limit, samebit_round *out,
                                     samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && out);
    sb_round_ask ask = {.token = token, .drafts = k, .given = given, .forced = -1, .limit = limit};
    sb_round round;
    samebit_round shown = {0};
    sb_error *error = sb_api_error(err);
    /* finds a wrong size before the round runs */
    sb_status status = sb_api_give(out, out->size, &shown, sizeof shown, error);
    if (status)
        return sb_api_status(status);
    status = sb_api_start_on(session->threads, error);
    if (!status)
        status = need_rounds(session, error);
    if (!status)
        status = sb_rounds_next(session->rounds, &ask, &round, error);
    if (status)
        return sb_api_status(status);
    show_round(&round, &shown);
    return sb_api_status(sb_api_give(out, out->size, &shown, sizeof shown, error));
}

/* The state of generating a sequence. */
typedef struct course {
    samebit_session *s;
    size_t n, count;
    uint32_t *tokens;
    samebit_digest *digests; /* NULL: not requested */
} course;

static void emit(course *c, uint32_t token, const float *logits)
{
    if (c->digests) {
        sb_digest digest = sb_digest_f32(logits, c->s->checkpoint->model->config.vocab_size);
        sb_api_digest(&c->digests[c->count], &digest);
    }
    c->tokens[c->count++] = token;
}

static sb_status next_round(course *c, uint32_t drafts, sb_error *err)
{
    sb_round_ask ask = {
        .token = c->tokens[c->count - 1], .drafts = drafts, .forced = -1, .limit = c->n - c->count};
    sb_round round;
    sb_status status = sb_rounds_next(c->s->rounds, &ask, &round, err);
    for (size_t row = 0; !status && row < round.emitted; row++)
        emit(c, round.tokens[row], sb_rounds_logits(c->s->rounds, row));
    return status;
}

static sb_status generate(course *c, const uint32_t *prompt, size_t prompt_count, uint32_t drafts,
                          float *logits, sb_error *err)
{
    uint32_t token;
    sb_status status = sb_session_feed(c->s->session, prompt, prompt_count, err);
    if (status || !c->n)
        return status;
    status = pick(c->s, logits, &token, err);
    if (!status)
        emit(c, token, logits);
    while (!status && c->count < c->n)
        status = next_round(c, drafts, err);
    return status;
}

samebit_status samebit_session_generate(samebit_session *session, const uint32_t *prompt,
                                        size_t prompt_count, size_t n, uint32_t drafts,
                                        uint32_t *tokens, samebit_digest *logits,
                                        samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && prompt && (tokens || !n));
    course c = {.s = session, .n = n, .tokens = tokens, .digests = logits};
    float *room = NULL;
    sb_error *error = sb_api_error(err);
    if (drafts > SAMEBIT_DRAFTS || (drafts && !sb_session_has_mtp(session->session)))
        return sb_api_status(sb_fail(error, SB_ERR_USAGE,
                                     "%u drafts; expected at most %d, and a session with the MTP "
                                     "head",
                                     (unsigned)drafts, (int)SAMEBIT_DRAFTS));
    sb_status status = sb_api_start_on(session->threads, error);
    if (!status)
        status = new_logits(session, &room, error);
    if (!status)
        status = generate(&c, prompt, prompt_count, drafts, room, error);
    free(room);
    return sb_api_status(status);
}
