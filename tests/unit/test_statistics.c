/* test_statistics.c - L-1 to L-4. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/judge/quality/statistics.h"

/* L-1: "the smallest value such that at least this percentage of the values do not exceed it" */
TEST(test_spread)
{
    double values[200];
    sb_spread s;
    for (size_t i = 0; i < 200; i++)
        values[i] = (double)((i * 77) % 200 + 1); /* 1 .. 200 in another order */
    assert_int_equal(sb_spread_of(values, 200, &s), SB_OK);
    assert_true(s.count == 200 && s.mean == 100.5);
    assert_true(s.median == 100 && s.p90 == 180 && s.p99 == 198 && s.most == 200);
    assert_int_equal(sb_spread_of(values, 1, &s), SB_OK);
    assert_true(s.mean == 1 && s.median == 1 && s.p90 == 1 && s.p99 == 1 && s.most == 1);
    assert_int_equal(sb_spread_of(values, 0, &s), SB_OK);
    assert_true(s.count == 0 && s.mean == 0 && s.most == 0);
    values[7] = (double)NAN;
    assert_int_equal(sb_spread_of(values, 200, &s), SB_ERR_NUMERIC);
}

/* L-3 against the textbook formula: independent counts have a design effect near 1. */
TEST(test_mean)
{
    const unsigned char one[] = {2, 2, 2, 2}, two[] = {0, 4, 1, 3, 0, 4, 1, 3};
    const size_t end_one = 4, end_two = 8;
    sb_mean m = sb_mean_of_counts(one, &end_one, 1);
    assert_true(m.count == 4 && m.mean == 2 && m.low == 2 && m.high == 2);
    m = sb_mean_of_counts(two, &end_two, 1);
    assert_true(m.mean == 2);
    assert_true(fabs((m.high - m.low) / 2 - 1.959963984540054 * sqrt(20.0 / 7 / 8)) < 1e-12);
    m = sb_mean_of_counts(two, &end_two, 0);
    assert_true(m.count == 0);
}

/* Runs of equal counts carry less information than independent ones: the interval is wider. */
TEST(test_mean_correlated)
{
    unsigned char mixed[64], runs[64];
    size_t end = 64;
    for (size_t i = 0; i < 64; i++) {
        mixed[i] = (unsigned char)(i * 5 % 7 % 2 * 3);
        runs[i] = 0;
    }
    size_t threes = 0;
    for (size_t i = 0; i < 64; i++)
        threes += mixed[i] == 3;
    for (size_t i = 0; i < threes; i++)
        runs[i] = 3;
    sb_mean a = sb_mean_of_counts(mixed, &end, 1), b = sb_mean_of_counts(runs, &end, 1);
    assert_true(a.mean == b.mean);
    assert_true(b.high - b.low > 1.5 * (a.high - a.low));
}

/* L-4: "holds after 4593 tokens without a flip" */
TEST(test_never)
{
    sb_sequential t = sb_never();
    assert_true(sb_sequential_more(&t) == 4593);
    assert_true(sb_sequential_rate(&t) == 1);
    for (size_t i = 0; i < 4592; i++)
        sb_sequential_see(&t, 0);
    assert_int_equal(t.claim, SB_CLAIM_open);
    assert_true(sb_sequential_more(&t) == 1);
    assert_true(fabs(sb_sequential_rate(&t) - (1 - pow(0.01, 1.0 / 4592))) < 1e-12);
    sb_sequential_see(&t, 0);
    assert_int_equal(t.claim, SB_CLAIM_holds);
    assert_true(sb_sequential_more(&t) == 0);
    t = sb_never();
    sb_sequential_see(&t, 1);
    assert_int_equal(t.claim, SB_CLAIM_broken);
    assert_true(sb_sequential_rate(&t) == 1); /* 1 of 1 */
}

/* The promised error rates, from many sequences drawn at both rates. */
TEST(test_error_rates)
{
    enum { RUNS = 2000 };
    unsigned wrong[2] = {0, 0};
    uint64_t x = 42;
    for (int at_p1 = 0; at_p1 < 2; at_p1++)
        for (size_t run = 0; run < RUNS; run++) {
            sb_sequential t = sb_sequential_of(0.01, 0.05, 0.05, 0.1);
            while (t.claim == SB_CLAIM_open) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                double u = (double)(x >> 11) * 0x1p-53;
                sb_sequential_see(&t, u < (at_p1 ? 0.05 : 0.01));
            }
            wrong[at_p1] += t.claim == (at_p1 ? SB_CLAIM_holds : SB_CLAIM_broken);
        }
    assert_true(wrong[0] <= RUNS * 0.06 && wrong[0] > 0);
    assert_true(wrong[1] <= RUNS * 0.115 && wrong[1] > 0);
}

/* L-2, L-3: flips are listed; tokens with only one side are not counted. */
TEST(test_of_verdicts)
{
    sb_verdicts v;
    sb_statistics s;
    sb_error err;
    memset(&v, 0, sizeof v);
    for (size_t i = 0; i < 10; i++) {
        sb_token_verdict *t = sb_verdicts_token(&v);
        t->sequence = (uint32_t)(i / 5);
        t->position = i % 5;
        t->top[0] = 7;
        t->top[1] = i == 6 ? 8 : 7;
        t->has_top[0] = 1;
        t->has_top[1] = i != 2;
        t->has_kl = i % 2 == 0;
        t->kl = (double)i;
        t->margin = 0.5;
        t->verdict = i == 6 ? SB_VERDICT_NEAR_TIE : SB_VERDICT_WITHIN;
    }
    for (size_t i = 0; i < 4; i++) {
        sb_round_verdict *r = sb_verdicts_round(&v);
        r->drafted[0] = 2;
        r->drafted[1] = i < 3 ? 2 : 0; /* rounds without drafts are not counted */
        r->accepted[0] = 1;
        r->accepted[1] = i % 2;
    }
    assert_int_equal(sb_statistics_of(&v, &s, &err), SB_OK);
    assert_true(s.kl.count == 5 && s.kl.mean == 4 && s.kl.most == 8);
    assert_true(s.agreement.of == 9 && s.agreement.accepted == 8);
    assert_true(s.flip_count == 1 && s.flips[0].sequence == 1 && s.flips[0].position == 1);
    assert_true(s.flips[0].top[1] == 8 && s.flips[0].margin == 0.5);
    assert_int_equal(s.never.claim, SB_CLAIM_broken);
    assert_true(s.accepted[0].count == 4 && s.accepted[0].mean == 1);
    assert_true(s.accepted[1].count == 3 && fabs(s.accepted[1].mean - 1.0 / 3) < 1e-15);
    sb_statistics_free(&s);
    v.tokens[4].kl = (double)NAN;
    assert_int_equal(sb_statistics_of(&v, &s, &err), SB_ERR_NUMERIC);
    sb_verdicts_free(&v);
}
