/* test_session.c - one sequence through one model: S-1, S-4, S-5, S-6, D-3, and the kept state. */
#include "tests/lib/suite.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

enum { V = 384, H = 128, N = 7 };

static sb_model *model; /* T5: three linear layers and a full-attention layer, with experts */
static uint32_t ids[N];

TEST_FIXTURE(open_model)
{
    model = test_model_open(test_checkpoint("test_session", "T5", NULL, "bf16", "text"));
    test_draw_ids("session", V, ids, N);
    return 0;
}

TEST_FIXTURE(close_model)
{
    sb_model_close(model);
    return 0;
}

/* S-1: "It starts with position 0 and zero states." */
static void check_empty(const sb_session *session)
{
    const sb_state *s = sb_session_state(session);
    assert_true(s->position == 0);
    for (uint32_t i = 0; i < s->config->layers; i++) {
        const sb_layer_state *layer = &s->layers[i];
        assert_int_equal(layer->conv != NULL, !s->config->layer_is_full[i]);
        for (size_t e = 0; layer->conv && e < sb_state_conv_size(s->config); e++)
            assert_int_equal(sb_bits_f32(layer->conv[e]), 0);
        for (size_t e = 0; layer->recurrent && e < sb_state_recurrent_size(s->config); e++)
            assert_int_equal(sb_bits_f32(layer->recurrent[e]), 0);
    }
}

/* A session after reset equals a new one and computes the same again. */
TEST(test_reset)
{
    sb_session *session = test_session(model, NULL, NULL);
    check_empty(session);
    sb_digest empty = test_state_digest(session);
    test_feed(session, ids, N);
    sb_digest fed = test_state_digest(session);
    assert_string_not_equal(fed.hex, empty.hex);
    assert_int_equal(sb_session_rows(session), N);
    sb_session_reset(session);
    check_empty(session);
    assert_int_equal(sb_session_rows(session), 0);
    assert_string_equal(test_state_digest(session).hex, empty.hex);
    test_feed(session, ids, N);
    assert_string_equal(test_state_digest(session).hex, fed.hex);
    sb_session_free(session);
    sb_session_free(NULL);
}

/* Two sessions of one model are independent. */
TEST(test_sessions_are_apart)
{
    sb_session *a = test_session(model, NULL, NULL), *b = test_session(model, NULL, NULL);
    test_feed(a, ids, 3);
    test_feed(b, ids + 3, 2);
    test_feed(a, ids + 3, N - 3);
    sb_digest both = test_state_digest(a);
    sb_session_reset(b);
    test_feed(b, ids, N);
    assert_string_equal(test_state_digest(b).hex, both.hex);
    sb_session_free(a);
    sb_session_free(b);
}

/* The logits of every row of a call equal those after feeding up to that row. */
TEST(test_logits_of_all_rows)
{
    static float all[N * V];
    float whole[V], single[V];
    sb_error err;
    sb_session *a = test_session(model, NULL, NULL), *b = test_session(model, NULL, NULL);
    test_feed(a, ids, N);
    assert_int_equal(sb_session_logits_of(a, 0, 1, all, &err), SB_OK);
    assert_int_equal(sb_session_logits_of(a, 1, N - 1, all + V, &err), SB_OK);
    for (size_t row = 0; row < N; row++) {
        test_feed(b, ids + row, 1);
        assert_int_equal(sb_session_logits(a, row, whole, &err), SB_OK);
        assert_int_equal(sb_session_logits(b, 0, single, &err), SB_OK);
        assert_memory_equal(whole, single, sizeof whole);
        assert_memory_equal(whole, all + row * V, sizeof whole);
        assert_memory_equal(sb_session_hidden(a) + row * H, sb_session_hidden(b),
                            H * sizeof(float));
        assert_int_equal(sb_session_logits(b, 1, single, &err), SB_ERR_USAGE);
    }
    assert_int_equal(sb_session_logits(a, N, whole, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "row 7"));
    assert_int_equal(sb_session_logits_of(a, 2, N - 1, all, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "row 7"));
    sb_session_reset(a);
    assert_int_equal(sb_session_logits(a, 0, whole, &err), SB_ERR_USAGE);
    sb_session_free(a);
    sb_session_free(b);
}

static void append(unsigned char **at, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++, *at += 4)
        sb_store_u32(*at, sb_bits_f32(values[i]));
}

/* D-3 computed over one buffer in one piece. */
TEST(test_state_digest_is_d3)
{
    enum { ROOM = 1 << 20 };
    unsigned char *bytes = malloc(ROOM), *at = bytes;
    char hex[33];
    assert_non_null(bytes);
    sb_session *session = test_session(model, NULL, NULL);
    test_feed(session, ids, N);
    const sb_state *s = sb_session_state(session);
    sb_store_u64(at, N);
    at += 8;
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 3) { /* (position, nKV, hd) */
            append(&at, s->layers[i].keys, N * 2 * 64);
            append(&at, s->layers[i].values, N * 2 * 64);
        } else { /* (kw-1, C) and (nV, dk, dv) */
            append(&at, s->layers[i].conv, 3 * 512);
            append(&at, s->layers[i].recurrent, 4 * 64 * 64);
        }
    }
    assert_true(at < bytes + ROOM);
    XXH128_hash_t hash = XXH3_128bits(bytes, (size_t)(at - bytes));
    snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    assert_string_equal(test_state_digest(session).hex, hex);
    sb_session_free(session);
    free(bytes);
}

