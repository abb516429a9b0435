#include "ref/base/bytes.h"
#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

/* x = 4^k m with 1 <= m < 4: the root is 2^k sqrt(m), never near the limits of binary32. The error
 * of m 1/sqrt(m) in binary64 is less than one ulp of binary32. Comparing m with the squares of the
 * two neighbouring midpoints decides the result; the squares have 50 bits and are exact. m never
 * equals one of them, because the square of an odd 25-bit number needs more than 24 bits. */
float sb_sqrt(float x)
{
    if (x == 0 || sb_bits_f32(x) == 0x7f800000u)
        return x;
    if (x != x || x < 0)
        return sb_fn_nan();
    uint64_t wide = sb_bits_f64((double)x);
    int e = (int)(wide >> 52) - 1023;
    int odd = e & 1, k = (e - odd) / 2;
    double m = sb_f64_from_bits((wide & 0xfffffffffffffu) | (uint64_t)(1023 + odd) << 52);
    double root = (double)(float)(m * sb_core_rsqrt(m));
    if (m > (root + 0x1p-24) * (root + 0x1p-24))
        root += 0x1p-23;
    else if (m < (root - 0x1p-24) * (root - 0x1p-24))
        root -= 0x1p-23;
    return (float)(root * sb_f64_from_bits((uint64_t)(1023 + k) << 52));
}
