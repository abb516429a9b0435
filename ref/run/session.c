#include "ref/run/session.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/run/schedule.h"

enum { POSITION_LIMIT = 1 << 24 };

struct sb_session {
    const sb_model *model;
    const sb_backend *backend;
    sb_knobs knobs;
    sb_tap_fn tap;
    void *tap_ctx;
    sb_state *state;
    sb_scratch scratch;
    size_t rows; /* of the last call */
    int failed;
};

sb_status sb_session_new(const sb_model *model, const sb_session_options *options, sb_session **out,
                         sb_error *err)
{
    sb_session *s = sb_alloc(1, sizeof *s);
    if (!s)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a session");
    s->model = model;
    s->backend = options && options->backend ? options->backend : sb_backend_ref();
    if (options && options->knobs)
        s->knobs = *options->knobs;
    else
        sb_knobs_exact(&s->knobs);
    s->tap = options ? options->tap : NULL;
    s->tap_ctx = options ? options->tap_ctx : NULL;
    sb_status status = sb_state_new(&model->config, &s->state, err);
    if (status) {
        sb_session_free(s);
        return status;
    }
    *out = s;
    return SB_OK;
}

void sb_session_free(sb_session *session)
{
    if (!session)
        return;
    sb_state_free(session->state);
    sb_scratch_free(&session->scratch);
    free(session);
}

/* S-5: "that would reach position 2^24, from where on positions are no longer exact in binary32, or
 * that has an id that is not in 0..V-1" */
static sb_status check_tokens(const sb_session *s, const uint32_t *tokens, size_t n, sb_error *err)
{
    if (s->failed)
        return sb_fail(err, SB_ERR_USAGE, "the session failed earlier and has not been reset");
    if (n == 0)
        return sb_fail(err, SB_ERR_USAGE, "a call needs at least one token");
    if (n > POSITION_LIMIT || s->state->position > POSITION_LIMIT - n)
        return sb_fail(err, SB_ERR_USAGE,
                       "position %llu and %zu tokens reach 2^24, the end of exact "
                       "positions",
                       (unsigned long long)s->state->position, n);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] >= s->model->config.vocab_size)
            return sb_fail(err, SB_ERR_USAGE,
                           "token %zu of the call is id %u; expected an id below vocab_size %u", i,
                           (unsigned)tokens[i], (unsigned)s->model->config.vocab_size);
    return SB_OK;
}

static sb_call begin(sb_session *s, uint64_t position, size_t rows, sb_error *err)
{
    return (sb_call){.model = s->model,
                     .backend = s->backend,
                     .knobs = &s->knobs,
                     .tap = s->tap,
                     .tap_ctx = s->tap_ctx,
                     .state = s->state,
                     .position = position,
                     .s = &s->scratch,
                     .rows = rows,
                     .err = err};
}

/* S-4: "After a call that failed, the session refuses every further call until it is reset" */
sb_status sb_session_feed(sb_session *s, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = check_tokens(s, tokens, n, err);
    if (status)
        return status;
    s->rows = 0;
    s->failed = 1; /* until the call has succeeded */
    if (sb_scratch_reserve(&s->scratch, &s->model->config, n))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a call of %zu rows", n);
    status = sb_state_reserve(s->state, n, err);
    if (status)
        return status;
    sb_call call = begin(s, s->state->position, n, err);
    status = sb_run_trunk(&call, tokens);
    if (status)
        return status;
    s->failed = 0;
    s->state->position += n;
    s->rows = n;
    return SB_OK;
}

const float *sb_session_hidden(const sb_session *session)
{
    return session->scratch.hidden;
}

size_t sb_session_rows(const sb_session *session)
{
    return session->rows;
}

/* "the head is linear( rmsnorm(x, norm), lm_head )" */
sb_status sb_session_logits(sb_session *s, size_t row, float *logits, sb_error *err)
{
    if (row >= s->rows)
        return sb_fail(err, SB_ERR_USAGE, "row %zu of a call of %zu rows has no logits", row,
                       s->rows);
    sb_call call = begin(s, s->state->position - s->rows, s->rows, err);
    return sb_run_head(&call, row, logits);
}

void sb_session_reset(sb_session *session)
{
    sb_state_reset(session->state);
    session->rows = 0;
    session->failed = 0;
}

const sb_state *sb_session_state(const sb_session *session)
{
    return session->state;
}

/* "the one with the largest logit, the lowest id among equals" */
uint32_t sb_greedy(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (uint32_t)best;
}
