/* test_atoms.c - the interpreter of docs/atoms.md against small cases worked out by hand, and
 * against long double arithmetic on random and hostile operands; and a check that every number of a
 * row matters. SAMEBIT_CASES / 25 is the number of sums per row and kind of operands (default
 * 4000). */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/formats/atoms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "tools/judge/sim/arith.h"

enum { MOST = 64 };

/* --- the same in long double ------------------------------------------------------------------ */

static int exponent_of(long double x, int least)
{
    int e = 0;
    if (x == 0)
        return least;
    (void)frexpl(x, &e);
    return e - 1 > least ? e - 1 : least;
}

static float to_half(long double x)
{
    int e = exponent_of(x, -14);
    x = ldexpl(rintl(ldexpl(x, 10 - e)), e - 10);
    return fabsl(x) >= 65536 ? (float)copysignl(HUGE_VALL, x) : (float)x;
}

static float cut_to(long double sum, int kept)
{
    int e = exponent_of(sum, -126);
    if (sum == 0)
        return 0.0f;
    sum = ldexpl(truncl(ldexpl(sum, kept - e)), e - kept);
    return fabsl(sum) >= 0x1p128L ? (float)copysignl(HUGE_VALL, sum) : (float)sum;
}

typedef struct wide_term {
    long double value;
    int exponent;
} wide_term;

static float wide_block(const sb_atom *atom, const wide_term *terms, size_t n, float c)
{
    int halves = atom->sums == SB_ATOM_F16;
    if (isinf(c))
        return c;
    int largest = c == 0 ? atom->zero : exponent_of((long double)c, halves ? -14 : -126);
    for (size_t i = 0; i < n; i++)
        largest = terms[i].exponent > largest ? terms[i].exponent : largest;
    int scale = atom->fraction - largest;
    long double sum = truncl(ldexpl((long double)c, scale));
    for (size_t i = 0; i < n; i++)
        sum += truncl(ldexpl(terms[i].value, scale));
    if (halves && sum != 0)
        return to_half(ldexpl(sum, -scale));
    return cut_to(ldexpl(sum, -scale), atom->kept);
}

static float wide_dot(const sb_atom *atom, int least, const float *a, const float *b, size_t n)
{
    float sum = 0.0f;
    for (size_t first = 0; first < n; first += atom->terms) {
        float d = atom->addend == SB_ATOM_LAST ? 0.0f : sum;
        size_t blocks = atom->terms / atom->block;
        for (size_t q = 0; q < blocks; q++) {
            wide_term terms[MOST];
            for (size_t i = 0; i < atom->block; i++) {
                size_t at =
                    first + (atom->order == SB_ATOM_IN_PAIRS ? i / 2 * 2 * blocks + 2 * q + i % 2
                                                             : q * atom->block + i);
                long double x = at < n ? (long double)a[at] : 0;
                long double y = at < n ? (long double)b[at] : 0;
                int e = exponent_of(x, least) + exponent_of(y, least);
                terms[i] = (wide_term){x * y, x * y == 0 ? atom->zero : e};
            }
            d = wide_block(atom, terms, atom->block, d);
        }
        if (atom->addend == SB_ATOM_LAST && isinf(d) && isinf(sum) && d != sum)
            d = sb_f32_from_bits(0x7fffffff);
        else if (atom->addend == SB_ATOM_LAST && atom->sums == SB_ATOM_F16 && !isinf(d + sum))
            d = d + sum == 0 ? d + sum : to_half((long double)d + (long double)sum);
        else if (atom->addend == SB_ATOM_LAST)
            d += sum;
        if (d != d)
            return d;
        sum = d;
    }
    return sum;
}

/* --- operands * ------------------------------------------------------------------------------- */

