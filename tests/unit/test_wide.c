/* test_wide.c - sums of quantized rows, with the factors of whole tensors, against MPFR.
 *
 * SAMEBIT_CASES / 5 is the number of sums per kind of factor (default 20000). */
#include "tests/lib/suite.h"

#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/exact.h"

/* Sums range from 2^-402 to 2^350. A quotient truncated to this many bits rounds to the same
 * binary32 as the exact one. */
enum { BITS = 2400, TERMS = 300 };

static const char *const isas[] = {"exact", "scalar", "avx2", "avx512", "avx512vnni", "neon"};

/* The factors of a case. */
typedef enum kind { NONE, MULTIPLIER, DIVISOR, BOTH, TINY, KINDS } kind;
static const char *const kind_names[KINDS] = {"none", "multiplier", "divisor", "both", "tiny"};

typedef struct wide_case {
    double a[TERMS], b[TERMS];
    size_t n;
    sb_scalar scalar;
} wide_case;

typedef struct dice {
    uint64_t key, at;
} dice;

static uint32_t roll(dice *d, uint32_t n)
{
    return sb_rng_below(d->key, d->at++, n);
}

static float normal(dice *d)
{
    return sb_rng_normal(d->key, (uint64_t)1 << 40 | d->at++);
}

static float finite(dice *d)
{
    float x = sb_f32_from_bits((uint32_t)sb_rng_u64(d->key, d->at++));
    return sb_is_finite_f32(x) && x != 0 ? x : 1.5f;
}

/* A code of a random format, without a NaN. */
static float a_code(dice *d)
{
    static const sb_format formats[] = {SB_FORMAT_e2m1, SB_FORMAT_e4m3, SB_FORMAT_int8,
                                        SB_FORMAT_int4};
    sb_format format = formats[roll(d, 4)];
    float x = sb_code_to_f32(format, roll(d, 1u << sb_format_bits(format)));
    return sb_is_finite_f32(x) ? x : 1.0f;
}

/* Scales as in files: E4M3, powers of two, BF16, any binary32. */
static float a_scale(dice *d)
{
    switch (roll(d, 5)) {
    case 0:
        return sb_e4m3_to_f32((uint8_t)(1 + roll(d, 126)));
    case 1:
        return sb_f32_from_bits((1 + roll(d, 253)) << 23);
    case 2:
        return sb_round_to(SB_FORMAT_bf16, normal(d) * 0.01f);
    case 3:
        return finite(d);
    default:
        return normal(d) * 0.003f;
    }
}

static double a_weight(dice *d)
{
    float code = a_code(d);
    return (double)code * (double)a_scale(d);
}

static double an_input(dice *d)
{
    switch (roll(d, 4)) {
    case 0:
        return a_weight(d);
    case 1:
        return (double)sb_round_to(SB_FORMAT_bf16, normal(d));
    default:
        return (double)normal(d);
    }
}

static float a_factor(dice *d, kind k)
{
    if (k == TINY)
        return sb_f32_from_bits(1 + roll(d, 0x01000000u));
    switch (roll(d, 4)) {
    case 0:
        return sb_f32_from_bits((64 + roll(d, 126)) << 23);
    case 1:
        return sb_round_to(SB_FORMAT_bf16, 100 + 4000 * normal(d));
    case 2:
        return finite(d);
    default:
        return 1e-4f * normal(d);
    }
}

static float not_zero(float x)
{
    return x == 0 ? 1.0f : x;
}

static void draw_factors(dice *d, kind k, sb_scalar *s)
{
    *s = (sb_scalar)SB_SCALAR_ONE;
    if (k == MULTIPLIER || k == BOTH || k == TINY)
        s->mul[0] = a_factor(d, k);
    if (k == BOTH || k == TINY)
        s->mul[1] = a_factor(d, k);
    if (k == DIVISOR || k == BOTH || k == TINY)
        s->div[0] = not_zero(a_factor(d, k == TINY ? DIVISOR : k));
    if (k == BOTH)
        s->div[1] = not_zero(a_factor(d, k));
}

