/* test_math.c - reductions against MPFR, in all orders and by all kernels; the start-up check.
 *
 * SAMEBIT_CASES is the number of reductions per operand kind (default 100000). */
#include <fenv.h>
#include <mpfr.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/formats/format.h"
#include "ref/math/exact.h"
#include "ref/fast/dot/kernels.h"
#include "tests/lib/suite.h"
#include "tests/unit/families.h"

enum { EXACT_BITS = 640 }; /* from 2^-298 to 2^(256 + 10) */

static const char *const isas[] = {"exact", "scalar", "avx2", "avx512", "avx512vnni", "neon"};
enum { ISAS = sizeof isas / sizeof isas[0] };

static int choose(const char *isa)
{
    return sb_dot_select(isa, NULL) == SB_OK;
}

static void assert_bits(float got, uint32_t want)
{
    assert_int_equal(sb_bits_f32(got), want);
}

/* --- the oracle of reductions ----------------------------------------------------------------- */

static void exact_sum(mpfr_t sum, const float *a, const float *b, size_t n)
{
    mpfr_set_zero(sum, 1);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(mpfr_add_d(sum, sum, (double)a[i] * (double)b[i], MPFR_RNDN), 0);
}

static float oracle_reduce(mpfr_t sum, const family_case *c)
{
    exact_sum(sum, c->a, c->b, c->n);
    return mpfr_zero_p(sum) ? 0.0f : mpfr_get_flt(sum, MPFR_RNDN);
}

/* What a set of cases contained, to judge the set. */
typedef struct seen {
    unsigned long cases, subnormal, infinite, zero, negative_zero, tie;
    unsigned long naive_wrong, compensated_wrong, float_wrong; /* broken twins, see below */
} seen;

static void classify(seen *s, mpfr_t sum, float want)
{
    uint32_t magnitude = sb_bits_f32(want) & 0x7fffffffu;
    s->cases++;
    s->subnormal += magnitude > 0 && magnitude < 0x00800000u;
    s->infinite += magnitude == 0x7f800000u;
    s->zero += magnitude == 0;
    s->negative_zero += sb_bits_f32(want) == 0x80000000u;
    if (magnitude < 0x7f000000u && !mpfr_zero_p(sum)) { /* is 2 * (sum - want) one unit of want? */
        double rest = mpfr_get_d(sum, MPFR_RNDN) - (double)want;
        float next = sb_f32_from_bits(magnitude + 1), same = sb_f32_from_bits(magnitude);
        float before = sb_f32_from_bits(magnitude ? magnitude - 1 : 0);
        double up = (double)next - (double)same, down = (double)same - (double)before;
        rest = rest < 0 ? -rest : rest;
        s->tie += rest > 0 && (2 * rest == up || 2 * rest == down);
    }
}

/* --- broken twins: plausible reductions that these cases must distinguish from the right one
 * ---- */

/* Adds in binary64 and rounds: the reduction without the rounding test. */
static float naive(const family_case *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += (double)c->a[i] * (double)c->b[i];
    return (float)sum;
}

/* Adds the rounding errors as well, but rounds the result to binary64 before binary32. */
static float compensated(const family_case *c)
{
    double sum = 0, errors = 0;
    for (size_t i = 0; i < c->n; i++) {
        double p = (double)c->a[i] * (double)c->b[i], s = sum + p, seen_p = s - sum;
        errors += (sum - (s - seen_p)) + (p - seen_p);
        sum = s;
    }
    return (float)(sum + errors);
}

static float in_binary32(const family_case *c)
{
    float sum = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += c->a[i] * c->b[i];
    return sum;
}

static void try_twins(seen *s, const family_case *c, float want)
{
    s->naive_wrong += sb_bits_f32(naive(c)) != sb_bits_f32(want);
    s->compensated_wrong += sb_bits_f32(compensated(c)) != sb_bits_f32(want);
    s->float_wrong += sb_bits_f32(in_binary32(c)) != sb_bits_f32(want);
}