static const struct {
    sb_format format;
    int least, centre, spread; /* exponents are drawn within centre +- spread */
} kinds[] = {
    {SB_FORMAT_bf16, -126, 0, 60},  {SB_FORMAT_bf16, -126, 0, 6}, {SB_FORMAT_f16, -14, 0, 13},
    {SB_FORMAT_f16, -14, 0, 3},     {SB_FORMAT_e4m3, -6, 0, 8},   {SB_FORMAT_e4m3, -6, 0, 2},
    {SB_FORMAT_e5m2, -14, 0, 12},   {SB_FORMAT_f32, -126, 0, 60}, {SB_FORMAT_f32, -126, 0, 4},
    {SB_FORMAT_bf16, -126, -76, 1}, /* sums of the smallest numbers */
};
enum { TINY = sizeof kinds / sizeof *kinds - 1 };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Values of the format; one in eight is 0, and some are the negative of the value before. */
static void draw(size_t kind, uint64_t key, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t what = sb_rng_below(key, 4 * i, 8);
        int e = (int)sb_rng_below(key, 4 * i + 1, 2 * (uint32_t)kinds[kind].spread + 1);
        float value =
            ldexpf(sb_rng_normal(key, 4 * i + 2), kinds[kind].centre + e - kinds[kind].spread);
        if (what == 1 && i)
            value = -x[i - 1];
        x[i] = what == 0 ? 0.0f : sb_round_to(kinds[kind].format, value);
    }
}

static uint64_t cases(void)
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long n = text ? strtoul(text, NULL, 10) / 25 : 0;
    return n ? n : 4000;
}

/* The first case in which the interpreter with `atom` and the long double program with `other`
 * differ; the number of cases if none does. */
static uint64_t first_difference(const sb_atom *atom, const sb_atom *other, size_t kind)
{
    uint64_t key = sb_rng_key(42, atom->name), most = cases();
    for (uint64_t i = 0; i < most; i++) {
        float a[150], b[150];
        size_t n = 1 + sb_rng_below(key, i, 150);
        draw(kind, key + 2 * i + 1, n, a);
        draw(kind, key + 2 * i + 2, n, b);
        float x = sb_atom_dot(atom, kinds[kind].format, a, 1, b, 1, n);
        float y = wide_dot(other, kinds[kind].least, a, b, n);
        if (sb_bits_f32(x) != sb_bits_f32(y))
            return i;
    }
    return most;
}

/* Compares with the binary64 version of the simulated engines on the same binary32 operands. Now
 * and then one of them is not finite or not normal. */
TEST(test_sooner)
{
    static const float rare[] = {INFINITY, -INFINITY, NAN, 1e-40f, -3e-45f, 3e38f, -0.0f};
    enum { RARE = sizeof rare / sizeof *rare };
    for (int id = 0; id < SB_ATOM_COUNT; id++) {
        const sb_atom *atom = &sb_atoms[id];
        uint64_t key = sb_rng_key(43, atom->name), most = atom->group == 1 ? cases() : 0;
        for (uint64_t i = 0; i < most; i++) {
            float a[150], b[150];
            size_t n = 1 + sb_rng_below(key, i, 150), kind = i % KINDS, at = i % n;
            draw(kind, key + 2 * i + 1, n, a);
            draw(kind, key + 2 * i + 2, n, b);
            if (i / KINDS % 4 == 0)
                a[at] = rare[i / KINDS / 4 % RARE];
            float x = sb_atom_dot(atom, SB_FORMAT_f32, a, 1, b, 1, n);
            float y = sb_sim_atom_dot(atom, a, 1, b, 1, n);
            if (sb_bits_f32(x) != sb_bits_f32(y))
                fail_msg("%s, case %llu: %a, expected %a", atom->name, (unsigned long long)i,
                         (double)y, (double)x);
        }
    }
}

TEST(test_against_long_double)
{
    for (int id = 0; id < SB_ATOM_COUNT; id++)
        for (size_t kind = 0; kind < KINDS && sb_atoms[id].group == 1; kind++) {
            const sb_atom *atom = &sb_atoms[id];
            assert_int_equal(first_difference(atom, atom, kind), cases());
        }
}

/* A row with one number changed gives other bits: the data depend on every number. */
TEST(test_changed_rows)
{
    for (int id = 0; id < SB_ATOM_COUNT; id++) {
        const sb_atom *atom = &sb_atoms[id];
        if (atom->group > 1)
            continue;
        sb_atom changed[8] = {*atom, *atom, *atom, *atom, *atom, *atom, *atom, *atom};
        changed[0].fraction++;
        changed[1].fraction--;
        changed[2].kept--;
        changed[3].block /= 2;
        changed[4].addend = atom->addend == SB_ATOM_LAST ? SB_ATOM_FIRST : SB_ATOM_LAST;
        changed[5].terms *= 2;
        changed[5].block *= 2;
        changed[6].order = atom->order == SB_ATOM_IN_PAIRS ? SB_ATOM_IN_ROW : SB_ATOM_IN_PAIRS;
        changed[7].zero = -126;
        /* the F of sums in f16 needs large products that cancel: test_halves */
        for (size_t i = atom->sums == SB_ATOM_F16 ? 3 : 0; i < 8; i++)
            if ((i != 6 || atom->terms > atom->block) && (i != 7 || atom->kept == 23) &&
                first_difference(atom, &changed[i], i == 7 ? (size_t)TINY : 3) == cases())
                fail_msg("%s: change %zu is not seen", atom->name, i);
    }
}

