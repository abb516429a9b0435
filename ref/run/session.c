#include "ref/run/session.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/bytes.h"
#include "ref/ops/knob.h"
#include "ref/run/trunk.h"
#include "ref/state/piece.h"

struct sb_session {
    const sb_model *model;
    const sb_backend *backend;
    sb_knobs knobs;
    sb_tap_fn tap;
    void *tap_ctx;
    sb_op_hook hook;
    void *hook_ctx;
    int hook_skips_experts;
    sb_session_states states;
    float *kept_states; /* (kept_room, states.count, H) */
    size_t kept_room;
    const sb_resident *resident; /* or NULL */
    sb_call_kind kind;           /* kind of the last call of the trunk */
    sb_state *state; /* with a resident sequence, only position and mtp_entries, unless `fetched` */
    int fetched;
    sb_scratch scratch;
    size_t rows; /* rows of the last call that are still available */
    int failed;
    sb_scratch head;  /* scratch of the MTP head */
    uint64_t drafted; /* steps of the head since the last feed */
    sb_trail trail;   /* trail of the last verify */
    uint32_t *replay; /* (trail.rows) its tokens */
    sb_rollback rollback;
    size_t reach;             /* rows after trail slot 0 whose states can still be copied */
    uint32_t *parent, *depth; /* (trail.rows) of a tree */
    int tree;                 /* the rows of a tree wait for sb_session_keep_path */
};

static sb_status begin_resident(sb_session *s, int mtp, sb_error *err)
{
    if (s->tap || s->hook || s->states.count)
        return sb_fail(err, SB_ERR_USAGE,
                       "a resident sequence has no taps, no hooks and no kept states");
    if (!s->resident->mtp != !mtp)
        return sb_fail(err, SB_ERR_USAGE,
                       "the session and its resident sequence must both have the MTP head, or both "
                       "not have it");
    s->fetched = 1;
    return s->resident->reset(s->resident->sequence, err);
}

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
    s->hook = options ? options->hook : NULL;
    s->hook_ctx = options ? options->hook_ctx : NULL;
    s->hook_skips_experts = options ? options->hook_skips_experts : 0;
    s->states = options ? options->states : (sb_session_states){0};
    s->resident = options ? options->resident : NULL;
    int mtp = options && options->mtp;
    sb_status status =
        mtp && !sb_model_has_mtp(model)
            ? sb_fail(err, SB_ERR_USAGE, "the checkpoint has no MTP head (no tensor mtp.fc.weight)")
            : sb_state_new(&model->config, mtp, &s->state, err);
    if (!status && s->resident)
        status = begin_resident(s, mtp, err);
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
    sb_scratch_free(&session->head);
    sb_trail_free(&session->trail);
    free(session->replay);
    free(session->parent);
    free(session->depth);
    free(session->kept_states);
    free(session);
}

/* Checks tokens that begin `ahead` positions after the fed tokens.
 * S-5: "if it would reach position 2^24, from which on positions are no longer exact in binary32,
 * or if it has an id outside 0..V-1" */
static sb_status check_tokens(const sb_session *s, const uint32_t *tokens, size_t n, uint64_t ahead,
                              sb_error *err)
{
    uint64_t position = s->state->position + ahead;
    if (s->failed)
        return sb_fail(err, SB_ERR_USAGE, "the session failed earlier and has not been reset");
    if (s->tree)
        return sb_fail(err, SB_ERR_USAGE, "the rows of a tree have not been kept or undone yet");
    if (n == 0)
        return sb_fail(err, SB_ERR_USAGE, "a call needs at least one token");
    if (n > SB_POSITION_LIMIT || position > SB_POSITION_LIMIT - n)
        return sb_fail(err, SB_ERR_USAGE,
                       "position %llu and %zu tokens reach 2^24, the end of exact "
                       "positions",
                       (unsigned long long)position, n);
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
                     .hook = s->hook,
                     .hook_ctx = s->hook_ctx,
                     .hook_skips_experts = s->hook_skips_experts,
                     .kind = s->kind,
                     .state = s->state,
                     .states = s->states,
                     .kept_states = s->kept_states,
                     .trail = s->trail.rows && s->trail.every_row ? &s->trail : NULL,
                     .position = position,
                     .s = &s->scratch,
                     .rows = rows,
                     .err = err};
}

/* The input of the MTP head that comes from a row of the last trunk call. K-28: "residual feeds the
 * residual stream of that row before the final norm" */
