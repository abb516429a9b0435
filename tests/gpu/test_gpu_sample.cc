/* test_gpu_sample.cc - greedy and seeded draws by kernels: the bits of ref/run/sample.c.
 *
 * test_gpu_sample --exceptions prints gpu/math/log1p_exceptions.inc. */
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/plant.h"

#include <initializer_list>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/sample.cuh"

extern "C" {
#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/run/sample.h"
}

namespace
{

enum { SCHEDULES = 5 };

namespace of_log1p
{
#include "gpu/math/log1p_exceptions.inc"
}

/* --- log(1 - u) --------------------------------------------------------------------------------
 */
enum : uint32_t { LOG1P_FIRST = 0x2f000000, LOG1P_END = 0x3f800000 }; /* 2^-33 to 1 */

bool log1p_right(uint32_t bits)
{
    const float u = sb_f32_from_bits(bits);
    return sb_bits_f32(sb_gpu_log1p_minus(u)) == sb_bits_f32(sb_log1p(-u));
}

void test_log1p(void **)
{
    const char *all = getenv("CHECK_ALL");
    const uint32_t step = all && *all ? 1 : 691;
    for (uint32_t bits = LOG1P_FIRST; bits < LOG1P_END; bits += step)
        if (!log1p_right(bits))
            fail_msg("log(1 - u) is wrong for u of bits 0x%08x", bits);
    for (int i = 0; i < of_log1p::COUNT; i++)
        assert_true(log1p_right(of_log1p::ROWS[i].input));
    assert_true(log1p_right(LOG1P_END - 1));
}

int print_exceptions()
{
    static uint32_t wrong[4096];
    int count = 0, known = 0;
    for (uint32_t bits = LOG1P_FIRST; bits < LOG1P_END && count < 4096; bits++) {
        const bool has = known < of_log1p::COUNT && of_log1p::ROWS[known].input == bits;
        known += has;
        if (has || !log1p_right(bits))
            wrong[count++] = bits;
    }
    printf("/* Written by tests/gpu/test_gpu_sample.cc; do not edit. */\n"
           "static const int COUNT = %d;\nstatic const sb_gpu_exception ROWS[] = {\n",
           count);
    for (int i = 0; i < count; i++)
        printf("{0x%08x, 0x%08x},%s", wrong[i], sb_bits_f32(sb_log1p(-sb_f32_from_bits(wrong[i]))),
               i % 4 == 3 ? "\n" : " ");
    printf("%s};\n", count % 4 ? "\n" : "");
    return count < 4096 ? 0 : 1;
}

/* --- exact sums --------------------------------------------------------------------------------
 */
void test_sums(void **)
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
                               : (i ? 0x1p-24f : 1.0f);
            sb_digits_add(&sum, x[i]);
        }
        assert_int_equal(sb_bits_f32(sb_digits_round(sum)), sb_bits_f32(sb_sum(x, n)));
    }
    sb_digits none;
    sb_digits_clear(&none);
    assert_int_equal(sb_bits_f32(sb_digits_round(none)), 0);
}

/* --- rows of logits ----------------------------------------------------------------------------
 */
enum { KINDS = 6 };

/* Ordinary; few values, so that many are equal; far apart; all equal; zeros of both signs; one that
 * stands out. */
float *draw_logits(size_t rows, uint32_t n, uint64_t seed)
{
    float *logits = static_cast<float *>(room_for(rows * n, 4));
    for (size_t i = 0; i < rows * n; i++) {
        const uint64_t key = sb_rng_key(seed, "logits"), bits = sb_rng_u64(key, i);
        const float x = sb_rng_normal(key, i);
        const size_t kind = (i / n + seed) % KINDS;
        logits[i] = kind == 0        ? 3.0f * x
                    : kind == 1      ? sb_round_to(SB_FORMAT_bf16, x) * (bits % 3 ? 1.0f : 0.0f)
                    : kind == 2      ? x * 1e38f * 0.5f
                    : kind == 3      ? -2.5f
                    : kind == 4      ? (bits & 1 ? 0.0f : -0.0f)
                    : i % n == n / 2 ? 40.0f
                                     : x;
    }
    return logits;
}

