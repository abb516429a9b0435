/* test_experts_batch.c - experts that run together give the bits of one op per row and slot. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/fast/fast.h"
#include "ref/run/session.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

/* With LONG rows, threads share the loops over rows. */
enum { V = 384, LONG = 260 };

static void set_knobs(sb_knobs *knobs, const char *profile)
{
    sb_error err;
    assert_int_equal(sb_knobs_profile(knobs, profile, &err), SB_OK);
}

static test_record recorded(const sb_model *model, const sb_backend *backend, const sb_knobs *knobs,
                            const uint32_t *ids, size_t n)
{
    test_record record = {0};
    const sb_session_options options = {
        .backend = backend, .knobs = knobs, .tap = test_record_tap, .tap_ctx = &record};
    sb_session *session = NULL;
    sb_error err;
    assert_int_equal(sb_session_new(model, &options, &session, &err), SB_OK);
    test_feed(session, ids, n);
    sb_session_free(session);
    return record;
}

/* The first tap that differs, or NULL. */
static const char *first_apart(const test_record *a, const test_record *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->taps[i].name, b->taps[i].name);
        if (strcmp(a->taps[i].digest.hex, b->taps[i].digest.hex) != 0)
            return a->taps[i].name;
    }
    return NULL;
}

/* A function that runs one projection of the experts at a time. */
static sb_status no_pairs(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    return n > 1 ? SB_ERR_UNSUPPORTED : sb_experts_fast(knobs, args, n);
}

static void check_model(const char *preset, const char *format, const char *profile)
{
    static const size_t rows[] = {1, 2, 3, 5, 9, 70, LONG};
    sb_model *model =
        test_model_open(test_checkpoint("test_experts_batch", preset, NULL, format, "text"));
    sb_backend apart = *sb_backend_ref(), singles = apart;
    sb_knobs knobs;
    uint32_t ids[LONG];
    apart.experts = NULL;
    singles.experts = no_pairs;
    set_knobs(&knobs, profile);
    test_draw_ids("experts", V, ids, LONG);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_record together = recorded(model, NULL, &knobs, ids, rows[i]);
        test_record singly = recorded(model, &apart, &knobs, ids, rows[i]);
        test_record parted = recorded(model, &singles, &knobs, ids, rows[i]);
        assert_null(first_apart(&together, &singly));
        assert_null(first_apart(&parted, &singly));
        test_record_free(&together);
        test_record_free(&parted);
        test_record_free(&singly);
    }
    sb_model_close(model);
}

TEST(test_whole_model)
{
    check_model("T1", "bf16", "exact");
    check_model("T1", "nvidia-mix", "exact");
    check_model("T1", "nvidia-mix", "sm121-w4a4");
}

static sb_status nudged(const sb_knobs *knobs, const sb_linear_args *args)
{
    sb_status status = sb_linear_fast(knobs, args);
    for (size_t i = 0; i < args->rows * args->weight->rows; i++)
        args->out[i] *= 1.5f;
    return status;
}

/* A table with a replaced `linear` does not use the reference's experts, even if it contains
 * them. */
TEST(test_other_linear)
{
    sb_model *model =
        test_model_open(test_checkpoint("test_experts_batch", "T1", NULL, "bf16", "text"));
    sb_backend other = *sb_backend_ref(), apart = other;
    sb_knobs knobs;
    uint32_t ids[3];
    set_knobs(&knobs, "exact");
    test_draw_ids("experts", V, ids, 3);
    other.ops.linear = nudged;
    apart.ops.linear = nudged;
    apart.experts = NULL;
    test_record a = recorded(model, &other, &knobs, ids, 3);
    test_record b = recorded(model, &apart, &knobs, ids, 3);
    test_record plain = recorded(model, NULL, &knobs, ids, 3);
    assert_null(first_apart(&a, &b));
    assert_non_null(first_apart(&a, &plain));
    test_record_free(&a);
    test_record_free(&b);
    test_record_free(&plain);
    sb_model_close(model);
}

static size_t experts_spoiled;

/* Changes the last bit in the output of the first down_proj, at the last expert of the last row. */
static sb_status spoiled(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    sb_status status = sb_experts_fast(knobs, args, n);
    if (args->kind == SB_LINEAR_expert_down && ++experts_spoiled == 1)
        args->out[args->rows * args->kept * args->weight->rows - 1] *= 1 + 0x1p-23f;
    return status;
}

/* One wrong value of one expert is found at its place. */
TEST(test_one_wrong_value)
{
    static const size_t rows[] = {1, 70};
    sb_model *model =
        test_model_open(test_checkpoint("test_experts_batch", "T1", NULL, "nvidia-mix", "text"));
    sb_backend other = *sb_backend_ref();
    sb_knobs knobs;
    uint32_t ids[70];
    set_knobs(&knobs, "exact");
    test_draw_ids("experts", V, ids, 70);
    other.experts = spoiled;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        experts_spoiled = 0;
        test_record sound = recorded(model, NULL, &knobs, ids, rows[i]);
        test_record wrong = recorded(model, &other, &knobs, ids, rows[i]);
        const char *where = first_apart(&wrong, &sound);
        assert_non_null(where);
        assert_non_null(strstr(where, "mlp.experts.down_proj"));
        test_record_free(&sound);
        test_record_free(&wrong);
    }
    sb_model_close(model);
}

