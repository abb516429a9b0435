/* test_hash_laws.c - the counts of `info --laws` against the laws written out here, and their rates
 * for factors in the range of real tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "tests/lib/suite.h"
#include "tools/check/hash/laws.h"

enum { SCALES = 126, CODES = 7, COLS = 16 };

/* Every positive block scale, one per row, with the codes 1 to 7 and zeros. */
static unsigned char all_codes[SCALES][COLS / 2], all_scales[SCALES];

static sb_matrix all_pairs(sb_factor factor)
{
    for (unsigned row = 0; row < SCALES; row++) {
        static const unsigned char codes[COLS / 2] = {0x21, 0x43, 0x65, 0x07};
        memcpy(all_codes[row], codes, sizeof codes);
        all_scales[row] = (unsigned char)(row + 1);
    }
    sb_matrix m = {.data = all_codes[0], .format = SB_FORMAT_e2m1, .rows = SCALES, .cols = COLS};
    m.quant = (sb_quant){.scales = all_scales,
                         .scale_format = SB_FORMAT_e4m3,
                         .block_rows = 1,
                         .block_cols = COLS,
                         .scale_row = 1,
                         .scale_col = 1,
                         .groups = 1,
                         .stored_rows = SCALES,
                         .factor = factor};
    return m;
}

/* A weight under one law, computed from its expression; the factor is a multiplier m or a divisor
 * d. For the exact law, binary64 holds every q s m exactly. A quotient is rounded first to 53 bits
 * and then to the same binary32 as directly, because 53 >= 2 * 24 + 2. */
static float weight(sb_law law, float q, float s, sb_factor f)
{
    volatile float m = f.kind == SB_MULTIPLIER ? f.value : 1.0f / f.value;
    volatile float d = f.kind == SB_DIVISOR ? f.value : 1.0f / f.value;
    volatile float e = 0;
    switch (law) {
    case SB_LAW_exact:
        return f.kind == SB_DIVISOR ? (float)((double)q * s / d) : (float)((double)q * s * m);
    case SB_LAW_ct_div:
        e = s / d;
        break;
    case SB_LAW_ct_rcp:
        e = 1.0f / d;
        e = s * e;
        break;
    default: /* block scales of E4M3 are exact in bf16 */
        e = s * m;
    }
    e = q * e;
    return e;
}

static void count_here(sb_factor f, sb_law_counts *c)
{
    static const float codes[] = {0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (unsigned i = 1; i <= SCALES; i++)
        for (unsigned k = 0; k < CODES; k++)
            for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
                sb_law a = SB_LAW_exact, b = SB_LAW_exact;
                sb_law_pair(p, &a, &b);
                float s = sb_code_to_f32(SB_FORMAT_e4m3, i);
                float x = weight(a, codes[k], s, f), y = weight(b, codes[k], s, f);
                uint32_t apart = sb_bits_f32(x) > sb_bits_f32(y) ? sb_bits_f32(x) - sb_bits_f32(y)
                                                                 : sb_bits_f32(y) - sb_bits_f32(x);
                c->f32[p] += apart > 0;
                c->bf16[p] += sb_f32_to_bf16(x) != sb_f32_to_bf16(y);
                if (apart > c->ulp[p])
                    c->ulp[p] = apart;
            }
}

static void expect_counts(const sb_law_counts *got, const sb_law_counts *want)
{
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        assert_int_equal(got->f32[p], want->f32[p]);
        assert_int_equal(got->bf16[p], want->bf16[p]);
        assert_int_equal(got->ulp[p], want->ulp[p]);
    }
}

/* Largest magnitudes from 0.01 to 20, as in real tensors. */
static float amax(uint64_t i)
{
    return 0.01f + 19.99f * sb_rng_uniform(sb_rng_key(42, "amax"), i);
}

static sb_factor factor_of(uint64_t i, int divisor)
{
    return divisor ? (sb_factor){SB_DIVISOR, 2688.0f / amax(i)}
                   : (sb_factor){SB_MULTIPLIER, amax(i) / 2688.0f};
}

/* docs/laws.md reports the results for LAWS_DRAWS=20000. */
static uint64_t draws(void)
{
    const char *text = getenv("LAWS_DRAWS");
    return text ? strtoull(text, NULL, 10) : 400;
}

