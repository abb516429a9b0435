/* test_observed.c - intervals, the counters of engines, and the verdict about them. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/judge/accept/verdict.h"

static void near(double a, double b, double within)
{
    if (!(fabs(a - b) <= within))
        fail_msg("%.17g is not within %g of %.17g", a, within, b);
}

/* --- intervals -------------------------------------------------------------------------------- */

/* Published: Newcombe 1998, "Two-sided confidence intervals for the single proportion", method 3.
 */
TEST(wilson)
{
    static const struct {
        uint64_t k, n;
        double low, high;
    } rows[] = {{81, 263, 0.2553, 0.3662},
                {15, 148, 0.0624, 0.1605},
                {0, 20, 0, 0.1611},
                {1, 29, 0.0061, 0.1718}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_rate rate = {rows[i].k, rows[i].n, 1};
        sb_interval got = sb_rate_interval(&rate, SB_Z_SHOWN);
        near(got.low, rows[i].low, 5e-5);
        near(got.high, rows[i].high, 5e-5);
        near(got.rate, (double)rows[i].k / (double)rows[i].n, 1e-15);
        /* k of n rejected gives the mirror image */
        sb_rate other = {rows[i].n - rows[i].k, rows[i].n, 1};
        near(sb_rate_interval(&other, SB_Z_SHOWN).low, 1 - got.high, 1e-12);
        /* an effect of 4 gives the interval of a quarter of the trials */
        sb_rate four = {4 * rows[i].k, 4 * rows[i].n, 4};
        near(sb_rate_interval(&four, SB_Z_SHOWN).high, got.high, 1e-12);
    }
    sb_rate none = {0, 0, 1}, all = {7, 7, 1};
    assert_true(sb_rate_interval(&none, SB_Z_SHOWN).low == 0);
    assert_true(sb_rate_interval(&none, SB_Z_SHOWN).high == 1);
    assert_true(sb_rate_interval(&all, SB_Z_SHOWN).high == 1);
}

/* Published: Newcombe 1998, "Interval estimation for the difference between independent
 * proportions", method 10. */
TEST(newcombe)
{
    static const struct {
        uint64_t a, m, b, n;
        double low, high;
    } rows[] = {{56, 70, 48, 80, 0.0524, 0.3339},
                {9, 10, 3, 10, 0.1705, 0.8090},
                {6, 7, 2, 7, 0.0582, 0.8062},
                {5, 56, 0, 29, -0.0381, 0.1926},
                {0, 10, 0, 20, -0.1611, 0.2775}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_rate a = {rows[i].a, rows[i].m, 1}, b = {rows[i].b, rows[i].n, 1};
        sb_interval d = sb_rate_difference(&a, &b, SB_Z_SHOWN);
        near(d.low, rows[i].low, 5e-5);
        near(d.high, rows[i].high, 5e-5);
    }
}

/* The sum of covariances, in the obvious way. */
static double effect_by_hand(const unsigned char *x, size_t n, size_t most)
{
    double mean = 0, own = 0, sum;
    for (size_t t = 0; t < n; t++)
        mean += x[t] / (double)n;
    for (size_t t = 0; t < n; t++)
        own += (x[t] - mean) * (x[t] - mean);
    sum = own;
    for (size_t l = 1; l <= most; l++)
        for (size_t t = l; t < n; t++)
            sum += 2 * (1 - (double)l / ((double)most + 1)) * (x[t] - mean) * (x[t - l] - mean);
    return sum / own;
}

TEST(design_effects)
{
    unsigned char x[120];
    size_t ends[2] = {60, 120}, whole[1] = {120};
    memset(x, 0, sizeof x);
    assert_true(sb_design_effect(x, whole, 1) == 1);
    memset(x, 1, sizeof x);
    assert_true(sb_design_effect(x, whole, 1) == 1);
    for (size_t t = 0; t < sizeof x; t++)
        x[t] = t % 2;
    assert_true(sb_design_effect(x, whole, 1) == 1); /* evenly spread: not below 1 */
    for (size_t t = 0; t < sizeof x; t++)
        x[t] = t / 10 % 2;
    near(sb_design_effect(x, whole, 1), effect_by_hand(x, 120, 4), 1e-12);
    assert_true(sb_design_effect(x, whole, 1) > 3);
    /* covariances do not cross the end of a text */
    double both = sb_design_effect(x, ends, 2);
    assert_true(both > 3 && both != sb_design_effect(x, whole, 1));
    near(both, effect_by_hand(x, 60, 4), 1e-12); /* two equal halves */
    assert_true(sb_design_effect(x, ends, 0) == 1);
}

