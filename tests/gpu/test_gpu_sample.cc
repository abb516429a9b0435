/* test_gpu_sample.cc - draws by kernels have the bits of ref/run/sample.c. test_gpu_math checks
 * log(1 - u). With CHECK_ALL=1 in the environment there are more tokens and more settings. */
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/plant.h"
#include "tests/lib/check_all.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/exact_sum.cuh"
#include "ref/base/bytes.h"
#include "ref/fast/dot/dot.h"
#include "ref/formats/format.h"
#include "ref/run/sample.h"
#include "tests/lib/suite.h"

namespace
{

const sb_backend *emu(uint64_t seed)
{
    sb_backend_emu_seed(seed);
    return sb_backend_emu();
}

/* --- exact sums ------------------------------------------------------------------------------- */
bool sums_are_right()
{
    static float x[3000];
    for (uint64_t round = 0; round < 3000; round++) {
        const uint32_t n = 1 + sb_rng_below(7, round, 40);
        const uint64_t kind = round % 5;
        sb_digits sum;
        sb_digits_clear(&sum);
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t bits = sb_rng_u64(8 + round, i);
            const uint32_t any = static_cast<uint32_t>(bits % 0x3f800001);
            x[i] = kind == 0   ? sb_f32_from_bits(any)
                   : kind == 1 ? sb_f32_from_bits(static_cast<uint32_t>(bits % 0x01000000))
                   : kind == 2 ? sb_f32_from_bits(static_cast<uint32_t>(127 - bits % 30) << 23)
                   : kind == 3 ? sb_rng_uniform(8 + round, i)
                               : (i ? i % 2 ? 0x1p-24f : 0x1p-100f : 1.0f);
            sb_digits_add(&sum, x[i]);
        }
        if (sb_bits_f32(sb_digits_round(sum)) != sb_bits_f32(sb_sum(x, n)))
            return false;
    }
    return true;
}

TEST(test_sums)
{
    assert_true(sums_are_right());
    sb_digits none;
    sb_digits_clear(&none);
    assert_int_equal(sb_bits_f32(sb_digits_round(none)), 0);
    plant("sum_sticky");
    const bool right = sums_are_right();
    plant("");
    assert_false(right);
}

/* --- rows of logits --------------------------------------------------------------------------- */
enum { KINDS = 6 };

/* Ordinary; few different values, so that many are equal; far apart; all equal; zeros of both
 * signs; one that is much larger. */
float *draw_logits(size_t rows, uint32_t n, uint64_t seed)
{
    float *logits = static_cast<float *>(room_for(rows * n, 4));
    for (size_t i = 0; i < rows * n; i++) {
        const uint64_t key = sb_rng_key(seed, "logits"), bits = sb_rng_u64(key, i);
        const float x = sb_rng_normal(key, i);
        const size_t kind = (i / n + seed) % KINDS;
        logits[i] = kind == 0        ? 3.0f * x
                    : kind == 1      ? sb_round_to(SB_FORMAT_bf16, x) * (bits % 3 ? 1.0f : 0.0f)
                    : kind == 2      ? x * 0x1p125f
                    : kind == 3      ? -2.5f
                    : kind == 4      ? (bits & 1 ? 0.0f : -0.0f)
                    : i % n == n / 2 ? 40.0f
                                     : x;
    }
    return logits;
}

