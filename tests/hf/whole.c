#include "tests/hf/whole.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "ref/run/session.h"

/* `fresh`: a call with at == 0 that does not continue the one before starts a new sequence. */
static const struct {
    whole_call call;
    int fresh;
} calls[] = {
    {{"prefill.1", 1, 0, 1, 0}, 1},   {{"prefill.3", 3, 0, 2, 0}, 1},
    {{"prefill.63", 63, 0, 2, 0}, 1}, {{"prefill.64", 64, 0, 2, 0}, 1},
    {{"prefill.65", 65, 0, 2, 0}, 1}, {{"prefill.129", 129, 0, 2, 0}, 1},
    {{"prefill.3", 3, 0, 0, 0}, 1},   {{"decode", 1, 0, 1, 0}, 0},
    {{"decode", 1, 1, 1, 1}, 0},      {{"decode", 1, 2, 1, 2}, 0},
    {{"decode", 1, 3, 1, 3}, 0},      {{"decode", 1, 4, 1, 4}, 0},
    {{"decode", 1, 5, 1, 5}, 0},      {{"decode", 1, 6, 1, 6}, 0},
    {{"decode", 1, 7, 1, 7}, 0},      {{"decode", 1, 8, 1, 8}, 0},
    {{"decode", 1, 9, 1, 9}, 0},      {{"decode", 1, 10, 1, 10}, 0},
    {{"decode", 1, 11, 1, 11}, 0},    {{"decode", 1, 12, 1, 12}, 0},
    {{"prefill.3", 3, 0, 0, 0}, 1},   {{"warm4", 4, 0, 4, 0}, 0},
    {{"step1", 1, 0, 1, 0}, 0},
};

size_t whole_call_count(void)
{
    return sizeof calls / sizeof *calls;
}

const whole_call *whole_call_at(size_t i)
{
    return &calls[i].call;
}

const float *whole_recorded(whole *run, size_t call, const char *what)
{
    const whole_call *c = &calls[call].call;
    const sb_tensor *tensor = hf_find(run->fixture, "%s.%s", c->name, what);
    if (!tensor || hf_rows(tensor) < c->compared_at + c->compared)
        return NULL;
    return hf_values(run->arena, tensor) + c->compared_at * hf_row_size(tensor);
}

static int among(const uint32_t *ids, size_t k, uint32_t id)
{
    for (size_t i = 0; i < k; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* T-15: "Each recorded expert that loses against the largest logit of the other experts is raised
 * just above that logit". The row then chooses the recorded set. */
static void adopt_row(whole *run, unsigned layer, float *logits, const uint32_t *theirs)
{
    const sb_config *c = &run->fixture->model->config;
    float others = -INFINITY;
    uint32_t first = 0; /* the lowest index of another expert with that logit */
    double margin = -1.0;
    for (uint32_t e = c->experts; e-- > 0;)
        if (!among(theirs, c->experts_per_token, e) && logits[e] >= others) {
            others = logits[e];
            first = e;
        }
    for (size_t i = 0; i < c->experts_per_token; i++) {
        float *wanted = &logits[theirs[i]];
        if (*wanted > others || (*wanted == others && theirs[i] < first))
            continue;
        margin = fmax(margin, (double)others - (double)*wanted);
        *wanted = nextafterf(others, INFINITY);
    }
    run->routed++;
    run->adopted += margin >= 0.0;
    run->tied_rows[layer] += margin == 0.0;
    run->tied += margin == 0.0;
    run->margin[layer] = fmax(run->margin[layer], margin);
}

/* The recorded experts of a row of the current call. */
static sb_status recorded_experts(whole *run, unsigned layer, size_t row, uint32_t *ids,
                                  sb_error *err)
{
    const whole_call *c = &calls[run->call].call;
    const sb_config *config = &run->fixture->model->config;
    const sb_tensor *tensor = hf_find(run->fixture, "%s.router_ids.%u", c->name, layer);
    size_t k = config->experts_per_token;
    if (!tensor || hf_row_size(tensor) != k || c->at + row >= hf_rows(tensor) || k > 64)
        return sb_fail(err, SB_ERR_INPUT, "%s has no experts of row %zu of %s in layer %u",
                       run->fixture->name, row, c->name, layer);
    const unsigned char *at = tensor->data + 2 * (c->at + row) * k;
    for (size_t i = 0; i < k; i++) {
        ids[i] = (uint32_t)(at[2 * i] | at[2 * i + 1] << 8);
        if (ids[i] >= config->experts)
            return sb_fail(err, SB_ERR_INPUT, "%s.router_ids.%u names expert %u", c->name, layer,
                           (unsigned)ids[i]);
    }
    return SB_OK;
}

static sb_status adopt(whole *run, unsigned layer, float *logits, size_t rows, size_t experts,
                       sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t row = 0; row < rows && !status; row++) {
        uint32_t theirs[64];
        status = recorded_experts(run, layer, row, theirs, err);
        if (!status)
            adopt_row(run, layer, logits + row * experts, theirs);
    }
    return status;
}

/* Asserts that the adopted experts were chosen. */
static sb_status check_adopted(whole *run, unsigned layer, const float *ids, size_t rows, size_t k,
                               sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t row = 0; row < rows && !status; row++) {
        uint32_t theirs[64];
        status = recorded_experts(run, layer, row, theirs, err);
        for (size_t i = 0; i < k && !status; i++)
            if (!among(theirs, k, (uint32_t)ids[row * k + i]))
                status =
                    sb_fail(err, SB_ERR_DIFF, "%s, layer %u, row %zu: expert %g was not recorded",
                            calls[run->call].call.name, layer, row, (double)ids[row * k + i]);
    }
    return status;
}

