#include "ref/run/round.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/run/draw.h"

struct sb_rounds {
    sb_session *session;
    sb_round_options options;
    sb_sampling sampling;
    sb_drawer *drawer;
    size_t V;
    float *logits; /* (SB_MAX_DRAFTS + 1, V) logits of the target's rows */
    float *drafts; /* (SB_MAX_DRAFTS, V) logits of the head; or probabilities of given drafts */
    int given;     /* 1: the head did not make the drafts of the last round */
    sb_eagle3_drafts *drafter; /* NULL: there is none */
};

sb_status sb_rounds_new(sb_session *session, const sb_round_options *options, sb_rounds **out,
                        sb_error *err)
{
    sb_rounds *r = sb_alloc(1, sizeof *r);
    if (!r)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for rounds");
    r->session = session;
    r->V = sb_session_model(session)->config.vocab_size;
    r->options = options ? *options : (sb_round_options){.acceptance = SB_ACCEPT_match};
    r->sampling = options && options->sampling ? *options->sampling : (sb_sampling){.top_p = 1};
    r->logits = sb_alloc((SB_MAX_DRAFTS + 1) * r->V, sizeof *r->logits);
    r->drafts = sb_alloc(SB_MAX_DRAFTS * r->V, sizeof *r->drafts);
    sb_status status = r->logits && r->drafts
                           ? SB_OK
                           : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits of a round");
    if (!status)
        status = sb_drawer_new(sb_session_backend(session), &r->sampling, (uint32_t)r->V,
                               &r->drawer, err);
    if (!status && r->options.drafter)
        status = sb_eagle3_drafts_new(r->options.drafter, session, &r->drafter, err);
    if (status) {
        sb_rounds_free(r);
        return status;
    }
    *out = r;
    return SB_OK;
}

void sb_rounds_free(sb_rounds *r)
{
    if (!r)
        return;
    sb_drawer_free(r->drawer);
    sb_eagle3_drafts_free(r->drafter);
    free(r->logits);
    free(r->drafts);
    free(r);
}

sb_status sb_rounds_pick(sb_rounds *r, const float *logits, uint64_t position, uint32_t *token,
                         sb_error *err)
{
    return sb_draw_tokens(r->drawer, (sb_row_logits){logits, NULL}, 1, position, SB_DRAW_token,
                          token, err);
}

const float *sb_rounds_logits(const sb_rounds *r, size_t row)
{
    return r->logits + row * r->V;
}

const float *sb_rounds_draft_logits(const sb_rounds *r, size_t draft)
{
    return r->given ? NULL : r->drafts + draft * r->V;
}

/* The target's logits of a row and of the rows after it. */
static sb_row_logits logits_from(const sb_rounds *r, size_t row)
{
    return (sb_row_logits){r->logits + row * r->V, sb_session_logits_place(r->session, row)};
}

static int is_residual(const sb_rounds *r)
{
    return r->options.acceptance == SB_ACCEPT_residual && r->sampling.temperature != 0;
}

static sb_status check_ask(const sb_rounds *r, const sb_round_ask *ask, sb_error *err)
{
    if (ask->drafts > SB_MAX_DRAFTS)
        return sb_fail(err, SB_ERR_USAGE, "a round has %zu drafts; expected at most %d",
                       ask->drafts, SB_MAX_DRAFTS);
    if (ask->forced > (int)ask->drafts)
        return sb_fail(err, SB_ERR_USAGE, "a round cannot accept %d of %zu drafts", ask->forced,
                       ask->drafts);
    if (ask->given && ask->drafts && !ask->odds && is_residual(r))
        return sb_fail(err, SB_ERR_USAGE,
                       "given drafts have no distribution, which residual acceptance needs");
    return SB_OK;
}

void sb_rounds_reset(sb_rounds *r)
{
    if (r->drafter)
        sb_eagle3_reset(r->drafter);
}

sb_status sb_rounds_fed(sb_rounds *r, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = r->drafter ? sb_eagle3_follow(r->drafter, tokens, n, err) : SB_OK;
    return status ? sb_fail_in(err, status, "drafter") : SB_OK;
}

/* P-15: "the logit -2^100 for every token that it cannot draft"; small: (Vd) */
static void spread(const sb_rounds *r, const float *small, float *logits)
{
    const uint32_t *ids = sb_eagle3_vocabulary(r->options.drafter);
    const size_t count = sb_eagle3_config_of(r->options.drafter)->draft_vocab;
    for (size_t i = 0; i < r->V; i++)
        logits[i] = -0x1p100f;
    for (size_t i = 0; i < count; i++)
        logits[ids[i]] = small[i];
}

/* S-15; under residual a draft is drawn, as the head's. */
static sb_status propose_by_drafter(sb_rounds *r, const sb_round_ask *ask, sb_round *round,
                                    sb_error *err)
{
    float *small = r->logits; /* free until the verification */
    uint32_t token = ask->token;
    sb_status status = SB_OK;
    sb_eagle3_forget(r->drafter);
    for (size_t j = 0; j < ask->drafts && !status; j++) {
        float *logits = r->drafts + j * r->V;
        status = sb_eagle3_draft(r->drafter, token, small, &token, err);
        if (!status && is_residual(r)) {
            spread(r, small, logits);
            status = sb_draw_tokens(r->drawer, (sb_row_logits){logits, NULL}, 1,
                                    round->position + 1 + j, SB_DRAW_draft, &token, err);
        }
        round->drafts[j] = token;
    }
    return status ? sb_fail_in(err, status, "drafter") : SB_OK;
}

