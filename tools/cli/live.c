#include "tools/cli/live.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/cli/cli.h"
#include "tools/judge/trace/capture.h"

/* Rows per request of logits: the head of a real model is a gigabyte. */
enum { LOGITS_ROWS = 16 };

/* The run of one sequence. */
typedef struct journey {
    const sb_request *request;
    const sb_live *live;
    sb_capture *capture;
    sb_session *session;
    sb_rounds *rounds;
    float *logits; /* (LOGITS_ROWS, V); the first V are the last row's */
    size_t vocabulary;
    uint64_t done, total; /* tokens of all sequences */
} journey;

static void progress(journey *j, uint64_t tokens)
{
    j->done += tokens;
    sb_progress(NULL, "token", j->done, j->total);
}

/* Requests the logits of every row, so that they are taps of the step. With a planted mistake, each
 * request is for one row. */
static sb_status show_logits(journey *j, sb_error *err)
{
    const size_t rows = sb_session_rows(j->session), most = j->live->fault ? 1 : LOGITS_ROWS;
    sb_status status = SB_OK;
    for (size_t row = 0, n; row < rows && !status; row += n) {
        n = rows - row < most ? rows - row : most;
        status = sb_session_logits_of(j->session, row, n, j->logits, err);
        if (n > 1)
            memcpy(j->logits, j->logits + (n - 1) * j->vocabulary,
                   j->vocabulary * sizeof *j->logits);
    }
    return status ? status : sb_capture_end(j->capture, NULL, err);
}

static sb_status feed(journey *j, const sb_sequence *tokens, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t at = 0; at < tokens->count && !status;) {
        size_t n = tokens->count - at < j->live->rows ? tokens->count - at : (size_t)j->live->rows;
        status = sb_session_feed(j->session, tokens->ids + at, n, err);
        if (!status)
            status = sb_rounds_fed(j->rounds, tokens->ids + at, n, err);
        if (!status)
            status = show_logits(j, err);
        at += n;
        progress(j, n);
    }
    return status;
}

static sb_status decode(journey *j, uint32_t *token, sb_error *err)
{
    sb_status status = sb_session_feed(j->session, token, 1, err);
    if (!status)
        status = sb_rounds_fed(j->rounds, token, 1, err);
    if (!status)
        status = show_logits(j, err);
    progress(j, 1);
    return status ? status
                  : sb_rounds_pick(j->rounds, j->logits, sb_session_state(j->session)->position,
                                   token, err);
}

static sb_status speculate(journey *j, uint64_t number, uint64_t limit, sb_round *round,
                           uint32_t token, sb_error *err)
{
    sb_round_ask ask = {.token = token,
                        .drafts = (size_t)sb_pattern_at(&j->request->drafts, (size_t)number, 0),
                        .forced = -1,
                        .limit = (size_t)limit};
    sb_capture_round(j->capture, number);
    sb_status status = sb_rounds_next(j->rounds, &ask, round, err);
    progress(j, status ? 0 : round->emitted);
    return status ? status : sb_capture_end(j->capture, round, err);
}

/* The first token comes from the prompt's logits; each further token is fed. */
static sb_status generate(journey *j, sb_error *err)
{
    uint32_t token;
    uint64_t number = 0, left = j->request->generate;
    if (!left)
        return SB_OK;
    sb_status status =
        sb_rounds_pick(j->rounds, j->logits, sb_session_state(j->session)->position, &token, err);
    for (left--; left && !status; number++) {
        if (!j->request->drafts.count) {
            status = decode(j, &token, err);
            left--;
            continue;
        }
        sb_round round;
        status = speculate(j, number, left, &round, token, err);
        if (status)
            break;
        token = round.tokens[round.emitted - 1];
        left -= round.emitted;
    }
    return status;
}

static sb_status travel(journey *j, const sb_model *model, size_t sequence, sb_error *err)
{
    const sb_request *r = j->request;
    sb_session_options options = {.backend = j->live->backend,
                                  .knobs = &j->live->knobs,
                                  .hook = j->live->fault,
                                  .hook_ctx = j->live->fault_ctx,
                                  .mtp = sb_model_has_mtp(model)};
    sb_round_options rounds = r->rounds;
    rounds.drafter = j->live->drafter;
    if (rounds.drafter)
        options.states = sb_eagle3_states(rounds.drafter);
    sb_capture_join(j->capture, &options);
    sb_status status = sb_session_new(model, &options, &j->session, err);
    if (!status)
        status = sb_rounds_new(j->session, &rounds, &j->rounds, err);
    if (!status) {
        sb_capture_follow(j->capture, j->session, (uint32_t)sequence, (uint32_t)sequence);
        status = feed(j, &r->sequences[sequence], err);
    }
    if (!status)
        status = generate(j, err);
    if (!status)
        status = sb_capture_finish(j->capture, err);
    sb_rounds_free(j->rounds);
    sb_session_free(j->session);
    j->rounds = NULL;
    j->session = NULL;
    return status;
}

sb_status sb_live_run(const sb_model *model, const sb_request *r, const sb_live *live,
                      sb_step_fn take, void *ctx, sb_error *err)
{
    journey j = {.request = r, .live = live, .vocabulary = model->config.vocab_size};
    sb_capture_options options = {.taps = live->taps,
                                  .states =
                                      live->states ? SB_CAPTURE_ALL_STATES : SB_CAPTURE_NO_STATES,
                                  .take = take,
                                  .take_ctx = ctx};
    for (size_t i = 0; i < r->sequence_count; i++)
        j.total += r->sequences[i].count + (r->generate ? r->generate - 1 : 0);
    j.logits = sb_alloc(LOGITS_ROWS * j.vocabulary, sizeof *j.logits);
    sb_status status = j.logits ? sb_capture_new(&options, &j.capture, err)
                                : sb_fail(err, SB_ERR_MEMORY, "out of memory for logits");
    if (!status)
        status = sb_prompts_check_ids(&r->from, r->sequences, r->sequence_count,
                                      model->config.vocab_size, err);
    for (size_t i = 0; i < r->sequence_count && !status; i++)
        status = travel(&j, model, i, err);
    sb_capture_free(j.capture);
    free(j.logits);
    return status;
}