/* --- every kernel against the oracle ---------------------------------------------------------- */

static unsigned long cases_wanted(void)
{
    const char *text = getenv("SAMEBIT_CASES");
    unsigned long n = text ? strtoul(text, NULL, 10) : 0;
    return n ? n : 100000;
}

static void check_kernels(const family_case *c, unsigned long index, float want)
{
    for (size_t k = 0; k < ISAS; k++) {
        if (!choose(isas[k]))
            continue;
        float got = family_reduce(c);
        if (sb_bits_f32(got) != sb_bits_f32(want))
            fail_msg("%s %s case %lu (%s, n = %zu): got %08x want %08x", family_kind_name(c->kind),
                     isas[k], index, c->family, c->n, (unsigned)sb_bits_f32(got),
                     (unsigned)sb_bits_f32(want));
    }
}

static void check_kind(family_kind kind)
{
    static family_case c;
    seen s = {0};
    uint64_t key = sb_rng_key(42, family_kind_name(kind));
    mpfr_t sum;
    mpfr_init2(sum, EXACT_BITS);
    for (unsigned long i = 0; i < cases_wanted(); i++) {
        family_make(&c, kind, key, i);
        float want = oracle_reduce(sum, &c);
        check_kernels(&c, i, want);
        classify(&s, sum, want);
        try_twins(&s, &c, want);
    }
    mpfr_clear(sum);
    print_message(
        "%s: %lu cases; results: %lu subnormal, %lu infinite, %lu zero, %lu -0; %lu ties; "
        "wrong twins: binary64 %lu, compensated %lu, binary32 %lu\n",
        family_kind_name(kind), s.cases, s.subnormal, s.infinite, s.zero, s.negative_zero, s.tie,
        s.naive_wrong, s.compensated_wrong, s.float_wrong);
    assert_true(s.subnormal > s.cases / 50 && s.infinite > s.cases / 200 && s.zero > s.cases / 100);
    assert_true(s.negative_zero > 0 || kind == KIND_sum); /* a sum of binary32 cannot underflow */
    assert_true(s.tie > s.cases / 50);
    assert_true(s.naive_wrong > s.cases / 200 && s.compensated_wrong > s.cases / 1000);
    assert_true(s.float_wrong > s.cases / 10);
}

