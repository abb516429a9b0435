/* trig.h - sine and cosine of every binary32 angle, correctly rounded.
 *
 * The functions compute in binary64, which is slow on a GPU, but a model needs only rd/2 angles for
 * each token. Z-2: "sine and cosine alone compute in binary64" */
#ifndef SB_GPU_MATH_TRIG_H
#define SB_GPU_MATH_TRIG_H

#include "gpu/math/pair.h"

/* |x| = quadrant pi/2 + r with |r| <= pi/4; only quadrant modulo 4 matters. */
struct sb_gpu_angle {
    double r;
    uint32_t quadrant;
};

/* Computes |x| times 2/pi modulo 4 in integers, in units of 2^-126. Bits of 2/pi that only add
 * multiples of 4 are not read. Bits after the window of four words would add less than 2^-102.
 * Every binary32 differs from a multiple of pi/2 by at least 2^-30 of that multiple. A fraction of
 * half a quadrant or more is counted back from the next quadrant. */
SB_GPU_FN sb_gpu_angle sb_gpu_reduce(uint32_t bits)
{
#include "gpu/math/trig_reduce.inc"
    uint32_t m = (bits & 0x7fffffu) | 0x800000u, start = (bits >> 23) - 120u;
    uint32_t word = start / 32, shift = start % 32, product[4];
    uint64_t carry = 0;
    for (uint32_t i = 4; i-- > 0;) {
        uint64_t both = (uint64_t)TWO_OVER_PI[word + i] << 32 | TWO_OVER_PI[word + i + 1];
        carry += (both >> (32 - shift) & 0xffffffffu) * m;
        product[i] = (uint32_t)carry;
        carry >>= 32;
    }
    uint32_t quadrant = product[0] >> 30, flip = (product[0] >> 29 & 1) ? 0xffffffffu : 0;
    double fraction = 0;
    for (uint32_t i = 3; i-- > 0;) {
        uint32_t rest = (product[i] << 2 | product[i + 1] >> 30) ^ flip;
        fraction = (fraction + (double)rest) * 0x1p-32;
    }
    double r = fraction * HALF_PI;
    return flip ? sb_gpu_angle{-r, quadrant + 1} : sb_gpu_angle{r, quadrant};
}

/* The angle of |x|. Below pi/4 the angle is |x| itself. */
SB_GPU_FN sb_gpu_angle sb_gpu_angle_of(uint32_t bits)
{
    if (bits < 0x3f490fdbu)
        return {(double)sb_gpu_float(bits), 0};
    return sb_gpu_reduce(bits);
}

/* The sine of r, |r| <= pi/4, by the series up to r^17; or the cosine, up to r^18. */
SB_GPU_FN double sb_gpu_series(double r, bool cosine)
{
#include "gpu/math/trig_series.inc"
    double square = r * r, y = cosine ? COSINE[8] : SINE[7];
    for (int i = cosine ? 7 : 6; i >= (cosine ? 1 : 0); i--)
        y = y * square + (cosine ? COSINE[i] : SINE[i]);
    return cosine ? (1.0 + COSINE[0] * square) + square * square * y : r + r * square * y;
}

/* The sine of an angle in this quadrant, without the sign of x. */
SB_GPU_FN float sb_gpu_turn(sb_gpu_angle a, uint32_t quadrant)
{
    double y = sb_gpu_series(a.r, (quadrant & 1u) != 0);
    return (float)((quadrant & 2u) ? -y : y);
}

SB_GPU_FN float sb_gpu_sin(float x)
{
#include "gpu/math/sin_exceptions.inc"
    uint32_t bits = sb_gpu_bits(x), size = bits & 0x7fffffffu;
    if (size >= 0x7f800000u)
        return sb_gpu_nan();
    if (size < 0x39000000u) /* x^3/6 < 2^-26 x: rounds to x, even for a power of two */
        return x;
    sb_gpu_angle a = sb_gpu_angle_of(size);
    float y = sb_gpu_look_up(ROWS, COUNT, size, sb_gpu_turn(a, a.quadrant));
    return bits >> 31 ? -y : y;
}

SB_GPU_FN float sb_gpu_cos(float x)
{
#include "gpu/math/cos_exceptions.inc"
    uint32_t size = sb_gpu_bits(x) & 0x7fffffffu;
    if (size >= 0x7f800000u)
        return sb_gpu_nan();
    sb_gpu_angle a = sb_gpu_angle_of(size);
    return sb_gpu_look_up(ROWS, COUNT, size, sb_gpu_turn(a, a.quadrant + 1));
}

#endif