/* Copies of some taps of the last call. */
typedef struct kept {
    const char *name;
    float *data;
    size_t count;
} kept;

static sb_status keep(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                      sb_error *err)
{
    (void)err;
    for (kept *k = ctx; k->name; k++)
        if (strcmp(k->name, name) == 0) {
            free(k->data);
            k->count = rows * cols;
            k->data = malloc(k->count * sizeof *data);
            assert_non_null(k->data);
            memcpy(k->data, data, k->count * sizeof *data);
        }
    return SB_OK;
}

/* The state in terms of taps: the last three inputs of the convolution, keys after norm and
 * rotation, values as projected; hidden is the final norm. */
TEST(test_state_is_what_taps_show)
{
    kept taps[] = {{"layers.0.linear_attn.in_proj_qkv", NULL, 0},
                   {"layers.3.self_attn.k_rope", NULL, 0},
                   {"layers.3.self_attn.v_proj", NULL, 0},
                   {"norm", NULL, 0},
                   {NULL, NULL, 0}};
    sb_session_options options = {.tap = keep, .tap_ctx = taps};
    sb_session *session = NULL;
    assert_int_equal(sb_session_new(model, &options, &session, NULL), SB_OK);
    test_feed(session, ids, 5);
    const sb_state *s = sb_session_state(session);
    assert_int_equal(taps[0].count, 5 * 512);
    assert_memory_equal(s->layers[0].conv, taps[0].data + 2 * 512, 3 * 512 * sizeof(float));
    assert_int_equal(taps[1].count, 5 * 128);
    assert_memory_equal(s->layers[3].keys, taps[1].data, 5 * 128 * sizeof(float));
    assert_memory_equal(s->layers[3].values, taps[2].data, 5 * 128 * sizeof(float));
    assert_memory_equal(sb_session_hidden(session), taps[3].data, 5 * H * sizeof(float));
    test_feed(session, ids + 5, 1);
    assert_memory_equal(s->layers[0].conv + 2 * 512, taps[0].data, 512 * sizeof(float));
    assert_memory_equal(s->layers[3].keys + 5 * 128, taps[1].data, 128 * sizeof(float));
    sb_session_free(session);
    for (size_t i = 0; taps[i].name; i++)
        free(taps[i].data);
}

/* S-5: each refusal has a message, and a refused call changes nothing. */
TEST(test_refused_calls)
{
    static const uint32_t beyond[3] = {1, V, 0};
    static const uint32_t last = V - 1;
    sb_error err;
    sb_session *session = test_session(model, NULL, NULL);
    test_feed(session, ids, N);
    sb_digest before = test_state_digest(session);
    assert_int_equal(sb_session_feed(session, ids, 0, &err), SB_ERR_USAGE);
    assert_int_equal(sb_session_feed(session, beyond, 3, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "token 1"));
    assert_non_null(strstr(err.text, "id 384"));
    /* the ids of a call that is too long are not read */
    assert_int_equal(sb_session_feed(session, ids, (1u << 24) - N + 1, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "2^24"));
    assert_int_equal(sb_session_feed(session, ids, SIZE_MAX, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "2^24"));
    /* a call shorter by one is not too long: its first id is read */
    assert_int_equal(sb_session_feed(session, beyond + 1, (1u << 24) - N, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "token 0"));
    assert_string_equal(test_state_digest(session).hex, before.hex);
    test_feed(session, &last, 1);
    sb_session_free(session);
}

/* A tap may stop the call with a status of its own (S-4), and may change the values it is given. */
static sb_status stop_at(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                         sb_error *err)
{
    if (strcmp(name, ctx) != 0)
        return SB_OK;
    if (strcmp(name, "layers.2.output") == 0)
        return sb_fail(err, SB_ERR_DIFF, "stopped here");
    for (size_t i = 0; i < rows * cols; i++)
        data[i] = 0;
    return SB_OK;
}

TEST(test_taps_may_stop_and_change)
{
    static char stop[] = "layers.2.output", change[] = "layers.3.output";
    sb_session_options options = {.tap = stop_at, .tap_ctx = stop};
    sb_session *session = NULL;
    sb_error err;
    assert_int_equal(sb_session_new(model, &options, &session, NULL), SB_OK);
    assert_int_equal(sb_session_feed(session, ids, 2, &err), SB_ERR_DIFF);
    assert_string_equal(err.text, "stopped here");
    assert_int_equal(sb_session_rows(session), 0);
    assert_int_equal(sb_session_feed(session, ids, 2, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "reset"));
    sb_session_free(session);
    options.tap_ctx = change;
    assert_int_equal(sb_session_new(model, &options, &session, NULL), SB_OK);
    test_feed(session, ids, 2);
    for (size_t i = 0; i < 2 * H; i++) /* the norm of a zero row */
        assert_true(sb_session_hidden(session)[i] == 0);
    sb_session_free(session);
}

TEST(test_greedy)
{
    static const float logits[6] = {-3, 2, -0.0f, 2, 1, 2}, below[3] = {-5, -4, -4};
    static const float zeros[2] = {-0.0f, 0.0f};
    assert_int_equal(sb_greedy(logits, 6), 1); /* the lowest id of equals */
    assert_int_equal(sb_greedy(below, 3), 1);
    assert_int_equal(sb_greedy(zeros, 2), 0);
    assert_int_equal(sb_greedy(logits, 1), 0);
}

TEST_GROUP(open_model, close_model)