uint32_t plain_greedy(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

bool argmax(const float *logits, uint32_t rows, uint32_t n, uint32_t parts, uint64_t seed,
            uint32_t *tokens)
{
    uint64_t *partial = static_cast<uint64_t *>(room_for(static_cast<size_t>(rows) * parts, 8));
    bool done;
    {
        emu_bench part(seed);
        const auto keys = part.out("partial", partial, static_cast<size_t>(rows) * parts);
        done =
            SB_LAUNCH(&part.queue, sb_argmax_part, dim3(parts, rows), SB_ARGMAX_THREADS, 0,
                      part.in("logits", logits, static_cast<size_t>(rows) * n), keys, n) == SB_OK &&
            SB_LAUNCH(&part.queue, sb_argmax_end, rows, SB_ARGMAX_THREADS, 0, keys,
                      part.out("tokens", tokens, rows), parts) == SB_OK &&
            part.complete();
    }
    free(partial);
    return done;
}

void test_argmax(void **)
{
    uint32_t tokens[12];
    for (uint32_t n : {1u, 37u, 384u, 997u, 3000u})
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            for (uint32_t parts : {1u, 3u, 300u}) {
                float *logits = draw_logits(12, n, seed);
                assert_true(argmax(logits, 12, n, parts, seed, tokens));
                for (uint32_t t = 0; t < 12; t++)
                    assert_int_equal(tokens[t], plain_greedy(logits + t * n, n));
                free(logits);
            }
}

/* --- draws -------------------------------------------------------------------------------------
 */
const sb_sampling settings[] = {
    {1, 0, 1.0f, 0, 1.0f, 0.0f},
    {0x123456789abcdefULL, 0xfedcba9876543210ULL, 0.7f, 20, 0.95f, 0.0f},
    {2, 5, 0.6f, 0, 0.9f, 0.0f},
    {3, 1, 1.5f, 7, 1.0f, 0.1f},
    {4, 2, 0.0f, 5, 0.5f, 0.5f},
    {5, 3, 1e-30f, 0, 0.3f, 0.0f},
    {6, 4, 3.0f, 1, 1e-30f, 1.0f},
    {7, 5, 1.0f, 4000000000u, 0.999999f, 1e-5f},
};
enum { SETTINGS = sizeof settings / sizeof *settings, ROWS = 6 };

sb_sample_settings settings_of(const sb_sampling &s)
{
    const sb_sample_settings out = {
        {static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.seed >> 32)},
        {static_cast<uint32_t>(s.sequence), static_cast<uint32_t>(s.sequence >> 32)},
        s.temperature,
        s.top_p,
        s.min_p,
        s.top_k};
    return out;
}

const uint32_t positions[ROWS] = {0, 1, 77, 0xffffffff, 5, 5};

bool sample(const float *logits, uint32_t n, const sb_sampling &s, uint64_t seed, uint32_t word,
            float *p, uint32_t *tokens)
{
    emu_bench b(seed);
    const size_t count = static_cast<size_t>(ROWS) * n;
    return SB_LAUNCH(&b.queue, sb_sample_kernel, ROWS, SB_SAMPLE_THREADS, 0,
                     b.in("logits", logits, count), b.out("p", p, count),
                     b.in("positions", positions, ROWS), b.out("tokens", tokens, ROWS),
                     settings_of(s), n, word) == SB_OK &&
           b.complete();
}

bool sampled_as_reference(const float *logits, uint32_t n, const sb_sampling &s, sb_purpose purpose,
                          const float *p, const uint32_t *tokens)
{
    sb_sampler *sampler = NULL;
    float *want = static_cast<float *>(room_for(n, 4));
    bool same = true;
    assert_int_equal(sb_sampler_new(&s, n, &sampler, NULL), SB_OK);
    for (uint32_t t = 0; t < ROWS; t++) {
        uint32_t token = 0;
        assert_int_equal(sb_sample_probabilities(sampler, logits + t * n, want, NULL), SB_OK);
        assert_int_equal(
            sb_sample_draw(sampler, logits + t * n, positions[t], purpose, &token, NULL), SB_OK);
        same = same && token == tokens[t] && memcmp(want, p + t * n, n * sizeof *want) == 0;
    }
    sb_sampler_free(sampler);
    free(want);
    return same;
}

void test_draws(void **)
{
    uint32_t tokens[ROWS];
    for (uint32_t n : {1u, 2u, 37u, 384u, 997u})
        for (unsigned i = 0; i < SETTINGS; i++) {
            const uint64_t seed = i % SCHEDULES;
            const sb_purpose purpose = i % 2 ? SB_DRAW_draft : SB_DRAW_token;
            float *logits = draw_logits(ROWS, n, i);
            float *p = static_cast<float *>(room_for(static_cast<size_t>(ROWS) * n, 4));
            assert_true(sample(logits, n, settings[i], seed, purpose, p, tokens));
            if (!sampled_as_reference(logits, n, settings[i], purpose, p, tokens))
                fail_msg("settings %u, %u tokens: not the reference's draw", i, n);
            free(logits);
            free(p);
        }
}