/* An odd number of 25 bits: half-way between two binary32 values. */
static double half_way(dice *d)
{
    return (double)(0x01000001u | roll(d, 0x00ffffffu) | 1u) * (roll(d, 2) ? 1.0 : -1.0);
}

/* A sum of divisor times an odd number: after the division the value is a tie, or next to one. */
static void make_tie(dice *d, wide_case *c)
{
    c->a[0] = (double)c->scalar.div[0];
    c->b[0] = half_way(d);
    c->n = 1;
    c->scalar.mul[0] = c->scalar.mul[1] = c->scalar.div[1] = 1;
    if (roll(d, 3)) {
        c->a[1] = 0x1p-60 * (double)c->scalar.div[0];
        c->b[1] = roll(d, 2) ? 0x1p-30 : -0x1p-30;
        c->n = 2;
    }
}

static void make_case(uint64_t index, kind k, wide_case *c)
{
    dice d = {sb_rng_key(42, kind_names[k]) + index * 0x9e3779b97f4a7c15u, 0};
    uint32_t form = roll(&d, 8);
    draw_factors(&d, k, &c->scalar);
    c->n = 1 + roll(&d, form == 0 ? 4 : TERMS / 2);
    for (size_t i = 0; i < c->n; i++) {
        c->a[i] = a_weight(&d);
        c->b[i] = an_input(&d);
    }
    if (form == 1) { /* everything cancels except for one term */
        for (size_t i = 0; i < c->n; i++) {
            c->a[c->n + i] = -c->a[i];
            c->b[c->n + i] = c->b[i];
        }
        c->n = 2 * c->n - roll(&d, 2);
    } else if (form == 2 && sb_bits_f32(c->scalar.div[0]) << 1 >= 0x18000000u &&
               sb_bits_f32(c->scalar.div[0]) << 1 < 0xe0000000u) {
        make_tie(&d, c);
    }
}

static float oracle(const wide_case *c, mpfr_t sum)
{
    mpfr_t product;
    mpfr_init2(product, 128);
    mpfr_set_zero(sum, 1);
    for (size_t i = 0; i < c->n; i++) {
        mpfr_set_d(product, c->a[i], MPFR_RNDN);
        assert_int_equal(mpfr_mul_d(product, product, c->b[i], MPFR_RNDN), 0);
        assert_int_equal(mpfr_add(sum, sum, product, MPFR_RNDN), 0);
    }
    mpfr_clear(product);
    if (mpfr_zero_p(sum))
        return 0.0f;
    for (int i = 0; i < 2; i++)
        assert_int_equal(mpfr_mul_d(sum, sum, (double)c->scalar.mul[i], MPFR_RNDN), 0);
    for (int i = 0; i < 2; i++)
        mpfr_div_d(sum, sum, (double)c->scalar.div[i], MPFR_RNDZ);
    return mpfr_get_flt(sum, MPFR_RNDN);
}

/* Plausible mistakes that the cases must detect: binary64 throughout, and a sum that is rounded
 * before its factors. */
static float in_binary64(const wide_case *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += c->a[i] * c->b[i];
    for (int i = 0; i < 2; i++)
        sum = sum * (double)c->scalar.mul[i] / (double)c->scalar.div[i];
    return (float)sum;
}

static float rounded_early(const wide_case *c)
{
    sb_scalar one = SB_SCALAR_ONE;
    float y = sb_dot_wide(c->a, c->b, c->n, &one);
    for (int i = 0; i < 2; i++)
        y = y * c->scalar.mul[i] / c->scalar.div[i];
    return y;
}

static int same(float a, float b)
{
    return sb_bits_f32(a) == sb_bits_f32(b);
}