#define KIND_TEST(name)                                                                            \
    TEST(test_##name##_equals_mpfr)                                                                \
    {                                                                                              \
        check_kind(KIND_##name);                                                                   \
    }
FAMILY_KINDS(KIND_TEST)

/* dot.h: |sum - S| <= bound and magnitude >= (1 - du) M, for each kernel set. */
TEST(test_kernels_keep_their_bound)
{
    static family_case c;
    static float absolute_a[FAMILY_TERMS_MAX], absolute_b[FAMILY_TERMS_MAX];
    mpfr_t sum, size, error;
    mpfr_inits2(EXACT_BITS, sum, size, error, (mpfr_ptr)0);
    double worst = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        family_make(&c, KIND_dot_f32, sb_rng_key(42, "bound"), i);
        for (size_t k = 0; k < c.n; k++) {
            absolute_a[k] = sb_f32_from_bits(sb_bits_f32(c.a[k]) & 0x7fffffffu);
            absolute_b[k] = sb_f32_from_bits(sb_bits_f32(c.b[k]) & 0x7fffffffu);
        }
        exact_sum(sum, c.a, c.b, c.n);
        exact_sum(size, absolute_a, absolute_b, c.n);
        for (size_t k = 1; sb_dot_set(k); k++) { /* kernel set "exact" has none */
            sb_partial p = sb_dot_set(k)->f32(c.a, c.b, c.n);
            mpfr_sub_d(error, sum, p.sum, MPFR_RNDA);
            mpfr_abs(error, error, MPFR_RNDN);
            double bound = (double)(c.n + 8) * 0x1p-53 * p.magnitude;
            assert_true(mpfr_cmp_d(error, bound) <= 0);
            if (bound > 0 && mpfr_get_d(error, MPFR_RNDU) / bound > worst)
                worst = mpfr_get_d(error, MPFR_RNDU) / bound;
            assert_true(mpfr_cmp_d(size, p.magnitude * (1 + (double)c.n * 0x1p-53)) <= 0);
        }
    }
    mpfr_clears(sum, size, error, (mpfr_ptr)0);
    print_message("largest error of a kernel: %.2f of its bound\n", worst);
    assert_true(worst > 0.01); /* else these cases show nothing about the bound */
}

/* --- laws ------------------------------------------------------------------------------------- */

TEST(test_order_does_not_matter)
{
    static family_case c;
    uint64_t key = sb_rng_key(42, "order");
    for (uint64_t i = 0; i < 6000; i++) {
        family_make(&c, (family_kind)(i % KIND_COUNT), key, i / KIND_COUNT);
        for (size_t k = 0; k < ISAS; k++) {
            if (!choose(isas[k]))
                continue;
            uint32_t before = sb_bits_f32(family_reduce(&c));
            for (size_t j = c.n; j > 1; j--) {
                size_t other = sb_rng_below(key, i * 1000 + j, (uint32_t)j);
                float a = c.a[j - 1], b = c.b[j - 1];
                c.a[j - 1] = c.a[other];
                c.b[j - 1] = c.b[other];
                c.a[other] = a;
                c.b[other] = b;
            }
            family_spread(&c);
            assert_bits(family_reduce(&c), before);
        }
    }
}

/* Zeros in between move every term to other lanes and other pieces. */
TEST(test_chunks_do_not_matter)
{
    static family_case c, apart;
    uint64_t key = sb_rng_key(42, "chunks");
    for (uint64_t i = 0; i < 6000; i++) {
        family_make(&c, (family_kind)(i % KIND_COUNT), key, i / KIND_COUNT);
        apart.kind = c.kind;
        apart.n = 0;
        for (size_t j = 0; j < c.n; j++) {
            uint32_t gap = sb_rng_below(key, i << 20 | j, 4) == 0 ? 3 : 0;
            while (gap-- > 0 && apart.n + (c.n - j) < FAMILY_TERMS_MAX) {
                apart.a[apart.n] = 0.0f;
                apart.b[apart.n++] = 1.0f;
            }
            apart.a[apart.n] = c.a[j];
            apart.b[apart.n++] = c.b[j];
        }
        family_spread(&apart);
        choose("exact");
        uint32_t want = sb_bits_f32(family_reduce(&c));
        for (size_t k = 0; k < ISAS; k++)
            if (choose(isas[k]))
                assert_bits(family_reduce(&apart), want);
    }
}

/* The plain functions of exact.h, and strides of 1, on the same cases. */
TEST(test_definition_by_itself)
{
    static family_case c;
    mpfr_t sum;
    mpfr_init2(sum, EXACT_BITS);
    choose("auto");
    for (uint64_t i = 0; i < 6000; i++) {
        family_make(&c, i % 2 ? KIND_sum : KIND_dot_f32, sb_rng_key(42, "definition"), i / 2);
        uint32_t want = sb_bits_f32(oracle_reduce(sum, &c));
        if (c.kind == KIND_sum)
            assert_bits(sb_exact_sum(c.wide_a, FAMILY_STRIDE_A, c.n), want);
        assert_bits(sb_exact_dot(c.wide_a, FAMILY_STRIDE_A, c.b, 1, c.n), want);
        assert_bits(sb_dot_strided(c.a, 1, c.b, 1, c.n), want);
        assert_bits(sb_dot_strided(c.a, 1, c.wide_b, FAMILY_STRIDE_B, c.n), want);
    }
    mpfr_clear(sum);
}

/* Every column gives its own dot product, independent of its neighbours, and the results may
 * overwrite a row of the matrix. */
TEST(test_columns_are_dot_products)
{
    enum { COLUMNS = 75, STRIDE = COLUMNS + 2 };
    static family_case c;
    static float b[FAMILY_TERMS_MAX * STRIDE];
    for (uint64_t i = 0; i < 60; i++) {
        family_make(&c, KIND_dot_f32, sb_rng_key(42, "columns"), i);
        for (size_t k = 0; k < ISAS; k++) {
            float want[COLUMNS], apart[COLUMNS], *row = b + c.n / 2 * STRIDE;
            for (size_t t = 0; t < c.n; t++)
                for (size_t j = 0; j < COLUMNS; j++)
                    b[t * STRIDE + j] = j % 3 ? c.b[(t * j + i) % c.n] : c.b[t];
            if (!choose(isas[k]))
                continue;
            for (size_t j = 0; j < COLUMNS; j++)
                want[j] = sb_exact_dot(c.a, 1, b + j, STRIDE, c.n);
            sb_dot_columns(c.a, 1, b, STRIDE, c.n, COLUMNS, apart);
            sb_dot_columns(c.wide_a, FAMILY_STRIDE_A, b, STRIDE, c.n, COLUMNS, row);
            for (size_t j = 0; j < COLUMNS; j++) {
                assert_bits(apart[j], sb_bits_f32(want[j]));
                assert_bits(row[j], sb_bits_f32(want[j]));
            }
        }
    }
}

TEST(test_rows_are_found_through_the_map)
{
    const uint32_t map[] = {2, 0, 1};
    const float rows[] = {1, 2, 3, 4, 5, 6}, x[] = {1, 10};
    unsigned char bytes[3 * 2 * 2];
    sb_encode(SB_FORMAT_bf16, rows, 6, bytes);
    sb_matrix matrix = {
        .data = bytes, .format = SB_FORMAT_bf16, .rows = 3, .cols = 2, .row_map = map};
    for (size_t k = 0; k < ISAS; k++) {
        if (!choose(isas[k]))
            continue;
        assert_bits(sb_dot_row(&matrix, 0, x), sb_bits_f32(65.0f));
        assert_bits(sb_dot_row(&matrix, 1, x), sb_bits_f32(21.0f));
        assert_bits(sb_dot_row(&matrix, 2, x), sb_bits_f32(43.0f));
    }
}

/* A NaN or an infinity at any place gives 7fc00000. */
TEST(test_non_finite_operands_poison)
{
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u};
    static family_case c;
    uint64_t key = sb_rng_key(42, "poison");
    for (uint64_t i = 0; i < 3000; i++) {
        family_make(&c, (family_kind)(i % KIND_COUNT), key, i / KIND_COUNT);
        if (c.n == 0)
            continue;
        float value = sb_f32_from_bits(bad[i % 5]);
        size_t at = sb_rng_below(key, i << 10, (uint32_t)c.n);
        if (c.kind == KIND_sum || i % 2) {
            c.a[at] = value;
            c.b[at] = c.kind == KIND_sum ? 1.0f : i % 3 ? c.b[at] : 0.0f;
        } else {
            c.b[at] = value;
            c.a[at] = i % 3 ? c.a[at] : 0.0f;
        }
        if (i % 7 == 0 && c.n > 1) { /* Inf - Inf */
            c.a[(at + 1) % c.n] = -c.a[at];
            c.b[(at + 1) % c.n] = c.b[at];
        }
        family_spread(&c);
        for (size_t k = 0; k < ISAS; k++)
            if (choose(isas[k]))
                assert_bits(family_reduce(&c), 0x7fc00000u);
    }
}

