/* test_free_code.c - an element of a cache of codes may be the code of any value within the bound
 * around the reference's value, and no other code (T-48). */
#include "tests/lib/suite.h"

#include <math.h>
#include <string.h>

#include "ref/formats/small_float.h"
#include "tests/unit/free_play.h"
#include "tools/judge/compare/free_parts.h"

/* Between 2 and 4 the codes are 0.25 apart; the tie between 2 and 2.25 is 2.125. */
TEST(test_what_a_value_within_the_bound_becomes)
{
    static const struct {
        double before, bound, theirs;
        int right;
    } cases[] = {
        {2.124, 0.01, 2, 1},
        {2.124, 0.01, 2.25, 1},
        {2.124, 0.0005, 2.25, 0},
        {2.124, 0.01, 2.5, 0},
        {2.126, 0.01, 2, 1},
        {2.126, 0.01, 1.875, 0},
        {2.1, 0.3, 2.25, 1},
        {2.1, 0.3, 2.5, 1},
        {2.1, 0.3, 2.75, 0},
        {-2.124, 0.01, -2.25, 1},
        {-2.124, 0.01, -2.5, 0},
        {-2.124, 0.01, 2, 0},
        {0.0001, 0.01, 0.009, 1} /* not a code; the codes around it are in reach */,
        {0.0001, 0, 0, 1},
        {0.0001, 0, 0x1p-9, 0},
        {2, 1, (double)NAN, 0},
        {500, 1, 448, 1},
        {500, 1, 416, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sb_free_code of = {cases[i].before, cases[i].bound};
        double ratio = sb_free_code_ratio(&of, cases[i].theirs);
        if ((ratio <= 1) != cases[i].right)
            fail_msg("%g within %g and %g: %g", cases[i].before, cases[i].bound, cases[i].theirs,
                     ratio);
    }
}

TEST(test_the_share_of_a_bound)
{
    sb_free_code of = {2.124, 0.016};
    double all = 0.001 / 0.016, found = sb_free_code_ratio(&of, 2.25);
    assert_true(found >= all && found <= 2 * all);
    assert_true(sb_free_code_reach(&of, 2) == 0.25);
    of.bound = 0.0005;
    assert_true(sb_free_code_reach(&of, 2) == 0);
}

/* If only the code is known, the value may be any value that is rounded to it. */
TEST(test_a_value_that_is_not_known)
{
    static const double codes[] = {-448, -2, -0x1p-9, 0, 0x1p-9, 0x1p-6, 1, 1.875, 2, 240, 448};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        for (int up = 0; up < 2; up++) {
            uint8_t code = sb_f32_to_e4m3((float)codes[i]);
            double next = (double)sb_e4m3_to_f32((uint8_t)(code + (up ? 1 : -1)));
            sb_free_code of = sb_free_code_unknown(codes[i], 1e-6);
            if (codes[i] == 0 || next != next)
                continue;
            assert_true(sb_free_code_ratio(&of, codes[i]) == 0);
            if (sb_free_code_ratio(&of, next) > 1)
                fail_msg("%g and %g", codes[i], next);
        }
}

static int spoils;
enum { ROW = 2 * 64 }; /* the row of an early token */

/* Moves every element of the row to the next code away from zero, in every state. */
static void spoil(free_play *p, sb_step *step)
{
    (void)p;
    for (size_t i = 0; i < step->state_count && spoils; i++) {
        sb_step_values *pieces = &step->states[i].pieces;
        for (size_t k = 0; k < pieces->count; k++) {
            sb_step_value *v = &pieces->items[k];
            if (strcmp(v->name, "layers.3.self_attn.values") != 0)
                continue;
            for (size_t e = ROW; e < ROW + 64 && e < v->rows * v->cols; e++)
                v->data[e] = sb_e4m3_to_f32((uint8_t)(sb_f32_to_e4m3(v->data[e]) + 1));
        }
    }
}

static free_play play(int spoiled)
{
    sb_error err = {""};
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    if (sb_knobs_set(&knobs, "kv_cache=fp8", &err))
        fail_msg("%s", err.text);
    free_play p = {.model = play_model("test_free_code", "T4", "predictable"),
                   .backend = free_play_sim("ampere"),
                   .arithmetic = sb_arithmetic_of("ampere_f16+order"),
                   .knobs = &knobs,
                   .spoil = spoil,
                   .level = 3,
                   .rounds = 4,
                   .drafts = 1,
                   .perturbed = 4};
    spoils = spoiled;
    free_play_run(&p);
    p.knobs = NULL;
    return p;
}

TEST(test_a_row_of_other_codes)
{
    free_play p = play(1);
    const sb_place *first = &p.v.first_failure;
    if (p.v.verdict != SB_VERDICT_FAIL || strcmp(first->name, "layers.3.self_attn.values") != 0)
        fail_msg("%s %s", sb_verdict_name(p.v.verdict), first->words);
    sb_verdicts_free(&p.v);
}

TEST(test_codes_that_fell_otherwise)
{
    free_play p = play(0);
    if (p.v.verdict != SB_VERDICT_WITHIN && p.v.verdict != SB_VERDICT_NEAR_TIE)
        fail_msg("%s: %s", sb_verdict_name(p.v.verdict), p.v.first_failure.words);
    sb_verdicts_free(&p.v);
}

TEST_GROUP(NULL, play_close_models)