/* --- by hand * -------------------------------------------------------------------------------- */

static float of(sb_atom_id id, sb_format format, float c, size_t n, const float *pairs)
{
    sb_atom_term terms[MOST];
    const sb_atom *atom = &sb_atoms[id];
    for (size_t i = 0; i < atom->terms; i++)
        terms[i] = i < n ? sb_atom_product(format, pairs[2 * i], pairs[2 * i + 1])
                         : sb_atom_product(format, 0.0f, 0.0f);
    return sb_atom_run(atom, terms, c);
}

#define OF(id, format, c, ...)                                                                     \
    of(SB_ATOM_##id, SB_FORMAT_##format, c, sizeof((float[]){__VA_ARGS__}) / sizeof(float) / 2,    \
       (float[]){__VA_ARGS__})

TEST(test_cut)
{
    const float s = 0x1p-12f, one = 1.0f, ulp = 0x1p-23f;
    /* two terms of half an ulp of C */
    assert_true(OF(hopper_f16, bf16, one, s, s, s, s) == one + ulp);
    assert_true(OF(ampere_f16, bf16, one, s, s, s, s) == one + ulp);
    /* two terms of a quarter ulp: F = 24 drops both, F = 25 keeps both, which together are half an
     * ulp */
    assert_true(OF(hopper_f16, bf16, one, s, s / 2, s, s / 2) == one);
    assert_true(OF(hopper_f16, bf16, one, s, s / 2, s, s / 2, s, s) == one + ulp);
    assert_true(OF(ampere_f16, bf16, one, s, s / 2, s, s / 2, s, s) == one);
    /* toward zero, not down */
    assert_true(OF(hopper_f16, bf16, -one, s, s, s, s / 2) == -one + ulp);
    assert_true(OF(hopper_f16, bf16, -one, -s, s, -s, s) == -one - ulp);
    /* 13 bits below the largest term, and 13 bits of the result */
    assert_true(OF(hopper_fp8_wgmma, f16, one, s, 0.5f) == one + 0x1p-13f);
    assert_true(OF(hopper_fp8_wgmma, f16, one, s, 0.25f, s, 0.25f) == one);
    assert_true(OF(hopper_fp8_wgmma, f16, one, one, one, s, 0.5f) == 2.0f);
    /* C is added last, rounded to nearest */
    assert_true(OF(hopper_fp8_mma, f16, one, s, s, s, 0x1p-20f) == one + ulp);
    assert_true(OF(hopper_f16, f16, one, s, s, s, 0x1p-20f) == one);
}

/* H-4: "terms are taken two neighbours at a time, and each pair goes to the next block in turn":
 * the two products of 2^-26 lie in the first block, in the second, or one in each. */
TEST(test_pairs)
{
    const float s = 0x1p-13f, one = 1.0f;
    assert_true(OF(hopper_fp8_mma, f16, 0.0f, s, s, s, s, one, one, -one, one) == 0x1p-25f);
    assert_true(OF(hopper_fp8_mma, f16, 0.0f, one, one, -one, one, s, s, s, s) == 0x1p-25f);
    assert_true(OF(hopper_fp8_mma, f16, 0.0f, s, s, one, one, -one, one, s, s) == 0.0f);
    assert_true(OF(ada_fp8, f16, 0.0f, s, s, s, s, one, one, -one, one) == 0.0f);
    const sb_atom *pairs = &sb_atoms[SB_ATOM_hopper_fp8_mma], *row = &sb_atoms[SB_ATOM_ada_fp8];
    static const size_t some[][3] = {{0, 0, 0},  {1, 1, 1},  {2, 1, 1},  {3, 2, 1}, {16, 2, 1},
                                     {17, 2, 2}, {32, 2, 2}, {33, 3, 3}, {96, 6, 6}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_int_equal(sb_atom_blocks(pairs, some[i][0]), some[i][1]);
        assert_int_equal(sb_atom_blocks(row, some[i][0]), some[i][2]);
    }
}