/* --- counters --------------------------------------------------------------------------------- */

#define V "vllm:spec_decode_num_"
#define POS(j, n)                                                                                  \
    V "accepted_tokens_per_pos_total{engine=\"0\",model_name=\"m\",position=\"" j "\"} " n "\n"
#define VLLM                                                                                       \
    "# HELP " V "drafts_total Number of spec decoding drafts.\n# TYPE " V                          \
    "drafts_total counter\n" V "drafts_total{engine=\"0\",model_name=\"m\"} 100.0\n" V             \
    "drafts_created{engine=\"0\",model_name=\"m\"} 1.7e+09\n" V                                    \
    "draft_tokens_total{engine=\"0\",model_name=\"m\"} 300.0\n" V                                  \
    "accepted_tokens_total{engine=\"0\",model_name=\"m\"} 150.0\n" POS("0", "80.0")                \
        POS("1", "50.0") POS("2", "20.0") "vllm:num_requests_running 3\n"

static sb_observed parse(const char *text)
{
    sb_observed o;
    sb_error err = {""};
    if (sb_observed_parse(text, strlen(text), "input", &o, &err))
        fail_msg("%s: %s", text, err.text);
    return o;
}

static void refuse(const char *text, const char *why)
{
    sb_observed o;
    sb_error err = {""};
    assert_int_equal(sb_observed_parse(text, strlen(text), "input", &o, &err), SB_ERR_INPUT);
    if (!strstr(err.text, why))
        fail_msg("%s: expected %s", err.text, why);
}

static void expect_vllm(const sb_observed *o, size_t parts, uint64_t times)
{
    assert_int_equal(o->engine, SB_ENGINE_vllm);
    assert_int_equal(o->parts, parts);
    assert_true(o->has_rounds && o->has_drafted && o->has_accepted && !o->has_emitted);
    assert_int_equal(o->rounds, 100 * times);
    assert_int_equal(o->drafted, 300 * times);
    assert_int_equal(o->accepted, 150 * times);
    assert_int_equal(o->depths, 3);
    assert_int_equal(o->by_depth[0], 80 * times);
    assert_int_equal(o->by_depth[2], 20 * times);
}

TEST(vllm_metrics)
{
    sb_observed o = parse(VLLM);
    expect_vllm(&o, 1, 1);
    sb_accept_definitions d = sb_observed_definitions(&o);
    near(d.length, 1.5, 1e-15);
    near(d.bonus_length, 2.5, 1e-15);
    near(d.rate, 0.5, 1e-15);
    near(d.drafts, 3, 1e-15);
    /* without _total, labels in another order, without labels, exponents, time stamps, no last line
     * end */
    o = parse(V "drafts{model_name=\"m\",engine=\"0\"} 1e+02 1700000000\n" V "draft_tokens 300\n" V
                "accepted_tokens\t1.5e2\r\n" V
                "accepted_tokens_per_pos{position=\"2\",model_name=\"m\"} 20\n" V
                "accepted_tokens_per_pos{ model_name=\"m\", position=\"0\",} 80\n" V
                "accepted_tokens_per_pos{a=\"x,position=\\\"9\\\"}\",position=\"1\"} 50");
    expect_vllm(&o, 1, 1);
    /* quotes and braces in values, and text that only looks like the label */
    o = parse(V "accepted_tokens_per_pos{a=\"\\\"}\",position=\"1\"} 0\n" V
                "accepted_tokens_per_pos{a=\"\\\"position=\",position=\"0\"} 4\n" V
                "accepted_tokens_per_pos{position:\"0\",position=\"2\"} 0\n");
    assert_int_equal(o.depths, 3);
    assert_int_equal(o.by_depth[0], 4);
    /* two engines */
    char two[2 * sizeof VLLM], *at = two + strlen(VLLM);
    strcpy(two, VLLM VLLM);
    while ((at = strstr(at, "engine=\"0\"")))
        at[8] = '1';
    o = parse(two);
    expect_vllm(&o, 2, 2);
    /* the same metrics twice; two models */
    refuse(VLLM VLLM, "occurs twice");
    at = two + strlen(VLLM);
    while ((at = strstr(at, "_name=\"m\"")))
        at[7] = 'n';
    refuse(two, "more than one model_name");
    refuse("", "neither JSON nor metrics");
    refuse("vllm:num_requests_running 3\n", "neither JSON nor metrics");
}

