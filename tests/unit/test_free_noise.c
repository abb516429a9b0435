/* test_free_noise.c - logits alone under a profile that rounds inputs and caches to fewer bits than
 * activations have: right engines lie well inside the noise, and wrong ones do not hide in it. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/unit/free_play.h"
#include "tools/fault/mistakes.h"
#include "tools/sim/sim.h"

#define PROGRAM "test_free_noise"

/* An engine under llamacpp, of which nothing but logits is seen. */
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

/* These are off by 2 to 6 bounds; a noise that is multiplied with the root of K/6 (T-41) hides
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

/* Every logit becomes that of another token. */
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
        assert_int_equal(failed, 1 + 2); /* behind the prompt, and behind each round */
        sb_verdicts_free(&p.v);
    }
}

TEST_GROUP(NULL, play_close_models)
