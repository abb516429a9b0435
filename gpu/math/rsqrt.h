/* rsqrt.h - 1/sqrt(x), correctly rounded to binary32 in binary32 operations. */
#ifndef SB_GPU_MATH_RSQRT_H
#define SB_GPU_MATH_RSQRT_H

#include "gpu/math/pair.h"

/* 1/sqrt(m) for 1 <= m < 4, starting from a linear approximation with a relative error of at most
 * 8.6 %. Newton's step turns a relative error e into 1.5 e^2; four steps reach binary32. With r = 1
 * - m y^2, which is small and nearly exact, the value is y (1 + r/2 + 3 r^2/8 + ..). */
SB_GPU_FN sb_gpu_pair sb_gpu_rsqrt_pair(float m)
{
    float y = sb_gpu_fma(m, -0.15234f, 1.0664f);
    for (int step = 0; step < 4; step++)
        y = sb_gpu_fma(0.5f * y, sb_gpu_fma(-m * y, y, 1.0f), y);
    sb_gpu_pair square = sb_gpu_product(y, y);
    float r = sb_gpu_fma(-m, square.l, sb_gpu_fma(-m, square.h, 1.0f));
    return sb_gpu_sum_ordered(y, y * sb_gpu_fma(0.375f * r, r, 0.5f * r));
}

/* With x = 4^k m, 1/sqrt(m) and 1/sqrt(x) round in the same way, since 1/sqrt(x) is never near the
 * ends of the range. The exceptions are indexed by m. */
SB_GPU_FN float sb_gpu_rsqrt(float x)
{
#include "gpu/math/rsqrt_exceptions.inc"
    uint32_t bits = sb_gpu_bits(x);
    if ((bits & 0x7fffffffu) == 0)
        return sb_gpu_float(bits | 0x7f800000u);
    if (x != x || x < 0)
        return sb_gpu_nan();
    if (bits == 0x7f800000u)
        return 0.0f;
    int down = 0;
    if (bits < 0x00800000u) {
        bits = sb_gpu_bits(x * 0x1p24f);
        down = 24;
    }
    int e = (int)(bits >> 23) - 127 - down, odd = e & 1, k = (e - odd) / 2;
    bits = (bits & 0x7fffffu) | (uint32_t)(127 + odd) << 23;
    sb_gpu_pair y = sb_gpu_rsqrt_pair(sb_gpu_float(bits));
    float root = sb_gpu_doubtful(y.h, y.l) ? sb_gpu_look_up(ROWS, COUNT, bits, y.h) : y.h;
    return root * sb_gpu_power_of_two(-k);
}

#endif