TEST(test_exponents)
{
    const float s = 0x1p-12f, half = 0x1p-13f;
    /* 1.5 * 1.5 counts as 2^0, 2.25 as 2^1 */
    assert_true(OF(hopper_f16, bf16, 0.0f, 1.5f, 1.5f, -1.5f, 1.5f, s, half) == 0x1p-25f);
    assert_true(OF(hopper_f16, bf16, -2.25f, 1.5f, 1.5f, s, half) == 0.0f);
    assert_true(OF(hopper_f16, bf16, -2.25f, 1.5f, 1.5f, s, s) == 0x1p-24f);
    /* E4M3's least value 2^-9 counts as 2^-6, binary16's 2^-9 counts as itself */
    const sb_atom_term small = sb_atom_product(SB_FORMAT_e4m3, 0x1p-9f, 1.0f);
    assert_true(small.exponent == -6 && small.digits == 8 && small.unit == -12);
    assert_int_equal(sb_atom_product(SB_FORMAT_f16, 0x1p-9f, 1.0f).exponent, -9);
    assert_int_equal(sb_atom_product(SB_FORMAT_f16, 0x1p-24f, 1.0f).exponent, -14);
    assert_int_equal(sb_atom_product(SB_FORMAT_bf16, -0.0f, 4.0f).exponent, SB_ATOM_OF_ZERO);
    assert_int_equal(sb_atom_scaled(small, -3).exponent, -9);
    assert_int_equal(sb_atom_scaled(small, -3).unit, -15);
    assert_int_equal(sb_atom_scaled(sb_atom_product(SB_FORMAT_e4m3, 0.0f, 1.0f), 254).exponent,
                     SB_ATOM_OF_ZERO);
}

/* H-2: "A product of zero and a C of zero have the exponent Z": with a C of 0, terms too small for
 * binary32 are kept down to 2^(Z - F): 2^-156 for Ampere, 2^-158 for Hopper. With any other C they
 * are not kept. */
TEST(test_zero_exponent)
{
    const float low = 0x1p-80f, tiny = 0x1p-149f;
    float a[16], b[16];
    for (size_t i = 0; i < 16; i++)
        a[i] = 0x1p-73f, b[i] = low;
    const sb_atom *hopper = &sb_atoms[SB_ATOM_hopper_f16], *ampere = &sb_atoms[SB_ATOM_ampere_f16];
    assert_true(sb_atom_dot(hopper, SB_FORMAT_bf16, a, 1, b, 1, 16) == tiny);
    assert_true(sb_atom_dot(ampere, SB_FORMAT_bf16, a, 1, b, 1, 16) == 0.0f); /* two blocks of 8 */
    a[0] *= 0x1.ep-1f, a[1] *= 0x1.08p0f, a[2] *= 0x1.08p0f; /* 2^-158 twice: still 2^-149 */
    assert_true(sb_atom_dot(hopper, SB_FORMAT_bf16, a, 1, b, 1, 16) == tiny);
    sb_atom nearer = *hopper;
    nearer.zero = -132;
    assert_true(sb_atom_dot(&nearer, SB_FORMAT_bf16, a, 1, b, 1, 16) == 0.0f);
    for (size_t i = 0; i < 8; i++)
        a[i] = 0x1p-72f;
    assert_true(sb_atom_dot(ampere, SB_FORMAT_bf16, a, 1, b, 1, 8) == tiny);
    a[0] *= 0x1.ep-1f, a[1] *= 0x1.08p0f, a[2] *= 0x1.08p0f; /* 2^-157 is lost by Ampere */
    assert_true(sb_atom_dot(ampere, SB_FORMAT_bf16, a, 1, b, 1, 8) == 0.0f);
    assert_true(sb_atom_dot(hopper, SB_FORMAT_bf16, a, 1, b, 1, 8) == tiny);
    assert_true(OF(hopper_f16, bf16, tiny, low, 0x1p-72f, low, 0x1p-72f, low, 0x1p-72f, low,
                   0x1p-72f, low, 0x1p-72f, low, 0x1p-72f, low, 0x1p-72f, low, 0x1p-72f) == tiny);
}