static const float *feature(const sb_session *s, size_t row)
{
    const sb_scratch *of = &s->scratch;
    const float *rows = SB_IS(&s->knobs, mtp_hidden, residual) ? of->x : of->hidden;
    return rows + row * s->model->config.hidden_size;
}

/* K-29: "residual feeds its output before mtp.norm" */
static const float *recycled(const sb_session *s)
{
    return SB_IS(&s->knobs, mtp_recycled, residual) ? s->head.x : s->head.hidden;
}

/* S-7: "a sequence of P tokens has P - 1 entries, or P under zeros of K-27" */
uint64_t sb_session_mtp_entries(const sb_knobs *knobs, uint64_t position)
{
    if (SB_IS(knobs, mtp_first, zeros))
        return position;
    return position ? position - 1 : 0;
}

static uint64_t entries_at(const sb_session *s, uint64_t position)
{
    return sb_session_mtp_entries(&s->knobs, position);
}

/* Row t of the head's input is the hidden vector before token t of the call. The input may be
 * head.hidden, which is read before it is written. */
static sb_status run_entries(sb_session *s, const uint32_t *tokens, size_t rows, sb_error *err)
{
    sb_call call = begin(s, s->state->mtp_entries + s->drafted, rows, err);
    call.trail = NULL;
    call.s = &s->head;
    return sb_run_mtp(&call, s->head.hidden, tokens);
}

/* S-7: "The entry of h_i and x_{i+1} is made when x_{i+1} is fed" */
static sb_status prime(sb_session *s, const uint32_t *tokens, size_t n, sb_error *err)
{
    size_t H = s->model->config.hidden_size, rows = n;
    uint64_t after = s->state->position + n;
    const float *last = feature(s, n - 1);
    if (sb_scratch_reserve(&s->head, &s->model->config, n))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the MTP head of %zu rows", n);
    float *in = s->head.hidden;
    if (entries_at(s, after) - s->state->mtp_entries == n) {
        memcpy(in, s->state->mtp_hidden, H * sizeof *in);
        in += H;
    } else { /* the first token of the sequence has no hidden vector before it */
        rows--;
        tokens++;
    }
    if (n > 1)
        memcpy(in, feature(s, 0), (n - 1) * H * sizeof *in);
    sb_status status = rows ? run_entries(s, tokens, rows, err) : SB_OK;
    if (status)
        return status;
    s->state->mtp_entries += rows;
    memcpy(s->state->mtp_hidden, last, H * sizeof *last);
    if (s->trail.rows && s->trail.every_row)
        memcpy(s->trail.hidden + H, feature(s, 0), n * H * sizeof *last);
    return SB_OK;
}

/* Y-76: "its logits and its state are checked where the host reads them. A value that is not finite
 * stops the session" */
static sb_status check_finite(const char *what, size_t row, const float *values, size_t n,
                              sb_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!sb_is_finite_f32(values[i]))
            return sb_fail(err, SB_ERR_NUMERIC,
                           "%s: the value at row %zu, column %zu is not finite; a session without "
                           "a resident sequence names the first tap with such a value",
                           what, row, i);
    return SB_OK;
}

static sb_status check_state(const sb_state *state, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_state_pieces(state) && !status; i++) {
        const sb_piece piece = sb_state_piece(state, i);
        status = check_finite(piece.name, 0, piece.data, (size_t)sb_piece_elements(&piece), err);
    }
    return status;
}

/* Sets position and entries of a resident sequence, whose other values are not here. */
static void moved(sb_session *s, uint64_t position)
{
    s->state->position = position;
    s->state->mtp_entries = s->state->has_mtp ? entries_at(s, position) : 0;
    s->fetched = 0;
}

static sb_status run_resident(sb_session *s, const uint32_t *tokens, size_t n, sb_error *err)
{
    const sb_resident *r = s->resident;
    sb_status status = s->trail.rows ? r->verify(r->sequence, tokens, n, err)
                                     : r->feed(r->sequence, tokens, n, err);
    if (status)
        return status;
    s->failed = 0;
    moved(s, s->state->position + n);
    s->rows = n;
    return SB_OK;
}

static sb_status reserve(sb_session *s, size_t n, sb_error *err)
{
    const size_t row = s->states.count * s->model->config.hidden_size;
    if (sb_scratch_reserve(&s->scratch, &s->model->config, n))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a call of %zu rows", n);
    if (row && n > s->kept_room) {
        float *grown = sb_realloc(s->kept_states, n, row * sizeof *grown);
        if (!grown)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for states of %zu rows", n);
        s->kept_states = grown;
        s->kept_room = n;
    }
    return sb_state_reserve(s->state, n, err);
}

