/* test_functions.c - the functions of one argument and the integer root against MPFR.
 *
 * For each function: its exceptions, its special values, and SAMEBIT_FN_CASES inputs (250000; a
 * million in `make check-all`, where tests/exhaustive/all32.c tests all 2^32, too). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "tests/exhaustive/oracle.h"
#include "tests/lib/check_all.h"
#include "tests/lib/suite.h"
#include "tests/unit/families.h"

static void check(sb_fn fn, uint32_t input, uint32_t want)
{
    uint32_t got = sb_bits_f32(oracle_table[fn].run(sb_f32_from_bits(input)));
    if (got != want)
        fail_msg("%s(%08x = %a): got %08x want %08x", oracle_table[fn].name, (unsigned)input,
                 (double)sb_f32_from_bits(input), (unsigned)got, (unsigned)want);
}

TEST(test_random_inputs_equal_mpfr)
{
    const char *text = getenv("SAMEBIT_FN_CASES");
    unsigned long cases = text ? strtoul(text, NULL, 10) : check_all() ? 1000000 : 250000;
    assert_true(cases > 0);
    for (int fn = 0; fn < SB_FN_COUNT; fn++) {
        uint64_t key = sb_rng_key(42, oracle_table[fn].name);
        for (unsigned long i = 0; i < cases; i++) {
            float x = family_input(key, i);
            check((sb_fn)fn, sb_bits_f32(x), sb_bits_f32(oracle_value((sb_fn)fn, x)));
        }
    }
}

/* Both binary32 neighbours of every exception are checked, too: they must not be affected. */
TEST(test_exceptions)
{
    static const size_t rows_found[SB_FN_COUNT] = {53, 191, 132, 2, 222, 246, 576, 82, 45};
    unsigned long total = 0, naive_wrong = 0;
    for (int fn = 0; fn < SB_FN_COUNT; fn++) {
        size_t count;
        const sb_fn_exception *rows = sb_fn_exceptions((sb_fn)fn, &count);
        assert_int_equal(count, rows_found[fn]); /* as found by all32 --write-exceptions */
        unsigned long needed = 0;
        for (size_t i = 0; i < count; i++) {
            float x = sb_f32_from_bits(rows[i].input);
            double y = oracle_table[fn].core((double)x), reach = y * 0x1p-49;
            assert_true(i == 0 || rows[i - 1].input < rows[i].input);
            check((sb_fn)fn, rows[i].input, rows[i].output);
            for (int step = -1; step <= 1; step++) {
                uint32_t input = rows[i].input + (uint32_t)step;
                float want = oracle_value((sb_fn)fn, sb_f32_from_bits(input));
                check((sb_fn)fn, input, sb_bits_f32(want));
            }
            needed += sb_bits_f32((float)(y - reach)) != sb_bits_f32((float)(y + reach));
            naive_wrong += sb_bits_f32((float)y) != rows[i].output;
        }
        print_message("%s: %zu exceptions, %lu of them ambiguous here\n", oracle_table[fn].name,
                      count, needed);
        assert_true(needed > 0 && needed <= count);
        total += count;
    }
    print_message("%lu exceptions; binary64 alone rounds %lu of them wrongly\n", total,
                  naive_wrong);
    assert_true(naive_wrong > 0); /* the data distinguish a twin without the table of exceptions */
}

/* fn_round.h: the cores are off by less than 2^-50 = 8 u. */
TEST(test_cores_keep_their_bound)
{
    for (int fn = 0; fn < SB_FN_COUNT; fn++) {
        uint64_t key = sb_rng_key(42, "core");
        double worst = 0;
        for (uint64_t i = 0; i < 60000; i++) {
            float x = family_input(key, i);
            if (fn == SB_FN_rsqrt)
                x = 1 + 3 * sb_rng_uniform(key, i);
            if (!oracle_asks_core((sb_fn)fn, x) || (fn == SB_FN_log && x == 1))
                continue;
            double error = oracle_error((sb_fn)fn, (double)x, oracle_table[fn].core((double)x));
            worst = fabs(error) > worst ? fabs(error) : worst;
        }
        print_message("%s: largest error %.2f u (bound 8 u)\n", oracle_table[fn].name, worst);
        assert_true(worst > 0.5 && worst < 8);
    }
}