/* H-3: "instead rounds its sum to binary16, to nearest, ties to even" */
TEST(test_halves)
{
    const float big = 0x1p15f, ten = 0x1p10f, one = 1.0f, two = 2.0f;
    /* the effect of F beside products of 2^25 */
    assert_true(OF(hopper_f16_half, f16, 0.0f, big, ten, -big, ten, one, one) == one);
    assert_true(OF(hopper_f16_half, f16, 0.0f, big, ten, -big, ten, one, 0.5f) == 0.0f);
    assert_true(OF(ampere_f16_half, f16, 0.0f, big, ten, -big, ten, one, two) == two);
    assert_true(OF(ampere_f16_half, f16, 0.0f, big, ten, -big, ten, one, one) == 0.0f);
    assert_true(OF(b200_f16_half, f16, 0.0f, big, ten, -big, ten, one, one) == one);
    assert_true(OF(ada_fp8_half, f16, 0.0f, one, 0x1p13f, -one, 0x1p13f, one, one) == one);
    assert_true(OF(ada_fp8_half, f16, 0.0f, one, 0x1p13f, -one, 0x1p13f, one, 0.5f) == 0.0f);
    /* ties, also of numbers below 2^-14, and values just above a tie */
    assert_true(OF(hopper_f16_half, f16, one, one, 0x1p-11f) == one);
    assert_true(OF(hopper_f16_half, f16, one + 0x1p-10f, one, 0x1p-11f) == one + 0x1p-9f);
    assert_true(OF(hopper_f16_half, f16, one, one, 0x1p-11f, 0x1p-12f, 0x1p-12f) == one + 0x1p-10f);
    assert_true(OF(hopper_f16_half, f16, -one, -one, 0x1p-11f, -0x1p-12f, 0x1p-12f) ==
                -one - 0x1p-10f);
    assert_true(OF(hopper_f16_half, f16, 0.0f, 0x1p-12f, 0x1p-13f) == 0.0f);
    assert_true(OF(hopper_f16_half, f16, 0x1p-24f, 0x1p-12f, 0x1p-13f) == 0x1p-23f);
    assert_int_equal(sb_bits_f32(OF(hopper_f16_half, f16, 0.0f, -0x1p-12f, 0x1p-13f)), 0x80000000);
    /* 65519 rounds to the largest number, 65520 to infinity */
    assert_true(OF(hopper_f16_half, f16, 0x1.ffcp15f, one, 15.0f) == 0x1.ffcp15f);
    assert_true(OF(hopper_f16_half, f16, 0x1.ffcp15f, one, 16.0f) == HUGE_VALF);
    assert_true(OF(hopper_f16_half, f16, -0x1.ffcp15f, one, -16.0f) == -HUGE_VALF);
    /* the sum of a block is rounded to f16, C is added, and the result is rounded again */
    assert_true(OF(hopper_fp8_mma_half, f16, one, one, 0x1p-11f) == one);
    assert_true(OF(hopper_fp8_mma_half, f16, -one, one, one, one, 0x1p-11f) == 0.0f);
    assert_true(OF(hopper_fp8_mma_half, f16, -one, one, 0x1p-11f) == -one + 0x1p-11f);
    /* 1 + 2^-12 + 2^-11 is above a tie in one block; in two blocks 1 + 2^-12 is rounded first, and
     * then the tie of 1 + 2^-11 to even */
    assert_true(OF(hopper_fp8_mma_half, f16, 0.0f, one, one, 0x1p-12f, one, 0.0f, 0.0f, 0.0f, 0.0f,
                   0x1p-11f, one) == one + 0x1p-10f);
    assert_true(OF(hopper_fp8_mma_half, f16, 0.0f, one, one, 0x1p-12f, one, 0x1p-11f, one) == one);
    const float inf = HUGE_VALF;
    assert_int_equal(sb_bits_f32(OF(hopper_fp8_mma_half, f16, -inf, big, two)), 0x7fffffff);
    assert_int_equal(sb_bits_f32(OF(hopper_fp8_mma, f16, inf, big, two)), 0x7f800000);
    assert_int_equal(sb_bits_f32(OF(hopper_fp8_mma, f16, NAN, big, two)), 0x7fffffff);
}