/* {a, b} pairs, result */
TEST(test_zeros_and_single_products)
{
    const float least = 0x1p-149f, most = 0x1.fffffep127f;
    const struct {
        size_t n;
        float a[2], b[2];
        uint32_t want;
    } cases[] = {
        {0, {0, 0}, {0, 0}, 0},
        {1, {-0.0f, 0}, {1, 0}, 0},
        {2, {-0.0f, -0.0f}, {1, 1}, 0},
        {2, {1, -1}, {3, 3}, 0},
        {1, {least, 0}, {least, 0}, 0},
        {1, {-least, 0}, {least, 0}, 0x80000000u},
        {1, {least, 0}, {0.5f, 0}, 0},         /* a tie with zero */
        {2, {least, least}, {0.5f, least}, 1}, /* above the tie */
        {2, {-least, least}, {0.5f, least}, 0x80000000u} /* below the tie */,
        {2, {-least, -least}, {0.5f, least}, 0x80000001u},
        {1, {least, 0}, {1.5f, 0}, 2}, /* tie, to even */
        {1, {most, 0}, {most, 0}, 0x7f800000u},
        {1, {-most, 0}, {most, 0}, 0xff800000u},
        {2, {most, 0x1p103f}, {1, 1}, 0x7f800000u}, /* the midpoint to infinity */
        {2, {most, 0x1.fffffep102f}, {1, 1}, 0x7f7fffffu} /* just below */,
        {2, {most, most}, {most, -most}, 0},
        {2,
         {0x1.fffffep-127f, 0x1p-149f},
         {1, 0.5f},
         0x00800000u}, /* subnormal, rounds to normal */
    };
    for (size_t k = 0; k < ISAS; k++)
        for (size_t i = 0; choose(isas[k]) && i < sizeof cases / sizeof cases[0]; i++)
            assert_bits(sb_dot(cases[i].a, cases[i].b, cases[i].n), cases[i].want);
}

