#include "ref/base/bytes.h"
#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

/* Newton's iteration for 1/y^2 = x, from a line with an error of at most 8.6 % on [1, 4]. A
 * relative error e becomes at most 1.5 e^2 + 0.5 |e|^3: 0.086, 0.012, 2.1e-4, 6.6e-8, 6.6e-15, and
 * in the last step less than 1e-28. The roundings of the last step add: y^2 and x y^2, 2 u, halved;
 * the product with y, nothing; the last sum, u. The total is 2.1 u. */
double sb_core_rsqrt(double x)
{
    double y = 1.0664 - 0.15234 * x;
    for (int step = 0; step < 5; step++)
        y = y + y * (0.5 * (1.0 - x * (y * y)));
    return y;
}

/* x = 4^k m with 1 <= m < 4: rounding 1/sqrt(m) rounds 1/sqrt(x) = 2^-k/sqrt(m), which is never
 * near the limits of binary32. The exceptions are those of m. */
float sb_rsqrt(float x)
{
    uint32_t bits = sb_bits_f32(x);
    if (x == 0)
        return sb_f32_from_bits((bits & 0x80000000u) | 0x7f800000u);
    if (x != x || x < 0)
        return sb_fn_nan();
    if (bits == 0x7f800000u)
        return 0.0f;
    uint64_t wide = sb_bits_f64((double)x);
    int e = (int)(wide >> 52) - 1023;
    int odd = e & 1, k = (e - odd) / 2;
    double m = sb_f64_from_bits((wide & 0xfffffffffffffu) | (uint64_t)(1023 + odd) << 52);
    float root = sb_fn_round(SB_FN_rsqrt, sb_bits_f32((float)m), sb_core_rsqrt(m));
    return (float)((double)root * sb_f64_from_bits((uint64_t)(1023 - k) << 52));
}