static size_t experts_seen;

static sb_status counted(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    experts_seen += n;
    return sb_experts_fast(knobs, args, n);
}

/* A replaced `experts` is used. */
TEST(test_other_experts)
{
    sb_model *model =
        test_model_open(test_checkpoint("test_experts_batch", "T1", NULL, "bf16", "text"));
    sb_backend other = *sb_backend_ref();
    sb_knobs knobs;
    uint32_t ids[3];
    set_knobs(&knobs, "exact");
    test_draw_ids("experts", V, ids, 3);
    other.experts = counted;
    test_record a = recorded(model, &other, &knobs, ids, 3);
    assert_int_equal(experts_seen, 3 * model->config.layers); /* gate, up, down */
    test_record_free(&a);
    sb_model_close(model);
}

enum { EXPERTS = 6, COLS = 40, MOST_ROWS = 530, PAIRS = 33 };

static struct {
    float weights[EXPERTS][MOST_ROWS * COLS];
    sb_matrix matrix[EXPERTS];
    float in[PAIRS * COLS];
    uint32_t ids[PAIRS];
} made;

static void draw(uint32_t rows)
{
    const uint64_t key = sb_rng_key(42, "experts");
    uint64_t at = 0;
    for (size_t e = 0; e < EXPERTS; e++) {
        for (size_t i = 0; i < (size_t)rows * COLS; i++)
            made.weights[e][i] = sb_rng_uniform(key, at++) - 0.5f;
        made.matrix[e] = (sb_matrix){.data = (const unsigned char *)made.weights[e],
                                     .format = SB_FORMAT_f32,
                                     .rows = rows,
                                     .cols = COLS};
    }
    for (size_t i = 0; i < PAIRS * COLS; i++)
        made.in[i] = sb_rng_uniform(key, at++) - 0.5f;
    for (size_t i = 0; i < PAIRS; i++) { /* no row chooses expert 4 */
        uint32_t e = sb_rng_below(key, at++, 5);
        made.ids[i] = e == 4 ? 5 : e;
    }
}

/* True if all outputs equal those of one op per row and slot. If `plant`, one expected bit is
 * spoiled. */
static int shape_is_sound(uint32_t rows, size_t kept, size_t each, size_t n, int plant)
{
    static float out[2][PAIRS * MOST_ROWS], expected[2][PAIRS * MOST_ROWS];
    sb_expert_linear_args args[2];
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    memset(out, 0, sizeof out);
    memset(expected, 0, sizeof expected);
    for (size_t i = 0; i < n; i++) {
        args[i] = (sb_expert_linear_args){.weight = made.matrix,
                                          .stride = sizeof(sb_matrix),
                                          .experts = EXPERTS,
                                          .ids = made.ids,
                                          .rows = PAIRS / kept,
                                          .kept = kept,
                                          .each = each,
                                          .in = made.in,
                                          .out = out[i]};
        for (size_t p = 0; p < PAIRS / kept * kept; p++) {
            const sb_linear_args one = {.weight = &made.matrix[made.ids[p]],
                                        .in = args[i].in + p / each * COLS,
                                        .rows = 1,
                                        .out = expected[i] + p * rows};
            assert_int_equal(sb_linear_fast(&knobs, &one), SB_OK);
        }
    }
    assert_int_equal(sb_experts_fast(&knobs, args, n), SB_OK);
    if (plant) /* the last output */
        expected[n - 1][PAIRS / kept * kept * rows - 1] *= 1 + 0x1p-23f;
    return memcmp(out, expected, sizeof out) == 0;
}

static void check_shape(uint32_t rows, size_t kept, size_t each, size_t n)
{
    assert_true(shape_is_sound(rows, kept, each, n, 0));
    if ((int)sb_threads() == 1)
        assert_false(shape_is_sound(rows, kept, each, n, 1));
}

/* Matrices of different heights, at several numbers of threads. */
TEST(test_shapes)
{
    static const uint32_t rows[] = {1, 16, 63, 64, 65, 200, MOST_ROWS};
    const int threads = (int)sb_threads();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        draw(rows[i]);
        for (int t = 1; t <= 5; t += 2) {
            sb_threads_set((size_t)t);
            check_shape(rows[i], 3, 3, 1);
            check_shape(rows[i], 8, 1, 1);
            check_shape(rows[i], 4, 4, 2);
        }
    }
    sb_threads_set((size_t)threads);
}

/* Each allocation fails in turn: the result is SB_ERR_MEMORY, and a later call succeeds. */
TEST(test_no_memory)
{
    sb_knobs knobs;
    float out[PAIRS * 16];
    const int threads = (int)sb_threads();
    draw(16);
    sb_knobs_exact(&knobs);
    sb_threads_set(1);
    const sb_expert_linear_args args = {
        made.matrix, sizeof(sb_matrix), EXPERTS, made.ids, PAIRS, 1, 1, 0, made.in, out};
    sb_status status = SB_ERR_MEMORY;
    unsigned long n = 1;
    for (; status == SB_ERR_MEMORY && n < 100; n++) {
        sb_alloc_fail_at(n);
        status = sb_experts_fast(&knobs, &args, 1);
        sb_alloc_fail_at(0);
    }
    assert_int_equal(status, SB_OK);
    assert_true(n > 5);
    sb_threads_set((size_t)threads);
}
