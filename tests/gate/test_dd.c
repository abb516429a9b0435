/* test_dd.c - double-double against MPFR with 300 bits: every operation and function over its
 * range, with both halves of the arguments drawn, and values beyond the range. */
#include "tests/lib/suite.h"

#include <math.h>
#include <mpfr.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/judge/gate/dd.h"

#define BITS 300
#define ARITHMETIC 0x1p-100
#define FUNCTION 0x1p-90
#define SMALLEST 0x1p-1060

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

/* hi with a lo of random sign, size and sparsity, below half an ulp of hi. */
static sb_dd draw(uint64_t *seed, double hi)
{
    double lo = (uniform(seed) - 0.5) * 0x1p-53 * hi;
    int kind = (int)(uniform(seed) * 4.0);
    return (sb_dd){hi, kind == 0 ? 0.0 : kind == 1 ? lo * 0x1p-20 : lo};
}

static void set(mpfr_ptr y, sb_dd x)
{
    mpfr_set_d(y, x.hi, MPFR_RNDN);
    mpfr_add_d(y, y, x.lo, MPFR_RNDN);
}

/* The error of got, relative to y unless absolute. Errors up to SMALLEST count as 0. Destroys y. */
static double error_of(mpfr_ptr y, sb_dd got, int absolute)
{
    if (isinf(mpfr_get_d(y, MPFR_RNDN)))
        return got.hi == mpfr_get_d(y, MPFR_RNDN) ? 0.0 : INFINITY;
    if (!(fabs(got.lo) <= fabs(got.hi) * 0x1p-53 + 0x1p-1074))
        return INFINITY; /* not normalised, or NaN */
    mpfr_t d;
    mpfr_init2(d, BITS);
    set(d, got);
    mpfr_sub(d, d, y, MPFR_RNDN);
    mpfr_abs(d, d, MPFR_RNDN);
    double error = 0.0;
    if (mpfr_cmp_d(d, SMALLEST) > 0) {
        if (!absolute)
            mpfr_div(d, d, y, MPFR_RNDN);
        error = fabs(mpfr_get_d(d, MPFR_RNDN));
    }
    mpfr_clear(d);
    return error;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

typedef int (*exact_two)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
typedef sb_dd (*got_two)(sb_dd, sb_dd);

static double worst_of_two(got_two got, exact_two exact, double reach, int cancel)
{
    uint64_t seed = 7;
    double worst = 0.0;
    mpfr_t x, y;
    mpfr_inits2(BITS + 2000, x, y, (mpfr_ptr)0);
    for (int i = 0; i < 20000; i++) {
        double a = (uniform(&seed) - 0.5) * exp2(reach * (uniform(&seed) - 0.5));
        double b = (uniform(&seed) - 0.5) * exp2(reach * (uniform(&seed) - 0.5));
        if (cancel && i % 2)
            b = -a * (1.0 + (i % 4 == 1 ? 0.0 : exp2(-52.0 * uniform(&seed))));
        sb_dd p = draw(&seed, a), q = draw(&seed, b);
        set(x, p);
        set(y, q);
        exact(x, x, y, MPFR_RNDN);
        mpfr_prec_round(x, BITS, MPFR_RNDN);
        double error = error_of(x, got(p, q), 0);
        if (error > worst)
            worst = error;
        mpfr_set_prec(x, BITS + 2000);
    }
    mpfr_clears(x, y, (mpfr_ptr)0);
    return worst;
}

TEST(test_arithmetic)
{
    static const struct {
        const char *name;
        got_two got;
        exact_two exact;
        double reach;
        int cancel;
    } row[] = {
        {"add", sb_dd_add, mpfr_add, 60.0, 1},     {"add far", sb_dd_add, mpfr_add, 2000.0, 1},
        {"sub", sb_dd_sub, mpfr_sub, 60.0, 0},     {"mul", sb_dd_mul, mpfr_mul, 60.0, 0},
        {"mul far", sb_dd_mul, mpfr_mul, 2000, 0}, {"div", sb_dd_div, mpfr_div, 60.0, 0},
        {"div far", sb_dd_div, mpfr_div, 2040, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double worst = worst_of_two(row[i].got, row[i].exact, row[i].reach, row[i].cancel);
        printf("  %-8s 2^%.1f\n", row[i].name, log2(worst));
        if (!(worst <= ARITHMETIC))
            fail_msg("%s errs by 2^%.1f", row[i].name, log2(worst));
    }
}

TEST(test_fma_sums)
{
    uint64_t seed = 3;
    sb_dd sum = sb_dd_of(0.0);
    mpfr_t exact, term, size;
    mpfr_inits2(BITS, exact, term, size, (mpfr_ptr)0);
    mpfr_set_zero(exact, 1);
    mpfr_set_zero(size, 1);
    for (int i = 0; i < 4096; i++) {
        sb_dd x = draw(&seed, uniform(&seed) - 0.5), y = draw(&seed, uniform(&seed) - 0.5);
        sum = sb_dd_fma(sum, x, y);
        set(term, x);
        set(size, y);
        mpfr_mul(term, term, size, MPFR_RNDN);
        mpfr_add(exact, exact, term, MPFR_RNDN);
    }
    assert_true(error_of(exact, sum, 1) < 4096.0 * 0x1p-100);
    assert_true(sb_dd_less((sb_dd){1.0, -0x1p-80}, sb_dd_of(1.0)));
    assert_false(sb_dd_less(sb_dd_of(1.0), (sb_dd){1.0, -0x1p-80}));
    mpfr_clears(exact, term, size, (mpfr_ptr)0);
}

/* --- functions -------------------------------------------------------------------------------- */

typedef int (*exact_one)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

static int exact_sigmoid(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t way)
{
    mpfr_neg(y, x, way);
    mpfr_exp(y, y, way);
    mpfr_add_ui(y, y, 1, way);
    return mpfr_ui_div(y, 1, y, way);
}
static int exact_silu(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t way)
{
    mpfr_t s;
    mpfr_init2(s, BITS + 100);
    exact_sigmoid(s, x, way);
    int inexact = mpfr_mul(y, x, s, way);
    mpfr_clear(s);
    return inexact;
}
static int exact_softplus(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t way)
{
    mpfr_exp(y, x, way);
    return mpfr_log1p(y, y, way);
}

typedef struct range {
    const char *name;
    sb_dd (*got)(sb_dd);
    exact_one exact;
    double low, high; /* LOGARITHMIC: range of the exponent */
    int way;
} range;
enum { LINEAR, LOGARITHMIC, ABSOLUTE, NEAR_ONE };

static double worst_of(const range *r)
{
    uint64_t seed = 11;
    double worst = 0.0;
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)0);
    for (int i = 0; i < 4000; i++) {
        double t = i == 0 ? 0.0 : i == 1 ? 1.0 : uniform(&seed);
        double at = r->low + t * (r->high - r->low);
        if (r->way == LOGARITHMIC)
            at = exp2(at) *
                 (i % 2 && r->low < 0 && r->got != sb_dd_log && r->got != sb_dd_sqrt ? -1.0 : 1.0);
        if (r->way == NEAR_ONE)
            at = 1.0 + exp2(at) * (i % 2 ? -1.0 : 1.0);
        sb_dd a = draw(&seed, at);
        set(x, a);
        r->exact(y, x, MPFR_RNDN);
        double error = error_of(y, r->got(a), r->way == ABSOLUTE);
        if (error > worst)
            worst = error;
    }
    mpfr_clears(x, y, (mpfr_ptr)0);
    return worst;
}