/* S-4: "After a call that failed, the session refuses every further call until it is reset" */
static sb_status run_call(sb_session *s, const uint32_t *tokens, size_t n, sb_error *err)
{
    s->rows = 0;
    s->reach = 0;
    s->drafted = 0;
    s->failed = 1; /* until the call succeeds */
    if (s->resident)
        return run_resident(s, tokens, n, err);
    sb_status status = reserve(s, n, err);
    if (status)
        return status;
    sb_call call = begin(s, s->state->position, n, err);
    const sb_tree tree = {s->parent, s->depth};
    call.tree = s->tree ? &tree : NULL;
    status = sb_run_trunk(&call, tokens);
    if (!status && s->state->has_mtp && !s->tree) /* the entries of a tree follow its kept path */
        status = prime(s, tokens, n, err);
    if (status)
        return status;
    s->failed = 0;
    s->state->position += n;
    s->rows = n;
    return SB_OK;
}

sb_status sb_session_feed(sb_session *s, const uint32_t *tokens, size_t n, sb_error *err)
{
    sb_status status = check_tokens(s, tokens, n, 0, err);
    if (status)
        return status;
    s->trail.rows = 0;
    s->kind = n == 1 && s->state->position ? SB_CALL_decode : SB_CALL_prompt;
    return run_call(s, tokens, n, err);
}

sb_status sb_session_verify(sb_session *s, const uint32_t *tokens, size_t n, sb_rollback rollback,
                            sb_error *err)
{
    sb_status status = check_tokens(s, tokens, n, 0, err);
    if (status)
        return status;
    if (rollback == SB_ROLLBACK_snapshots && !sb_knobs_have_row_states(&s->knobs))
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "delta_rule=%s keeps no state between the rows of a chunk: rejected rows "
                       "can only be undone by replay",
                       sb_knob_value_name(s->knobs.value[SB_KNOB_delta_rule]));
    uint32_t *copy = sb_realloc(s->replay, n, sizeof *copy);
    if (!copy)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", n);
    s->replay = copy;
    memcpy(s->replay, tokens, n * sizeof *tokens);
    s->rollback = rollback;
    s->kind = n == 1 && s->state->position ? SB_CALL_decode : SB_CALL_verify;
    s->reach = 0;
    if (s->resident) /* it has a trail of its own */
        s->trail.rows = n;
    else
        status = sb_trail_begin(&s->trail, s->state, n, rollback == SB_ROLLBACK_snapshots, err);
    if (!status)
        status = run_call(s, tokens, n, err);
    if (!status && s->trail.every_row)
        s->reach = n;
    return status;
}

static sb_status check_kept(const sb_session *s, int tree, size_t kept, sb_error *err)
{
    if (s->failed)
        return sb_fail(err, SB_ERR_USAGE, "the session failed earlier and has not been reset");
    if (!s->trail.rows)
        return sb_fail(err, SB_ERR_USAGE, "the last call was not a verify, or was already cut");
    if (s->tree != tree)
        return sb_fail(err, SB_ERR_USAGE, "the last call %s a tree", s->tree ? "was" : "was not");
    if (kept > s->trail.rows)
        return sb_fail(err, SB_ERR_USAGE, "cannot keep %zu rows of a call of %zu", kept,
                       s->trail.rows);
    return SB_OK;
}

static sb_status keep_resident(sb_session *s, size_t rows, size_t kept, sb_error *err)
{
    const sb_resident *r = s->resident;
    s->failed = 1; /* until the rows are undone */
    if (kept == 0)
        return sb_fail(err, SB_ERR_UNSUPPORTED, "a resident sequence keeps at least one row");
    sb_status status = r->keep(r->sequence, kept, err);
    if (status)
        return status;
    s->failed = 0;
    s->rows = kept;
    moved(s, s->state->position - (rows - kept));
    return SB_OK;
}

/* S-10: "Keeping the first n rows of a round leaves the state, to the bit, that feeding only these
 * rows would have left" */
