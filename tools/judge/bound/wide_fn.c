#include "tools/judge/bound/wide_fn.h"

#include "ref/base/bytes.h"

/* ln 2 and pi / 2 in parts. The first parts have so few bits that their products with whole numbers
 * are exact. */
#define LN2_HIGH 0x1.62e42fefa2000p-1
#define LN2_LOW 0x1.9ef35793c7673p-41
#define HALF_PI_HIGH 0x1.921fb54000000p+0
#define HALF_PI_MIDDLE 0x1.10b4610000000p-30
#define HALF_PI_LOW 0x1.a62633145c06ep-58

static double infinity(void)
{
    double big = 0x1p1023;
    return big * 2.0;
}

/* 2^n, -1022 <= n <= 1023 */
static double power_of_two(int n)
{
    return sb_f64_from_bits((uint64_t)(n + 1023) << 52);
}

/* x = m 2^*n with 1 <= m < 2, for a normal x > 0 */
static double split(double x, int *n)
{
    uint64_t bits = sb_bits_f64(x);
    *n = (int)(bits >> 52) - 1023;
    return sb_f64_from_bits((bits & 0xfffffffffffffu) | (uint64_t)1023 << 52);
}

/* The series of (e^r - 1) / r, |r| <= 0.36. The remainder is below 0.36^15 / 16! */
static double series_expm1(double r)
{
    double sum = 1.0;
    for (int i = 15; i >= 2; i--)
        sum = 1.0 + r / (double)i * sum;
    return sum;
}

double sb_wide_exp(double x)
{
    if (x != x)
        return x;
    if (x > 709.7)
        return infinity();
    if (x < -745.0)
        return 0.0;
    double n = sb_wide_round(x * 0x1.71547652b82fep+0);
    double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    double y = 1.0 + r * series_expm1(r);
    int half = (int)n / 2; /* in two steps: a subnormal result is rounded once */
    return y * power_of_two(half) * power_of_two((int)n - half);
}

double sb_wide_expm1(double x)
{
    if (x > -0.36 && x < 0.36)
        return x * series_expm1(x);
    return sb_wide_exp(x) - 1.0;
}

/* 2 atanh(s), |s| <= 0.18. The remainder is below s^33 */
static double series_log(double s)
{
    double square = s * s, sum = 0.0;
    for (int i = 31; i >= 1; i -= 2)
        sum = sum * square + 1.0 / (double)i;
    return 2.0 * s * sum;
}

double sb_wide_log(double x)
{
    int n = 0, more = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p60;
        more = -60;
    }
    double m = split(x, &n);
    if (m > 1.4142135623730951) {
        m /= 2.0;
        n++;
    }
    double e = (double)(n + more);
    return e * LN2_HIGH + (series_log((m - 1.0) / (m + 1.0)) + e * LN2_LOW);
}

double sb_wide_log1p(double x)
{
    if (x > -0.3 && x < 0.4)
        return series_log(x / (2.0 + x));
    return sb_wide_log(1.0 + x);
}

/* |r| <= 0.79. The remainder is below 0.79^22 / 22! */
static double series_cos(double r)
{
    double square = r * r, sum = 1.0;
    for (int i = 20; i >= 2; i -= 2)
        sum = 1.0 - square / (double)(i * (i - 1)) * sum;
    return sum;
}

static double series_sin(double r)
{
    double square = r * r, sum = 1.0;
    for (int i = 21; i >= 3; i -= 2)
        sum = 1.0 - square / (double)(i * (i - 1)) * sum;
    return r * sum;
}

/* sin(x + quarters pi / 2) */
static double turned(double x, int quarters)
{
    if (!(sb_wide_abs(x) < 0x1p31)) /* too large: no angle of a model */
        return 0.0;
    double n = sb_wide_round(x * 0x1.45f306dc9c883p-1);
    double r = ((x - n * HALF_PI_HIGH) - n * HALF_PI_MIDDLE) - n * HALF_PI_LOW;
    switch (((int64_t)n + quarters) & 3) {
    case 0:
        return series_sin(r);
    case 1:
        return series_cos(r);
    case 2:
        return -series_sin(r);
    default:
        return -series_cos(r);
    }
}

double sb_wide_sin(double x)
{
    return turned(x, 0);
}

double sb_wide_cos(double x)
{
    return turned(x, 1);
}

double sb_wide_pow(double base, double exponent)
{
    return sb_wide_exp(exponent * sb_wide_log(base));
}