TEST(contradictions)
{
    refuse(V "drafts 100\n" V "draft_tokens 300\n" V "accepted_tokens 301\n", "bonus");
    refuse(V "drafts 100\n" V "draft_tokens 99\n", "at least one per round");
    refuse(V "drafts 9\n" POS("0", "10"), "accepted 10 times");
    refuse(V "drafts 9\n" POS("0", "5") POS("1", "6"), "accepted 6 times");
    refuse(V "drafts 9\n" V "accepted_tokens 12\n" POS("0", "7") POS("1", "6"), "13 accepted");
    refuse(V "drafts{a=\"b\" 9\n", "input:1: the labels have no closing brace");
    refuse("\n" V "drafts -1\n", "input:2: ");
    refuse(V "drafts\n", "the counter has no value");
    refuse(V "drafts NaN\n", "not a number");
    refuse(V "drafts 0x10\n", "not a number");
    refuse(V "drafts 1.5\n", "not a whole number");
    refuse(V "drafts 1e300\n", "not a whole number");
    refuse(V "drafts 1e2e\n", "not a whole number");
    refuse(V "drafts 281474976710656\n" V "drafts{engine=\"1\"} 1\n", "2^48");
    refuse(V "accepted_tokens_per_pos 3\n", "has no label position");
    refuse(POS("64", "3"), "position is outside");
    refuse(POS("-1", "3"), "position is outside");
    refuse(POS("", "3"), "position is outside");
}

TEST(sglang_responses)
{
    sb_observed o =
        parse("[{\"text\":\"a\",\"meta_info\":{\"spec_verify_ct\":10,\"spec_accept_token_num\":15,"
              "\"spec_draft_token_num\":30,\"spec_accept_rate\":0.5,\"spec_accept_length\":2.6,"
              "\"completion_tokens\":26,\"spec_accept_histogram\":[1,4,4,1]}},"
              "{\"meta_info\":{\"spec_verify_ct\":0,\"completion_tokens\":1}},"
              "{\"spec_verify_ct\":2,\"spec_accepted_drafts\":0,\"spec_proposed_drafts\":6,"
              "\"spec_accept_rate\":0,\"completion_tokens\":3,\"spec_accept_histogram\":[2]}]");
    assert_int_equal(o.engine, SB_ENGINE_sglang);
    assert_int_equal(o.parts, 3);
    assert_int_equal(o.rounds, 12);
    assert_int_equal(o.accepted, 15);
    assert_int_equal(o.drafted, 36);
    assert_int_equal(o.emitted, 30);
    assert_int_equal(o.depths, 3);
    assert_int_equal(o.by_depth[0], 9);
    assert_int_equal(o.by_depth[1], 5);
    assert_int_equal(o.by_depth[2], 1);
    o = parse("{\"meta_info\":{\"spec_verify_ct\":10,\"spec_accept_rate\":0.5}}");
    assert_true(o.has_rounds && o.has_rate && !o.has_accepted && !o.has_drafted && !o.depths);
    near(sb_observed_definitions(&o).rate, 0.5, 1e-15);
    refuse("[]", "the list has 0");
    refuse("[3]", "expected an object");
    refuse("{\"meta\":{}}", "neither meta_info");
    refuse("{\"meta_info\":[]}", "expected an object");
    refuse("{\"meta_info\":{\"spec_verify_ct\":-1}}", "spec_verify_ct");
    refuse("{\"meta_info\":{\"spec_verify_ct\":1,\"spec_accept_rate\":1.5}}", "0 to 1");
    refuse("{\"spec_verify_ct\":4,\"spec_accept_histogram\":[1,2]}",
           "expected 4 as in spec_verify_ct");
    refuse("[{\"spec_verify_ct\":4},{\"draft_n\":1}]", "the list mixes responses");
}