/* --- the wide accumulator --------------------------------------------------------------------- */

TEST(test_carries_are_resolved_in_time)
{
    sb_exact acc;
    sb_exact_clear(&acc);
    acc.pending = (1u << 30) - 2; /* as after that many additions */
    acc.digit[20] = ((int64_t)1 << 62) + ((int64_t)1 << 61);
    acc.digit[21] = -((int64_t)1 << 30) - ((int64_t)1 << 29); /* cancels digit 20 */
    sb_exact_add_product(&acc, 0x1.234568p60f, 0x1p70f);
    assert_int_equal(acc.pending, (1u << 30) - 1);
    sb_exact_add_product(&acc, -0x1.234566p60f, 0x1p70f);
    assert_int_equal(acc.pending, 0);
    for (int d = 0; d + 1 < SB_EXACT_DIGITS; d++)
        assert_true(acc.digit[d] >= 0 && acc.digit[d] < (int64_t)1 << 32);
    assert_bits(sb_exact_round(&acc), sb_bits_f32(0x1p107f));
    sb_exact_add(&acc, -0x1p107f);
    assert_bits(sb_exact_round(&acc), 0);
}

/* --- the rounding test ------------------------------------------------------------------------ */

TEST(test_rounding_test_is_not_fooled)
{
    float r = 0;
    const double tie = 1 + 0x1p-24, bound = 108 * 0x1.0001p-53 + 0x1p-52; /* n = 100, magnitude 1 */
    assert_false(sb_round_certain((sb_partial){tie, 1}, 100, &r));
    assert_false(sb_round_certain((sb_partial){tie + 0.9 * bound, 1}, 100, &r));
    assert_false(sb_round_certain((sb_partial){tie - 0.9 * bound, 1}, 100, &r));
    assert_true(sb_round_certain((sb_partial){tie + 1.2 * bound, 1}, 100, &r));
    assert_bits(r, 0x3f800001u);
    assert_true(sb_round_certain((sb_partial){tie - 1.2 * bound, 1}, 100, &r));
    assert_bits(r, 0x3f800000u);
    assert_true(sb_round_certain((sb_partial){0, 0}, 5, &r)); /* nothing but zeros */
    assert_bits(r, 0);
    assert_false(sb_round_certain((sb_partial){0, 1}, 5, &r)); /* cancelled: sign unknown */
    assert_false(sb_round_certain((sb_partial){-0.0, 0}, 5, &r));
    double nan = (double)sb_f32_from_bits(0x7fc00000u),
           infinity = (double)sb_f32_from_bits(0x7f800000u);
    assert_false(sb_round_certain((sb_partial){1, nan}, 5, &r));
    assert_false(sb_round_certain((sb_partial){nan, nan}, 5, &r));
    assert_false(sb_round_certain((sb_partial){infinity, infinity}, 5, &r));
    assert_true(sb_round_certain((sb_partial){0x1p200, 0x1p200}, 5, &r));
    assert_bits(r, 0x7f800000u);
    assert_true(sb_round_certain((sb_partial){1, 0x1p-20}, (size_t)1 << 28, &r));
    assert_false(sb_round_certain((sb_partial){1, 0x1p-20}, ((size_t)1 << 28) + 1, &r));
}