TEST(test_functions)
{
    static const range row[] = {
        {"exp", sb_dd_exp, mpfr_exp, -1.0, 1.0, LINEAR},
        {"exp wide", sb_dd_exp, mpfr_exp, -744.0, 709.7, LINEAR},
        {"exp tiny", sb_dd_exp, mpfr_exp, -1073.0, 0.0, LOGARITHMIC},
        {"expm1", sb_dd_expm1, mpfr_expm1, -1.0, 1.0, LINEAR},
        {"expm1 tiny", sb_dd_expm1, mpfr_expm1, -1073.0, 0.0, LOGARITHMIC},
        {"expm1 wide", sb_dd_expm1, mpfr_expm1, -744.0, 709.7, LINEAR},
        {"log", sb_dd_log, mpfr_log, 0.3, 3.0, LINEAR},
        {"log wide", sb_dd_log, mpfr_log, -1073.0, 1023.9, LOGARITHMIC},
        {"log near 1", sb_dd_log, mpfr_log, -52.0, -2.0, NEAR_ONE},
        {"log1p", sb_dd_log1p, mpfr_log1p, -0.999, 2.0, LINEAR},
        {"log1p tiny", sb_dd_log1p, mpfr_log1p, -1073.0, -0.01, LOGARITHMIC},
        {"log1p far", sb_dd_log1p, mpfr_log1p, 1.0, 1e300, LINEAR},
        {"sin", sb_dd_sin, mpfr_sin, -4.0, 4.0, ABSOLUTE},
        {"sin far", sb_dd_sin, mpfr_sin, -0x1p25, 0x1p25, ABSOLUTE},
        {"cos", sb_dd_cos, mpfr_cos, -4.0, 4.0, ABSOLUTE},
        {"cos far", sb_dd_cos, mpfr_cos, -0x1p25, 0x1p25, ABSOLUTE},
        {"sigmoid", sb_dd_sigmoid, exact_sigmoid, -40.0, 40.0, LINEAR},
        {"sigmoid far", sb_dd_sigmoid, exact_sigmoid, -745.0, 745.0, LINEAR},
        {"silu", sb_dd_silu, exact_silu, -40.0, 40.0, LINEAR},
        {"silu far", sb_dd_silu, exact_silu, -744.0, 744.0, LINEAR},
        {"silu huge", sb_dd_silu, exact_silu, 10.0, 1e300, LINEAR},
        {"silu tiny", sb_dd_silu, exact_silu, -900.0, 0.0, LOGARITHMIC},
        {"softplus", sb_dd_softplus, exact_softplus, -40.0, 40.0, LINEAR},
        {"softplus far", sb_dd_softplus, exact_softplus, -744.0, 744.0, LINEAR},
        {"sqrt", sb_dd_sqrt, mpfr_sqrt, 0.25, 9.0, LINEAR},
        {"sqrt wide", sb_dd_sqrt, mpfr_sqrt, -960.0, 1023.9, LOGARITHMIC},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double worst = worst_of(&row[i]);
        printf("  %-12s 2^%.1f\n", row[i].name, log2(worst));
        if (!(worst <= (row[i].exact == mpfr_sqrt ? ARITHMETIC : FUNCTION)))
            fail_msg("%s errs by 2^%.1f", row[i].name, log2(worst));
    }
}

