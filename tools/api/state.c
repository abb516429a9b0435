/* state.c - states of ref/samebit.h: copying, access, comparison, writing and reading. */
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/run/state_file.h"
#include "ref/state/compare.h"
#include "ref/state/piece.h"
#include "tools/api/api.h"

/* Puts a state into a handle, which owns it. */
static sb_status wrap(samebit_checkpoint *checkpoint, sb_state *state, samebit_state **out,
                      sb_error *err)
{
    samebit_state *s = sb_alloc(1, sizeof *s);
    if (!s) {
        sb_state_free(state);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    s->checkpoint = sb_api_hold(checkpoint);
    s->state = state;
    *out = s;
    return SB_OK;
}

samebit_status samebit_session_state(const samebit_session *session, samebit_state **out,
                                     samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && out);
    sb_state *copy = NULL;
    sb_status status = sb_state_copy(sb_session_state(session->session), &copy, sb_api_error(err));
    if (!status)
        status = wrap(session->checkpoint, copy, out, sb_api_error(err));
    return sb_api_status(status);
}

samebit_status samebit_session_state_at(const samebit_session *session, size_t kept,
                                        samebit_state **out, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && out);
    sb_state *copy = NULL;
    sb_status status = sb_session_state_at(session->session, kept, &copy, sb_api_error(err));
    if (!status)
        status = wrap(session->checkpoint, copy, out, sb_api_error(err));
    return sb_api_status(status);
}

void samebit_state_free(samebit_state *state)
{
    if (!state)
        return;
    sb_state_free(state->state);
    samebit_checkpoint_close(state->checkpoint);
    free(state);
}

samebit_status samebit_session_set_state(samebit_session *session, const samebit_state *state,
                                         samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && state);
    return sb_api_status(sb_session_set_state(session->session, state->state, sb_api_error(err)));
}

/* --- access ----------------------------------------------------------------------------------- */

uint64_t samebit_state_position(const samebit_state *state)
{
    return state ? state->state->position : 0;
}

int samebit_state_has_mtp(const samebit_state *state)
{
    return state && state->state->has_mtp;
}

samebit_status samebit_state_digests(const samebit_state *state, samebit_digest *target,
                                     samebit_digest *mtp, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(state);
    sb_digest found[2] = {{""}, {""}};
    sb_status status = sb_state_digest(state->state, &found[0], sb_api_error(err));
    if (!status && state->state->has_mtp)
        status = sb_state_mtp_digest(state->state, &found[1], sb_api_error(err));
    if (!status && target)
        sb_api_digest(target, &found[0]);
    if (!status && mtp)
        sb_api_digest(mtp, &found[1]);
    return sb_api_status(status);
}

size_t samebit_state_pieces(const samebit_state *state)
{
    return state ? sb_state_pieces(state->state) : 0;
}

samebit_status samebit_state_piece(const samebit_state *state, size_t i, samebit_array *out,
                                   samebit_name *name, samebit_error *err)
{
    SB_API_CALL;
    static const char *const axes[] = {[SB_PIECE_keys] = "token,head,column",
                                       [SB_PIECE_values] = "token,head,column",
                                       [SB_PIECE_conv_state] = "column,channel",
                                       [SB_PIECE_recurrent_state] = "head,key,value",
                                       [SB_PIECE_hidden] = "column"};
    SB_API_NEED(state && out && name);
    if (i >= samebit_state_pieces(state))
        return sb_api_status(sb_fail(sb_api_error(err), SB_ERR_USAGE, "piece %zu of %zu", i,
                                     samebit_state_pieces(state)));
    sb_piece piece = sb_state_piece(state->state, i);
    snprintf(name->text, sizeof name->text, "%s", piece.name);
    sb_api_array(out, name->text, SB_DTYPE_F32, axes[piece.kind], piece.rank, piece.shape,
                 piece.data, sb_piece_elements(&piece) * sizeof *piece.data);
    return SAMEBIT_OK;
}

samebit_status samebit_state_compare(const samebit_state *a, const samebit_state *b,
                                     samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(a && b);
    sb_state_difference difference;
    sb_difference_text text;
    sb_status status = sb_state_compare(a->state, b->state, &difference, sb_api_error(err));
    if (!status && difference.differs)
        status =
            sb_fail(sb_api_error(err), SB_ERR_DIFF, "%s", sb_difference_show(&difference, &text));
    return sb_api_status(status);
}

/* --- files ------------------------------------------------------------------------------------ */

static sb_status origin_of(samebit_session *s, sb_state_origin *origin, sb_error *err)
{
    *origin = (sb_state_origin){.knobs = &s->knobs, .profile = s->profile};
    return sb_api_checkpoint_digest(s->checkpoint, &origin->checkpoint, err);
}

samebit_status samebit_session_save(samebit_session *session, const char *path,
                                    const uint32_t *tokens, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && path);
    sb_state_origin origin;
    sb_status status = origin_of(session, &origin, sb_api_error(err));
    origin.tokens = tokens;
    if (!status)
        status =
            sb_state_save(path, sb_session_state(session->session), &origin, sb_api_error(err));
    return sb_api_status(status);
}

/* Continues from an open file and frees it. */
static sb_status resume(samebit_session *s, sb_state_file *file, const char *path, sb_error *err)
{
    sb_state_origin origin;
    sb_state *state = NULL;
    sb_status status = origin_of(s, &origin, err);
    if (!status)
        status = sb_state_file_take(file, path, s->checkpoint->model, &origin,
                                    sb_session_has_mtp(s->session), &state, err);
    if (!status)
        status = sb_session_set_state(s->session, state, err);
    sb_state_free(state);
    sb_state_file_free(file);
    return status;
}

samebit_status samebit_session_load(samebit_session *session, const char *path, samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && path);
    sb_state_file *file = NULL;
    sb_status status = sb_state_file_open(path, &file, sb_api_error(err));
    if (!status)
        status = resume(session, file, path, sb_api_error(err));
    return sb_api_status(status);
}

samebit_status samebit_session_load_bytes(samebit_session *session, const void *bytes, size_t size,
                                          samebit_error *err)
{
    SB_API_CALL;
    SB_API_NEED(session && (bytes || !size));
    sb_state_file *file = NULL;
    sb_status status =
        sb_state_file_parse(bytes ? bytes : "", size, "the state", &file, sb_api_error(err));
    if (!status)
        status = resume(session, file, "the state", sb_api_error(err));
    return sb_api_status(status);
}