/* H-2: "a product of zero keeps Z": whatever the scale, a C of 39372510 stays exact. */
TEST(test_scaled_zeros)
{
    const float c = 39372510.0f;
    sb_atom_term terms[MOST];
    for (int power = -254; power <= 254; power++) {
        for (size_t i = 0; i < MOST; i++)
            terms[i] = sb_atom_scaled(sb_atom_product(SB_FORMAT_e4m3, 0.0f, 2.0f), power);
        assert_true(sb_atom_run(&sb_atoms[SB_ATOM_sm120_mxf8], terms, c) == c);
    }
    terms[7] = sb_atom_scaled(sb_atom_product(SB_FORMAT_e4m3, 0x1p-6f, 0x1p-6f), 120);
    assert_true(sb_atom_run(&sb_atoms[SB_ATOM_sm120_mxf8], terms, c) == 0x1p108f);
    terms[7] = sb_atom_scaled(sb_atom_product(SB_FORMAT_e4m3, 0x1p-6f, 0x1p-6f), 44);
    terms[9] = sb_atom_scaled(sb_atom_product(SB_FORMAT_e4m3, -0x1p-6f, 0x1p-6f), 44);
    assert_true(sb_atom_run(&sb_atoms[SB_ATOM_sm120_mxf8], terms, c) == 39372416.0f);
}

TEST(test_range)
{
    const float top = 0x1p64f;
    assert_true(isinf(OF(hopper_f16, bf16, 0.0f, top, top)));
    assert_true(OF(hopper_f16, bf16, -0x1p127f, -top, 0x1p63f) == -HUGE_VALF);
    assert_true(OF(hopper_f16, bf16, 0.0f, top, top, -top, 0x1p63f) == 0x1p127f);
    assert_true(OF(hopper_f16, bf16, 0x1p-149f, 0x1p-100f, 0x1p-48f) == 0x1p-148f + 0x1p-149f);
    assert_int_equal(sb_bits_f32(OF(hopper_f16, bf16, -1.0f, 1.0f, 1.0f)), 0);
    assert_true(isinf(OF(hopper_f16, bf16, HUGE_VALF, -top, top))); /* the infinity remains */
    const float a[2] = {1.0f, HUGE_VALF}, b[2] = {1.0f, 1.0f}, c[2] = {HUGE_VALF, -HUGE_VALF};
    const sb_atom *atom = &sb_atoms[SB_ATOM_hopper_f16];
    assert_true(sb_atom_dot(atom, SB_FORMAT_bf16, a, 1, b, 1, 2) == HUGE_VALF);
    assert_int_equal(sb_bits_f32(sb_atom_dot(atom, SB_FORMAT_bf16, c, 1, b, 1, 2)), 0x7fffffff);
    /* H-6 applies block by block: -2^128 of the first block is -infinity in the second */
    float x[16] = {[0] = -top, [8] = HUGE_VALF}, y[16] = {[0] = top, [8] = 1.0f};
    const sb_atom *two = &sb_atoms[SB_ATOM_ampere_f16];
    assert_int_equal(sb_bits_f32(sb_atom_dot(two, SB_FORMAT_bf16, x, 1, y, 1, 16)), 0x7fffffff);
    assert_true(sb_atom_dot(atom, SB_FORMAT_bf16, x, 1, y, 1, 16) == HUGE_VALF);
    x[8] = -HUGE_VALF;
    assert_true(sb_atom_dot(two, SB_FORMAT_bf16, x, 1, y, 1, 16) == -HUGE_VALF);
    y[8] = 0.0f;
    assert_int_equal(sb_bits_f32(sb_atom_dot(two, SB_FORMAT_bf16, x, 1, y, 1, 16)), 0x7fffffff);
}

/* H-5: groups of 16 against the exact sum; with ordinary scales no bits of the terms are cut. */
TEST(test_groups)
{
    const sb_atom *atom = &sb_atoms[SB_ATOM_sm120_nvfp4];
    uint64_t key = sb_rng_key(42, "groups");
    for (uint64_t i = 0, most = cases(); i < most; i++) {
        sb_atom_term terms[4];
        float c = sb_rng_normal(key, 1000 * i);
        long double exact = (long double)c;
        for (uint32_t g = 0; g < 4; g++) {
            int8_t a[16], b[16];
            uint64_t at = 1000 * i + 100 * g + 1;
            float x = sb_ue4m3_to_f32((uint8_t)sb_rng_below(key, at, 0x7f));
            float y = sb_ue4m3_to_f32((uint8_t)(0x30 + sb_rng_below(key, at + 1, 16)));
            long double sum = 0;
            for (uint32_t k = 0; k < 16; k++) {
                float p = sb_e2m1_to_f32((uint8_t)sb_rng_below(key, at + 2 + k, 16));
                float q = sb_e2m1_to_f32((uint8_t)sb_rng_below(key, at + 20 + k, 16));
                a[k] = (int8_t)(2 * p);
                b[k] = (int8_t)(2 * q);
                sum += (long double)p * (long double)q;
            }
            terms[g] = sb_atom_group(atom, a, b, x, y);
            exact += sum * (long double)x * (long double)y;
        }
        float want = cut_to(exact, 23), got = sb_atom_run(atom, terms, c);
        if (sb_bits_f32(got) != sb_bits_f32(want))
            fail_msg("case %u: %a, expected %a", (unsigned)i, (double)got, (double)want);
    }
}

