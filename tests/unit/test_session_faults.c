/* test_session_faults.c - values that are not finite (S-6), and failing allocations. */
#include "tests/lib/suite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/run/call.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/record.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define PROGRAM "test_session_faults"

enum { V = 384, N = 3 };
static const uint32_t ids[N] = {1, 5, 2};

/* Element `at` of a tensor in an F32 folder. */
typedef struct plant {
    const char *tensor;
    size_t at;
    float value;
    const char *message[3];
} plant;

#define L0 "layers.0.linear_attn."
#define L3 "layers.3.self_attn."
static const plant plants[] = {
    {"model.embed_tokens.weight", 5 * 128 + 7, NAN, {"embed: row 1", "column 7", "NaN"}},
    {"model.embed_tokens.weight", 2 * 128, INFINITY, {"embed: row 2", "column 0", "infinite"}},
    {"model.layers.0.input_layernorm.weight",
     3,
     NAN,
     {"layers.0.input_layernorm: row 0", "column 3"}},
    {"model." L0 "in_proj_z.weight", 9 * 128 + 1, NAN, {L0 "in_proj_z: row 0", "column 9"}},
    {"model." L0 "in_proj_a.weight", 2 * 128 - 1, -INFINITY, {L0 "in_proj_a: row 0", "column 1"}},
    {"model." L0 "conv1d.weight", 6 * 4 + 3, NAN, {L0 "conv: row 0", "column 6"}},
    {"model." L0 "A_log", 1, 1000.0f, {L0 "g: row 0", "column 1", "infinite"}},
    {"model." L0 "dt_bias", 0, NAN, {L0 "g: row 0", "column 0", "NaN"}},
    {"model." L0 "norm.weight", 63, INFINITY, {L0 "norm: row 0", "column 63"}},
    {"model.layers.1.linear_attn.out_proj.weight",
     127 * 128,
     NAN,
     {"layers.1.linear_attn.out_proj: row 0", "column 127"}},
    {"model." L3 "q_proj.weight", 64 * 128, NAN, {L3 "q_proj: row 0", "column 64"}},
    {"model." L3 "k_norm.weight", 2, INFINITY, {L3 "k_norm: row 0", "column 2"}},
    {"model.layers.3.mlp.up_proj.weight", 0, NAN, {"layers.3.mlp.up_proj: row 0", "column 0"}},
    {"model.norm.weight", 11, NAN, {"norm: row 0 (position 0)", "column 11"}},
};

/* A folder with one element changed. T4 is dense: every row meets every weight. */
static const char *planted(const char *sound, const char *tensor, size_t at, float value)
{
    test_folder f = test_folder_load(sound);
    test_tensor *t = test_folder_find(&f, tensor);
    assert_true(t->dtype == SB_DTYPE_F32 && 4 * at < t->size);
    sb_store_u32(t->bytes + 4 * at, sb_bits_f32(value));
    const char *folder = test_folder_save(&f, PROGRAM, "planted");
    test_folder_free(&f);
    return folder;
}

static void check_message(const char *what, const sb_error *err, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n && parts[i]; i++)
        if (!strstr(err->text, parts[i]))
            fail_msg("%s: message \"%s\" lacks \"%s\"", what, err->text, parts[i]);
}

TEST(test_planted_values)
{
    const char *sound = test_checkpoint(PROGRAM, "T4", NULL, "f32", "text");
    for (size_t i = 0; i < COUNT(plants); i++) {
        const plant *p = &plants[i];
        sb_model *model = test_model_open(planted(sound, p->tensor, p->at, p->value));
        sb_session *session = test_session(model, NULL, NULL);
        sb_error err = {""};
        assert_int_equal(sb_session_feed(session, ids, N, &err), SB_ERR_NUMERIC);
        check_message(p->tensor, &err, p->message, COUNT(p->message));
        assert_int_equal(sb_session_feed(session, ids, 1, &err), SB_ERR_USAGE); /* S-4 */
        assert_int_equal(sb_session_rows(session), 0);
        sb_session_free(session);
        sb_model_close(model);
    }
}

/* A router that names an expert that does not exist, in the last slot of row 1. */
static sb_status wild_router(const sb_knobs *knobs, const sb_router_args *args)
{
    sb_status status = sb_backend_ref()->ops.router(knobs, args);
    args->ids[2 * args->kept - 1] = (uint32_t)args->experts;
    return status;
}

TEST(test_expert_who_is_not_there)
{
    sb_model *model = test_model_open(test_checkpoint(PROGRAM, "T1", NULL, "bf16", "text"));
    sb_backend backend = *sb_backend_ref();
    backend.ops.router = wild_router;
    sb_session_options options = {.backend = &backend};
    sb_session *session = NULL;
    sb_error err = {""};
    assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
    assert_int_equal(sb_session_feed(session, ids, N, &err), SB_ERR_DIFF);
    check_message("router", &err, (const char *const[]){"layer 0", "slot 3 of row 1", "expert 16"},
                  3);
    sb_session_free(session);
    sb_model_close(model);
}

