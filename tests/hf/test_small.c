/* test_small.c - checkpoints written by transformers itself (save_pretrained) and read by samebit.
 *
 * Three folders with other widths than the presets: experts per file, two shards, a tied head, a
 * partial rotary factor that config.json states in two places. Router ids must equal those of
 * transformers. Hidden vectors and logits lie within 16 envelopes of the model's own re-rounding
 * (T-15), an estimate. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/rng.h"
#include "ref/run/session.h"
#include "tests/hf/fixture.h"

#define ENVELOPES 16.0

enum { ROWS = 9, SEEDS = 3 };

typedef struct small {
    const char *name;
    sb_model *model;
    hf_fixture file; /* only the recorded values of its file are used */
    hf_arena arena;
    uint64_t seed, draws; /* of the re-rounding; seed 0 rounds nothing */
    size_t ids_wrong, ids_compared;
} small;

/* The re-rounding of T-15. Without it, compares router ids. */
static sb_status watch(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                       sb_error *err)
{
    small *s = ctx;
    unsigned layer = 0;
    (void)err;
    const char *ids = strstr(name, ".mlp.router_ids");
    if (ids && !s->seed && sscanf(name, "layers.%u.", &layer) == 1) {
        const sb_tensor *t = hf_find(&s->file, "router_ids.%u", layer);
        assert_non_null(t);
        float *want = hf_values(&s->arena, t);
        assert_int_equal(hf_rows(t) * hf_row_size(t), rows * cols);
        for (size_t i = 0; i < rows * cols; i++)
            s->ids_wrong += want[i] != data[i];
        s->ids_compared += rows * cols;
    }
    if (ids || !s->seed)
        return SB_OK;
    uint64_t key = sb_rng_key(s->seed, name);
    for (size_t i = 0; i < rows * cols; i++) {
        double sign = (double)sb_rng_below(key, i, 3) - 1.0;
        data[i] = (float)((double)data[i] * (1.0 + sign * 0x1p-24));
    }
    return SB_OK;
}

/* The hidden vectors and logits of all rows, in consecutive memory. */
static float *run(small *s, const uint32_t *tokens, uint64_t seed)
{
    const sb_config *c = &s->model->config;
    size_t H = c->hidden_size, V = c->vocab_size;
    float *out = hf_floats(&s->arena, ROWS * (H + V));
    sb_session_options options = {.tap = watch, .tap_ctx = s};
    sb_session *session = NULL;
    sb_error err = {""};
    s->seed = seed;
    sb_status status = sb_session_new(s->model, &options, &session, &err);
    if (!status)
        status = sb_session_feed(session, tokens, ROWS, &err);
    if (!status)
        memcpy(out, sb_session_hidden(session), ROWS * H * sizeof *out);
    for (size_t t = 0; t < ROWS && !status; t++)
        status = sb_session_logits(session, t, out + ROWS * H + t * V, &err);
    sb_session_free(session);
    if (status)
        fail_msg("%s: %s", s->name, err.text);
    return out;
}

static double distance(const float *a, const float *b, size_t n)
{
    double most = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        most = d <= most ? most : d; /* a NaN stays the maximum */
    }
    return most;
}

static void compare(small *s)
{
    const sb_config *c = &s->model->config;
    size_t hidden = (size_t)ROWS * c->hidden_size, logits = (size_t)ROWS * c->vocab_size;
    float *ids = hf_values(&s->arena, hf_find(&s->file, "tokens"));
    uint32_t tokens[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        tokens[i] = (uint32_t)ids[i];
    const float *got = run(s, tokens, 0);
    double envelope[2] = {0, 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const float *other = run(s, tokens, seed);
        envelope[0] = fmax(envelope[0], distance(got, other, hidden));
        envelope[1] = fmax(envelope[1], distance(got + hidden, other + hidden, logits));
    }
    double apart[2] = {
        distance(got, hf_values(&s->arena, hf_find(&s->file, "hidden")), hidden),
        distance(got + hidden, hf_values(&s->arena, hf_find(&s->file, "logits")), logits)};
    printf("%-6s hidden %.2e (envelope %.2e), logits %.2e (envelope %.2e), %zu router ids\n",
           s->name, apart[0], envelope[0], apart[1], envelope[1], s->ids_compared);
    assert_int_equal(s->ids_wrong, 0);
    assert_true(s->ids_compared == (size_t)ROWS * c->experts_per_token * c->layers);
    for (size_t i = 0; i < 2; i++) {
        assert_true(envelope[i] > 0);
        if (!(apart[i] <= ENVELOPES * envelope[i]))
            fail_msg("%s: %s are %g apart, more than %g envelopes of %g", s->name,
                     i ? "logits" : "hidden vectors", apart[i], ENVELOPES, envelope[i]);
    }
}

static void run_small(const char *name)
{
    const char *folder = getenv("SAMEBIT_HF");
    char path[320];
    small s = {.name = name};
    sb_error err = {""};
    snprintf(path, sizeof path, "%s/small/%s", folder ? folder : "golden/hf", name);
    if (sb_model_open(path, &s.model, &err))
        fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/small/%s.expect.safetensors", folder ? folder : "golden/hf",
             name);
    if (sb_safetensors_open(path, &s.file.file, &err))
        fail_msg("%s", err.text);
    compare(&s);
    sb_safetensors_close(&s.file.file);
    sb_model_close(s.model);
    hf_release(&s.arena);
}

TEST(test_moe)
{
    run_small("moe");
}

TEST(test_dense)
{
    run_small("dense");
}

TEST(test_next)
{
    run_small("next");
}