/* --- selection and start ---------------------------------------------------------------------- */

TEST(test_selection)
{
    sb_error err;
    assert_int_equal(sb_dot_select("exact", &err), SB_OK);
    assert_string_equal(sb_dot_selected(), "exact");
    assert_int_equal(sb_dot_select("sse9", &err), SB_ERR_USAGE);
    assert_non_null(strstr(err.text, "sse9"));
    assert_string_equal(sb_dot_selected(), "exact"); /* a refusal changes nothing */
    assert_int_equal(sb_dot_select("auto", &err), SB_OK);
    size_t sets = 0;
    while (sb_dot_set(sets))
        sets++;
    assert_string_equal(sb_dot_selected(), sb_dot_set(sets - 1)->name);
    assert_string_equal(sb_dot_selected(), sb_dot_avx512vnni_supported() ? "avx512vnni"
                                           : sb_dot_avx512_supported()   ? "avx512"
                                           : sb_dot_avx2_supported()     ? "avx2"
                                           : sb_dot_neon                 ? "neon"
                                                                         : "scalar");
    setenv("SAMEBIT_ISA", "scalar", 1);
    assert_int_equal(sb_math_start(NULL, &err), SB_OK);
    assert_string_equal(sb_dot_selected(), "scalar");
    assert_int_equal(sb_math_start("exact", &err), SB_OK);
    assert_string_equal(sb_dot_selected(), "exact");
    setenv("SAMEBIT_ISA", "wrong", 1);
    assert_int_equal(sb_math_start(NULL, &err), SB_ERR_USAGE);
    unsetenv("SAMEBIT_ISA");
    assert_int_equal(sb_math_start(NULL, &err), SB_OK);
}

TEST(test_start_refuses_directed_rounding)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < 3; i++) {
        sb_error err;
        assert_int_equal(fesetround(modes[i]), 0);
        sb_status status = sb_math_start("scalar", &err);
        fesetround(FE_TONEAREST);
        assert_int_equal(status, SB_ERR_NUMERIC);
        assert_non_null(strstr(err.text, "nearest"));
    }
    assert_int_equal(sb_math_start("scalar", NULL), SB_OK);
}

TEST(test_start_refuses_flushed_subnormals)
{
#if defined(__SSE__)
    static const unsigned modes[] = {0x8000u, 0x0040u, 0x8040u}; /* FTZ, DAZ, both */
    unsigned before = _mm_getcsr();
    for (size_t i = 0; i < 3; i++) {
        sb_error err;
        _mm_setcsr(before | modes[i]);
        sb_status status = sb_math_start("scalar", &err);
        _mm_setcsr(before);
        assert_int_equal(status, SB_ERR_NUMERIC);
        assert_non_null(strstr(err.text, "subnormal"));
    }
#else
    skip();
#endif
}
