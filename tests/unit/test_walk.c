/* test_walk.c - a walk (one layer at a time) gives the bits of a session, for one sequence after
 * another. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "ref/run/walk.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

enum { V = 384, N = SB_WALK_ROWS + 5, FIRST = 7 }; /* N: more than one call of a walk */

static uint32_t ids[N];

/* A session, fed in calls of `rows` rows. guess[t] is its head's draft for the token after the
 * first token t of a call. */
static void by_session(const sb_model *model, const sb_knobs *knobs, size_t rows, float *logits,
                       uint32_t *guess)
{
    sb_error err;
    float draft[V];
    sb_session_options options = {.knobs = knobs, .mtp = 1};
    sb_session *s;
    assert_int_equal(sb_session_new(model, &options, &s, &err), SB_OK);
    for (size_t t = 0; t < N; t += rows) {
        size_t n = N - t < rows ? N - t : rows;
        if (t > 0) {
            assert_int_equal(sb_session_draft(s, ids[t], draft, &err), SB_OK);
            guess[t] = sb_greedy(draft, V);
        }
        assert_int_equal(sb_session_feed(s, ids + t, n, &err), SB_OK);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(sb_session_logits(s, i, logits + (t + i) * V, &err), SB_OK);
    }
    sb_session_free(s);
}

/* Walks the first n tokens as a separate sequence. */
static void walk_through(sb_walk *w, const sb_model *model, size_t n, float *logits,
                         uint32_t *guess)
{
    sb_error err;
    float *stream = calloc(n * sb_walk_width(w), sizeof *stream);
    assert_non_null(stream);
    assert_int_equal(sb_walk_embed(w, ids, n, stream, &err), SB_OK);
    for (uint32_t l = 0; l < model->config.layers; l++)
        assert_int_equal(sb_walk_layer(w, l, n, stream, &err), SB_OK);
    for (size_t t = 0; t < n; t++)
        assert_int_equal(sb_walk_logits(w, stream + t * sb_walk_width(w), logits + t * V, &err),
                         SB_OK);
    assert_int_equal(sb_walk_drafts(w, stream, ids, n, guess, &err), SB_OK);
    free(stream);
}

/* Results of the second sequence of a walk: nothing of the first may remain. */
static void by_walk(const sb_model *model, const sb_knobs *knobs, float *logits, uint32_t *guess)
{
    sb_error err;
    sb_walk *w;
    assert_int_equal(sb_walk_new(model, knobs, NULL, NULL, &w, &err), SB_OK);
    walk_through(w, model, FIRST, logits, guess);
    walk_through(w, model, N, logits, guess);
    sb_walk_free(w);
}

static void same(const char *profile, size_t rows)
{
    sb_error err;
    sb_knobs knobs;
    sb_model *model =
        test_model_open(test_checkpoint("test_walk", "T1", "predictable", "bf16", "text"));
    float *a = calloc(N * V, sizeof *a), *b = calloc(N * V, sizeof *b);
    uint32_t guess[2][N] = {{0}};
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(sb_knobs_profile(&knobs, profile, &err), SB_OK);
    test_draw_ids("walk", V, ids, N);
    by_session(model, &knobs, rows, a, guess[0]);
    by_walk(model, &knobs, b, guess[1]);
    assert_memory_equal(a, b, N * V * sizeof *a);
    for (size_t t = rows; t < N; t += rows)
        assert_int_equal(guess[0][t], guess[1][t]);
    free(a);
    free(b);
    sb_model_close(model);
}

TEST(test_exact)
{
    same("exact", 1);
}

/* Profiles with chunks, which begin anew in each call. One of them keeps the unrounded residual
 * (K-48). */
TEST(test_other_streams)
{
    same("hf", SB_WALK_ROWS);
    same("vllm", SB_WALK_ROWS);
}

/* A skipped layer changes the logits. */
TEST(test_planted)
{
    sb_error err;
    sb_walk *w;
    float whole[V], less[V];
    sb_model *model =
        test_model_open(test_checkpoint("test_walk", "T1", "predictable", "bf16", "text"));
    assert_int_equal(sb_walk_new(model, NULL, NULL, NULL, &w, &err), SB_OK);
    float stream[1024];
    assert_true(sb_walk_width(w) <= 1024);
    for (int skip = 0; skip < 2; skip++) {
        assert_int_equal(sb_walk_embed(w, ids, 1, stream, &err), SB_OK);
        for (uint32_t l = 0; l < model->config.layers; l++)
            if (!skip || l != 2)
                assert_int_equal(sb_walk_layer(w, l, 1, stream, &err), SB_OK);
        assert_int_equal(sb_walk_logits(w, stream, skip ? less : whole, &err), SB_OK);
    }
    assert_memory_not_equal(whole, less, sizeof whole);
    uint32_t bad = V;
    assert_int_equal(sb_walk_embed(w, &bad, 1, stream, &err), SB_ERR_USAGE);
    sb_walk_free(w);
    sb_model_close(model);
}