sb_status sb_session_keep(sb_session *s, size_t kept, sb_error *err)
{
    sb_status status = check_kept(s, 0, kept, err);
    if (status)
        return status;
    size_t rows = s->trail.rows;
    s->trail.rows = 0;
    s->drafted = 0;
    s->reach = s->reach < kept ? s->reach : kept;
    if (kept == rows)
        return SB_OK;
    if (s->resident)
        return keep_resident(s, rows, kept, err);
    sb_trail_restore(&s->trail, s->trail.every_row ? kept : 0, s->state);
    s->state->mtp_entries = s->state->has_mtp ? entries_at(s, s->state->position) : 0;
    s->rows = kept;
    if (s->rollback == SB_ROLLBACK_snapshots || kept == 0)
        return SB_OK;
    s->kind = rows == 1 && s->state->position ? SB_CALL_decode : SB_CALL_verify;
    return run_call(s, s->replay, kept, err);
}

/* --- trees of drafts (S-16) -------------------------------------------------------------------- */

static int has_linear_attention(const sb_config *c)
{
    for (uint32_t i = 0; i < c->layers; i++)
        if (!c->layer_is_full[i])
            return 1;
    return 0;
}

/* Copies the tokens and parents of a tree, and finds its depths. */
static sb_status take_tree(sb_session *s, const uint32_t *tokens, const uint32_t *parents, size_t n,
                           sb_error *err)
{
    uint32_t **const arrays[] = {&s->replay, &s->parent, &s->depth};
    /* first, since a verification that waits to be kept has its tokens in replay */
    for (size_t t = 1; t < n; t++)
        if (parents[t] >= t)
            return sb_fail(err, SB_ERR_USAGE,
                           "row %zu of a tree follows row %u; expected a row before it", t,
                           (unsigned)parents[t]);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        uint32_t *more = sb_realloc(*arrays[i], n, sizeof *more);
        if (!more)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", n);
        *arrays[i] = more;
    }
    memcpy(s->replay, tokens, n * sizeof *tokens);
    s->parent[0] = s->depth[0] = 0;
    for (size_t t = 1; t < n; t++) {
        s->parent[t] = parents[t];
        s->depth[t] = s->depth[parents[t]] + 1;
    }
    return SB_OK;
}

sb_status sb_session_verify_tree(sb_session *s, const uint32_t *tokens, const uint32_t *parents,
                                 size_t n, sb_rollback rollback, sb_error *err)
{
    sb_status status = check_tokens(s, tokens, n, 0, err);
    if (status)
        return status;
    if (s->resident)
        return sb_fail(err, SB_ERR_UNSUPPORTED, "a resident sequence has no trees of drafts");
    if (has_linear_attention(&s->model->config) && !sb_knobs_split_anywhere(&s->knobs))
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "a tree of drafts needs knobs under which a sequence can be fed in any "
                       "parts (S-3), because a branch begins with the state of its parent");
    status = take_tree(s, tokens, parents, n, err);
    if (status)
        return status;
    s->rollback = rollback;
    s->kind = SB_CALL_verify;
    s->reach = 0;
    status = sb_trail_begin(&s->trail, s->state, n, 1, err);
    if (status)
        return status;
    s->tree = 1;
    status = run_call(s, tokens, n, err);
    s->tree = !status;
    return status;
}

/* Moves row from[i] of an array to row i; from[i] is not below i. */
static void gather(float *rows, const size_t *from, size_t count, size_t width)
{
    for (size_t i = 0; i < count; i++)
        if (from[i] != i)
            memcpy(rows + i * width, rows + from[i] * width, width * sizeof *rows);
}

/* S-16: "The state after the round is the one that the kept rows alone would have left". The state
 * is the one before the round, and keys and values of all rows stand behind it. */
static sb_status keep_rows(sb_session *s, const size_t *path, size_t kept, sb_error *err)
{
    const sb_config *c = &s->model->config;
    const size_t row = sb_state_kv_row(c), at = (size_t)s->state->position * row;
    for (uint32_t i = 0; i < c->layers; i++) {
        sb_layer_state *layer = &s->state->layers[i];
        if (sb_state_is_full(s->state, i)) {
            gather(layer->keys + at, path, kept, row);
            gather(layer->values + at, path, kept, row);
            continue;
        }
        memcpy(layer->conv, sb_trail_conv(&s->trail, i, path[kept - 1] + 1),
               sb_state_conv_size(c) * sizeof(float));
        memcpy(layer->recurrent, sb_trail_recurrent(&s->trail, i, path[kept - 1] + 1),
               sb_state_recurrent_size(c) * sizeof(float));
    }
    gather(s->scratch.x, path, kept, c->hidden_size);
    gather(s->scratch.hidden, path, kept, c->hidden_size);
    if (s->states.count)
        gather(s->kept_states, path, kept, s->states.count * c->hidden_size);
    s->failed = 1; /* until the entries are made */
    sb_status status = s->state->has_mtp ? prime(s, s->replay, kept, err) : SB_OK;
    if (status)
        return status;
    s->failed = 0;
    s->state->position += kept;
    s->rows = kept;
    return SB_OK;
}

