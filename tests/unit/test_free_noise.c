/* test_free_noise.c - logits alone, under a profile that rounds inputs and caches to fewer bits
 * than activations: correct engines are well inside the noise, and wrong engines are outside. */
#include "tests/lib/suite.h"

#include <math.h>
#include <string.h>

#include "ref/run/session.h"
#include "tests/unit/free_play.h"
#include "tools/judge/compare/envelope.h"
#include "tools/judge/fault/mistakes.h"
#include "tools/judge/sim/sim.h"

#define PROGRAM "test_free_noise"

/* An engine under llamacpp that records only logits. */
static free_play play(const char *preset, const sb_backend *backend,
                      void (*spoil)(free_play *, sb_step *))
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "llamacpp", NULL), SB_OK);
    free_play p = {.model = play_model(PROGRAM, preset, "predictable"),
                   .knobs = &knobs,
                   .backend = backend,
                   .level = 1,
                   .rounds = 2,
                   .perturbed = 4,
                   .spoil = spoil};
    free_play_run(&p);
    p.knobs = NULL;
    return p;
}

TEST(test_right_engines_pass)
{
    static const char *const rows[][2] = {{"T1", "backward"}, {"T1", "lanes8"}, {"T4", "fma"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        free_play p = play(rows[i][0], free_play_sim(rows[i][1]), NULL);
        print_message("%s %s: %s, worst %.3g\n", rows[i][0], rows[i][1],
                      sb_verdict_name(p.v.verdict), free_play_worst(&p.v));
        assert_int_equal(p.v.verdict, SB_VERDICT_WITHIN);
        assert_true(free_play_worst(&p.v) < 0.5);
        sb_verdicts_free(&p.v);
    }
}

/* These mistakes are off by 2 to 6 bounds. A noise multiplied by the root of K/6 (T-41) would hide
 * them. */
TEST(test_wrong_ops_are_seen)
{
    static const char *const mistakes[] = {"halves_swapped", "decay_after_prediction",
                                           "gate_before_norm", "no_renormalisation",
                                           "scores_unscaled"};
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        sb_backend wrong = *free_play_sim("pairwise");
        const sb_planted *m = sb_planted_find(sb_mistakes, mistakes[i]);
        assert_non_null(m);
        m->plant(&wrong.ops);
        free_play p = play("T1", &wrong, NULL);
        print_message("%s: worst %.3g\n", m->name, free_play_worst(&p.v));
        if (p.v.verdict != SB_VERDICT_FAIL || strcmp(p.v.first_failure.op, "logits") != 0)
            fail_msg("%s: %s", m->name, sb_verdict_name(p.v.verdict));
        sb_verdicts_free(&p.v);
    }
}

/* Replaces every logit by that of another token. */
static void exchange(free_play *p, sb_step *step)
{
    sb_step_value *v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    (void)p;
    for (size_t r = 0; v && r < v->rows; r++)
        for (size_t i = 0; i < v->cols / 2; i++) {
            float *row = v->data + r * v->cols, first = row[i];
            row[i] = row[v->cols - 1 - i];
            row[v->cols - 1 - i] = first;
        }
}

TEST(test_other_logits_are_seen)
{
    for (int t4 = 0; t4 < 2; t4++) {
        free_play p = play(t4 ? "T4" : "T1", free_play_sim("pairwise"), exchange);
        assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
        size_t failed = 0;
        for (size_t i = 0; i < p.v.token_count; i++)
            failed += p.v.tokens[i].verdict == SB_VERDICT_FAIL;
        assert_int_equal(failed, 1 + 2); /* after the prompt, and after each round */
        sb_verdicts_free(&p.v);
    }
}

/* --- one level of a recording and the next * -------------------------------------------------- */

/* T-40: "The random number is a function of seed, run, call, op and element": asking for the logits
 * of all rows of a call does not change the noise of later calls. */
TEST(test_what_is_asked_changes_no_noise)
{
    enum { ROWS = 5, V = 384 };
    sb_noise noise[2];
    sb_knobs knobs;
    sb_error err = {""};
    uint32_t ids[ROWS + 1];
    float logits[V];
    const sb_model *model = play_model(PROGRAM, "T4", "mistakes");
    assert_true(model->config.vocab_size <= V);
    assert_int_equal(sb_knobs_profile(&knobs, "sglang", NULL), SB_OK);
    test_draw_ids("asked", 300, ids, ROWS + 1);
    for (int all = 0; all < 2; all++) {
        const sb_envelope_options options = {.knobs = &knobs, .perturbed = 4, .seed = 7};
        sb_envelope *e = NULL;
        assert_int_equal(sb_envelope_new(model, &options, &e, &err), SB_OK);
        assert_int_equal(sb_envelope_feed(e, ids, ROWS, &err), SB_OK);
        for (size_t row = 0; row < ROWS && all; row++)
            assert_int_equal(sb_envelope_logits(e, row, logits, &noise[all], &err), SB_OK);
        assert_int_equal(sb_envelope_feed(e, ids + ROWS, 1, &err), SB_OK);
        assert_int_equal(sb_envelope_logits(e, 0, logits, &noise[all], &err), SB_OK);
        sb_envelope_free(e);
    }
    assert_true(noise[0].tight > 0 && noise[0].tight == noise[1].tight);
    assert_true(noise[0].loose == noise[1].loose);
}

