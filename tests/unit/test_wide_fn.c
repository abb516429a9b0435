/* test_wide_fn.c - the binary64 functions of the bounds against MPFR. */
#include "ref/base/root.h"
#include "tests/lib/suite.h"

#include <math.h>
#include <mpfr.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/judge/bound/wide_fn.h"

/* T-5 promises 2^-40; the observed errors are below this. */
#define SEEN 0x1p-48

typedef int (*exact_fn)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

/* |got - f(x)| / |f(x)|; only the numerator if `absolute`. */
static double error_of(exact_fn f, double x, double got, int absolute)
{
    mpfr_t y;
    mpfr_init2(y, 200);
    mpfr_set_d(y, x, MPFR_RNDN);
    f(y, y, MPFR_RNDN);
    double right = fabs(mpfr_get_d(y, MPFR_RNDN));
    mpfr_sub_d(y, y, got, MPFR_RNDN);
    double error = fabs(mpfr_get_d(y, MPFR_RNDN));
    mpfr_clear(y);
    return absolute || error == 0.0 ? error : error / right;
}

typedef struct range {
    const char *name;
    double (*got)(double);
    exact_fn exact;
    double low, high;
    int absolute, powers; /* powers: magnitudes up to high; both signs if low < 0 */
} range;

static int root(mpfr_ptr y, mpfr_srcptr x, mpfr_rnd_t rnd)
{
    return mpfr_sqrt(y, x, rnd);
}

static double argument(const range *r, uint64_t *seed)
{
    double x = uniform(seed);
    if (!r->powers)
        return r->low + (r->high - r->low) * x;
    double magnitude = exp2(-1000.0 * uniform(seed)) * r->high * (0.5 + 0.5 * x);
    return r->low < 0.0 && uniform(seed) < 0.5 ? -magnitude : magnitude;
}

TEST(test_functions)
{
    static const range ranges[] = {
        {"exp", sb_wide_exp, mpfr_exp, -700.0, 700.0, 0, 0},
        {"exp", sb_wide_exp, mpfr_exp, -1.0, 1.0, 0, 0},
        {"expm1", sb_wide_expm1, mpfr_expm1, -40.0, 40.0, 0, 0},
        {"expm1", sb_wide_expm1, mpfr_expm1, -1.0, 1.0, 0, 1},
        {"log", sb_wide_log, mpfr_log, 0.5, 2.0, 0, 0},
        {"log", sb_wide_log, mpfr_log, 0.0, 1e300, 0, 1},
        {"log1p", sb_wide_log1p, mpfr_log1p, -0.9, 3.0, 0, 0},
        {"log1p", sb_wide_log1p, mpfr_log1p, 0.0, 1e300, 0, 1},
        {"sin", sb_wide_sin, mpfr_sin, -0x1p25, 0x1p25, 1, 0},
        {"cos", sb_wide_cos, mpfr_cos, -0x1p25, 0x1p25, 1, 0},
        {"sin", sb_wide_sin, mpfr_sin, -7.0, 7.0, 1, 1},
        {"cos", sb_wide_cos, mpfr_cos, -7.0, 7.0, 1, 1},
        {"sqrt", sb_sqrt64, root, 0.0, 1e300, 0, 1},
    };
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double worst = 0.0;
        for (int n = 0; n < 20000; n++) {
            double x = argument(&ranges[i], &seed);
            double error = error_of(ranges[i].exact, x, ranges[i].got(x), ranges[i].absolute);
            worst = fmax(worst, error);
            if (!(error <= SEEN))
                fail_msg("%s(%a) errs by %g", ranges[i].name, x, error);
        }
        printf("%-6s errs by at most 2^%.1f\n", ranges[i].name, log2(worst));
    }
}

TEST(test_pow)
{
    for (int f = 1; f < 128; f++) {
        double e = -2.0 * f / 256.0, right = pow(1e7, e);
        assert_true(fabs(sb_wide_pow(1e7, e) - right) <= 0x1p-46 * right);
    }
}

TEST(test_ends)
{
    assert_true(sb_wide_exp(1000.0) == INFINITY);
    assert_true(sb_wide_exp(-1000.0) == 0.0);
    assert_true(sb_wide_exp(0.0) == 1.0 && sb_wide_exp(-INFINITY) == 0.0);
    assert_true(sb_wide_exp(INFINITY) == INFINITY && isnan(sb_wide_exp(NAN)));
    assert_true(sb_sqrt64(0.0) == 0.0 && sb_sqrt64(INFINITY) == INFINITY);
    assert_true(sb_sqrt64(4.0) == 2.0 && sb_sqrt64(0x1p-1074) == 0x1p-537);
    assert_true(fabs(sb_wide_exp(-740.0) / exp(-740.0) - 1.0) < 1e-5);
    assert_true(sb_wide_log(1.0) == 0.0 && sb_wide_cos(0.0) == 1.0 && sb_wide_sin(0.0) == 0.0);
    assert_true(sb_wide_round(2.5) == 2.0 && sb_wide_round(-0.4) == 0.0);
}