sb_status sb_session_keep_path(sb_session *s, const size_t *path, size_t kept, sb_error *err)
{
    sb_status status = check_kept(s, 1, kept, err);
    if (status)
        return status;
    for (size_t i = 0; i < kept; i++)
        if (path[i] >= s->trail.rows || (i ? s->parent[path[i]] != path[i - 1] : path[0] != 0) ||
            s->depth[path[i]] != i)
            return sb_fail(err, SB_ERR_USAGE, "row %zu is not row %zu of a path of this tree",
                           path[i], i);
    sb_trail_restore(&s->trail, 0, s->state);
    s->trail.rows = 0;
    s->tree = 0;
    s->rows = 0;
    s->drafted = 0;
    for (size_t i = 0; i < kept; i++)
        s->replay[i] = s->replay[path[i]];
    if (kept == 0)
        return SB_OK;
    s->kind = SB_CALL_verify;
    return s->rollback == SB_ROLLBACK_replay ? run_call(s, s->replay, kept, err)
                                             : keep_rows(s, path, kept, err);
}

sb_status sb_session_state_at(const sb_session *s, size_t kept, sb_state **out, sb_error *err)
{
    if (s->failed || s->reach == 0 || kept > s->reach)
        return sb_fail(err, SB_ERR_USAGE,
                       "the state after row %zu was not kept: the last call was not a verify with "
                       "snapshots of that many rows",
                       kept);
    sb_state *state = NULL;
    sb_status status = sb_state_copy(s->state, &state, err);
    if (status)
        return status;
    sb_trail_restore(&s->trail, kept, state);
    state->mtp_entries = state->has_mtp ? entries_at(s, state->position) : 0;
    *out = state;
    return SB_OK;
}

/* One step of the head from `from`, which may be the head's own output. */
static sb_status draft_step(sb_session *s, const float *from, uint32_t token, float *logits,
                            sb_error *err)
{
    if (from != s->head.hidden)
        memcpy(s->head.hidden, from, s->model->config.hidden_size * sizeof *from);
    s->kind = SB_CALL_draft;
    sb_status status = run_entries(s, &token, 1, err);
    if (status)
        return status;
    sb_call call = begin(s, s->state->mtp_entries + s->drafted, 1, err);
    call.s = &s->head;
    return sb_run_head(&call, 0, 1, "mtp.logits", logits);
}

/* S-8: "The first draft after token x_P comes from the entry of h_{P-1} and x_P" - a failed step
 * may leave partial output, so the next step must not start from it. */
sb_status sb_session_draft(sb_session *s, uint32_t token, float *logits, sb_error *err)
{
    if (!s->state->has_mtp)
        return sb_fail(err, SB_ERR_USAGE, "a session without an MTP head cannot draft");
    if (s->state->position == 0)
        return sb_fail(err, SB_ERR_USAGE, "cannot draft before the first token");
    sb_status status = check_tokens(s, &token, 1, s->drafted, err);
    if (!status && s->resident) {
        status = s->resident->draft(s->resident->sequence, (size_t)s->drafted, token, logits, err);
        if (!status)
            status = check_finite("mtp.logits", 0, logits, s->model->config.vocab_size, err);
        s->drafted = status ? 0 : s->drafted + 1;
        return status;
    }
    if (!status)
        status = sb_state_reserve(s->state, s->drafted + 2, err);
    if (!status && sb_scratch_reserve(&s->head, &s->model->config, 1))
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for the MTP head");
    if (!status)
        status = draft_step(s, s->drafted ? recycled(s) : s->state->mtp_hidden, token, logits, err);
    s->drafted = status ? 0 : s->drafted + 1;
    return status;
}

void sb_session_forget_drafts(sb_session *session)
{
    session->drafted = 0;
}

const float *sb_session_hidden(const sb_session *session)
{
    return session->scratch.hidden;
}

sb_session_states sb_session_states_of(const sb_session *session)
{
    return session->states;
}

const float *sb_session_states_kept(const sb_session *session)
{
    return session->kept_states;
}

const float *sb_session_logits_place(const sb_session *s, size_t row)
{
    return s->resident ? s->resident->logits_place(s->resident->sequence, row) : NULL;
}

