/* test_sample.c - the sampler against golden/sampler, which another program wrote from section P;
 * mistakes that these vectors detect; and what a draw must not depend on. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/run/session.h"
#include "tests/unit/sample_vectors.h"

enum { V = 377 };

static const sb_sampling ALL = {.seed = 42, .temperature = 1, .top_p = 1};
static const sb_sampling FILTERED = {
    .seed = 42, .sequence = 3, .temperature = 0.7f, .top_k = 50, .top_p = 0.9f, .min_p = 0.01f};

static sb_sampler *sampler_of(sb_sampling s, uint32_t n)
{
    sb_sampler *sampler = NULL;
    sb_error err = {""};
    if (sb_sampler_new(&s, n, &sampler, &err))
        fail_msg("%s", err.text);
    return sampler;
}

static uint32_t draw(sb_sampler *sampler, const float *logits, uint64_t position,
                     sb_purpose purpose)
{
    uint32_t token = 0;
    sb_error err = {""};
    if (sb_sample_draw(sampler, logits, position, purpose, &token, &err))
        fail_msg("%s", err.text);
    return token;
}

static void make_logits(const char *name, float *logits, uint32_t n)
{
    uint64_t key = sb_rng_key(42, name);
    for (uint32_t i = 0; i < n; i++)
        logits[i] = 2.0f * sb_rng_normal(key, i);
}

/* --- the vectors ------------------------------------------------------------------------------ */

TEST_FIXTURE(open_vectors)
{
    *suite_state = sample_vectors_open();
    return 0;
}

TEST_FIXTURE(close_vectors)
{
    sample_vectors_close(*suite_state);
    return 0;
}

TEST_WITH(test_vectors, open_vectors, close_vectors)
{
    sample_vectors *v = *suite_state;
    char where[200];
    assert_true(sample_answers(v) > 20000);
    size_t different = sample_differences(v, (sample_voice){.is_library = 1}, 1, where);
    if (different)
        fail_msg("%zu answers of the library differ; first: %s", different, where);
    different = sample_differences(v, (sample_voice){.mistake = PLAIN_none}, 1, where);
    if (different)
        fail_msg("%zu answers of the plain twin differ; first: %s", different, where);
}

/* The bits do not depend on the kernel set that adds the sums. */
TEST_WITH(test_kernels, open_vectors, close_vectors)
{
    sample_vectors *v = *suite_state;
    char where[200], before[32];
    strcpy(before, sb_dot_selected());
    assert_int_equal(sb_dot_select("exact", NULL), SB_OK);
    size_t different = sample_differences(v, (sample_voice){.is_library = 1}, 1, where);
    assert_int_equal(sb_dot_select(before, NULL), SB_OK);
    if (different)
        fail_msg("%zu answers differ with exact sums; first: %s", different, where);
}

TEST_WITH(test_mistakes, open_vectors, close_vectors)
{
    static const char *const name[] = {"none",
#define PLAIN_NAME(name, what) #name,
                                       PLAIN_MISTAKES(PLAIN_NAME)
#undef PLAIN_NAME
    };
    sample_vectors *v = *suite_state;
    int missed = 0;
    for (int m = PLAIN_none + 1; m < PLAIN_COUNT; m++) {
        char where[200];
        sample_voice voice = {.mistake = (plain_mistake)m};
        if (sample_differences(v, voice, 0, where) == 0) {
            print_error("no vector tells the mistake %s\n", name[m]);
            missed++;
        } else if (getenv("SHOW")) {
            print_message("%s: %s\n", name[m], where);
        }
    }
    assert_int_equal(missed, 0);
}

/* --- what a draw must not depend on * --------------------------------------------------------- */

enum { PLACES = 120 };

/* The same draws forwards, backwards, with other draws in between, and by a sampler of their own:
 * P-14: "a draw does not depend on earlier draws" */
TEST(test_order)
{
    float logits[V], other[V];
    uint32_t expected[PLACES];
    make_logits("order", logits, V);
    make_logits("other", other, V);
    sb_sampler *sampler = sampler_of(FILTERED, V);
    for (uint32_t i = 0; i < PLACES; i++)
        expected[i] = draw(sampler, logits, i, SB_DRAW_token);
    for (uint32_t i = PLACES; i-- > 0;) {
        assert_int_equal(draw(sampler, logits, i, SB_DRAW_token), expected[i]);
        draw(sampler, other, i + i % 3, (sb_purpose)(i % 4));
        assert_int_equal(draw(sampler, logits, i, SB_DRAW_token), expected[i]);
        sb_sampler *fresh = sampler_of(FILTERED, V);
        assert_int_equal(draw(fresh, logits, i, SB_DRAW_token), expected[i]);
        sb_sampler_free(fresh);
    }
    sb_sampler_free(sampler);
}

