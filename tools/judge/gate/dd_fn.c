/* dd_fn.c - functions in double-double: arguments are reduced until a power series, or the series
 * of atanh, ends below 2^-107 within thirty terms. Horner's scheme starts at the last term and
 * divides each by its number, so that no table of coefficients is needed. */
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/gate/dd.h"

/* The binary64 numbers nearest to ln 2 and pi / 2, to the remainder, and so on;
 * tests/gate/test_dd.c checks them with MPFR. */
static const sb_dd LN2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
static const double HALF_PI[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                                 -0x1.f1976b7ed8fbcp-110};

static const sb_dd ONE = {1.0, 0.0};

static sb_dd times(sb_dd a, double b)
{
    return sb_dd_mul(a, sb_dd_of(b));
}

static sb_dd over(sb_dd a, double b)
{
    return sb_dd_div(a, sb_dd_of(b));
}

/* e^r - 1, |r| <= 0.36: the series at r / 64, with a remainder below 0.006^12 / 13!, then e^2r - 1
 * = m (m + 2) six times, which keeps the error relative. */
static sb_dd series_expm1(sb_dd r)
{
    r = sb_dd_scale(r, -6);
    sb_dd sum = ONE;
    for (int i = 12; i >= 2; i--)
        sum = sb_dd_add(ONE, over(sb_dd_mul(r, sum), (double)i));
    sb_dd m = sb_dd_mul(r, sum);
    for (int i = 0; i < 6; i++)
        m = sb_dd_mul(m, sb_dd_add(m, sb_dd_of(2.0)));
    return m;
}

sb_dd sb_dd_exp(sb_dd x)
{
    if (!(x.hi < 710.0))
        return sb_dd_of(x.hi != x.hi ? x.hi : 1.0 / 0.0);
    if (x.hi < -746.0)
        return sb_dd_of(0.0);
    double n = sb_wide_round(x.hi * 0x1.71547652b82fep+0);
    sb_dd r = sb_dd_sub(x, times(LN2, n));
    return sb_dd_scale(sb_dd_add(ONE, series_expm1(r)), (int)n);
}

sb_dd sb_dd_expm1(sb_dd x)
{
    if (sb_wide_abs(x.hi) < 0x1p-100) /* x + x^2/2: the second term is below 2^-100 of the first */
        return x;
    if (sb_wide_abs(x.hi) < 0.36)
        return series_expm1(x);
    return sb_dd_sub(sb_dd_exp(x), ONE);
}

/* 2 atanh z = 2 z (1 + z^2/3 + z^4/5 ...), |z| < 0.1717; the remainder is below z^44 */
static sb_dd series_log(sb_dd z)
{
    sb_dd square = sb_dd_mul(z, z), sum = sb_dd_of(0.0);
    for (int i = 43; i >= 1; i -= 2)
        sum = sb_dd_add(over(ONE, (double)i), sb_dd_mul(square, sum));
    return sb_dd_scale(sb_dd_mul(z, sum), 1);
}

sb_dd sb_dd_log(sb_dd x)
{
    if (!(x.hi > 0.0))
        return sb_dd_of(x.hi == 0.0 ? -1.0 / 0.0 : 0.0 / 0.0);
    if (x.hi == 1.0 / 0.0)
        return x;
    int n = sb_dd_exponent(x);
    if (sb_dd_scale(x, -n).hi > 0x1.6a09e667f3bcdp+0) /* m of 2^n m is around 1 */
        n++;
    sb_dd m = sb_dd_scale(x, -n);
    sb_dd z = sb_dd_div(sb_dd_sub(m, ONE), sb_dd_add(m, ONE));
    return sb_dd_add(times(LN2, (double)n), series_log(z));
}

sb_dd sb_dd_log1p(sb_dd x)
{
    if (sb_wide_abs(x.hi) < 0x1p-100) /* x - x^2/2: the second term is below 2^-101 of the first */
        return x;
    if (x.hi > -0.29 && x.hi < 0.41)
        return series_log(sb_dd_div(x, sb_dd_add(x, sb_dd_of(2.0))));
    return sb_dd_log(sb_dd_add(ONE, x));
}

/* x - n pi/2, absolute error below 2^-100: the products of n with the parts are exact. */
static sb_dd quarter(sb_dd x, int *n)
{
    double whole = sb_wide_round(x.hi * 0x1.45f306dc9c883p-1);
    for (int i = 0; i < 3; i++)
        x = sb_dd_sub(x, times(sb_dd_of(HALF_PI[i]), whole));
    *n = (int)((long)whole & 3);
    return x;
}

/* r - r^3/3! ... from i = 1, 1 - r^2/2! ... from i = 0; |r| < 0.79, the remainder is below 0.79^30
 * / 30! */
static sb_dd series_trig(sb_dd r, int i)
{
    sb_dd square = sb_dd_neg(sb_dd_mul(r, r)), sum = ONE;
    for (int k = 28 + i; k > i; k -= 2)
        sum = sb_dd_add(ONE, over(sb_dd_mul(square, sum), (double)(k * (k - 1))));
    return i ? sb_dd_mul(r, sum) : sum;
}

sb_dd sb_dd_sin(sb_dd x)
{
    int n;
    sb_dd r = quarter(x, &n);
    sb_dd y = series_trig(r, !(n & 1));
    return n & 2 ? sb_dd_neg(y) : y;
}

sb_dd sb_dd_cos(sb_dd x)
{
    int n;
    sb_dd r = quarter(x, &n);
    sb_dd y = series_trig(r, n & 1);
    return (n + 1) & 2 ? sb_dd_neg(y) : y;
}

sb_dd sb_dd_pow(sb_dd base, sb_dd exponent)
{
    return sb_dd_exp(sb_dd_mul(exponent, sb_dd_log(base)));
}

/* Uses e^-|x|, which does not overflow. */
sb_dd sb_dd_sigmoid(sb_dd x)
{
    sb_dd e = sb_dd_exp(x.hi < 0.0 ? x : sb_dd_neg(x));
    return sb_dd_div(x.hi < 0.0 ? e : ONE, sb_dd_add(ONE, e));
}

sb_dd sb_dd_silu(sb_dd x)
{
    return sb_dd_mul(x, sb_dd_sigmoid(x));
}

sb_dd sb_dd_softplus(sb_dd x)
{
    if (x.hi < 0.0)
        return sb_dd_log1p(sb_dd_exp(x));
    return sb_dd_add(x, sb_dd_log1p(sb_dd_exp(sb_dd_neg(x))));
}