const float *sb_session_draft_place(const sb_session *s)
{
    return s->resident ? s->resident->draft_place(s->resident->sequence) : NULL;
}

size_t sb_session_rows(const sb_session *session)
{
    return session->rows;
}

static sb_status logits_of_resident(sb_session *s, size_t row, size_t count, float *logits,
                                    sb_error *err)
{
    const size_t V = s->model->config.vocab_size;
    sb_status status = s->resident->logits(s->resident->sequence, row, count, logits, err);
    for (size_t t = 0; t < count && !status; t++)
        status = check_finite("logits", row + t, logits + t * V, V, err);
    return status;
}

/* "the head is linear( rmsnorm(x, norm), lm_head )" */
sb_status sb_session_logits_of(sb_session *s, size_t row, size_t count, float *logits,
                               sb_error *err)
{
    if (row >= s->rows || count > s->rows - row)
        return sb_fail(err, SB_ERR_USAGE, "row %zu of a call of %zu rows has no logits",
                       row >= s->rows ? row : s->rows, s->rows);
    if (s->resident)
        return logits_of_resident(s, row, count, logits, err);
    sb_call call = begin(s, s->state->position - s->rows, s->rows, err);
    return sb_run_head(&call, row, count, "logits", logits);
}

sb_status sb_session_logits(sb_session *s, size_t row, float *logits, sb_error *err)
{
    return sb_session_logits_of(s, row, 1, logits, err);
}

static void forget_calls(sb_session *s)
{
    s->failed = 0;
    s->rows = s->reach = s->trail.rows = 0;
    s->drafted = 0;
    s->tree = 0;
}

void sb_session_reset(sb_session *session)
{
    sb_state_reset(session->state);
    forget_calls(session);
    session->fetched = 1;
    if (session->resident)
        session->failed = session->resident->reset(session->resident->sequence, NULL) != SB_OK;
}

uint64_t sb_session_position(const sb_session *session)
{
    return session->state->position;
}

const sb_state *sb_session_state(const sb_session *session)
{
    return session->resident && !session->fetched ? NULL : session->state;
}

sb_status sb_session_fetch_state(sb_session *s, sb_error *err)
{
    sb_state *state = NULL;
    if (!s->resident || s->fetched)
        return SB_OK;
    if (s->failed)
        return sb_fail(err, SB_ERR_USAGE, "the session failed earlier and has not been reset");
    sb_status status = s->resident->state(s->resident->sequence, &state, err);
    if (!status)
        status = check_state(state, err);
    if (status) {
        sb_state_free(state);
        return status;
    }
    sb_state_free(s->state);
    s->state = state;
    s->fetched = 1;
    return SB_OK;
}

sb_status sb_session_set_state(sb_session *session, const sb_state *state, sb_error *err)
{
    /* S-7: a state with another number of entries comes from a session with another K-27 */
    if (state->has_mtp && state->mtp_entries != entries_at(session, state->position))
        return sb_fail(err, SB_ERR_USAGE,
                       "the state has %llu tokens and %llu MTP entries; expected %llu entries",
                       (unsigned long long)state->position, (unsigned long long)state->mtp_entries,
                       (unsigned long long)entries_at(session, state->position));
    sb_status status = sb_state_assign(session->state, state, err);
    if (status)
        return status;
    forget_calls(session);
    session->fetched = 1;
    if (session->resident)
        status = session->resident->set_state(session->resident->sequence, state, err);
    session->failed = status != SB_OK;
    return status;
}

sb_session_options sb_session_options_of(const sb_session *s)
{
    return (sb_session_options){.backend = s->backend,
                                .knobs = &s->knobs,
                                .tap = s->tap,
                                .tap_ctx = s->tap_ctx,
                                .hook = s->hook,
                                .hook_ctx = s->hook_ctx,
                                .hook_skips_experts = s->hook_skips_experts,
                                .mtp = s->state->has_mtp,
                                .states = s->states,
                                .resident = s->resident};
}

sb_call_kind sb_session_kind(const sb_session *session)
{
    return session->kind;
}

const sb_model *sb_session_model(const sb_session *session)
{
    return session->model;
}

const sb_backend *sb_session_backend(const sb_session *session)
{
    return session->backend;
}

const sb_knobs *sb_session_knobs(const sb_session *session)
{
    return &session->knobs;
}

int sb_session_has_mtp(const sb_session *session)
{
    return session->state->has_mtp;
}
