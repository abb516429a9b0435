#include "ref/base/bytes.h"
#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

#include "ref/math/exp_table.inc"

enum { TERMS = sizeof EXP_TAYLOR / sizeof EXP_TAYLOR[0] };

/* x = (32 k + j) ln2/32 + r gives e^x = 2^k 2^(j/32) e^r, |r| <= ln2/64 (1 + tiny) < 2^-6.5. r: n *
 * LN2_32_HIGH is exact (39 + 13 bits), and so is its difference from x, because both are multiples
 * of 2^-44. The remaining error of r is its rounding, u |r|. The error of p = e^r - 1 is u |r| (r),
 * u |r| (last sum), and less than u/32 (rest of the series, r^7/7!): below 0.06 u. The error of y
 * is u (table) + 1.01 u (last sum) + 0.02 u (product) + that of p. The total is below 2.2 u. */
double sb_core_exp(double x)
{
    int n = (int)(x * PER_LN2 + (x < 0 ? -0.5 : 0.5)); /* rounds half away from zero */
    int j = n & 31, k = (n - j) / 32;
    double r = (x - n * LN2_32_HIGH) - n * LN2_32_LOW;
    double p = r + r * r * sb_polynomial(EXP_TAYLOR, TERMS, r);
    double y = ROOT[j] + ROOT[j] * p;
    return y * sb_f64_from_bits((uint64_t)(1023 + k) << 52);
}

/* e^-x has an error of 2.2 u. The sum 1 + e^-x adds one rounding, and the quotient another one: 4.2
 * u. One formula is enough for both signs of x, because 1 + e^110 fits into binary64. */
double sb_core_sigmoid(double x)
{
    return 1.0 / (1.0 + sb_core_exp(-x));
}

/* As sigmoid: 4.2 u. */
double sb_core_silu(double x)
{
    return x / (1.0 + sb_core_exp(-x));
}

/* e^89 > 2^128, e^-104 < 2^-150 (half of the smallest binary32). */
float sb_exp(float x)
{
    if (x != x)
        return sb_fn_nan();
    if (x >= 89.0f)
        return sb_f32_from_bits(0x7f800000u);
    if (x <= -104.0f)
        return 0.0f;
    return sb_fn_round(SB_FN_exp, sb_bits_f32(x), sb_core_exp((double)x));
}

/* Below -104 the result is less than e^x < 2^-150; above 104 it is nearer to 1 than 2^-150. */
float sb_sigmoid(float x)
{
    if (x != x)
        return sb_fn_nan();
    if (x >= 104.0f)
        return 1.0f;
    if (x <= -104.0f)
        return 0.0f;
    return sb_fn_round(SB_FN_sigmoid, sb_bits_f32(x), sb_core_sigmoid((double)x));
}

/* For |x| < 2^-60, x/2 < silu(x) = x/2 + x^2/4 - ... < x/2 (1 + x): silu(x) exceeds x/2 by less
 * than one binary64 step. x/2 is exact in binary64. In binary32 it is exact or, if subnormal,
 * possibly a tie, and then the small excess decides. The next binary64 above x/2 therefore rounds
 * to the right result. Above 104, x (1 - e^-x) rounds to x. Below -110, |silu(x)| < |x| e^x <
 * 2^-150; x = 0 keeps its sign. */
static float silu_tiny(float x)
{
    uint64_t half = sb_bits_f64(0.5 * (double)x);
    return (float)sb_f64_from_bits(x > 0 ? half + 1 : half - 1);
}

float sb_silu(float x)
{
    if (x != x)
        return sb_fn_nan();
    if (x == 0 || x >= 104.0f)
        return x;
    if (x <= -110.0f)
        return -0.0f;
    if (x > -0x1p-60f && x < 0x1p-60f)
        return silu_tiny(x);
    return sb_fn_round(SB_FN_silu, sb_bits_f32(x), sb_core_silu((double)x));
}
