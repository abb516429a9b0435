/* test_compensated.c - compensated sums (ref/fast/dot/compensated.h) and superaccumulators
 * (superacc.h) against exact.h, with sums so close to the middle of two binary32 values that only
 * the kept errors decide. */
#include "tests/lib/suite.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/kernels.h"

enum { CASES = 4000, TERMS = 12 };

static uint64_t key, at;

static uint64_t word(void)
{
    return sb_rng_u64(key, at++);
}

/* The terms of a sum, and the factor of the result. */
typedef struct sum {
    double a[TERMS], b[TERMS];
    size_t n;
    sb_scalar factor;
} sum;

static void add(sum *s, double a, double b)
{
    s->a[s->n] = a;
    s->b[s->n++] = b;
}

/* Adds x in two parts: of the upper 32 bits, and of the rest. */
static void add_all(sum *s, double x)
{
    double upper = sb_f64_from_bits(sb_bits_f64(x) & 0xffffffffffe00000u);
    add(s, upper, 1);
    add(s, x - upper, 1);
}

/* A number of 32 significant bits, between 1 and 2^13, of either sign. */
static double wide_value(void)
{
    uint64_t bits = word();
    double x = (double)(bits >> 32 | 0x80000001u) * 0x1p-31 * (double)(1u << bits % 13);
    return bits & 0x10000u ? -x : x;
}

/* The middle of two binary32 neighbours. */
static double middle(void)
{
    uint64_t bits = word();
    double x = (double)((bits & 0xffffffu) | 0x1000001u) * 0x1p-24;
    return bits >> 63 ? -x : x;
}

static float a_factor(void)
{
    float x = sb_rng_normal(key, (uint64_t)1 << 40 | at++);
    return x == 0 ? 1 : x;
}

/* A middle plus the rounding error of a product in binary64. */
static void draw_product(sum *s)
{
    double a = wide_value(), b = wide_value();
    add(s, a, b);
    add_all(s, -(a * b));
    add_all(s, middle());
}

/* The term nearest to a value that the factor maps to a middle. */
static void draw_factor(sum *s)
{
    double mul, div;
    if (word() & 1u)
        s->factor.mul[0] = a_factor();
    else
        s->factor.div[0] = a_factor();
    if (word() % 4 == 0)
        s->factor.mul[1] = a_factor();
    if (word() % 4 == 0)
        s->factor.div[1] = a_factor();
    mul = (double)s->factor.mul[0] * (double)s->factor.mul[1];
    div = (double)s->factor.div[0] * (double)s->factor.div[1];
    add_all(s, middle() * div / mul);
}

/* A middle, and a much smaller term, or none. */
static void draw_far(sum *s)
{
    static const double far[] = {0, 0x1p-60, -0x1p-60, 0x1p-110, -0x1p-110, 0x1.8p-130};
    double big = wide_value() * 0x1p40;
    add(s, big, 1);
    add_all(s, middle());
    add(s, far[word() % 6], 1);
    add(s, -big, 1);
}

static float by_definition(const sum *s)
{
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t i = 0; i < s->n; i++)
        sb_exact_add_wide_product(&acc, s->a[i], s->b[i]);
    return sb_exact_round_scaled(&acc, &s->factor);
}

static void check(void (*draw)(sum *), double least_certain)
{
    size_t certain = 0, all = 0;
    key = sb_rng_key(1, "kept");
    at = 0;
    for (int i = 0; i < CASES; i++) {
        sum s = {.factor = SB_SCALAR_ONE};
        draw(&s);
        float want = by_definition(&s), got = 0;
        for (size_t set = 1; sb_dot_set(set); set++, all++) {
            void (*add_terms)(sb_compensated *, const double *, const double *, size_t) =
                sb_dot_set(set)->kept ? sb_dot_set(set)->kept : sb_compensated_add;
            sb_compensated kept = {0, 0, 0, 0};
            add_terms(&kept, s.a, s.b, s.n);
            if (!sb_compensated_round(&kept, s.n, &s.factor, &got))
                continue;
            certain++;
            if (sb_bits_f32(got) != sb_bits_f32(want))
                fail_msg("%s, case %d: %a, not %a", sb_dot_set(set)->name, i, (double)got,
                         (double)want);
        }
    }
    if ((double)certain < least_certain * (double)all)
        fail_msg("certain of %zu of %zu", certain, all);
}

TEST(test_product)
{
    check(draw_product, 1);
}

TEST(test_factor)
{
    check(draw_factor, 0.99);
}

TEST(test_far)
{
    check(draw_far, 1);
}

/* Any exponent that the definition takes, with few bits or many. If hostile, also values that it
 * does not take. */
static double any_value(int hostile)
{
    const uint64_t bits = word(), sign = bits & (uint64_t)1 << 63;
    const uint64_t fraction = bits & 0x1000 ? word() & 0xfffffffe00000u : word() & 0xf000000000000u;
    if (bits % 11 == 0)
        return bits & 0x100 ? -0.0 : 0;
    if (hostile && bits % 53 == 0)
        return sb_f64_from_bits(sign | fraction | (848 + bits / 64 % 341) << 52);
    if (hostile && bits % 97 == 0)
        return sb_f64_from_bits(word());
    return sb_f64_from_bits(sign | fraction | (853 + bits % 331) << 52);
}