/* Drafts from q are judged against p. */
void test_drafts(void **)
{
    const uint32_t n = 384;
    unsigned seen[2] = {0, 0};
    for (uint64_t seed = 0; seed < 8; seed++) {
        const sb_sampling &s = settings[seed % 4];
        sb_sampler *sampler = NULL;
        float *a = draw_logits(ROWS, n, seed), *c = draw_logits(ROWS, n, seed);
        float *p = static_cast<float *>(room_for(ROWS * n, 4));
        float *q = static_cast<float *>(room_for(ROWS * n, 4));
        uint32_t drafts[ROWS], accepted[ROWS], tokens[ROWS];
        for (uint32_t i = 0; i < ROWS * n; i++)
            c[i] = seed == 3 ? a[i] : c[i] + 0.5f * sb_rng_normal(seed, i);
        assert_int_equal(sb_sampler_new(&s, n, &sampler, NULL), SB_OK);
        for (uint32_t t = 0; t < ROWS; t++) {
            assert_int_equal(sb_sample_probabilities(sampler, a + t * n, p + t * n, NULL), SB_OK);
            assert_int_equal(sb_sample_probabilities(sampler, c + t * n, q + t * n, NULL), SB_OK);
            drafts[t] = sb_sample_pick(sampler, q + t * n, positions[t], SB_DRAW_draft);
        }
        {
            emu_bench b(seed);
            EMU_RUN(b, sb_sample_judge, ROWS, SB_SAMPLE_THREADS, 0, b.in("p", p, ROWS * n),
                    b.in("q", q, ROWS * n), b.in("drafts", drafts, ROWS),
                    b.in("positions", positions, ROWS), b.out("accepted", accepted, ROWS),
                    b.out("tokens", tokens, ROWS), settings_of(s), n);
            assert_true(b.complete());
        }
        for (uint32_t t = 0; t < ROWS; t++) {
            const float *pt = p + t * n, *qt = q + t * n;
            const int yes = sb_sample_accepts(sampler, pt, qt, drafts[t], positions[t]);
            assert_int_equal(accepted[t], yes != 0);
            assert_int_equal(tokens[t],
                             yes ? drafts[t] : sb_sample_residual(sampler, pt, qt, positions[t]));
            seen[yes != 0]++;
        }
        sb_sampler_free(sampler);
        free(a);
        free(c);
        free(p);
        free(q);
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
}

/* P-1: "a call with any other value, or with a logit that is not finite, is refused": that row, and
 * no other. */
void test_refused(void **)
{
    const uint32_t n = 300;
    float *logits = draw_logits(ROWS, n, 0);
    float *p = static_cast<float *>(room_for(ROWS * n, 4));
    uint32_t tokens[ROWS];
    logits[1 * n + 299] = sb_f32_from_bits(0x7f800000);
    logits[3 * n] = sb_f32_from_bits(0xffc00001);
    assert_true(sample(logits, n, settings[0], 1, 0, p, tokens));
    for (uint32_t t = 0; t < ROWS; t++)
        assert_int_equal(tokens[t] == SB_SAMPLE_REFUSED, t == 1 || t == 3);
    free(logits);
    free(p);
}

void test_faults(void **)
{
    const uint32_t n = 384;
    uint32_t tokens[12];
    float *logits = draw_logits(12, n, 0);
    float *p = static_cast<float *>(room_for(ROWS * n, 4));
    plant("sample_nine_rounds");
    bool done = sample(logits, n, settings[0], 0, 0, p, tokens);
    plant("");
    assert_false(done && sampled_as_reference(logits, n, settings[0], SB_DRAW_token, p, tokens));
    assert_true(sample(logits, n, settings[0], 0, 0, p, tokens));
    assert_true(sampled_as_reference(logits, n, settings[0], SB_DRAW_token, p, tokens));
    p[n + 5] = sb_f32_from_bits(sb_bits_f32(p[n + 5]) + 1);
    assert_false(sampled_as_reference(logits, n, settings[0], SB_DRAW_token, p, tokens));
    plant("argmax_highest_id");
    assert_true(argmax(logits, 12, n, 3, 0, tokens));
    plant("");
    unsigned wrong = 0;
    for (uint32_t t = 0; t < 12; t++)
        wrong += tokens[t] != plain_greedy(logits + t * n, n);
    assert_true(wrong > 0);
    for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
        plant("argmax_barrier");
        done = argmax(logits, 12, n, 3, seed, tokens);
        plant("");
        assert_false(done);
    }
    free(logits);
    free(p);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--exceptions") == 0)
        return print_exceptions();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log1p),  cmocka_unit_test(test_sums),
        cmocka_unit_test(test_argmax), cmocka_unit_test(test_draws),
        cmocka_unit_test(test_drafts), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests_name("draws by kernels", tests, NULL, NULL);
}
