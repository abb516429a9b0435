#include "ref/base/bytes.h"
#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

#include "ref/math/log_table.inc"

enum { TERMS = sizeof LOG_TAYLOR / sizeof LOG_TAYLOR[0] };

/* x = 2^e m with 1 <= m < 2; c = 1 + i/64 nearest to m; r = (m - c)/c, |r| <= 1/128: then log x = e
 * ln2 + log c + log(1+r). From c = 1.42 on, c/2 and e + 1 take the place of c and e, so that near x
 * = 1, on both sides, log x is log(1+r) alone, without cancellation. e LN2_HIGH + LOG.high is
 * exact: multiples of 2^-40 below 2^11. Near 1: the last sum, u, and 2 u
 * |r| from r and its square: 1.1 u. Elsewhere |log x| >= 0.0039 >= |r|: the last sum, u, the sum
 * with r, u, the quotient r, u, the rest less than 0.1 u: 3.1 u. The series stops at r^9/9 < 2^-59
 * |r|. */
double sb_core_log(double x)
{
    uint64_t bits = sb_bits_f64(x);
    int e = (int)(bits >> 52) - 1023;
    double m = sb_f64_from_bits((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    int i = (int)((m - 1.0) * 64.0 + 0.5);
    double c = 1.0 + i * 0x1p-6;
    double r = (m - c) / c;
    if (i > 26)
        e++;
    double high = e * LN2_HIGH + LOG[i].high;
    double low = e * LN2_LOW + LOG[i].low;
    return high + (r + (r * r * sb_polynomial(LOG_TAYLOR, TERMS, r) + low));
}

/* s = RN(1 + x); lost = x - (s - 1) is the error of that rounding, exactly for x < 1. (For larger
 * x, s is exact up to 2^29, and beyond that lost/s is negligible against log s > 20.) log(1+x) =
 * log(s + lost) = log s + lost/s within (lost/s)^2/2, which is below u/2 of the result: if s = 1,
 * lost is x < u, else the result is at least about u, and lost/s at most u. The error of lost/s
 * itself matters only if s is near 1. Near 1: 1.1 u times at most 4/3 (if lost reduces log s) + u
 * (quotient) + u (sum) + u/2: 4 u. Elsewhere 3.1 u + u. */
double sb_core_log1p(double x)
{
    double s = 1.0 + x;
    double lost = x - (s - 1.0);
    return sb_core_log(s) + lost / s;
}

/* log(1 + e^x), with e^-|x| <= 1 inside. The error of e^-|x| is 2.2 u. log1p does not enlarge it
 * (its condition number is below 1) and adds 4.1 u. The sum adds u: 7.3 u, less than 8 u =
 * 2^-50. */
double sb_core_softplus(double x)
{
    return x > 0 ? x + sb_core_log1p(sb_core_exp(-x)) : sb_core_log1p(sb_core_exp(x));
}

float sb_log(float x)
{
    uint32_t bits = sb_bits_f32(x);
    if (x == 0)
        return sb_f32_from_bits(0xff800000u);
    if (x != x || x < 0)
        return sb_fn_nan();
    if (bits == 0x7f800000u)
        return x;
    return sb_fn_round(SB_FN_log, bits, sb_core_log((double)x));
}

float sb_log1p(float x)
{
    uint32_t bits = sb_bits_f32(x);
    if (x == 0 || bits == 0x7f800000u)
        return x;
    if (x == -1.0f)
        return sb_f32_from_bits(0xff800000u);
    if (x != x || x < -1.0f)
        return sb_fn_nan();
    return sb_fn_round(SB_FN_log1p, bits, sb_core_log1p((double)x));
}

/* Below -104: 0 < log(1+e^x) < e^x < 2^-150. Above 104: x + e^-x rounds to x. */
float sb_softplus(float x)
{
    if (x != x)
        return sb_fn_nan();
    if (x >= 104.0f)
        return x;
    if (x <= -104.0f)
        return 0.0f;
    return sb_fn_round(SB_FN_softplus, sb_bits_f32(x), sb_core_softplus((double)x));
}