/* R-20, and the treatment of NaNs by sb_greedy. */
uint32_t plain_greedy(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* The number of rows for which the kernel gives the token of R-20; 0 if it fails. */
uint32_t greedy_rows(const float *logits, uint32_t rows, uint32_t n, uint64_t seed)
{
    uint32_t tokens[16], same = 0;
    assert_true(rows <= 16);
    if (emu(seed)->greedy(logits, rows, n, tokens))
        return 0;
    for (uint32_t t = 0; t < rows; t++)
        same += tokens[t] == plain_greedy(logits + t * n, n);
    return same;
}

TEST(test_greedy)
{
    const uint64_t seeds = check_all() ? 5 : 2;
    for (uint32_t n : {1u, 37u, 384u, 9001u}) /* the last one in three parts */
        for (uint64_t seed = 0; seed < (n < 1000 ? seeds : 1); seed++)
            for (uint32_t rows : {1u, 6u, 16u}) {
                float *logits = draw_logits(rows, n, seed);
                assert_int_equal(greedy_rows(logits, rows, n, seed), rows);
                free(logits);
            }
}

/* Y-70: "A NaN that stands first counts as the largest, and no other NaN does" */
TEST(test_greedy_bits)
{
    const float nan = sb_f32_from_bits(0x7fc00000), minus = sb_f32_from_bits(0xffc00001);
    const float inf = sb_f32_from_bits(0x7f800000);
    const float rows[][4] = {
        {-inf, -inf, -inf, -inf}, {-inf, 1, -inf, 1}, {nan, 5, inf, 1}, {-1, nan, -2, minus},
        {minus, nan, nan, nan},   {-inf, nan, 3, 3},  {inf, inf, 0, 0}, {-inf, minus, -inf, nan},
        {0.0f, -0.0f, 0.0f, -1},  {-0.0f, 0.0f, 0, 0}};
    const uint32_t count = sizeof rows / sizeof *rows;
    assert_int_equal(greedy_rows(rows[0], count, 4, 0), count);
}

/* --- draws ------------------------------------------------------------------------------------ */
const sb_sampling settings[] = {
    {0x123456789abcdefULL, 0xfedcba9876543210ULL, 0.8f, 40, 0.95f, 0.0f},
    {1, 0, 1.0f, 0, 1.0f, 0.0f},                 /* no filter */
    {2, 5, 0.6f, 0, 0.9f, 0.0f},                 /* top_p alone */
    {3, 1, 1.5f, 7, 1.0f, 0.1f},                 /* top_k, min_p */
    {4, 2, 0.0f, 5, 0.5f, 0.5f},                 /* greedy */
    {5, 3, 1e-30f, 0, 0.3f, 0.0f},               /* nearly greedy */
    {6, 4, 3.0f, 1, 1e-30f, 1.0f},               /* one token */
    {7, 5, 1.0f, 4000000000u, 0.999999f, 1e-5f}, /* top_k beyond the number of tokens */
    {8, 6, 1e-45f, 3, 0.5f, 0.0f},               /* the smallest temperature */
    {9, 7, 3e38f, 0, 0.5f, 0.0f},                /* the largest: all probabilities are equal */
};
enum { SETTINGS = sizeof settings / sizeof *settings, ROWS = 6 };

const uint64_t POSITION = 0xfffffffdu; /* row 3 has position 2^32, whose lower 32 bits are 0 */

/* The number of rows whose token or probabilities differ from the reference's; all if the kernel
 * fails. */
uint32_t rows_that_differ(const float *logits, uint32_t rows, uint32_t n, const sb_sampling &s,
                          sb_purpose purpose, uint64_t seed)
{
    uint32_t tokens[ROWS * 3], wrong = 0;
    float *p = static_cast<float *>(room_for(static_cast<size_t>(rows) * n, 4));
    float *want = static_cast<float *>(room_for(n, 4));
    const sb_draw_args args = {s, logits, rows, n, POSITION, purpose, p, tokens};
    sb_sampler *sampler = nullptr;
    assert_true(rows <= ROWS * 3);
    assert_int_equal(sb_sampler_new(&s, n, &sampler, nullptr), SB_OK);
    if (emu(seed)->draw(&args))
        wrong = rows;
    for (uint32_t t = 0; t < rows && wrong < rows; t++) {
        uint32_t token = 0;
        assert_int_equal(sb_sample_probabilities(sampler, logits + t * n, want, nullptr), SB_OK);
        token = sb_sample_pick(sampler, want, POSITION + t, purpose);
        wrong += token != tokens[t] || memcmp(want, p + t * n, n * sizeof *want) != 0;
    }
    sb_sampler_free(sampler);
    free(want);
    free(p);
    return wrong;
}

void draws_agree(uint32_t rows, uint32_t n, unsigned setting, uint64_t seed)
{
    float *logits = draw_logits(rows, n, seed);
    const sb_purpose purpose = setting % 2 ? SB_DRAW_draft : SB_DRAW_token;
    const uint32_t wrong = rows_that_differ(logits, rows, n, settings[setting], purpose, seed);
    if (wrong)
        fail_msg("settings %u, %u tokens: %u of %u rows are not the reference's", setting, n, wrong,
                 rows);
    free(logits);
}

TEST(test_draws)
{
    for (unsigned i = 0; i < SETTINGS; i++) {
        for (uint32_t n : {1u, 2u, 37u})
            draws_agree(ROWS, n, i, i);
        if (check_all() || i % 3 == 0)
            draws_agree(ROWS, 384, i, i);
    }
    draws_agree(ROWS * 3, 96, 0, 1); /* more rows than one launch takes */
    draws_agree(1, check_all() ? 50001 : 1571, 0, 2);
}

/* A row in several parts, whose blocks together find the last token that is kept; n has parts that
 * are full, one that is not, and ids of one, two or three parts of eight bits. */
TEST(test_parts)
{
    const uint32_t n[] = {4500, 2049, 65537};
    for (unsigned i = 0; i < (check_all() ? 3 : 2); i++)
        for (unsigned setting : {0u, 2u, 9u})
            draws_agree(i < 2 && check_all() ? ROWS : 1, n[i], setting, i + setting);
}

/* Without the output of p, the tokens are the same; with many seeds. */
TEST(test_seeds)
{
    const uint32_t n = 50, seeds = check_all() ? 400 : 25;
    sb_sampling s = settings[0];
    float *logits = draw_logits(1, n, 0);
    uint32_t taken[50] = {0}, kinds = 0;
    for (s.seed = 0; s.seed < seeds; s.seed++) {
        uint32_t token = n, right = n;
        sb_sampler *sampler = nullptr;
        const sb_draw_args args = {s, logits, 1, n, s.seed * 7, SB_DRAW_token, nullptr, &token};
        assert_int_equal(sb_sampler_new(&s, n, &sampler, nullptr), SB_OK);
        assert_int_equal(emu(0)->draw(&args), SB_OK);
        assert_int_equal(
            sb_sample_draw(sampler, logits, s.seed * 7, SB_DRAW_token, &right, nullptr), SB_OK);
        assert_int_equal(token, right);
        kinds += taken[token]++ == 0;
        sb_sampler_free(sampler);
    }
    assert_true(kinds > 3);
    free(logits);
}

/* P-1: "A call with any other value, or with a logit that is not finite, is refused" */
TEST(test_refused)
{
    const uint32_t n = 300;
    float *logits = draw_logits(ROWS, n, 0);
    uint32_t tokens[ROWS];
    for (const sb_sampling &s : {settings[0], settings[4]})
        for (uint32_t bits : {0x7f800000u, 0xff800000u, 0xffc00001u}) {
            const sb_draw_args args = {s, logits, ROWS, n, 0, SB_DRAW_token, nullptr, tokens};
            const float kept = logits[3 * n + 299];
            logits[3 * n + 299] = sb_f32_from_bits(bits);
            assert_int_equal(emu(1)->draw(&args), SB_ERR_NUMERIC);
            assert_string_equal(sb_backend_emu()->why(), "row 3 has a logit that is not finite");
            logits[3 * n + 299] = kept;
            assert_int_equal(emu(1)->draw(&args), SB_OK);
        }
    free(logits);
}

/* --- drafts ----------------------------------------------------------------------------------- */
/* Drafts from q for rows of p, judged by the kernel. */
struct judged {
    float *p, *q; /* (ROWS, n) */
    uint32_t n, drafts[ROWS], accepted[ROWS], tokens[ROWS];
};

/* The number of rows that the kernel judges like the reference; 0 if it fails. */
uint32_t judged_rows(judged *j, const sb_sampling &s, uint64_t seed)
{
    const sb_judge_args args = {s,         j->p,     j->q,        ROWS,     j->n,
                                j->drafts, POSITION, j->accepted, j->tokens};
    sb_sampler *sampler = nullptr;
    uint32_t same = 0;
    assert_int_equal(sb_sampler_new(&s, j->n, &sampler, nullptr), SB_OK);
    const sb_status status = emu(seed)->judge(&args);
    for (uint32_t t = 0; t < ROWS && !status; t++) {
        const float *p = j->p + t * j->n, *q = j->q + t * j->n;
        const bool yes = sb_sample_accepts(sampler, p, q, j->drafts[t], POSITION + t);
        const uint32_t token = yes ? j->drafts[t] : sb_sample_residual(sampler, p, q, POSITION + t);
        same += j->accepted[t] == yes && j->tokens[t] == token;
    }
    sb_sampler_free(sampler);
    return same;
}

/* p from drawn logits, and q from logits near them. */
judged draw_drafts(uint32_t n, const sb_sampling &s, uint64_t seed, float noise)
{
    judged j = {static_cast<float *>(room_for(ROWS * n, 4)),
                static_cast<float *>(room_for(ROWS * n, 4)),
                n,
                {0},
                {0},
                {0}};
    float *a = draw_logits(ROWS, n, seed), *b = draw_logits(ROWS, n, seed);
    sb_sampler *sampler = nullptr;
    for (uint32_t i = 0; i < ROWS * n; i++)
        b[i] += noise * sb_rng_normal(seed, i);
    assert_int_equal(sb_sampler_new(&s, n, &sampler, nullptr), SB_OK);
    for (uint32_t t = 0; t < ROWS; t++) {
        float *p = j.p + t * n, *q = j.q + t * n;
        assert_int_equal(sb_sample_probabilities(sampler, a + t * n, p, nullptr), SB_OK);
        assert_int_equal(sb_sample_probabilities(sampler, b + t * n, q, nullptr), SB_OK);
        j.drafts[t] = sb_sample_pick(sampler, q, POSITION + t, SB_DRAW_draft);
    }
    sb_sampler_free(sampler);
    free(a);
    free(b);
    return j;
}

TEST(test_drafts)
{
    unsigned seen[2] = {0, 0};
    for (uint64_t seed = 0; seed < (check_all() ? 40 : 6); seed++) {
        const sb_sampling &s = settings[seed % 5];
        judged j = draw_drafts(384, s, seed, seed == 3 ? 0.0f : 0.5f);
        assert_int_equal(judged_rows(&j, s, seed), ROWS);
        for (uint32_t yes : j.accepted)
            seen[yes]++;
        j.drafts[0] = 383 - j.drafts[0]; /* often a draft with q = 0 */
        assert_int_equal(judged_rows(&j, s, seed), ROWS);
        free(j.p);
        free(j.q);
    }
    assert_true(seen[0] > 5 && seen[1] > 5);
}

/* p(d) is u q(d) rounded up: the exact product is below p(d), but the rounded product is not. */
judged narrow_drafts(const sb_sampling &s)
{
    judged j = draw_drafts(8, s, 0, 0.5f);
    for (uint32_t t = 0; t < ROWS; t++) {
        const float u = sb_sample_uniform(&s, j.drafts[t], POSITION + t, SB_DRAW_accept);
        for (uint32_t k = 0; k < 1000; k++) {
            const float q = 0.5f + 0x1p-12f * static_cast<float>(k);
            j.q[t * 8 + j.drafts[t]] = q;
            j.p[t * 8 + j.drafts[t]] = u * q;
            if (static_cast<double>(u) * static_cast<double>(q) < static_cast<double>(u * q))
                break;
        }
    }
    return j;
}

/* --- faults ----------------------------------------------------------------------------------- */
/* The number of rows that differ under a fault. Without the fault, the same rows do not differ. */
uint32_t differing(const char *name, const float *logits, uint32_t n, const sb_sampling &s,
                   uint64_t seed)
{
    assert_int_equal(rows_that_differ(logits, ROWS, n, s, SB_DRAW_token, seed), 0);
    plant(name);
    const uint32_t wrong = rows_that_differ(logits, ROWS, n, s, SB_DRAW_token, seed);
    plant("");
    return wrong;
}

TEST(test_faults)
{
    const uint32_t n = 64;
    float *logits = draw_logits(ROWS, n, 0);
    for (const char *name : {"sample_nine_rounds", "sample_next_word", "sample_top_p"})
        assert_true(differing(name, logits, n, settings[0], 0) > 0);
    assert_true(differing("sample_ties", logits, n, settings[3], 0) > 0);
    assert_true(differing("sample_halves", logits, n, settings[2], 0) > 0);
    for (const char *name :
         {"sample_barrier", "sample_barrier2", "sample_barrier3", "sum_barrier", "argmax_barrier"})
        for (uint64_t seed = 0; seed < (check_all() ? 5 : 2); seed++)
            if (differing(name, logits, n, settings[0], seed) < ROWS)
                fail_msg("%s is not seen with seed %u", name, static_cast<unsigned>(seed));
    free(logits);
}

/* The last block but one of a row does not see the tokens of the last. */
TEST(test_early_blocks)
{
    const uint32_t n = 5000;
    float *logits = draw_logits(1, n, 0);
    logits[n - 1] = logits[n - 2] = 30.0f; /* of the last part */
    for (uint64_t seed = 0; seed < (check_all() ? 5 : 2); seed++) {
        assert_int_equal(rows_that_differ(logits, 1, n, settings[0], SB_DRAW_token, seed), 0);
        plant("sample_early");
        const uint32_t wrong = rows_that_differ(logits, 1, n, settings[0], SB_DRAW_token, seed);
        plant("");
        assert_int_equal(wrong, 1);
    }
    free(logits);
}

TEST(test_greedy_faults)
{
    const uint32_t n = 64;
    float *logits = draw_logits(ROWS, n, 0);
    logits[n - 1] = 100.0f;
    assert_int_equal(greedy_rows(logits, ROWS, n, 0), ROWS);
    for (const char *name : {"argmax_highest_id", "argmax_last", "argmax_barrier"}) {
        plant(name);
        const uint32_t same = greedy_rows(logits, ROWS, n, 0);
        plant("");
        assert_true(same < ROWS);
    }
    free(logits);
}

/* The number of rows judged differently under a fault. Without the fault, all drafts are judged
 * correctly. */
uint32_t misjudged(const char *name, judged j, const sb_sampling &s)
{
    assert_int_equal(judged_rows(&j, s, 0), ROWS);
    plant(name);
    const uint32_t wrong = ROWS - judged_rows(&j, s, 0);
    plant("");
    free(j.p);
    free(j.q);
    return wrong;
}

TEST(test_draft_faults)
{
    const sb_sampling s = settings[1];
    uint32_t rest = 0, word = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        rest += misjudged("sample_rest", draw_drafts(3, s, seed, 2.0f), s);
        word += misjudged("sample_next_word", draw_drafts(3, s, seed, 2.0f), s);
    }
    assert_true(rest > 0);
    assert_true(word > 0);
    assert_true(misjudged("sample_accept", narrow_drafts(s), s) > 0);
}

} // namespace
