/* log1p.h - log(1 - u) for the uniform numbers of P-9, correctly rounded. */
#ifndef SB_GPU_MATH_LOG1P_H
#define SB_GPU_MATH_LOG1P_H

#include "gpu/math/log.h"

/* log(1 - u) for 2^-33 <= u < 1. 1 - u is exact as a pair; it is scaled by a power of two into the
 * range of sb_gpu_log_pair. */
SB_GPU_FN float sb_gpu_log1p_minus(float u)
{
#include "gpu/math/log1p_minus_exceptions.inc"
    if (u < 0x1p-7f)
        return sb_gpu_finish_signed(sb_gpu_log1p_near({-u, 0.0f}), ROWS, COUNT, sb_gpu_bits(u));
    sb_gpu_pair d = sb_gpu_sum_ordered(1.0f, -u);
    uint32_t bits = sb_gpu_bits(d.h) + (0x3f800000u - 0x3f3504f3u);
    int e = (int)(bits >> 23) - 127;
    float m = sb_gpu_float((bits & 0x7fffffu) + 0x3f3504f3u);
    float l = d.l * sb_gpu_power_of_two(-e);
    return sb_gpu_finish_signed(sb_gpu_log_pair(m, l, e), ROWS, COUNT, sb_gpu_bits(u));
}

#endif
