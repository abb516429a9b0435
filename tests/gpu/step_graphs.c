#include "tests/gpu/step_graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/step/step.h"
#include "ref/base/mem.h"
#include "ref/state/state.h"

enum { PROMPT = 3, STEPS = 5, TIMES = 3, WIDTHS = SB_STEP_SLOTS, POSITIONS = 256 };

/* The results of a step: those of the first are recorded, and those of the second compared with
 * them. */
typedef struct trace {
    unsigned char *bytes;
    size_t count, room, at;
    int second;
    step_graphs *found;
    char call[64];
    const sb_model *model;
    float *row; /* (V) or (H) */
    sb_gpu_step *step;
    sb_error *err;
} trace;

static sb_status note(trace *t, const void *values, size_t bytes)
{
    if (t->second) {
        const int same = bytes <= t->count - t->at && memcmp(t->bytes + t->at, values, bytes) == 0;
        if (!same && !*t->found->first)
            snprintf(t->found->first, sizeof t->found->first, "%s", t->call);
        t->at += bytes <= t->count - t->at ? bytes : t->count - t->at;
        t->found->values += bytes / 4;
        return SB_OK;
    }
    if (bytes > t->room - t->count) {
        const size_t room = 2 * (t->room + bytes);
        unsigned char *grown = sb_realloc(t->bytes, room, 1);
        if (!grown)
            return sb_fail(t->err, SB_ERR_MEMORY, "out of memory");
        t->bytes = grown;
        t->room = room;
    }
    memcpy(t->bytes + t->count, values, bytes);
    t->count += bytes;
    return SB_OK;
}

static sb_status note_state(trace *t)
{
    sb_state *state = NULL;
    sb_digest digest;
    sb_status status = sb_gpu_step_state(t->step, &state, t->err);
    if (!status)
        status = sb_state_digest(state, &digest, t->err);
    if (!status)
        status = note(t, digest.hex, sizeof digest.hex);
    if (!status && state->has_mtp) {
        status = sb_state_mtp_digest(state, &digest, t->err);
        status = status ? status : note(t, digest.hex, sizeof digest.hex);
    }
    sb_state_free(state);
    return status;
}

/* Notes a call of `rows` rows, whose last `logits` rows have logits. */
static sb_status note_rows(trace *t, size_t rows, size_t logits)
{
    const size_t V = t->model->config.vocab_size, H = t->model->config.hidden_size;
    uint32_t picked[WIDTHS];
    sb_status status = sb_gpu_step_picked(t->step, picked, logits, t->err);
    status = status ? status : note(t, picked, logits * sizeof *picked);
    for (size_t r = 0; r < rows && !status; r++) {
        status = sb_gpu_step_hidden(t->step, r, t->row, t->err);
        status = status ? status : note(t, t->row, H * sizeof *t->row);
    }
    for (size_t r = 0; r < logits && !status; r++) {
        status = sb_gpu_step_logits(t->step, r, t->row, t->err);
        status = status ? status : note(t, t->row, V * sizeof *t->row);
    }
    t->found->calls += t->second != 0;
    return status ? status : note_state(t);
}

static sb_status play_steps(trace *t)
{
    uint32_t ids[PROMPT];
    for (size_t i = 0; i < PROMPT; i++)
        ids[i] = (uint32_t)((i * 7919 + 13) % t->model->config.vocab_size);
    snprintf(t->call, sizeof t->call, "the prompt");
    sb_status status = sb_gpu_step_feed(t->step, ids, PROMPT, t->err);
    status = status ? status : note_rows(t, PROMPT, 1);
    for (int i = 0; i < STEPS && !status; i++) {
        snprintf(t->call, sizeof t->call, "decode step %d", i);
        status = sb_gpu_step_run(t->step, 1, t->err);
        status = status ? status : note_rows(t, 1, 1);
    }
    return status;
}

/* A verify of drafts from the host; the round determines how many rows are kept. */
static sb_status play_verify(trace *t, size_t width, size_t round)
{
    uint32_t drafts[WIDTHS];
    for (size_t i = 0; i + 1 < width; i++)
        drafts[i] = (uint32_t)((i * 31 + width * 7 + round) % t->model->config.vocab_size);
    snprintf(t->call, sizeof t->call, "verify %zu of %zu rows", round, width);
    sb_status status = sb_gpu_step_put(t->step, 0, drafts, width - 1, t->err);
    status = status ? status : sb_gpu_step_run(t->step, width, t->err);
    status = status ? status : note_rows(t, width, width);
    snprintf(t->call, sizeof t->call, "what is kept of verify %zu of %zu rows", round, width);
    status = status ? status : sb_gpu_step_keep(t->step, 1 + (width + round) % width, t->err);
    return status ? status : note_state(t);
}

static sb_status play_drafts(trace *t)
{
    uint32_t tokens[3];
    sb_status status = SB_OK;
    size_t kept = 0;
    for (int i = 0; i < TIMES && !status; i++) {
        snprintf(t->call, sizeof t->call, "drafts %d", i);
        status = sb_gpu_step_draft(t->step, 0, t->err);
        status = status ? status : sb_gpu_step_draft(t->step, 1, t->err);
        status = status ? status : sb_gpu_step_tokens(t->step, tokens, 3, t->err);
        status = status ? status : note(t, tokens, sizeof tokens);
        status = status ? status : sb_gpu_step_run(t->step, 3, t->err);
        status = status ? status : note_rows(t, 3, 3);
        status = status ? status : sb_gpu_step_accept(t->step, t->err);
        status = status ? status : sb_gpu_step_kept(t->step, &kept, t->err);
        status = status ? status : note_state(t);
    }
    return status;
}

static sb_status play(trace *t, const sb_backend *backend, const sb_knobs *knobs, int fused)
{
    const int mtp = sb_model_has_mtp(t->model), rows_states = sb_knobs_have_row_states(knobs);
    const sb_gpu_step_options options = {.rows = WIDTHS,
                                         .slots = WIDTHS,
                                         .positions = POSITIONS,
                                         .mtp = mtp,
                                         .eager = !t->second,
                                         .fused = t->second && fused};
    sb_status status = sb_gpu_step_open(backend, t->model, knobs, &options, &t->step, t->err);
    status = status ? status : play_steps(t);
    for (size_t width = 2; rows_states && width <= WIDTHS; width++)
        for (size_t round = 0; round < TIMES && !status; round++)
            status = play_verify(t, width, round);
    if (!status && mtp && rows_states)
        status = play_drafts(t);
    sb_gpu_step_close(t->step);
    t->step = NULL;
    return status;
}

sb_status step_graphs_compare(const sb_backend *backend, const sb_model *model,
                              const sb_knobs *knobs, int fused, step_graphs *found, sb_error *err)
{
    *found = (step_graphs){.first = ""};
    trace t = {.found = found, .model = model, .err = err};
    t.row = sb_alloc(model->config.vocab_size + model->config.hidden_size, sizeof *t.row);
    sb_status status = t.row ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    for (t.second = 0; t.second < 2 && !status; t.second++)
        status = play(&t, backend, knobs, fused);
    if (!status && t.at != t.count && !*found->first)
        snprintf(found->first, sizeof found->first, "the number of calls");
    free(t.row);
    free(t.bytes);
    return status;
}