/* T-15: "x (1 + s 2^-24), rounded, with seeded s in -1, 0, 1" */
static void round_anew(whole *run, const char *name, float *data, size_t count)
{
    uint64_t key = sb_rng_key(run->seed, name);
    for (size_t i = 0; i < count; i++) {
        double s = (double)sb_rng_below(key, run->draws + i, 3) - 1.0;
        data[i] = (float)((double)data[i] * (1.0 + s * 0x1p-24));
    }
    run->draws += count;
}

static sb_status watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                       sb_error *err)
{
    whole *run = ctx;
    unsigned layer = 0;
    int end = 0;
    if (sscanf(name, "layers.%u.%n", &layer, &end) != 1 || layer >= WHOLE_LAYERS)
        layer = WHOLE_LAYERS;
    const char *tap = name + end;
    if (layer < WHOLE_LAYERS && strcmp(tap, "mlp.router_ids") == 0)
        return check_adopted(run, layer, data, rows, cols, err);
    if (run->seed)
        round_anew(run, name, data, rows * cols);
    if (layer == WHOLE_LAYERS || strcmp(tap, "mlp.gate") != 0)
        return SB_OK;
    float *copy = hf_floats(run->arena, rows * cols);
    memcpy(copy, data, rows * cols * sizeof *copy);
    run->router[run->call][layer] = copy;
    return adopt(run, layer, data, rows, cols, err);
}

/* Keeps the hidden vectors and logits of the compared rows after a call. */
static sb_status keep(whole *run, sb_session *session, const whole_call *call)
{
    const sb_config *c = &run->fixture->model->config;
    size_t first = call->rows - call->compared, H = c->hidden_size, V = c->vocab_size;
    float *hidden = hf_floats(run->arena, call->compared * H);
    float *logits = hf_floats(run->arena, call->compared * V);
    sb_status status = SB_OK;
    memcpy(hidden, sb_session_hidden(session) + first * H, call->compared * H * sizeof *hidden);
    for (size_t i = 0; i < call->compared && !status; i++)
        status = sb_session_logits(session, first + i, logits + i * V, &run->err);
    run->hidden[run->call] = hidden;
    run->logits[run->call] = logits;
    return status;
}

void whole_run(whole *run)
{
    const sb_tensor *recorded = hf_find(run->fixture, "tokens");
    sb_session_options options = {
        .backend = run->backend, .knobs = run->knobs, .tap = watch, .tap_ctx = run};
    sb_session *session = NULL;
    uint32_t tokens[129];
    if (!recorded || hf_rows(recorded) < 129) {
        run->status = sb_fail(&run->err, SB_ERR_INPUT, "%s has no tokens", run->fixture->name);
        return;
    }
    const float *ids = hf_values(run->arena, recorded);
    for (size_t i = 0; i < 129; i++)
        tokens[i] = (uint32_t)ids[i];
    run->status = sb_session_new(run->fixture->model, &options, &session, &run->err);
    size_t position = 0;
    for (run->call = 0; run->call < whole_call_count() && !run->status; run->call++) {
        const whole_call *call = &calls[run->call].call;
        if (calls[run->call].fresh) {
            sb_session_reset(session);
            position = 0;
        }
        run->status = sb_session_feed(session, tokens + position, call->rows, &run->err);
        position += call->rows;
        if (!run->status)
            run->status = keep(run, session, call);
    }
    sb_session_free(session);
}
