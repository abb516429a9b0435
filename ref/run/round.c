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
    size_t V, room;
    float *logits; /* (room, V) logits of the target's rows */
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
    r->room = SB_MAX_DRAFTS + 1;
    r->logits = sb_alloc(r->room * r->V, sizeof *r->logits);
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

/* --- trees ------------------------------------------------------------------------------------ */

/* S-16: "stand in the order of their depth, each after its parent", "No two drafts with the same
 * parent are the same token" */
static sb_status check_node(const uint32_t *drafts, const int *parents, size_t i,
                            const size_t *depth, sb_error *err)
{
    if (parents[i] < -1 || parents[i] >= (int)i)
        return sb_fail(err, SB_ERR_USAGE,
                       "draft %zu has the parent %d; expected -1 or a draft before it", i,
                       parents[i]);
    const size_t own = parents[i] < 0 ? 1 : depth[parents[i]] + 1;
    if (i && own < depth[i - 1])
        return sb_fail(err, SB_ERR_USAGE,
                       "draft %zu has the depth %zu, and the draft before it %zu; expected drafts "
                       "in the order of their depth",
                       i, own, depth[i - 1]);
    for (size_t k = 0; k < i; k++)
        if (parents[k] == parents[i] && drafts[k] == drafts[i])
            return sb_fail(err, SB_ERR_USAGE,
                           "drafts %zu and %zu follow the same parent with the same token %u", k, i,
                           (unsigned)drafts[i]);
    return SB_OK;
}

sb_status sb_tree_depth(const uint32_t *drafts, const int *parents, size_t n, size_t *depth,
                        sb_error *err)
{
    size_t depths[SB_MAX_TREE];
    if (n > SB_MAX_TREE)
        return sb_fail(err, SB_ERR_USAGE, "a tree has %zu drafts; expected at most %d", n,
                       SB_MAX_TREE);
    for (size_t i = 0; i < n; i++) {
        sb_status status = check_node(drafts, parents, i, depths, err);
        if (status)
            return status;
        depths[i] = parents[i] < 0 ? 1 : depths[parents[i]] + 1;
        if (depths[i] > SB_MAX_DRAFTS)
            return sb_fail(err, SB_ERR_USAGE, "draft %zu has the depth %zu; expected at most %d", i,
                           depths[i], SB_MAX_DRAFTS);
    }
    *depth = n ? depths[n - 1] : 0;
    return SB_OK;
}

/* True if every draft follows the one before it: then the round has no tree. */
static int is_chain(const sb_round_ask *ask)
{
    for (size_t i = 0; ask->parents && i < ask->drafts; i++)
        if (ask->parents[i] != (int)i - 1)
            return 0;
    return 1;
}