/* The distribution of a given draft as an array (V). */
static void spread_odds(const sb_rounds *r, const sb_draft_odds *odds, float *q)
{
    memset(q, 0, r->V * sizeof *q);
    for (size_t i = 0; i < odds->count; i++)
        q[odds->ids[i]] = odds->p[i];
}

/* S-8. A draft is the token of the head's largest logit; under residual it is drawn from the head's
 * distribution. */
static sb_status propose(sb_rounds *r, const sb_round_ask *ask, sb_round *round, sb_error *err)
{
    uint32_t token = ask->token;
    sb_status status = SB_OK;
    sb_session_forget_drafts(r->session);
    for (size_t j = 0; j < ask->drafts && !status; j++) {
        float *logits = r->drafts + j * r->V;
        if (ask->given) {
            round->drafts[j] = ask->given[j];
            if (is_residual(r))
                spread_odds(r, &ask->odds[j], logits);
            continue;
        }
        status = sb_session_draft(r->session, token, logits, err);
        if (status)
            break;
        const sb_row_logits row = {logits, sb_session_draft_place(r->session)};
        if (is_residual(r))
            status = sb_draw_tokens(r->drawer, row, 1, round->position + 1 + j, SB_DRAW_draft,
                                    &token, err);
        else
            status = sb_draw_greedy(r->drawer, row, &token, err);
        round->drafts[j] = token;
    }
    return status;
}

/* S-9: "feeds them in one call of k + 1 rows" */
static sb_status verify(sb_rounds *r, const sb_round_ask *ask, const sb_round *round, sb_error *err)
{
    uint32_t tokens[SB_MAX_DRAFTS + 1] = {ask->token};
    for (size_t j = 0; j < round->drafted; j++)
        tokens[j + 1] = round->drafts[j];
    return sb_session_verify(r->session, tokens, round->drafted + 1, r->options.rollback, err);
}

/* S-9: "accepts drafts from the first on, as long as each is the token that the row before it
 * gives"; under residual, while P-12 accepts the draft. */
static sb_status judge_drafts(sb_rounds *r, const sb_round_ask *ask, sb_round *round, sb_error *err)
{
    const size_t rows = round->drafted + 1, V = r->V;
    const uint64_t position = round->position + 1;
    size_t accepted = 0, row = 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < rows && !status; i++)
        status = sb_session_logits(r->session, i, r->logits + i * V, err);
    for (int open = is_residual(r); open && row < round->drafted && !status; row++) {
        const float *from = r->drafts + row * V;
        const sb_draft_source source =
            ask->given ? (sb_draft_source){.q = from} : (sb_draft_source){.logits = from};
        status = sb_draw_judge(r->drawer, logits_from(r, row), source, round->drafts[row],
                               position + row, &open, &round->chosen[row], err);
        accepted += (size_t)(open && !status);
    }
    if (!status) /* draws for the remaining rows; under match, for all rows */
        status = sb_draw_tokens(r->drawer, logits_from(r, row), rows - row, position + row,
                                SB_DRAW_token, round->chosen + row, err);
    while (!is_residual(r) && accepted < round->drafted &&
           round->chosen[accepted] == round->drafts[accepted])
        accepted++;
    round->accepted = ask->forced < 0 ? accepted : (size_t)ask->forced;
    return status;
}

/* S-9: "emits the accepted drafts and the token of the row after them (the correction, or the
 * bonus token if all k were accepted)" */
static void emit(const sb_round_ask *ask, sb_round *round)
{
    round->emitted = round->accepted + 1;
    if (ask->limit && round->emitted > ask->limit)
        round->emitted = ask->limit;
    for (size_t i = 0; i < round->emitted; i++)
        round->tokens[i] = i < round->accepted ? round->drafts[i] : round->chosen[i];
}

/* The entries of the tokens that the round has fed and kept. */
static sb_status follow(sb_rounds *r, const sb_round_ask *ask, const sb_round *round, sb_error *err)
{
    uint32_t tokens[SB_MAX_DRAFTS + 1] = {ask->token};
    for (size_t j = 1; j < round->emitted; j++)
        tokens[j] = round->tokens[j - 1];
    return sb_rounds_fed(r, tokens, round->emitted, err);
}

sb_status sb_rounds_next(sb_rounds *r, const sb_round_ask *ask, sb_round *out, sb_error *err)
{
    sb_status status = check_ask(r, ask, err);
    if (status)
        return status;
    *out = (sb_round){.position = sb_session_position(r->session),
                      .drafted = ask->drafts,
                      .forced = ask->forced >= 0};
    r->given = ask->given || r->drafter;
    status = r->drafter && !ask->given ? propose_by_drafter(r, ask, out, err)
                                       : propose(r, ask, out, err);
    if (!status)
        status = verify(r, ask, out, err);
    if (status) /* either nothing was fed, or the session refuses further calls (S-4) */
        return status;
    status = judge_drafts(r, ask, out, err);
    if (status) { /* undoes the rows that were fed, but not judged */
        (void)sb_session_keep(r->session, 0, NULL);
        return status;
    }
    emit(ask, out);
    /* S-9: "keeps the first row and the rows of all emitted tokens but the last" */
    status = sb_session_keep(r->session, out->emitted, err);
    return status ? status : follow(r, ask, out, err);
}