/* A different seed, sequence, position or purpose gives different draws. */
TEST(test_streams)
{
    float logits[V];
    make_logits("streams", logits, V);
    sb_sampling settings[4] = {ALL, ALL, ALL, ALL};
    settings[1].seed++;
    settings[2].sequence++;
    sb_sampler *sampler[4];
    for (int k = 0; k < 4; k++)
        sampler[k] = sampler_of(settings[k], V);
    int same[4] = {0};
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t token = draw(sampler[0], logits, i, SB_DRAW_token);
        same[0] += token == draw(sampler[0], logits, i, SB_DRAW_draft);
        same[1] += token == draw(sampler[1], logits, i, SB_DRAW_token);
        same[2] += token == draw(sampler[2], logits, i, SB_DRAW_token);
        same[3] += token == draw(sampler[3], logits, i + 1, SB_DRAW_token);
    }
    for (int k = 0; k < 4; k++) {
        assert_true(same[k] < PLACES / 4);
        sb_sampler_free(sampler[k]);
    }
}

/* The noise of a token depends on that token alone: if other tokens are cut or added, a token that
 * lost never wins against a remaining one. */
TEST(test_other_tokens)
{
    float logits[V];
    make_logits("others", logits, V);
    sb_sampling cut = ALL;
    cut.top_k = 40;
    sb_sampler *all = sampler_of(ALL, V), *few = sampler_of(cut, V);
    float p[V];
    assert_int_equal(sb_sample_probabilities(few, logits, p, NULL), SB_OK);
    int kept = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t token = draw(all, logits, i, SB_DRAW_token);
        if (p[token] > 0) {
            assert_int_equal(draw(few, logits, i, SB_DRAW_token), token);
            kept++;
        }
    }
    assert_in_range(kept, PLACES / 4, PLACES - 1);
    sb_sampler_free(all);
    sb_sampler_free(few);
}

/* R-20 agrees with a temperature so low that no other token can be drawn. */
TEST(test_greedy)
{
    sb_sampling cold = ALL, colder = ALL;
    cold.temperature = 0;
    colder.temperature = 0x1p-149f;
    sb_sampler *greedy = sampler_of(cold, V), *low = sampler_of(colder, V);
    for (uint64_t i = 0; i < PLACES; i++) {
        float logits[V];
        uint64_t key = sb_rng_key(i, "greedy");
        for (uint32_t k = 0; k < V; k++)
            logits[k] = sb_rng_normal(key, k);
        assert_int_equal(draw(greedy, logits, i, SB_DRAW_token), sb_greedy(logits, V));
        assert_int_equal(draw(low, logits, i, SB_DRAW_draft), sb_greedy(logits, V));
    }
    sb_sampler_free(greedy);
    sb_sampler_free(low);
}

/* The largest published vocabulary, and the promises of the filters for it. */
TEST(test_large)
{
    enum { LARGE = 248320 };
    float *logits = sb_alloc(LARGE, sizeof *logits), *p = sb_alloc(LARGE, sizeof *p);
    assert_true(logits && p);
    make_logits("large", logits, LARGE);
    sb_sampling s = ALL;
    s.top_p = 0.75f;
    sb_sampler *sampler = sampler_of(s, LARGE);
    assert_int_equal(sb_sample_probabilities(sampler, logits, p, NULL), SB_OK);
    float least = 1, highest_cut = -INFINITY, lowest_kept = INFINITY;
    for (uint32_t i = 0; i < LARGE; i++)
        if (p[i] > 0) {
            least = fminf(least, p[i]);
            lowest_kept = fminf(lowest_kept, logits[i]);
        } else {
            highest_cut = fmaxf(highest_cut, logits[i]);
        }
    assert_true(highest_cut <= lowest_kept);
    assert_true(least > 0 && sb_sum(p, LARGE) > 0.9999f && sb_sum(p, LARGE) < 1.0001f);
    uint32_t token = draw(sampler, logits, 7, SB_DRAW_token);
    assert_true(p[token] > 0);
    assert_int_equal(token, plain_pick(PLAIN_none, &s, p, LARGE, 7, SB_DRAW_token));
    sb_sampler_free(sampler);
    free(logits);
    free(p);
}