static sb_status check_tree(const sb_rounds *r, const sb_round_ask *ask, sb_error *err)
{
    size_t depth;
    if (!ask->given || ask->forced >= 0)
        return sb_fail(err, SB_ERR_USAGE, "a tree needs given drafts, and no forced acceptance");
    if (is_residual(r)) /* P-16: "Mode residual has no rule for a tree" */
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "residual acceptance has no rule for a tree of drafts; expected match");
    return sb_tree_depth(ask->given, ask->parents, ask->drafts, &depth, err);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static sb_status check_ask(const sb_rounds *r, const sb_round_ask *ask, sb_error *err)
{
    if (!is_chain(ask))
        return check_tree(r, ask, err);
    if (ask->drafts > SB_MAX_DRAFTS)
        return sb_fail(err, SB_ERR_USAGE, "a round has %zu drafts; expected at most %d",
                       ask->drafts, SB_MAX_DRAFTS);
    if (ask->forced > (int)ask->drafts)
        return sb_fail(err, SB_ERR_USAGE, "a round cannot accept %d of %zu drafts", ask->forced,
                       ask->drafts);
    if (ask->given && ask->drafts && !ask->odds && is_residual(r))
        return sb_fail(err, SB_ERR_USAGE,
                       "given drafts have no distribution, which residual acceptance needs");
    for (size_t j = 0; j < ask->drafts && ask->odds; j++)
        for (size_t i = 0; i < ask->odds[j].count; i++)
            if (ask->odds[j].ids[i] >= r->V)
                return sb_fail(err, SB_ERR_USAGE,
                               "draft %zu has a probability for token %u; expected an id below %zu",
                               j, (unsigned)ask->odds[j].ids[i], (size_t)r->V);
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

sb_eagle3_drafts *sb_rounds_drafter(const sb_rounds *r)
{
    return r->drafter;
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
        if (ask->given) {
            round->drafts[j] = ask->given[j];
            if (is_residual(r))
                spread_odds(r, &ask->odds[j], r->drafts + j * r->V);
            continue;
        }
        float *logits = r->drafts + j * r->V;
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
    uint32_t tokens[SB_MAX_TREE + 1] = {ask->token}, parents[SB_MAX_TREE + 1] = {0};
    const size_t rows = round->drafted + 1;
    for (size_t j = 0; j < round->drafted; j++)
        tokens[j + 1] = round->drafts[j];
    if (!round->tree)
        return sb_session_verify(r->session, tokens, rows, r->options.rollback, err);
    for (size_t j = 0; j < round->drafted; j++)
        parents[j + 1] = (uint32_t)(round->parents[j] + 1);
    return sb_session_verify_tree(r->session, tokens, parents, rows, r->options.rollback, err);
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

/* The draft of a tree that follows the row and is the token that it gives; `drafted`: none. */
static size_t next_on_path(const sb_round *round, size_t row)
{
    size_t i = 0;
    while (i < round->drafted &&
           !(round->parents[i] + 1 == (int)row && round->drafts[i] == round->chosen[row]))
        i++;
    return i;
}

/* S-16: "from the token on, the draft that follows the last accepted row and is the token that this
 * row gives is accepted, as long as there is one" */
static sb_status judge_tree(sb_rounds *r, sb_round *round, sb_error *err)
{
    size_t depth[SB_MAX_TREE + 1] = {0};
    sb_status status = SB_OK;
    for (size_t row = 0; row <= round->drafted && !status; row++) {
        status = sb_session_logits(r->session, row, r->logits + row * r->V, err);
        depth[row] = row ? depth[round->parents[row - 1] + 1] + 1 : 0;
        if (!status)
            status =
                sb_draw_tokens(r->drawer, logits_from(r, row), 1, round->position + 1 + depth[row],
                               SB_DRAW_token, &round->chosen[row], err);
    }
    if (status)
        return status;
    for (size_t i = next_on_path(round, 0); i < round->drafted; i = next_on_path(round, i + 1))
        round->path[round->accepted++] = i;
    return SB_OK;
}

size_t sb_round_row(const sb_round *round, size_t i)
{
    return round->tree && i ? round->path[i - 1] + 1 : i;
}

/* S-9: "emits the accepted drafts and the token of the row after them (the correction, or the
 * bonus token if all k were accepted)" */
static void emit(const sb_round_ask *ask, sb_round *round)
{
    round->emitted = round->accepted + 1;
    if (ask->limit && round->emitted > ask->limit)
        round->emitted = ask->limit;
    for (size_t i = 0; i < round->emitted; i++)
        round->tokens[i] = i < round->accepted ? round->drafts[sb_round_row(round, i + 1) - 1]
                                               : round->chosen[sb_round_row(round, i)];
}

/* Keeps the first `kept` rows on the accepted path. */
static sb_status keep(sb_rounds *r, const sb_round *round, size_t kept, sb_error *err)
{
    size_t path[SB_MAX_DRAFTS + 1];
    for (size_t i = 0; i < kept; i++)
        path[i] = sb_round_row(round, i);
    return round->tree ? sb_session_keep_path(r->session, path, kept, err)
                       : sb_session_keep(r->session, kept, err);
}

/* Makes room for the logits of all rows of a tree. */
static sb_status begin_tree(sb_rounds *r, const sb_round_ask *ask, sb_round *round, sb_error *err)
{
    const size_t rows = ask->drafts + 1;
    round->depth = ask->drafts;
    round->tree = !is_chain(ask);
    if (!round->tree)
        return SB_OK;
    memcpy(round->parents, ask->parents, ask->drafts * sizeof *ask->parents);
    if (rows > r->room) {
        float *more = sb_realloc(r->logits, rows * r->V, sizeof *more);
        if (!more)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for logits of %zu rows", rows);
        r->logits = more;
        r->room = rows;
    }
    return sb_tree_depth(ask->given, ask->parents, ask->drafts, &round->depth, err);
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
    status = begin_tree(r, ask, out, err);
    if (!status)
        status = r->drafter && !ask->given ? propose_by_drafter(r, ask, out, err)
                                           : propose(r, ask, out, err);
    if (!status)
        status = verify(r, ask, out, err);
    if (status) /* either nothing was fed, or the session refuses further calls (S-4) */
        return status;
    status = out->tree ? judge_tree(r, out, err) : judge_drafts(r, ask, out, err);
    if (status) { /* undoes the rows that were fed, but not judged */
        (void)keep(r, out, 0, NULL);
        return status;
    }
    emit(ask, out);
    /* S-9: "keeps the first row and the rows of all emitted tokens but the last" */
    status = keep(r, out, out->emitted, err);
    return status ? status : follow(r, ask, out, err);
}