/* A hook that fails in its call number `at`, and counts its calls. */
typedef struct failing {
    size_t calls, at, taps;
    char first[64]; /* the op that failed */
} failing;

static sb_status fail_at(void *ctx, const sb_op_call *call)
{
    failing *f = ctx;
    if (++f->calls == f->at) {
        snprintf(f->first, sizeof f->first, "%s", call->name);
        return sb_fail(call->err, SB_ERR_IO, "planted at %s", call->name);
    }
    return sb_op_run(call);
}

static sb_status count_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                           sb_error *err)
{
    failing *f = ctx;
    (void)name, (void)data, (void)rows, (void)cols, (void)err;
    f->taps++;
    return SB_OK;
}

static sb_status fed_failing(const sb_model *model, failing *f, sb_error *err)
{
    const sb_session_options options = {
        .tap = count_tap, .tap_ctx = f, .hook = fail_at, .hook_ctx = f, .mtp = 1};
    sb_session *session = NULL;
    assert_int_equal(sb_session_new(model, &options, &session, err), SB_OK);
    const sb_status status = sb_session_feed(session, ids, N, err);
    if (status)
        assert_int_equal(sb_session_rows(session), 0);
    sb_session_free(session);
    return status;
}

/* Errors are final for a call: after the op that failed no op runs, no tap is called, and the
 * message is that of the first error. Each op of a call of the trunk and of the head fails once. */
TEST(test_errors_stick)
{
    sb_model *model = test_model_open(test_checkpoint(PROGRAM, "T1", NULL, "bf16", "text"));
    size_t taps_before = 0;
    failing whole = {0};
    sb_error err = {""};
    assert_int_equal(fed_failing(model, &whole, &err), SB_OK);
    assert_true(whole.calls > 100);
    for (size_t at = 1; at <= whole.calls; at++) {
        failing f = {.at = at};
        assert_int_equal(fed_failing(model, &f, &err), SB_ERR_IO);
        assert_int_equal(f.calls, at);
        assert_true(f.taps >= taps_before && f.taps < whole.taps);
        check_message("hook", &err, (const char *const[]){"planted at ", f.first}, 2);
        taps_before = f.taps;
    }
    sb_model_close(model);
}

/* Only the row that meets the value fails; after a reset the other rows give the same as ever. */
TEST(test_reset_after_failure)
{
    static const uint32_t harmless[2] = {1, 2};
    sb_digest digest[2];
    const char *sound = test_checkpoint(PROGRAM, "T4", NULL, "f32", "text");
    const char *folders[2] = {sound, planted(sound, "model.embed_tokens.weight", 5 * 128 + 7, NAN)};
    for (int i = 0; i < 2; i++) {
        sb_model *model = test_model_open(folders[i]);
        sb_session *session = test_session(model, NULL, NULL);
        sb_error err;
        test_feed(session, harmless, 1);
        assert_int_equal(sb_session_feed(session, ids, N, &err), i ? SB_ERR_NUMERIC : SB_OK);
        assert_true(!i || strstr(err.text, "embed: row 1 (position 2)"));
        sb_session_reset(session);
        test_feed(session, harmless, 2);
        digest[i] = test_state_digest(session);
        sb_session_free(session);
        sb_model_close(model);
    }
    assert_string_equal(digest[0].hex, digest[1].hex);
}

/* A head that gives a NaN fails when logits are asked for, and names the position of the row. */
TEST(test_planted_head)
{
    static const char *const parts[] = {"logits: row 0 (position 1)", "column 11", "NaN"};
    float logits[V];
    sb_error err;
    const char *sound = test_checkpoint_with(
        PROGRAM,
        &(sb_make_options){.dir = "T5", .preset = "T5", .format = "f32", .layers = 1, .no_mtp = 1});
    sb_model *model = test_model_open(planted(sound, "lm_head.weight", 11 * 128 + 3, NAN));
    sb_session *session = test_session(model, NULL, NULL);
    test_feed(session, ids, N);
    assert_int_equal(sb_session_logits(session, 1, logits, &err), SB_ERR_NUMERIC);
    check_message("lm_head", &err, parts, COUNT(parts));
    sb_session_free(session);
    sb_model_close(model);
}

/* Non-finite values at every place of taps, with widths up to more than two vectors; the largest
 * finite values pass. */