TEST(llama_timings)
{
    sb_observed o = parse("{\"content\":\"x\",\"timings\":{\"predicted_n\":60,\"predicted_ms\":9.5,"
                          "\"draft_n\":40,\"draft_n_accepted\":19}}");
    assert_int_equal(o.engine, SB_ENGINE_llama);
    assert_true(!o.has_rounds && o.has_drafted && o.has_accepted && o.has_emitted && !o.has_rate);
    assert_int_equal(o.emitted, 60);
    assert_int_equal(o.drafted, 40);
    assert_int_equal(o.accepted, 19);
    o = parse("[{\"timings\":{\"predicted_n\":3}},{\"timings\":{\"predicted_n\":4,\"draft_n\":2,"
              "\"draft_n_accepted\":1}}]");
    assert_int_equal(o.parts, 2);
    assert_int_equal(o.drafted, 2);
    refuse("{\"timings\":{\"draft_n\":1,\"draft_n_accepted\":2}}", "bonus");
}

/* --- the verdict ------------------------------------------------------------------------------ */

/* A reference of n positions and K drafts; by_depth counts the accepted ones. */
static sb_accept reference(size_t n, size_t K, const uint64_t *by_depth)
{
    sb_accept a = {.drafts = K, .count = n, .drafting = n};
    for (size_t j = 0; j < K; j++) {
        a.depth[j].rate = (sb_rate){by_depth[j], n, 1};
        a.accepted += by_depth[j];
    }
    return a;
}

static const uint64_t usual[4] = {160, 100, 60, 30};

static sb_accept_comparison compare(size_t K, const char *text)
{
    sb_accept_comparison c;
    sb_accept a = reference(200, K, usual);
    sb_observed o = parse(text);
    sb_accept_compare(&a, &o, &c);
    assert_true(c.why[0] != '\0');
    assert_int_equal(c.verdict == SB_ACCEPT_UNKNOWN, c.count == 0);
    return c;
}

TEST(by_depth)
{
    sb_accept_comparison c = compare(3, VLLM); /* 0.8 0.5 0.2 against 0.8 0.5 0.3 */
    assert_int_equal(c.verdict, SB_ACCEPT_CONSISTENT);
    assert_int_equal(c.count, 3);
    assert_true(c.lines[2].difference.low < 0 && c.lines[2].difference.high > 0);
    near(c.lines[2].difference.rate, -0.1, 1e-12);
    assert_int_equal(compare(4, VLLM).count, 3);
    assert_int_equal(compare(1, VLLM).count, 1);
    c = compare(3, V "drafts 100\n" V "draft_tokens 300\n" POS("0", "80") POS("1", "20")
                       POS("2", "20"));
    assert_int_equal(c.verdict, SB_ACCEPT_BELOW);
    assert_non_null(strstr(c.why, "at depth 2"));
    c = compare(3, V "drafts 100\n" V "draft_tokens 300\n" POS("0", "99") POS("1", "50")
                       POS("2", "30"));
    assert_int_equal(c.verdict, SB_ACCEPT_ABOVE);
    /* rounds of different length: only the first depth can be compared */
    c = compare(3, V "drafts 100\n" V "draft_tokens 250\n" POS("0", "80") POS("1", "20")
                       POS("2", "20"));
    assert_int_equal(c.verdict, SB_ACCEPT_CONSISTENT);
    assert_int_equal(c.count, 1);
    c = compare(3, V "drafts 100\n" V "draft_tokens 200\n" POS("0", "80") POS("1", "20")
                       POS("2", "20"));
    assert_int_equal(c.count, 1);
    /* depths that no round reached are not in SGLang's histogram */
    c = compare(3, "{\"spec_verify_ct\":100,\"spec_draft_token_num\":300,"
                   "\"spec_accept_token_num\":80,\"spec_accept_histogram\":[20,80]}");
    assert_int_equal(c.count, 3);
    assert_int_equal(c.verdict, SB_ACCEPT_BELOW);
    assert_non_null(strstr(c.why, "at depth 2"));
}