/* bfloat16 activations, with new noise in each call. */
static free_play narrow(size_t rounds, double amount, void (*spoil)(free_play *, sb_step *))
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sglang", NULL), SB_OK);
    free_play p = {.model = play_model(PROGRAM, "T4", "mistakes"),
                   .knobs = &knobs,
                   .level = 1,
                   .rounds = rounds,
                   .perturbed = 4,
                   .spoil = spoil,
                   .amount = amount};
    free_play_run(&p);
    p.knobs = NULL;
    return p;
}

/* T-43: "stay within the tight noise, a sequence that strayed is made a copy of one that did not":
 * tokens alone do not show that, and the noise grows. */
TEST(test_tokens_alone_bring_nobody_back)
{
    double sum[2] = {0};
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sglang", NULL), SB_OK);
    for (unsigned level = 0; level < 2; level++) {
        free_play p = {.model = play_model(PROGRAM, "T1", "mistakes"),
                       .knobs = &knobs,
                       .level = level,
                       .rounds = 12,
                       .perturbed = 4};
        free_play_run(&p);
        for (size_t i = 9; i < p.v.token_count; i++)
            sum[level] += p.v.tokens[i].envelope / 12;
        sb_verdicts_free(&p.v);
    }
    print_message("two logits come together by %.3g, with logits by %.3g\n", sum[0], sum[1]);
    assert_true(sum[0] > 1.2 * sum[1]);
}

/* Adds to the logits of each row a list with the log-probability of its largest logit, minus
 * `amount`. */
static void add_list(free_play *p, sb_step *step)
{
    const sb_step_value *v = sb_step_find(&step->taps, "logits");
    if (!v)
        return;
    const size_t rows = v->rows;
    sb_step_value *ids = sb_step_add(&step->taps, "top_ids", rows, 1, 1);
    assert_non_null(ids);
    sb_step_value *logprobs = sb_step_add(&step->taps, "top_logprobs", rows, 1, 1);
    assert_non_null(logprobs);
    ids = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "top_ids");
    v = sb_step_find(&step->taps, "logits");
    for (size_t r = 0; r < rows; r++) {
        const float *row = v->data + r * v->cols;
        double sum = 0;
        for (size_t i = 0; i < v->cols; i++)
            sum += exp((double)row[i]);
        ids->data[r] = (float)sb_greedy(row, v->cols);
        logprobs->data[r] = (float)((double)row[(size_t)ids->data[r]] - log(sum) - p->amount);
    }
}

/* T-43: the logits of a row show that it stays within the tight noise. A wrong list next to them
 * does not widen the bounds of later rows. */
TEST(test_a_list_widens_nothing)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, "sglang", NULL), SB_OK);
    free_play p[2];
    for (int list = 0; list < 2; list++) {
        p[list] = (free_play){.model = play_model(PROGRAM, "T1", "mistakes"),
                              .knobs = &knobs,
                              .level = 1,
                              .rounds = 12,
                              .perturbed = 4,
                              .spoil = list ? add_list : NULL,
                              .amount = 3};
        free_play_run(&p[list]);
    }
    assert_int_equal(p[0].v.token_count, p[1].v.token_count);
    for (size_t i = 0; i < p[0].v.token_count; i++)
        assert_true(p[0].v.tokens[i].envelope == p[1].v.tokens[i].envelope);
    for (int list = 0; list < 2; list++)
        sb_verdicts_free(&p[list].v);
}

/* In the last step the two largest logits move towards each other, each by this share of their
 * margin. Above one half the second one is the largest, and becomes the token. */
static void turn_last(free_play *p, sb_step *step)
{
    sb_step_value *v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    if (p->count + 1 < 10 + p->rounds || !v || !step->round_count)
        return;
    float *row = v->data + (v->rows - 1) * v->cols;
    uint32_t first = sb_greedy(row, v->cols);
    float largest = row[first];
    row[first] = -INFINITY;
    uint32_t second = sb_greedy(row, v->cols);
    float by = (float)p->amount * (largest - row[second]);
    row[first] = largest - by;
    row[second] += by;
    step->rounds[0].round.tokens[0] = sb_greedy(row, v->cols);
}

/* T-44: "A token further below is a failure, with or without logits of its row": each of the two
 * logits may be within its own bound, and the token is not. */
TEST(test_a_token_too_far_below)
{
    enum { MOST = 120 };
    free_play all = narrow(MOST, 0, NULL);
    const sb_token_verdict *t = NULL;
    size_t rounds = 0;
    for (size_t i = 9; i < all.v.token_count && !rounds; i++) {
        t = &all.v.tokens[i];
        if (t->margin > 1.05 * t->envelope && t->margin < 1.33 * t->envelope)
            rounds = (size_t)t->position - 8;
    }
    if (!rounds)
        fail_msg("none of %d rows has such a margin", MOST);
    print_message("row %d: %.3g apart, together by %.3g\n", (int)t->position, t->margin,
                  t->envelope);
    for (int far = 0; far < 2; far++) {
        free_play p = narrow(rounds, far ? 0.51 : 0.49, turn_last);
        assert_int_equal(p.v.verdict, far ? SB_VERDICT_FAIL : SB_VERDICT_WITHIN);
        if (far)
            assert_string_equal(p.v.first_failure.op, "token");
        sb_verdicts_free(&p.v);
    }
    sb_verdicts_free(&all.v);
}

TEST_GROUP(NULL, play_close_models)