/* A group whose sum is 0 still counts with the exponent of its scales. */
TEST(test_empty_group)
{
    int8_t one[16] = {2}, none[16] = {0};
    const sb_atom *atom = &sb_atoms[SB_ATOM_sm120_nvfp4];
    sb_atom_term terms[4] = {sb_atom_group(atom, one, none, 448.0f, 448.0f),
                             sb_atom_group(atom, one, one, 0x1p-9f, 0x1p-9f)};
    terms[2] = terms[3] = sb_atom_group(atom, one, one, 0.0f, 448.0f);
    assert_int_equal(terms[0].exponent, 16);
    assert_int_equal(terms[1].exponent, -12);
    assert_int_equal(terms[2].exponent, SB_ATOM_OF_ZERO);
    assert_true(sb_atom_run(atom, terms, 0.0f) == 0x1p-18f);
    assert_true(sb_atom_run(atom, terms, 0x1p-20f) == 0x1p-18f);
    assert_true(sb_atom_run(atom, terms, 0x1p-19f) == 0x1p-18f + 0x1p-19f);
}

/* H-13: the other readings, and a case that is not open. */
TEST(test_open)
{
    int8_t one[16] = {2}, apart[16] = {0, 2}, minus[16] = {2, 2}, both[16] = {2, -2};
    sb_atom other = sb_atoms[SB_ATOM_sm120_nvfp4];
    other.open = SB_ATOM_EMPTY_AS_ZERO;
    sb_atom_term terms[4] = {sb_atom_group(&other, one, apart, 448.0f, 448.0f),
                             sb_atom_group(&other, one, one, 0x1p-9f, 0x1p-9f)};
    terms[2] = terms[3] = sb_atom_group(&other, one, one, 0.0f, 448.0f);
    assert_int_equal(terms[0].exponent, SB_ATOM_OF_ZERO);
    assert_int_equal(terms[1].exponent, -12);
    assert_true(sb_atom_run(&other, terms, 0x1p-20f) == 0x1p-18f + 0x1p-20f);
    assert_int_equal(
        sb_atom_group(&sb_atoms[SB_ATOM_sm120_nvfp4], one, apart, 448.0f, 448.0f).exponent, 16);
    /* products that cancel are not zeros */
    assert_int_equal(sb_atom_group(&other, minus, both, 448.0f, 448.0f).exponent, 16);

    sb_atom plus = sb_atoms[SB_ATOM_hopper_f16];
    plus.open = SB_ATOM_PLUS_ZERO;
    const float a[2] = {-0x1p-76f, 0x1p-60f}, b[2] = {0x1p-76f, 0x1p-80f};
    const sb_atom *row = &sb_atoms[SB_ATOM_hopper_f16];
    assert_int_equal(sb_bits_f32(sb_atom_dot(row, SB_FORMAT_bf16, a, 1, b, 1, 1)), 0x80000000);
    assert_int_equal(sb_bits_f32(sb_atom_dot(&plus, SB_FORMAT_bf16, a, 1, b, 1, 1)), 0);
    assert_true(sb_atom_dot(&plus, SB_FORMAT_bf16, a, 1, b, 1, 2) == 0x1p-140f - 0x1p-149f);
}

TEST(test_table)
{
    for (int id = 0; id < SB_ATOM_COUNT; id++) {
        const sb_atom *atom = &sb_atoms[id];
        assert_ptr_equal(sb_atom_find(atom->name), atom);
        assert_true(atom->terms <= MOST && atom->terms % atom->block == 0);
        assert_true(atom->block % atom->group == 0 && atom->kept <= 23);
    }
    assert_null(sb_atom_find("hopper"));
}