/* --- bad input -------------------------------------------------------------------------------- */

static void expect_refused(sb_sampling s, const char *text)
{
    sb_error err = {""};
    sb_sampler *sampler = NULL;
    assert_int_equal(sb_sampling_check(&s, &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, text));
    assert_int_equal(sb_sampler_new(&s, V, &sampler, &err), SB_ERR_USAGE);
    assert_null(sampler);
}

TEST(test_settings)
{
    const float bad_temperature[] = {-1, -0x1p-149f, NAN, INFINITY, -INFINITY};
    const float bad_top_p[] = {0, -0.0f, -0.5f, 1 + 0x1p-23f, NAN, INFINITY};
    const float bad_min_p[] = {-0x1p-149f, 1 + 0x1p-23f, NAN, -INFINITY};
    for (size_t i = 0; i < sizeof bad_temperature / sizeof *bad_temperature; i++) {
        sb_sampling s = ALL;
        s.temperature = bad_temperature[i];
        expect_refused(s, "temperature");
    }
    for (size_t i = 0; i < sizeof bad_top_p / sizeof *bad_top_p; i++) {
        sb_sampling s = ALL;
        s.top_p = bad_top_p[i];
        expect_refused(s, "top_p");
    }
    for (size_t i = 0; i < sizeof bad_min_p / sizeof *bad_min_p; i++) {
        sb_sampling s = ALL;
        s.min_p = bad_min_p[i];
        expect_refused(s, "min_p");
    }
    sb_sampling edge = {.temperature = -0.0f, .top_k = UINT32_MAX, .top_p = 0x1p-149f, .min_p = 1};
    assert_int_equal(sb_sampling_check(&edge, NULL), SB_OK);
    sb_sampler *none = NULL;
    assert_int_equal(sb_sampler_new(&ALL, 0, &none, NULL), SB_ERR_USAGE);
    assert_null(none);
    sb_sampler *sampler = sampler_of(FILTERED, V);
    assert_memory_equal(sb_sampler_settings(sampler), &FILTERED, sizeof FILTERED);
    sb_sampler_free(sampler);
}

TEST(test_not_finite)
{
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int temperature = 0; temperature < 2; temperature++)
        for (size_t i = 0; i < 3; i++) {
            sb_sampling s = ALL;
            s.temperature = (float)temperature;
            sb_sampler *sampler = sampler_of(s, 3);
            float logits[3] = {1, 2, bad[i]}, p[3];
            uint32_t token = 99;
            sb_error err = {""};
            assert_int_equal(sb_sample_probabilities(sampler, logits, p, &err), SB_ERR_NUMERIC);
            assert_non_null(strstr(err.text, "token 2"));
            assert_int_equal(sb_sample_draw(sampler, logits, 0, SB_DRAW_token, &token, &err),
                             SB_ERR_NUMERIC);
            assert_int_equal(token, 99);
            sb_sampler_free(sampler);
        }
}

/* A weight that is not above 0 is never drawn; without any positive weight the draw is token 0. */
TEST(test_weights)
{
    sb_sampler *sampler = sampler_of(ALL, 4);
    const float odd[4] = {NAN, -1, 0x1p-149f, 0}, nothing[4] = {0, -0.0f, -1, NAN};
    for (uint64_t i = 0; i < PLACES; i++) {
        assert_int_equal(sb_sample_pick(sampler, odd, i, SB_DRAW_token), 2);
        assert_int_equal(sb_sample_pick(sampler, nothing, i, SB_DRAW_token), 0);
    }
    sb_sampler_free(sampler);
    sampler = sampler_of(ALL, 1);
    const float one = -3;
    assert_int_equal(draw(sampler, &one, 5, SB_DRAW_token), 0);
    sb_sampler_free(sampler);
}

TEST(test_memory)
{
    for (unsigned long n = 1; n <= 5; n++) {
        sb_sampler *sampler = NULL;
        sb_alloc_fail_at(n);
        sb_status status = sb_sampler_new(&FILTERED, V, &sampler, NULL);
        sb_alloc_fail_at(0);
        assert_int_equal(status, n <= 4 ? SB_ERR_MEMORY : SB_OK);
        assert_int_equal(sampler != NULL, status == SB_OK);
        sb_sampler_free(sampler);
    }
}