static void check_kind(kind k)
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long cases = text ? strtoul(text, NULL, 10) / 5 : 20000, binary64 = 0, early = 0;
    mpfr_t sum;
    mpfr_init2(sum, BITS);
    for (unsigned long i = 0; i < cases; i++) {
        wide_case c;
        make_case(i, k, &c);
        float want = oracle(&c, sum);
        for (size_t s = 0; s < sizeof isas / sizeof *isas; s++) {
            if (sb_dot_select(isas[s], NULL) != SB_OK)
                continue;
            float got = sb_dot_wide(c.a, c.b, c.n, &c.scalar);
            if (!same(got, want))
                fail_msg("%s, %s, case %lu, n = %zu: got %08x want %08x", kind_names[k], isas[s], i,
                         c.n, (unsigned)sb_bits_f32(got), (unsigned)sb_bits_f32(want));
        }
        binary64 += !same(in_binary64(&c), want);
        early += !same(rounded_early(&c), want);
    }
    mpfr_clear(sum);
    printf("%-10s %lu sums, binary64 alone is wrong in %lu, early rounding in %lu\n", kind_names[k],
           cases, binary64, early);
    assert_true(binary64 > cases / 1000);
    if (k != NONE)
        assert_true(early > cases / 20);
}

#define SB_KIND_TEST(name, k)                                                                      \
    TEST(test_##name)                                                                              \
    {                                                                                              \
        check_kind(k);                                                                             \
    }
SB_KIND_TEST(no_factor, NONE)
SB_KIND_TEST(multiplier, MULTIPLIER)
SB_KIND_TEST(divisor, DIVISOR)
SB_KIND_TEST(both, BOTH)
SB_KIND_TEST(tiny, TINY)

/* A-6, and operands outside of the contract: the result is a NaN. */
TEST(test_poison)
{
    sb_scalar one = SB_SCALAR_ONE;
    static const double bad[] = {1.0 / 3.0, 0x1p400, 0x1p-400};
    double nan = (double)sb_f32_from_bits(0x7fc00000u), inf = (double)sb_f32_from_bits(0x7f800000u);
    sb_dot_select("exact", NULL);
    for (size_t i = 0; i < 5; i++) {
        double a[2] = {2, i < 3 ? bad[i] : i == 3 ? nan : inf}, b[2] = {1, 1};
        assert_int_equal(sb_bits_f32(sb_dot_wide(a, b, 2, &one)), 0x7fc00000u);
    }
    for (size_t s = 0; s < sizeof isas / sizeof *isas; s++) {
        double a[2] = {2, nan}, b[2] = {1, 0};
        if (sb_dot_select(isas[s], NULL) == SB_OK)
            assert_int_equal(sb_bits_f32(sb_dot_wide(a, b, 2, &one)), 0x7fc00000u);
    }
}

/* A multiplier of 0 gives 0; a result that underflows to 0 keeps its sign. */
TEST(test_zero)
{
    sb_scalar none = {{0, 1}, {1, 1}}, small = {{0x1p-149f, 0x1p-149f}, {1, 1}};
    for (size_t s = 0; s < sizeof isas / sizeof *isas; s++) {
        double a = -3, b = 5;
        if (sb_dot_select(isas[s], NULL) != SB_OK)
            continue;
        assert_int_equal(sb_bits_f32(sb_dot_wide(&a, &b, 1, &none)) << 1, 0);
        assert_int_equal(sb_bits_f32(sb_dot_wide(&a, &b, 1, &small)), 0x80000000u);
    }
}

/* A factor and an equal divisor cancel: a tie remains a tie although a third of it has no finite
 * binary expansion, and a value next to a tie remains next to it. */
TEST(test_product_and_quotient)
{
    static const float thirds[] = {3, 5, 7, 0x1.fffffep23f, 3 * 0x1p-20f};
    for (size_t s = 0; s < sizeof isas / sizeof *isas; s++)
        for (size_t i = 0; i < sizeof thirds / sizeof *thirds; i++)
            for (uint32_t odd = 0x01000001u; odd < 0x01000041u; odd += 2) {
                sb_scalar f = {{1, thirds[i]}, {thirds[i], 1}}, one = SB_SCALAR_ONE;
                double a[2] = {(double)odd, 0x1p-40}, b[2] = {1, -1};
                if (sb_dot_select(isas[s], NULL) != SB_OK)
                    continue;
                for (size_t n = 1; n <= 2; n++)
                    assert_int_equal(sb_bits_f32(sb_dot_wide(a, b, n, &f)),
                                     sb_bits_f32(sb_dot_wide(a, b, n, &one)));
            }
}
