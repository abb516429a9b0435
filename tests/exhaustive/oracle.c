#include "tests/exhaustive/oracle.h"

#include <math.h>
#include <stdlib.h>

#include "ref/base/bytes.h"

/* --- f(x) with an error below 2^(4 - precision) |f(x)| ---------------------------------------- */

static void mpfr_rsqrt_of(mpfr_t y, mpfr_t x, mpfr_prec_t precision)
{
    (void)precision;
    mpfr_rec_sqrt(y, x, MPFR_RNDN);
}

#define DIRECT(name)                                                                               \
    static void mpfr_##name##_of(mpfr_t y, mpfr_t x, mpfr_prec_t precision)                        \
    {                                                                                              \
        (void)precision;                                                                           \
        mpfr_##name(y, x, MPFR_RNDN);                                                              \
    }

DIRECT(exp)
DIRECT(log)
DIRECT(log1p)
DIRECT(sin)
DIRECT(cos)

/* y = 1 + e^-x: two roundings. */
static void one_plus_exp_minus(mpfr_t y, mpfr_t x)
{
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
}

static void mpfr_sigmoid_of(mpfr_t y, mpfr_t x, mpfr_prec_t precision)
{
    (void)precision;
    one_plus_exp_minus(y, x);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

/* For tiny x, the quotient would need 300 bits to tell silu(x) from x/2, and so would e^-x. There
 * x/2 + x^2/4 suffices; the next term of the series is x^4/48. */
static void mpfr_silu_of(mpfr_t y, mpfr_t x, mpfr_prec_t precision)
{
    if (mpfr_get_exp(x) < -(long)precision / 2) {
        mpfr_sqr(y, x, MPFR_RNDN);
        mpfr_div_2ui(y, y, 1, MPFR_RNDN);
        mpfr_add(y, y, x, MPFR_RNDN);
        mpfr_div_2ui(y, y, 1, MPFR_RNDN);
        return;
    }
    one_plus_exp_minus(y, x);
    mpfr_div(y, x, y, MPFR_RNDN);
}

static void mpfr_softplus_of(mpfr_t y, mpfr_t x, mpfr_prec_t precision)
{
    (void)precision;
    mpfr_exp(y, x, MPFR_RNDN);
    mpfr_log1p(y, y, MPFR_RNDN);
}

/* --- the same in binary64 by the C library ---------------------------------------------------- */

static double libm_rsqrt(double x)
{
    return 1.0 / sqrt(x);
}

static double libm_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double libm_silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double libm_softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

#define libm_exp exp
#define libm_log log
#define libm_log1p log1p
#define libm_sin sin
#define libm_cos cos

#define ROW(name, low, high)                                                                       \
    [SB_FN_##name] = {#name, sb_##name, sb_core_##name, mpfr_##name##_of, libm_##name, low, high}

const oracle_fn oracle_table[SB_FN_COUNT] = {
    ROW(exp, -104.0f, 89.0f),         ROW(log, 0.0f, INFINITY),       ROW(log1p, -1.0f, INFINITY),
    ROW(rsqrt, 0x1.fffffep-1f, 4.0f), /* 1 <= x < 4; elsewhere the same significands repeat */
    ROW(sin, -INFINITY, INFINITY),    ROW(cos, -INFINITY, INFINITY),  ROW(sigmoid, -104.0f, 104.0f),
    ROW(silu, -110.0f, 104.0f),       ROW(softplus, -104.0f, 104.0f),
};

int oracle_asks_core(sb_fn fn, float x)
{
    if (!(x > oracle_table[fn].low && x < oracle_table[fn].high))
        return 0;
    if (fn == SB_FN_silu)
        return fabsf(x) >= 0x1p-60f;
    return !(x == 0 && (fn == SB_FN_sin || fn == SB_FN_log1p));
}

/* --- rounding --------------------------------------------------------------------------------- */

int oracle_round(mpfr_t y, int slack, float *rounded)
{
    mpfr_prec_t precision = mpfr_get_prec(y);
    mpfr_t reach, low, high;
    mpfr_init2(reach, precision);
    mpfr_init2(low, precision + 64);
    mpfr_init2(high, precision + 64);
    mpfr_abs(reach, y, MPFR_RNDN);
    mpfr_mul_2si(reach, reach, slack - (long)precision, MPFR_RNDN);
    mpfr_sub(low, y, reach, MPFR_RNDD);
    mpfr_add(high, y, reach, MPFR_RNDU);
    *rounded = mpfr_get_flt(low, MPFR_RNDN);
    int certain = sb_bits_f32(*rounded) == sb_bits_f32(mpfr_get_flt(high, MPFR_RNDN));
    mpfr_clears(reach, low, high, (mpfr_ptr)0);
    return certain;
}

int oracle_special(sb_fn fn, float x, float *value)
{
    const float nan = sb_f32_from_bits(0x7fc00000u);
    int bounded_below = fn == SB_FN_exp || fn == SB_FN_sigmoid || fn == SB_FN_softplus;
    if (isnan(x) || (isinf(x) && (fn == SB_FN_sin || fn == SB_FN_cos)) ||
        (x < 0 && (fn == SB_FN_log || fn == SB_FN_rsqrt)) || (x < -1 && fn == SB_FN_log1p))
        *value = nan;
    else if (x == 0 && fn == SB_FN_rsqrt)
        *value = copysignf(INFINITY, x);
    else if ((x == 0 && fn == SB_FN_log) || (x == -1 && fn == SB_FN_log1p))
        *value = -INFINITY;
    else if (x == 0 && (fn == SB_FN_sin || fn == SB_FN_log1p || fn == SB_FN_silu))
        *value = x;
    else if ((x == 1 && fn == SB_FN_log) || (x < -1000 && bounded_below) ||
             (x == INFINITY && fn == SB_FN_rsqrt))
        *value = 0.0f;
    else if (x < -1000 && fn == SB_FN_silu)
        *value = -0.0f;
    else if (x > 1000 && fn == SB_FN_sigmoid)
        *value = 1.0f;
    else if (x > 1000 && fn == SB_FN_exp)
        *value = INFINITY;
    else if (x > 1000 && (fn == SB_FN_silu || fn == SB_FN_softplus))
        *value = x;
    else if (x == INFINITY)
        *value = x;
    else
        return 0;
    return 1;
}

float oracle_value(sb_fn fn, float x)
{
    float rounded;
    int certain = oracle_special(fn, x, &rounded);
    for (mpfr_prec_t precision = 64; !certain && precision <= 4096; precision *= 2) {
        mpfr_t in, y;
        mpfr_init2(in, 24);
        mpfr_init2(y, precision);
        mpfr_set_flt(in, x, MPFR_RNDN);
        oracle_table[fn].mpfr(y, in, precision);
        certain = oracle_round(y, 4, &rounded);
        mpfr_clears(in, y, (mpfr_ptr)0);
    }
    if (!certain) /* a midpoint, or zero with an unknown sign: neither exists for these functions */
        abort();
    return rounded;
}

double oracle_error(sb_fn fn, double x, double approximation)
{
    enum { PRECISION = 128 };
    mpfr_t in, y, difference;
    mpfr_init2(in, 53);
    mpfr_inits2(PRECISION, y, difference, (mpfr_ptr)0);
    mpfr_set_d(in, x, MPFR_RNDN);
    oracle_table[fn].mpfr(y, in, PRECISION);
    mpfr_d_sub(difference, approximation, y, MPFR_RNDN);
    mpfr_div(difference, difference, y, MPFR_RNDN);
    double error = mpfr_get_d(difference, MPFR_RNDN) * 0x1p53;
    mpfr_clears(in, y, difference, (mpfr_ptr)0);
    return error;
}

float oracle_power(double base, float exponent)
{
    mpfr_t x, e, y;
    mpfr_init2(x, 53);
    mpfr_inits2(24, e, y, (mpfr_ptr)0);
    mpfr_set_d(x, base, MPFR_RNDN);
    mpfr_set_flt(e, exponent, MPFR_RNDN);
    mpfr_pow(y, x, e, MPFR_RNDN);
    float rounded = mpfr_get_flt(y, MPFR_RNDN);
    mpfr_clears(x, e, y, (mpfr_ptr)0);
    return rounded;
}

float oracle_root_power(double base, int numerator, unsigned denominator)
{
    float rounded = 0;
    int certain = 0;
    for (mpfr_prec_t precision = 64; !certain && precision <= 1 << 16; precision *= 4) {
        mpfr_t x, exponent, y;
        mpfr_init2(x, 53);
        mpfr_inits2(precision + 32, exponent, y, (mpfr_ptr)0);
        mpfr_set_d(x, base, MPFR_RNDN);
        mpfr_log(y, x, MPFR_RNDN); /* |log| < 2^10: 32 spare bits cover its absolute error */
        mpfr_set_si(exponent, numerator, MPFR_RNDN);
        mpfr_div_ui(exponent, exponent, denominator, MPFR_RNDN);
        mpfr_mul(y, y, exponent, MPFR_RNDN);
        mpfr_exp(y, y, MPFR_RNDN);
        certain = oracle_round(y, 32, &rounded);
        mpfr_clears(x, exponent, y, (mpfr_ptr)0);
    }
    return rounded;
}
