/* session.c - sessions of ref/samebit.h: feeding a sequence, undoing, and its outputs. */
#include "ref/run/session.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/ops/knobs.h"
#include "tools/api/api.h"

/* --- profiles --------------------------------------------------------------------------------- */

size_t samebit_profile_count(void)
{
    return sb_profile_count();
}

const char *samebit_profile_name(size_t i)
{
    return i < sb_profile_count() ? sb_profile_name(i) : NULL;
}

const char *samebit_profile_help(size_t i)
{
    return i < sb_profile_count() ? sb_profile_help(i) : NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

static sb_status show_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                          sb_error *err)
{
    const samebit_session *s = ctx;
    const int ended = s->tap(s->tap_ctx, name, data, rows, cols);
    sb_api_came_back();
    if (!ended)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "the caller's tap ended the call at %s", name);
}

static sb_status set_knobs(samebit_session *s, const samebit_session_options *o, sb_error *err)
{
    const char *profile = o->profile ? o->profile : "exact";
    sb_status status = sb_knobs_profile(&s->knobs, profile, err);
    if (!status)
        snprintf(s->profile, sizeof s->profile, "%s", profile);
    for (size_t i = 0; i < o->setting_count && !status; i++)
        status =
            o->settings && o->settings[i]
                ? sb_knobs_set(&s->knobs, o->settings[i], err)
                : sb_fail(err, SB_ERR_USAGE, "setting %zu of %zu is NULL", i, o->setting_count);
    return status;
}

static sb_status set_rounds(samebit_session *s, const samebit_session_options *o, sb_error *err)
{
    s->sampling = (sb_sampling){.seed = o->seed,
                                .sequence = o->sequence,
                                .temperature = o->temperature,
                                .top_k = o->top_k,
                                .top_p = o->top_p == 0 ? 1 : o->top_p,
                                .min_p = o->min_p};
    int rollback = (int)o->rollback;
    if (rollback < SAMEBIT_ROLLBACK_AUTO || rollback > SAMEBIT_ROLLBACK_REPLAY)
        return sb_fail(err, SB_ERR_USAGE, "rollback %d is none of samebit_rollback", rollback);
    int keeps = rollback == SAMEBIT_ROLLBACK_AUTO ? sb_knobs_have_row_states(&s->knobs)
                                                  : rollback == SAMEBIT_ROLLBACK_SNAPSHOTS;
    s->round_options =
        (sb_round_options){.sampling = &s->sampling,
                           .acceptance = o->residual ? SB_ACCEPT_residual : SB_ACCEPT_match,
                           .rollback = keeps ? SB_ROLLBACK_snapshots : SB_ROLLBACK_replay};
    return sb_sampling_check(&s->sampling, err);
}

static sb_status open_session(samebit_session *s, const samebit_session_options *o, sb_error *err)
{
    sb_status status = set_knobs(s, o, err);
    if (!status)
        status = set_rounds(s, o, err);
    if (!status && o->threads > 4096)
        status = sb_fail(err, SB_ERR_USAGE, "%u threads", o->threads);
    s->threads = o->threads;
    s->tap = o->tap;
    s->tap_ctx = o->tap_ctx;
    sb_session_options options = {
        .knobs = &s->knobs, .tap = o->tap ? show_tap : NULL, .tap_ctx = s, .mtp = o->mtp != 0};
    return status ? status : sb_session_new(s->checkpoint->model, &options, &s->session, err);
}

samebit_status samebit_session_new(samebit_checkpoint *checkpoint,
                                   const samebit_session_options *options, samebit_session **out,
                                   samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(checkpoint && out);
    samebit_session_options none = {.size = sizeof none}, own;
    sb_error *error = sb_api_error(err);
    if (!options)
        options = &none;
    sb_status status = sb_api_take(&own, sizeof own, options, options->size, error);
    samebit_session *s = status ? NULL : sb_alloc(1, sizeof *s);
    if (!status && !s)
        status = sb_fail(error, SB_ERR_MEMORY, "out of memory");
    if (s) {
        s->checkpoint = sb_api_hold(checkpoint);
        status = open_session(s, &own, error);
    }
    if (status)
        samebit_session_free(s);
    else
        *out = s;
    return sb_api_status(status);
}

void samebit_session_free(samebit_session *session)
{
    if (!session)
        return;
    sb_rounds_free(session->rounds);
    sb_session_free(session->session);
    samebit_checkpoint_close(session->checkpoint);
    free(session);
}

/* --- feeding ---------------------------------------------------------------------------------- */

samebit_status samebit_session_feed(samebit_session *session, const uint32_t *tokens, size_t n,
                                    samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && (tokens || !n));
    sb_status status = sb_api_start_on(session->threads, sb_api_error(err));
    if (!status)
        status = sb_session_feed(session->session, tokens, n, sb_api_error(err));
    return sb_api_status(status);
}

samebit_status samebit_session_verify(samebit_session *session, const uint32_t *tokens, size_t n,
                                      samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && (tokens || !n));
    sb_status status = sb_api_start_on(session->threads, sb_api_error(err));
    if (!status)
        status = sb_session_verify(session->session, tokens, n, session->round_options.rollback,
                                   sb_api_error(err));
    return sb_api_status(status);
}

samebit_status samebit_session_keep(samebit_session *session, size_t kept, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session);
    sb_status status = sb_api_start_on(session->threads, sb_api_error(err));
    if (!status)
        status = sb_session_keep(session->session, kept, sb_api_error(err));
    return sb_api_status(status);
}

samebit_status samebit_session_draft(samebit_session *session, uint32_t token, float *logits,
                                     samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && logits);
    sb_status status = sb_api_start_on(session->threads, sb_api_error(err));
    if (!status)
        status = sb_session_draft(session->session, token, logits, sb_api_error(err));
    return sb_api_status(status);
}

void samebit_session_reset(samebit_session *session)
{
    if (session)
        sb_session_reset(session->session);
}

/* --- outputs of the last call ----------------------------------------------------------------- */

uint64_t samebit_session_position(const samebit_session *session)
{
    return session ? sb_session_state(session->session)->position : 0;
}

size_t samebit_session_rows(const samebit_session *session)
{
    return session ? sb_session_rows(session->session) : 0;
}

samebit_status samebit_session_logits(samebit_session *session, size_t row, size_t count,
                                      float *logits, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && (logits || !count));
    sb_status status = sb_api_start_on(session->threads, sb_api_error(err));
    if (!status)
        status = sb_session_logits_of(session->session, row, count, logits, sb_api_error(err));
    return sb_api_status(status);
}

samebit_status samebit_session_hidden(const samebit_session *session, size_t row, size_t count,
                                      float *hidden, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && (hidden || !count));
    size_t rows = sb_session_rows(session->session),
           H = session->checkpoint->model->config.hidden_size;
    if (row > rows || count > rows - row)
        return sb_api_status(sb_fail(sb_api_error(err), SB_ERR_USAGE,
                                     "rows %zu .. %zu of a call of %zu rows", row, row + count,
                                     rows));
    if (count)
        memcpy(hidden, sb_session_hidden(session->session) + row * H, count * H * sizeof *hidden);
    return SAMEBIT_OK;
}