static void rates(int divisor, sb_law_counts *counts)
{
    *counts = (sb_law_counts){0};
    for (uint64_t i = 0; i < draws(); i++) {
        sb_matrix m = all_pairs(factor_of(i, divisor));
        assert_int_equal(sb_law_count(&m, counts, NULL), SB_OK);
    }
    double n = (double)(draws() * SCALES * CODES);
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        sb_law a = SB_LAW_exact, b = SB_LAW_exact;
        sb_law_pair(p, &a, &b);
        print_message("%s: %-6s %-10s f32 %6.2f %%, %u ulp, bf16 %.5f %%\n",
                      divisor ? "divisor" : "multiplier", sb_law_name(a), sb_law_name(b),
                      100 * (double)counts->f32[p] / n, (unsigned)counts->ulp[p],
                      100 * (double)counts->bf16[p] / n);
    }
}

TEST(test_counts)
{
    for (uint64_t i = 0; i < 40; i++) {
        sb_law_counts got = {0}, want = {0};
        sb_factor f = factor_of(i, i % 2);
        sb_matrix m = all_pairs(f);
        assert_int_equal(sb_law_count(&m, &got, NULL), SB_OK);
        count_here(f, &want);
        assert_int_equal(got.values, SCALES * COLS);
        expect_counts(&got, &want);
    }
}

/* With a power of two no law rounds, and zeros of both signs are one value. */
TEST(test_laws_that_agree)
{
    sb_law_counts got = {0}, none = {0};
    sb_matrix m = all_pairs((sb_factor){SB_DIVISOR, 4096});
    for (unsigned row = 0; row < SCALES; row++)
        all_codes[row][7] = 0x80;
    assert_int_equal(sb_law_count(&m, &got, NULL), SB_OK);
    expect_counts(&got, &none);
    assert_true(sb_laws_differ(&m));
    m.quant.factor.kind = SB_NO_FACTOR;
    assert_false(sb_laws_differ(&m));
    m.quant.scales = NULL;
    assert_false(sb_laws_differ(&m));
}

/* The share of values that differ is between `low` and `high` percent, by at most 3 ulp, and after
 * rounding to bf16 almost none differ. */
static void expect_rate(const sb_law_counts *c, sb_law a, sb_law b, double low, double high)
{
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        sb_law x = SB_LAW_exact, y = SB_LAW_exact;
        sb_law_pair(p, &x, &y);
        if (x != a || y != b)
            continue;
        double n = (double)(draws() * SCALES * CODES), rate = 100 * (double)c->f32[p] / n;
        if (rate < low || rate > high)
            fail_msg("%s, %s: %.2f %%, expected %g to %g", sb_law_name(a), sb_law_name(b), rate,
                     low, high);
        assert_in_range(c->ulp[p], 1, 3);
        assert_true(100 * (double)c->bf16[p] / n < 0.005);
        return;
    }
    fail_msg("no such pair");
}

TEST(test_rates)
{
    sb_law_counts c;
    rates(0, &c);
    expect_rate(&c, SB_LAW_exact, SB_LAW_mo_mul, 8, 14);
    expect_rate(&c, SB_LAW_exact, SB_LAW_ct_div, 15, 45);
    expect_rate(&c, SB_LAW_mo_mul, SB_LAW_ct_div, 10, 40);
    rates(1, &c);
    expect_rate(&c, SB_LAW_exact, SB_LAW_ct_div, 8, 16);
    expect_rate(&c, SB_LAW_exact, SB_LAW_ct_rcp, 15, 45);
    expect_rate(&c, SB_LAW_ct_div, SB_LAW_ct_rcp, 10, 40);
}

/* INT4 with binary16 scales: only law bf16_scale differs. */
TEST(test_bf16_scales)
{
    unsigned char codes[16] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}, scales[4];
    sb_law_counts got = {0};
    sb_store_u16(scales, sb_f32_to_f16(1.0f + 1.0f / 1024)); /* bf16 rounds it to 1 */
    sb_store_u16(scales + 2, sb_f32_to_f16(1.5f));
    sb_matrix m = {.data = codes, .format = SB_FORMAT_int4, .rows = 2, .cols = 16};
    m.quant = (sb_quant){.scales = scales,
                         .scale_format = SB_FORMAT_f16,
                         .block_rows = 1,
                         .block_cols = 16,
                         .scale_row = 1,
                         .scale_col = 1,
                         .groups = 1,
                         .stored_rows = 2};
    assert_true(sb_laws_differ(&m));
    assert_int_equal(sb_law_count(&m, &got, NULL), SB_OK);
    for (unsigned p = 0; p < SB_LAW_PAIRS; p++) {
        sb_law a = SB_LAW_exact, b = SB_LAW_exact;
        sb_law_pair(p, &a, &b);
        int other = (a == SB_LAW_bf16_scale) != (b == SB_LAW_bf16_scale);
        assert_int_equal(got.f32[p], other ? 15 : 0); /* all codes of row 0 except 0 */
    }
}