TEST(of_all_drafts)
{
    /* the reference accepts 350 of 800 */
    sb_accept_comparison c = compare(
        4, "{\"spec_verify_ct\":100,\"spec_draft_token_num\":400,\"spec_accept_token_num\":170}");
    assert_int_equal(c.verdict, SB_ACCEPT_CONSISTENT);
    assert_int_equal(c.lines[0].depth, 0);
    /* as wide as for one trial per round */
    near(c.lines[0].difference.low, -0.19 - 0.0125 + 0.01, 0.02);
    c = compare(
        4, "{\"spec_verify_ct\":100,\"spec_draft_token_num\":400,\"spec_accept_token_num\":70}");
    assert_int_equal(c.verdict, SB_ACCEPT_BELOW);
    c = compare(4, "{\"spec_verify_ct\":100,\"spec_accept_rate\":0.425}");
    assert_int_equal(c.verdict, SB_ACCEPT_CONSISTENT);
    c = compare(4, "{\"spec_verify_ct\":100,\"spec_accept_rate\":0.175}");
    assert_int_equal(c.verdict, SB_ACCEPT_BELOW);
    c = compare(4, V "drafts 100\n" V "draft_tokens 400\n" V "accepted_tokens 300\n");
    assert_int_equal(c.verdict, SB_ACCEPT_ABOVE);
    /* 100 rounds: 271 tokens are 170 drafts, one token per round, and the first token of 1
     * request */
    c = compare(4, "{\"timings\":{\"draft_n\":398,\"draft_n_accepted\":170,\"predicted_n\":271}}");
    assert_int_equal(c.verdict, SB_ACCEPT_CONSISTENT);
    c = compare(4, "{\"timings\":{\"draft_n\":398,\"draft_n_accepted\":60,\"predicted_n\":161}}");
    assert_int_equal(c.verdict, SB_ACCEPT_BELOW);
    c = compare(1, "{\"timings\":{\"draft_n\":100,\"draft_n_accepted\":100,\"predicted_n\":201}}");
    assert_int_equal(c.verdict, SB_ACCEPT_ABOVE);
    assert_non_null(strstr(c.why, "fully accepted rounds"));
}

TEST(not_enough)
{
    static const char *const texts[] = {
        V "drafts 100\n",
        V "draft_tokens 100\n",
        V "drafts 0\n" V "draft_tokens 0\n" V "accepted_tokens 0\n",
        V "drafts 100\n" V "draft_tokens 300\n" V "accepted_tokens 200\n", /* another K */
        "{\"spec_verify_ct\":0}",
        "{\"spec_verify_ct\":10}",
        "{\"spec_verify_ct\":10,\"spec_accept_length\":2.4,\"completion_tokens\":24}",
        "{\"spec_verify_ct\":10,\"spec_accept_rate\":0.33}", /* not a multiple of 1/40 */
        "{\"spec_verify_ct\":10,\"spec_accept_token_num\":9}",
        "{\"meta_info\":{\"completion_tokens\":9}}",
        "{\"timings\":{\"predicted_n\":9}}",
        "{\"timings\":{\"draft_n\":40,\"draft_n_accepted\":20}}",
        "{\"timings\":{\"draft_n\":400,\"draft_n_accepted\":20,\"predicted_n\":60}}",
        "{\"timings\":{\"draft_n\":40,\"draft_n_accepted\":20,\"predicted_n\":260}}",
        "{\"timings\":{\"draft_n\":400,\"predicted_n\":101}}",
        "{\"timings\":{\"draft_n_accepted\":0,\"predicted_n\":101}}",
        "{\"timings\":{\"draft_n\":3,\"draft_n_accepted\":1,\"predicted_n\":2}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sb_accept_comparison c = compare(4, texts[i]);
        if (c.verdict != SB_ACCEPT_UNKNOWN)
            fail_msg("%s: %s", texts[i], sb_accept_verdict_name(c.verdict));
    }
}