TEST(test_pow)
{
    uint64_t seed = 5;
    double worst = 0.0;
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)0);
    for (int i = 0; i < 4000; i++) {
        sb_dd a = draw(&seed, exp2(1000.0 * (uniform(&seed) - 0.5)));
        sb_dd b = draw(&seed, 2.0 * (uniform(&seed) - 0.5));
        set(x, a);
        set(y, b);
        mpfr_pow(y, x, y, MPFR_RNDN);
        double error = error_of(y, sb_dd_pow(a, b), 0);
        worst = error > worst ? error : worst;
    }
    mpfr_clears(x, y, (mpfr_ptr)0);
    printf("  pow          2^%.1f\n", log2(worst));
    assert_true(worst <= FUNCTION);
}

TEST(test_beyond_the_range)
{
    assert_true(sb_dd_exp(sb_dd_of(1e4)).hi == INFINITY);
    assert_true(sb_dd_exp(sb_dd_of(709.9)).hi == INFINITY);
    assert_true(sb_dd_exp(sb_dd_of(-1e4)).hi == 0.0);
    assert_true(sb_dd_exp(sb_dd_of(-INFINITY)).hi == 0.0);
    assert_true(isnan(sb_dd_exp(sb_dd_of(NAN)).hi));
    assert_true(sb_dd_expm1(sb_dd_of(-1e4)).hi == -1.0);
    assert_true(sb_dd_softplus(sb_dd_of(1e5)).hi == 1e5);
    assert_true(sb_dd_softplus(sb_dd_of(-1e5)).hi == 0.0);
    assert_true(sb_dd_sigmoid(sb_dd_of(1e5)).hi == 1.0);
    assert_true(sb_dd_sigmoid(sb_dd_of(-1e5)).hi == 0.0);
    assert_true(sb_dd_add(sb_dd_of(0x1.8p1023), sb_dd_of(0x1.8p1023)).hi == INFINITY);
    assert_true(sb_dd_mul(sb_dd_of(0x1.8p1000), sb_dd_of(-0x1.8p1000)).hi == -INFINITY);
    assert_true(sb_dd_div(sb_dd_of(1.0), sb_dd_of(0.0)).hi == INFINITY);
    assert_true(sb_dd_log(sb_dd_of(0.0)).hi == -INFINITY);
    assert_true(isnan(sb_dd_log(sb_dd_of(-1.0)).hi));
    assert_true(sb_dd_sqrt(sb_dd_of(0.0)).hi == 0.0);
    assert_true(isnan(sb_dd_sqrt(sb_dd_of(-1.0)).hi));
}

/* The constants of dd_fn.c are not exported: log 2 and the pi / 2 used by sine. */
TEST(test_constants)
{
    mpfr_t y;
    mpfr_init2(y, BITS);
    mpfr_const_log2(y, MPFR_RNDN);
    assert_true(error_of(y, sb_dd_log(sb_dd_of(2.0)), 0) <= 0x1p-105);
    mpfr_const_pi(y, MPFR_RNDN);
    mpfr_mul_ui(y, y, 1u << 22, MPFR_RNDN); /* a multiple of pi / 2, rounded to a dd */
    sb_dd x = {mpfr_get_d(y, MPFR_RNDN), 0.0};
    mpfr_sub_d(y, y, x.hi, MPFR_RNDN);
    x.lo = mpfr_get_d(y, MPFR_RNDN);
    mpfr_sub_d(y, y, x.lo, MPFR_RNDN); /* the sine of x is the rest, with the sign reversed */
    mpfr_neg(y, y, MPFR_RNDN);
    assert_true(error_of(y, sb_dd_sin(x), 1) <= 0x1p-130);
    mpfr_clear(y);
}