TEST(test_every_place)
{
    enum { WIDTH = 37 };
    const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    float values[WIDTH];
    char column[32];
    sb_model *model = test_model_open(test_checkpoint(PROGRAM, "T4", NULL, "f32", "text"));
    sb_error err = {""};
    sb_call call = {.model = model, .layer = SB_NO_LAYER, .err = &err};
    for (size_t i = 0; i < WIDTH; i++)
        values[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    for (size_t n = 0; n <= WIDTH; n++) {
        call.status = SB_OK;
        sb_run_tap(&call, "tap", values, 1, n);
        assert_int_equal(call.status, SB_OK);
        for (size_t i = 0; i < n; i++) {
            const float good = values[i];
            values[i] = bad[i % COUNT(bad)];
            call.status = SB_OK;
            sb_run_tap(&call, "tap", values, 1, n);
            assert_int_equal(call.status, SB_ERR_NUMERIC);
            snprintf(column, sizeof column, "column %zu is", i);
            assert_non_null(strstr(err.text, column));
            values[i] = good;
        }
    }
    sb_model_close(model);
}

/* Feeds with the n-th allocation failing, for n = 1, 2, 3, .., until no allocation fails. Every
 * failure is SB_ERR_MEMORY with a message. The session then refuses calls until reset, and is as
 * new after it. */
static void check_feed_faults(const sb_model *model, const char *settings,
                              const sb_digest *expected)
{
    sb_knobs knobs = test_knobs(settings);
    unsigned long n = 1;
    for (;; n++) {
        sb_session *session = test_session(model, &knobs, NULL);
        sb_error err = {""};
        sb_alloc_fail_at(n);
        sb_status status = sb_session_feed(session, ids, N, &err);
        sb_alloc_fail_at(0);
        if (status) {
            assert_int_equal(status, SB_ERR_MEMORY);
            assert_non_null(strstr(err.text, "out of memory"));
            assert_int_equal(sb_session_rows(session), 0);
            assert_true(sb_session_state(session)->position == 0);
            assert_int_equal(sb_session_feed(session, ids, 1, &err), SB_ERR_USAGE); /* S-4 */
            sb_session_reset(session);
            test_feed(session, ids, N);
        }
        assert_string_equal(test_state_digest(session).hex, expected->hex);
        sb_session_free(session);
        if (!status)
            break;
    }
    assert_true(n > 10);
}

TEST(test_no_memory_for_a_call)
{
    static const char *const settings[] = {"",
                                           "act=bf16 params=act delta_rule=chunk64 moe_sum=slots"};
    sb_threads_set(1); /* the fault counter works in one thread only */
    sb_model *model = test_model_open(test_checkpoint_with(
        PROGRAM, &(sb_make_options){.dir = "T5-bf16", .preset = "T5", .no_mtp = 1}));
    for (size_t i = 0; i < COUNT(settings); i++) {
        sb_knobs knobs = test_knobs(settings[i]);
        sb_session *session = test_session(model, &knobs, NULL);
        test_feed(session, ids, N);
        sb_digest digest = test_state_digest(session);
        sb_session_free(session);
        check_feed_faults(model, settings[i], &digest);
    }
    sb_model_close(model);
}

/* A cache that could not grow does not change: 65 positions need a second block. */
TEST(test_no_memory_for_more_positions)
{
    enum { MANY = 64 };
    uint32_t many[MANY];
    sb_model *model = test_model_open(test_checkpoint(PROGRAM, "T4", NULL, "f32", "text"));
    test_draw_ids("many", V, many, MANY);
    sb_session *session = test_session(model, NULL, NULL);
    test_feed(session, many, MANY);
    sb_digest before = test_state_digest(session);
    for (unsigned long n = 1; n <= 2; n++) { /* keys, then values, of the full-attention layer */
        sb_error err = {""};
        sb_alloc_fail_at(n);
        sb_status status = sb_session_feed(session, ids, 1, &err);
        sb_alloc_fail_at(0);
        assert_int_equal(status, SB_ERR_MEMORY);
        assert_non_null(strstr(err.text, "keys and values"));
        assert_string_equal(test_state_digest(session).hex, before.hex);
        sb_session_reset(session);
        test_feed(session, many, MANY);
    }
    assert_string_equal(test_state_digest(session).hex, before.hex);
    test_feed(session, ids, 1);
    sb_session_free(session);
    sb_model_close(model);
}

/* Opening, binding, a session, a digest: no memory leaks (ASan) and *out is not set. */
TEST(test_no_memory_for_objects)
{
    const char *folder = test_checkpoint_with(
        PROGRAM, &(sb_make_options){.dir = "T5-bf16", .preset = "T5", .no_mtp = 1});
    sb_model *model = NULL;
    sb_session *session = NULL;
    unsigned long n = 0;
    sb_status status = SB_ERR_MEMORY;
    while (status) {
        sb_error err = {""};
        sb_alloc_fail_at(++n);
        status = sb_model_open(folder, &model, &err);
        sb_alloc_fail_at(0);
        if (status && (status != SB_ERR_MEMORY || model || !strstr(err.text, "memory")))
            fail_msg("allocation %lu: status %d: %s", n, (int)status, err.text);
    }
    assert_true(n > 10);
    for (n = 1; !session; n++) {
        sb_alloc_fail_at(n);
        status = sb_session_new(model, NULL, &session, NULL);
        sb_alloc_fail_at(0);
        assert_int_equal(status, session ? SB_OK : SB_ERR_MEMORY);
    }
    assert_true(n > 8);
    sb_digest digest;
    sb_alloc_fail_at(1);
    assert_int_equal(sb_state_digest(sb_session_state(session), &digest, NULL), SB_ERR_MEMORY);
    sb_alloc_fail_at(0);
    sb_session_free(session);
    sb_model_close(model);
}