/* E-16: counters are compared one by one; a difference of one is a difference. */
TEST(counters_to_the_unit)
{
    static const struct {
        const char *text;
        sb_accept_verdict verdict;
        const char *why;
    } rows[] = {
        {VLLM, SB_ACCEPT_EQUAL, "every counter of vLLM is that of the reference"},
        {V "drafts 100\n" V "draft_tokens 300\n" V "accepted_tokens 150\n", SB_ACCEPT_EQUAL, ""},
        {V "drafts 101\n" V "draft_tokens 300\n" V "accepted_tokens 150\n", SB_ACCEPT_DIFFERS,
         "rounds: the engine counted 101, the reference 100"},
        {V "drafts 100\n" V "draft_tokens 299\n" V "accepted_tokens 150\n", SB_ACCEPT_DIFFERS,
         "drafted tokens: the engine counted 299"},
        {V "drafts 100\n" V "draft_tokens 300\n" V "accepted_tokens 149\n", SB_ACCEPT_DIFFERS,
         "accepted drafts: the engine counted 149"},
        {V "drafts 100\n" V "draft_tokens 300\n" V "accepted_tokens 150\n" POS("0", "80")
             POS("1", "49") POS("2", "21"),
         SB_ACCEPT_DIFFERS, "accepted at depth 2: the engine counted 49, the reference 50"},
        {V "drafts 100\n" V "draft_tokens 300\n", SB_ACCEPT_UNKNOWN, "accepted drafts is missing"},
        {V "draft_tokens 300\n" V "accepted_tokens 150\n", SB_ACCEPT_UNKNOWN, "rounds is missing"},
    };
    sb_accept a = {
        .drafts = 3,
        .chain = {.rounds = 100, .drafted = 300, .accepted = 150, .by_depth = {80, 50, 20}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_observed o = parse(rows[i].text);
        sb_accept_comparison c;
        sb_accept_compare_counters(&a, &o, &c);
        assert_int_equal(c.verdict, rows[i].verdict);
        if (!strstr(c.why, rows[i].why))
            fail_msg("%s", c.why);
    }
}

/* E-7: the design effect widens both sides. */
TEST(effects_count)
{
    static const char *const texts[] = {V "drafts 200\n" V "draft_tokens 200\n" POS("0", "120"),
                                        V "drafts 200\n" V "draft_tokens 200\n" V
                                          "accepted_tokens 120\n"};
    for (size_t i = 0; i < 2; i++) {
        sb_accept_comparison c;
        sb_accept a = reference(200, 1, usual); /* 0.8 */
        sb_observed o = parse(texts[i]);
        sb_accept_compare(&a, &o, &c);
        assert_int_equal(c.verdict, SB_ACCEPT_BELOW);
        double width = c.lines[0].difference.high - c.lines[0].difference.low;
        a.depth[0].rate.effect = 2.25;
        sb_accept_compare(&a, &o, &c);
        assert_int_equal(c.verdict, SB_ACCEPT_CONSISTENT);
        double wide = c.lines[0].difference.high - c.lines[0].difference.low;
        assert_true(wide > 1.4 * width && wide < 1.6 * width);
    }
}

/* The error rates of the verdict: with equal rates it is wrong in fewer than 1 of 100 runs, and 0.8
 * against 0.6 is found in nearly all. Whole rounds are drawn, so that depths are correlated as in
 * reality. */
static uint64_t next(uint64_t *x)
{
    *x += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = (*x ^ *x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void draw(uint64_t *seed, size_t rounds, double p, uint64_t by_depth[4])
{
    memset(by_depth, 0, 4 * sizeof *by_depth);
    for (size_t i = 0; i < rounds; i++)
        for (size_t j = 0; j < 4 && (double)(next(seed) >> 11) * 0x1p-53 < p; j++)
            by_depth[j]++;
}

static size_t verdicts(uint64_t seed, double p, double q, size_t runs, int totals,
                       sb_accept_verdict verdict)
{
    size_t n = 0;
    for (size_t i = 0; i < runs; i++) {
        uint64_t own[4], engine[4];
        sb_accept_comparison c;
        draw(&seed, 300, p, own);
        draw(&seed, 300, q, engine);
        sb_accept a = reference(300, 4, own);
        sb_observed o = {.engine = SB_ENGINE_vllm,
                         .has_rounds = 1,
                         .has_drafted = 1,
                         .has_accepted = 1,
                         .rounds = 300,
                         .drafted = 1200,
                         .depths = totals ? 0 : 4};
        for (size_t j = 0; j < 4; j++) {
            o.by_depth[j] = engine[j];
            o.accepted += engine[j];
        }
        sb_accept_compare(&a, &o, &c);
        n += c.verdict == verdict;
    }
    return n;
}

TEST(error_rates)
{
    enum { RUNS = 4000 };
    for (int totals = 0; totals < 2; totals++) {
        size_t wrong = RUNS - verdicts(1, 0.7, 0.7, RUNS, totals, SB_ACCEPT_CONSISTENT);
        size_t seen = verdicts(2, 0.8, 0.6, RUNS, totals, SB_ACCEPT_BELOW);
        size_t above = verdicts(3, 0.6, 0.8, RUNS, totals, SB_ACCEPT_ABOVE);
        if (wrong > RUNS / 100 || seen < RUNS * 95 / 100 || above < RUNS * 95 / 100)
            fail_msg("totals %d: wrong %zu, below %zu, above %zu of %d", totals, wrong, seen, above,
                     RUNS);
    }
}
