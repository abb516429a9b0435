#include "tools/judge/trace/capture.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/state/piece.h"

struct sb_capture {
    char *taps;
    sb_capture_states states;
    sb_step_sampling sampling;
    int has_sampling, declares; /* the next step declares it */
    sb_step_fn take;
    void *take_ctx;
    sb_tap_fn tap; /* the caller's tap */
    void *tap_ctx;
    sb_op_hook hook;
    void *hook_ctx;
    const sb_session *session;
    uint32_t sequence, slot;
    uint64_t round;
    sb_step step;
    uint64_t steps;    /* passed on so far */
    int open;          /* a call is recorded now */
    int trunk;         /* the call is of the trunk */
    int deaf;          /* ignores values: a replay of recorded rows runs */
    size_t logits_row; /* first row of the next tap "logits"; SIZE_MAX: none */
    sb_hash *logits;   /* of the rows so far */
};

sb_status sb_capture_new(const sb_capture_options *options, sb_capture **out, sb_error *err)
{
    sb_capture *c = sb_alloc(1, sizeof *c);
    if (c) {
        c->taps = sb_strdup(options->taps ? options->taps : "none");
        c->states = options->states;
        c->has_sampling = options->sampling != NULL;
        if (options->sampling)
            c->sampling = *options->sampling;
        c->take = options->take;
        c->take_ctx = options->take_ctx;
    }
    if (!c || !c->taps) {
        sb_capture_free(c);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a trace");
    }
    *out = c;
    return SB_OK;
}

void sb_capture_free(sb_capture *c)
{
    if (!c)
        return;
    sb_capture_drop(c);
    free(c->taps);
    free(c);
}

void sb_capture_drop(sb_capture *c)
{
    sb_step_clear(&c->step);
    sb_hash_free(c->logits);
    c->logits = NULL;
    c->open = c->trunk = c->deaf = 0;
}

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a trace");
}

/* --- states ----------------------------------------------------------------------------------- */

static sb_status take_piece(const sb_capture *c, const sb_piece *p, sb_step_state *out,
                            sb_error *err)
{
    size_t elements = (size_t)sb_piece_elements(p);
    size_t rows = p->rank > 1 ? (size_t)p->shape[0] : 1;
    char name[80] = "state.";
    if (elements == 0)
        return SB_OK;
    memcpy(name + 6, p->name, sizeof p->name);
    int with_data = c->states == SB_CAPTURE_ALL_STATES || sb_tap_matches(c->taps, name);
    sb_step_value *v = sb_step_add(&out->pieces, p->name, rows, elements / rows, with_data);
    if (!v)
        return no_memory(err);
    if (with_data)
        memcpy(v->data, p->data, elements * sizeof *v->data);
    v->digest = sb_digest_f32(p->data, elements);
    v->has_digest = 1;
    return SB_OK;
}

/* Records the current state. */
static sb_status take_state(sb_capture *c, sb_error *err)
{
    const sb_state *state = sb_session_state(c->session);
    sb_step_state *out = sb_step_add_state(&c->step);
    if (!out)
        return no_memory(err);
    out->sequence = c->sequence;
    out->position = state->position;
    out->has_target = 1;
    out->has_mtp = state->has_mtp;
    sb_status status = sb_state_digest(state, &out->target, err);
    if (!status && state->has_mtp)
        status = sb_state_mtp_digest(state, &out->mtp, err);
    for (size_t i = 0; i < sb_state_pieces(state) && !status; i++) {
        sb_piece p = sb_state_piece(state, i);
        status = take_piece(c, &p, out, err);
    }
    return status;
}

/* --- calls ------------------------------------------------------------------------------------ */

static sb_status hand_on(sb_capture *c, sb_error *err)
{
    c->step.number = c->steps++;
    sb_status status = c->take ? c->take(c->take_ctx, &c->step, err) : SB_OK;
    sb_capture_drop(c);
    return status;
}

sb_status sb_capture_end(sb_capture *c, const sb_round *round, sb_error *err)
{
    if (!c->open)
        return SB_OK;
    sb_step_value *logits = (sb_step_value *)sb_step_find(&c->step.taps, "logits");
    if (logits && c->logits) {
        logits->digest = sb_hash_end(c->logits);
        logits->has_digest = 1;
    }
    if (logits && logits->rows == c->step.row_count) {
        free(c->step.logits_rows);
        c->step.logits_rows = NULL;
        c->step.logits_count = 0;
    }
    if (round && c->trunk) {
        sb_step_round *r = sb_step_add_round(&c->step);
        if (!r)
            return no_memory(err);
        *r = (sb_step_round){c->sequence, c->round, round->position, *round};
    }
    return hand_on(c, err);
}

sb_status sb_capture_finish(sb_capture *c, sb_error *err)
{
    sb_status status = sb_capture_end(c, NULL, err);
    if (status || c->states == SB_CAPTURE_NO_STATES || !c->session)
        return status;
    status = take_state(c, err);
    if (!status && sb_step_add_ended(&c->step, c->sequence))
        status = no_memory(err);
    return status ? status : hand_on(c, err);
}

void sb_capture_follow(sb_capture *c, const sb_session *session, uint32_t sequence, uint32_t slot)
{
    sb_capture_drop(c);
    c->session = session;
    c->sequence = sequence;
    c->slot = slot;
    c->round = 0;
    c->declares = c->has_sampling;
}

void sb_capture_round(sb_capture *c, uint64_t number)
{
    c->round = number;
}