/* The binary32 values nearest to multiples of pi/2, where the reduction of sin and cos cancels most
 * bits. */
TEST(test_hardest_angles)
{
    static const uint32_t nearest[] = {0x6f79be45, 0x50a3e87f, 0x437ce5f1, 0x6a1976f1, 0x53b146a6,
                                       0x65898498, 0x77584625, 0x4c2332e9, 0x4096cbe4, 0x7ebdcda0};
    for (size_t i = 0; i < 4 * sizeof nearest / sizeof nearest[0]; i++) {
        sb_fn fn = i & 1 ? SB_FN_sin : SB_FN_cos;
        uint32_t input = nearest[i / 4] | (i & 2 ? 0x80000000u : 0);
        double x = (double)sb_f32_from_bits(input);
        check(fn, input, sb_bits_f32(oracle_value(fn, (float)x)));
        assert_true(fabs(oracle_error(fn, x, oracle_table[fn].core(x))) < 8);
    }
}

#define INF 0x7f800000u
#define MINUS 0x80000000u
#define NAN_BITS 0x7fc00000u
#define ONE 0x3f800000u
#define LEAST 0x00000001u
#define MOST 0x7f7fffffu

TEST(test_special_values)
{
    static const struct {
        sb_fn fn;
        uint32_t input, want;
    } cases[] = {
        {SB_FN_exp, 0, ONE},
        {SB_FN_exp, MINUS, ONE},
        {SB_FN_exp, INF, INF},
        {SB_FN_exp, MINUS | INF, 0},
        {SB_FN_exp, MOST, INF},
        {SB_FN_exp, MINUS | MOST, 0},
        {SB_FN_exp, 0x42b17217, MOST - 123}, /* the last before overflow, and the first after */
        {SB_FN_exp, 0x42b17218, INF},
        {SB_FN_exp, 0xc2cff1b4, LEAST}, /* -103.97..: e^x just above 2^-150; then below */
        {SB_FN_exp, 0xc2cff1b5, 0},
        {SB_FN_log, ONE, 0},
        {SB_FN_log, 0, MINUS | INF},
        {SB_FN_log, MINUS, MINUS | INF},
        {SB_FN_log, MINUS | LEAST, NAN_BITS},
        {SB_FN_log, MINUS | INF, NAN_BITS},
        {SB_FN_log, INF, INF},
        {SB_FN_log1p, 0, 0},
        {SB_FN_log1p, MINUS, MINUS},
        {SB_FN_log1p, LEAST, LEAST},
        {SB_FN_log1p, MINUS | ONE, MINUS | INF},
        {SB_FN_log1p, MINUS | (ONE + 1), NAN_BITS},
        {SB_FN_log1p, INF, INF},
        {SB_FN_log1p, MINUS | INF, NAN_BITS},
        {SB_FN_rsqrt, 0, INF},
        {SB_FN_rsqrt, MINUS, MINUS | INF},
        {SB_FN_rsqrt, INF, 0},
        {SB_FN_rsqrt, MINUS | LEAST, NAN_BITS},
        {SB_FN_rsqrt, MINUS | INF, NAN_BITS},
        {SB_FN_rsqrt, 0x40800000, 0x3f000000}, /* 4: 1/2 */
        {SB_FN_rsqrt, 0x00000002, 0x64800000}, /* 2^-148: 2^74 */
        {SB_FN_sin, 0, 0},
        {SB_FN_sin, MINUS, MINUS},
        {SB_FN_sin, LEAST, LEAST},
        {SB_FN_sin, INF, NAN_BITS},
        {SB_FN_sin, MINUS | INF, NAN_BITS},
        {SB_FN_cos, 0, ONE},
        {SB_FN_cos, MINUS, ONE},
        {SB_FN_cos, INF, NAN_BITS},
        {SB_FN_cos, MINUS | INF, NAN_BITS},
        {SB_FN_sigmoid, 0, 0x3f000000},
        {SB_FN_sigmoid, MINUS, 0x3f000000},
        {SB_FN_sigmoid, INF, ONE},
        {SB_FN_sigmoid, MINUS | INF, 0},
        {SB_FN_silu, 0, 0},
        {SB_FN_silu, MINUS, MINUS},
        {SB_FN_silu, INF, INF},
        {SB_FN_silu, MINUS | INF, MINUS},
        {SB_FN_silu, MINUS | MOST, MINUS},
        {SB_FN_silu, LEAST, LEAST},         /* just above 2^-150: rounded up */
        {SB_FN_silu, MINUS | LEAST, MINUS}, /* just above -2^-150: rounded up, to -0 */
        {SB_FN_silu, 3, 2},
        {SB_FN_silu, 5, 3},
        {SB_FN_silu, MINUS | 3, MINUS | 1},
        {SB_FN_silu, MINUS | 5, MINUS | 2},
        {SB_FN_softplus, INF, INF},
        {SB_FN_softplus, MINUS | INF, 0},
        {SB_FN_softplus, 0, 0x3f317218}, /* log 2 */
        {SB_FN_softplus, MINUS, 0x3f317218},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(cases[i].fn, cases[i].input, cases[i].want);
    static const uint32_t nans[] = {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu};
    for (int fn = 0; fn < SB_FN_COUNT; fn++)
        for (size_t i = 0; i < 4; i++)
            check((sb_fn)fn, nans[i], NAN_BITS);
}

/* For every x at which the code branches: x and the 2000 binary32 values on either side. */
TEST(test_around_the_branches)
{
    static const float points[] = {0,          89,          -104,     104,       -110,
                                   1,          -1,          0x1p-60f, -0x1p-60f, 0x1p-126f,
                                   -0x1p-125f, 4,           0.5f,     2,         0x1.921fb6p-1f,
                                   0x1.6ap0f,  0x1.69fp-1f, 0x1p104f};
    for (size_t p = 0; p < sizeof points / sizeof points[0]; p++) {
        uint32_t bits = sb_bits_f32(points[p]);
        for (uint32_t d = 0; d <= 4000; d++) {
            uint32_t input = bits + d - 2000u;
            for (int fn = 0; fn < SB_FN_COUNT; fn++) {
                float want = oracle_value((sb_fn)fn, sb_f32_from_bits(input));
                check((sb_fn)fn, input, sb_bits_f32(want));
            }
        }
    }
}

/* --- sb_root_power ---------------------------------------------------------------------------- */

static void check_root(double base, int numerator, unsigned denominator)
{
    float got = sb_root_power(base, numerator, denominator);
    float want = oracle_root_power(base, numerator, denominator);
    if (sb_bits_f32(got) != sb_bits_f32(want))
        fail_msg("root_power(%a, %d/%u): got %08x want %08x", base, numerator, denominator,
                 (unsigned)sb_bits_f32(got), (unsigned)sb_bits_f32(want));
}

TEST(test_rope_frequencies)
{
    static const double thetas[] = {1e4, 5e5, 1e6, 5e6, 1e7, 1e8, 1.5e5, 10000.5};
    static const unsigned dims[] = {16, 32, 64, 128, 256};
    for (size_t t = 0; t < sizeof thetas / sizeof thetas[0]; t++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
            for (unsigned f = 0; f < dims[d] / 2; f++)
                check_root(thetas[t], -2 * (int)f, dims[d]);
}

/* K-8: the exponents of torch, for all widths that are not a power of two. */
TEST(test_power_of_torch)
{
    static const double thetas[] = {1e4, 5e5, 1e6, 5e6, 1e7, 1e8, 150000.5, 1.5, 0x1p50, 16777215};
    for (size_t t = 0; t < sizeof thetas / sizeof thetas[0]; t++)
        for (unsigned rd = 6; rd <= 512; rd += rd < 64 ? 2 : 38)
            for (unsigned f = 1; f < rd / 2 && (rd & (rd - 1)); f++) {
                float e = (float)(2 * f) / (float)rd;
                if (sb_bits_f32(e) << 16 == 0) /* a root, see sb_root_power */
                    continue;
                float got = sb_power(thetas[t], e), want = oracle_power(thetas[t], e);
                if (sb_bits_f32(got) != sb_bits_f32(want))
                    fail_msg("power(%a, %a): got %a want %a", thetas[t], (double)e, (double)got,
                             (double)want);
            }
    assert_true(sb_power(1e7, 0) == 1);
}

TEST(test_root_power_at_large)
{
    uint64_t key = sb_rng_key(42, "root");
    for (uint64_t i = 0; i < 1500; i++) {
        uint64_t bits = sb_rng_u64(key, 4 * i) >> 1;
        if (i % 2) /* exponents for which the result is rarely infinite or zero */
            bits = (bits & 0xfffffffffffffu) | (uint64_t)(1023 - 40 + (int)(bits >> 52) % 80) << 52;
        if (bits == 0 || bits >= (uint64_t)0x7ff << 52)
            continue;
        unsigned denominator = 1 + sb_rng_below(key, 4 * i + 1, i % 4 ? 40 : 256);
        int numerator = (int)sb_rng_below(key, 4 * i + 2, 2 * denominator + 1) - (int)denominator;
        if (i % 50 == 0)
            numerator = (int)sb_rng_below(key, 4 * i + 3, 513) - 256;
        check_root(sb_f64_from_bits(bits), numerator, denominator);
    }
}

/* Results that are exactly binary32 values or midpoints, for which MPFR's interval would never
 * close. */
TEST(test_exact_roots_and_ties)
{
    static const struct {
        double base;
        int numerator;
        unsigned denominator;
        float want;
    } cases[] = {
        {1e4, 0, 64, 1.0f},
        {1, 255, 256, 1.0f},
        {1e4, 1, 4, 10.0f},
        {1e4, 1, 2, 100.0f},
        {1e12, 7, 12, 1e7f},
        {4, -1, 2, 0.5f},
        {4, -256, 256, 0.25f},
        {0x1p-894, 1, 6, 0x1p-149f},
        {0x1p-900, 1, 6, 0.0f}, /* a tie with zero, to even */
        {0x1.0000000000001p-900, 1, 6, 0x1p-149f},
        {0x1p-762, -1, 6, 0x1p127f},
        {0x1p-768, -1, 6, INFINITY},
        {0x1.8p-149, 1, 1, 0x1p-148f},
        {0x1.fffffep127, 1, 1, 0x1.fffffep127f},
        {0x1p1023, 256, 1, INFINITY},
        {0x1p-1022, 256, 1, 0.0f},
        {0x1p-1022, -256, 1, INFINITY},
        {0x1.000001p0, 1, 1, 1.0f}, /* ties, to even */
        {0x1.000003p0, 1, 1, 0x1.000004p0f},
        {0x1.0000010000001p0, 1, 1, 0x1.000002p0f},
        {0x1.000002000001p0, 1, 2, 1.0f}, /* (1 + 2^-24)^2: the root is a tie */
        {0x1.0000020000011p0, 1, 2, 0x1.000002p0f},
        {0x1.000002000000fp0, 1, 2, 1.0f},
        {0x1.000006000009p0, 1, 2, 0x1.000004p0f}, /* (1 + 3 * 2^-24)^2 */
        {0x1.000006000009p0, -1, 2, 0x1.fffffap-1f},
        {0x1.ffffffp127, 1, 1, INFINITY},
        {0x1.fffffefffffffp127, 1, 1, 0x1.fffffep127f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float got = sb_root_power(cases[i].base, cases[i].numerator, cases[i].denominator);
        if (sb_bits_f32(got) != sb_bits_f32(cases[i].want))
            fail_msg("row %zu: got %a want %a", i, (double)got, (double)cases[i].want);
    }
}

/* sqrt is an IEEE 754 operation; sqrtf of the compiler is one instruction. */
TEST(test_sqrt)
{
    static const float special[] = {0.0f,  -0.0f,         INFINITY,     -INFINITY, NAN,
                                    -1.0f, 0x1p-149f,     1.0f,         4.0f,      0x1.fffffep127f,
                                    2.0f,  0x1.fffffep0f, 0x1.fffffep1f};
    uint64_t key = sb_rng_key(42, "sqrt");
    for (unsigned long i = 0; i < 1000000; i++) {
        size_t n = sizeof special / sizeof *special;
        float x = i < n ? special[i] : family_input(key, i);
        float got = sb_sqrt(x), want = sqrtf(x);
        if (isnan(want) ? sb_bits_f32(got) != 0x7fc00000u : sb_bits_f32(got) != sb_bits_f32(want))
            fail_msg("sqrt(%a): got %a want %a", (double)x, (double)got, (double)want);
    }
}