/* If the kernel set can split this sum into parts, their sum must equal `want`. Returns 1 if it
 * can. */
static int check_parts(const sb_dot_kernels *set, const double *a, const double *b, size_t n,
                       const sb_exact *want)
{
    double parts[SB_PARTS];
    sb_superacc bins = {{0}, {0}, 0};
    sb_exact got;
    if (!set->parts || !set->parts(a, b, n, parts))
        return 0;
    for (size_t i = 0; i < SB_PARTS; i++)
        sb_superacc_add_part(&bins, parts[i]);
    sb_superacc_sum(&bins, &got);
    if (got.poisoned) /* too small for parts: the products go into bins */
        return 0;
    for (size_t d = 0; d < SB_EXACT_DIGITS; d++)
        got.digit[d] -= want->digit[d];
    if (sb_exact_round(&got) != 0)
        fail_msg("%s: parts of %zu products", set->name, n);
    return 1;
}

/* The exact sum of the bins has the digits of exact.h. */
TEST(test_bins)
{
    enum { MOST = 300 };
    double a[MOST], b[MOST];
    int by_parts[8] = {0};
    key = sb_rng_key(2, "bins");
    at = 0;
    for (size_t i = 0, n; i < CASES; i++) {
        sb_superacc bins = {{0}, {0}, 0};
        sb_exact want, got;
        sb_exact_clear(&want);
        n = word() % MOST;
        for (size_t k = 0; k < n; k++) {
            a[k] = any_value(i % 4 == 0);
            b[k] = k % 2 && i % 3 ? any_value(0) : 1;
            if (k % 3 == 2 && i % 2) { /* cancels the term before */
                a[k] = -a[k - 1];
                b[k] = b[k - 1];
            }
            sb_exact_add_wide_product(&want, a[k], b[k]);
        }
        sb_superacc_add(&bins, a, b, n / 2);
        sb_superacc_add(&bins, a + n / 2, b + n / 2, n - n / 2);
        sb_superacc_sum(&bins, &got);
        assert_int_equal(!got.poisoned, !want.poisoned);
        for (size_t set = 1; sb_dot_set(set) && !want.poisoned; set++)
            by_parts[set] += check_parts(sb_dot_set(set), a, b, n, &want);
        for (size_t d = 0; d < SB_EXACT_DIGITS; d++)
            want.digit[d] -= got.digit[d];
        if (!want.poisoned)
            assert_true(sb_exact_round(&want) == 0);
    }
    for (size_t set = 1; sb_dot_set(set); set++)
        assert_true(by_parts[set] > CASES / 10 || !sb_dot_set(set)->parts);
}

enum { LONG = 70001 };

/* n products of 48-bit or 64-bit magnitude: the first and every seventh have the largest exponent,
 * the others are smaller by up to 2^-bits, and one by exactly 2^-bits. Unless `alike`, every second
 * product is cancelled by the next. */
static void draw_products(double *a, double *b, size_t n, unsigned bits, int alike)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned down = i % 7 == 0 ? 0 : i == n / 2 ? bits : (unsigned)(word() % (bits + 1));
        const uint64_t mask = word() % 2 ? 0xfffffffe00000u : 0xffffffe000000u;
        a[i] = sb_f64_from_bits((uint64_t)(1023 + 80 - down / 2) << 52 | (word() & mask));
        b[i] = sb_f64_from_bits((uint64_t)(1023 + 80 - (down + 1) / 2) << 52 | (word() & mask));
        if (!alike && i % 2) {
            a[i] = -a[i - 1];
            b[i] = b[i - 1];
        }
    }
}

/* For any number of products, also with equal signs, the levels do not overflow and lose nothing,
 * and they cover products far below the largest. */
TEST(test_levels)
{
    static const size_t lengths[] = {1, 3, 8, 9, 255, 2048, 5003, LONG};
    double *a = malloc(LONG * sizeof *a), *b = malloc(LONG * sizeof *b);
    assert_non_null(a);
    assert_non_null(b);
    key = sb_rng_key(3, "levels");
    at = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (unsigned bits = 0; bits <= 198; bits += 11)
            for (int alike = 0; alike < 2; alike++) {
                sb_superacc bins = {{0}, {0}, 0};
                sb_exact want;
                draw_products(a, b, lengths[i], bits, alike);
                sb_superacc_add(&bins, a, b, lengths[i]);
                sb_superacc_sum(&bins, &want);
                for (size_t set = 1; sb_dot_set(set); set++)
                    if (sb_dot_set(set)->parts &&
                        !check_parts(sb_dot_set(set), a, b, lengths[i], &want))
                        fail_msg("%s: no parts of %zu products over %u bits", sb_dot_set(set)->name,
                                 lengths[i], bits);
            }
    free(a);
    free(b);
}