/* A rollback by replay feeds the first rows of the call again, but never all rows. */
static int is_replay(const sb_capture *c, const sb_op_call *call)
{
    return c->open && c->trunk && call->rows < c->step.row_count &&
           c->step.rows[0].position == call->position;
}

/* At the first op of a call of the trunk, or of a draft step of the head. */
static sb_status begin_call(sb_capture *c, const sb_op_call *call, int trunk)
{
    const sb_embed_args *args = call->args;
    uint64_t position = call->position;
    if (trunk && is_replay(c, call)) {
        c->deaf = 1;
        return SB_OK;
    }
    sb_status status = SB_OK;
    uint64_t before = c->open && !c->trunk ? c->step.rows[0].position + 1 : 0;
    status = sb_capture_end(c, NULL, call->err);
    if (status || !c->session)
        return status;
    if (!trunk) /* a draft follows the tokens that were fed and the drafts before it */
        position = before ? before : sb_session_state(c->session)->position;
    for (size_t i = 0; i < args->rows; i++) {
        sb_step_row *row = sb_step_add_row(&c->step);
        if (!row)
            return no_memory(call->err);
        *row =
            (sb_step_row){c->sequence,     c->slot,    position + i,
                          args->tokens[i], call->kind, call->kind == SB_CALL_prompt ? 0 : c->round};
    }
    if (c->declares) {
        sb_step_sampling *sampling = sb_step_add_sampling(&c->step);
        if (!sampling)
            return no_memory(call->err);
        *sampling = c->sampling;
        sampling->sequence = c->sequence;
        c->declares = 0;
    }
    c->open = 1;
    c->trunk = trunk;
    c->logits_row = SIZE_MAX;
    return trunk && c->states != SB_CAPTURE_NO_STATES ? take_state(c, call->err) : SB_OK;
}

static sb_status on_op(void *ctx, const sb_op_call *call)
{
    sb_capture *c = ctx;
    sb_status status = SB_OK;
    if (strcmp(call->name, "embed") == 0)
        status = begin_call(c, call, 1);
    else if ((strcmp(call->name, "mtp.embed") == 0 || strcmp(call->name, "drafter.embed") == 0) &&
             call->kind == SB_CALL_draft)
        status = begin_call(c, call, 0);
    else if (strcmp(call->name, "drafter.embed") == 0)
        c->deaf = 0; /* S-15: the entries of the kept rows come after the replay */
    else if (strcmp(call->name, "logits") == 0)
        c->logits_row = c->open && c->trunk && call->position >= c->step.rows[0].position
                            ? (size_t)(call->position - c->step.rows[0].position)
                            : SIZE_MAX;
    if (status)
        return status;
    return c->hook ? c->hook(c->hook_ctx, call) : sb_op_run(call);
}

/* --- values ----------------------------------------------------------------------------------- */

/* Appends a row of logits. A row that was recorded before is ignored. */
static sb_status add_logits(sb_capture *c, size_t row, const float *data, size_t cols,
                            sb_error *err)
{
    sb_step *step = &c->step;
    sb_step_value *v = (sb_step_value *)sb_step_find(&step->taps, "logits");
    if (row >= step->row_count ||
        (step->logits_count && row <= step->logits_rows[step->logits_count - 1]))
        return SB_OK; /* of another call, or recorded before */
    if (!v) {
        v = sb_step_add(&step->taps, "logits", 0, cols, sb_tap_matches(c->taps, "logits"));
        c->logits = sb_hash_new();
        step->logits_rows = sb_alloc(step->row_count, sizeof *step->logits_rows);
    }
    if (!v || !c->logits || !step->logits_rows)
        return no_memory(err);
    sb_hash_f32(c->logits, data, cols);
    if (v->data) {
        float *more = sb_realloc(v->data, v->rows + 1, cols * sizeof *more);
        if (!more)
            return no_memory(err);
        v->data = more;
        memcpy(v->data + v->rows * cols, data, cols * sizeof *data);
    }
    v->rows++;
    step->logits_rows[step->logits_count++] = row;
    return SB_OK;
}

static sb_status on_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err)
{
    sb_capture *c = ctx;
    sb_status status = c->tap ? c->tap(c->tap_ctx, name, data, rows, cols, err) : SB_OK;
    if (status || !c->open)
        return status;
    if (strcmp(name, "logits") == 0) {
        for (size_t i = 0; i < rows && c->logits_row != SIZE_MAX && !status; i++)
            status = add_logits(c, c->logits_row + i, data + i * cols, cols, err);
        return status;
    }
    if (c->deaf)
        return SB_OK;
    int with_data = sb_tap_matches(c->taps, name);
    sb_step_value *v = sb_step_add(&c->step.taps, name, rows, cols, with_data);
    if (!v)
        return no_memory(err);
    if (with_data)
        memcpy(v->data, data, rows * cols * sizeof *data);
    v->digest = sb_digest_f32(data, rows * cols);
    v->has_digest = 1;
    return SB_OK;
}

void sb_capture_join(sb_capture *c, sb_session_options *options)
{
    c->tap = options->tap;
    c->tap_ctx = options->tap_ctx;
    c->hook = options->hook;
    c->hook_ctx = options->hook_ctx;
    options->tap = on_tap;
    options->tap_ctx = c;
    options->hook_skips_experts = !c->hook || options->hook_skips_experts;
    options->hook = on_op;
    options->hook_ctx = c;
}
