/* log.h - log and softplus, correctly rounded to binary32 in binary32 operations. */
#ifndef SB_GPU_MATH_LOG_H
#define SB_GPU_MATH_LOG_H

#include "gpu/math/exp.h"

/* log(1 + r), for a pair |r| < 2^-6: r + r^2 (-1/2 + r/3 + rest), where the rest, from -r^2/4 on,
 * is a single binary32. The error relative to r is some units of 2^-46. The result is normalised.
 */
SB_GPU_FN sb_gpu_pair sb_gpu_log1p_near(sb_gpu_pair r)
{
#include "gpu/math/log_series.inc"
    sb_gpu_pair square = sb_gpu_pair_product(r, r);
    float rest = sb_gpu_fma(r.h, sb_gpu_fma(r.h, sb_gpu_fma(r.h, D8, D7), D6), D5);
    rest = sb_gpu_fma(r.h, rest, D4) * square.h;
    sb_gpu_pair third = sb_gpu_product(r.h, D3);
    third.l += sb_gpu_fma(r.h, D3_LOW, r.l * D3);
    sb_gpu_pair w = sb_gpu_sum_ordered(-0.5f, third.h);
    w.l += third.l + rest;
    sb_gpu_pair p = sb_gpu_pair_product(square, w);
    sb_gpu_pair y = sb_gpu_sum_ordered(r.h, p.h);
    return sb_gpu_sum_ordered(y.h, y.l + (r.l + p.l));
}

/* log(2^e (m + l)) for 0.70 < m < 1.42 and |l| < 2^-23: with v near 1/m, log m = log(1 + r) - log
 * v, r = v m - 1 + v l, |r| < 2^-6.5. v m is exact as a pair, and so is v m - 1. e ln2 has three
 * parts, two of them exact. Near m = 1, v is 1, so there is no cancellation. */
SB_GPU_FN sb_gpu_pair sb_gpu_log_pair(float m, float l, int e)
{
#include "gpu/math/log_table.inc"
    int i = (int)(sb_gpu_fma(m, 64.0f, 0x1.8p23f) - 0x1.8p23f) - LOG_FIRST;
    float v = LOG[3 * i], n = (float)e;
    sb_gpu_pair product = sb_gpu_product(v, m), r = sb_gpu_sum(product.h - 1.0f, product.l);
    r = sb_gpu_sum_ordered(r.h, sb_gpu_fma(v, l, r.l));
    sb_gpu_pair y = sb_gpu_log1p_near(r);
    sb_gpu_pair far = sb_gpu_sum(n * LN2_A, LOG[3 * i + 1]), more = sb_gpu_sum(far.h, n * LN2_B);
    float low = (far.l + more.l) + sb_gpu_fma(n, LN2_C, LOG[3 * i + 2]);
    sb_gpu_pair s = sb_gpu_sum(more.h, y.h);
    return sb_gpu_sum_ordered(s.h, s.l + (low + y.l));
}

/* Rounds a normalised pair of either sign to binary32; the result must be a normal number. */
SB_GPU_FN float sb_gpu_finish_signed(sb_gpu_pair y, const sb_gpu_exception *rows, int count,
                                     uint32_t input)
{
    return sb_gpu_doubtful(y.h, y.l) ? sb_gpu_look_up(rows, count, input, y.h) : y.h;
}

/* The result is NaN for x < 0 and -Inf for 0. */
SB_GPU_FN float sb_gpu_log(float x)
{
#include "gpu/math/log_exceptions.inc"
    uint32_t input = sb_gpu_bits(x), bits = input;
    if (x == 0)
        return sb_gpu_float(0xff800000u);
    if (x != x || x < 0)
        return sb_gpu_nan();
    if (bits == 0x7f800000u)
        return x;
    int e = -127;
    if (bits < 0x00800000u) {
        bits = sb_gpu_bits(x * 0x1p24f);
        e -= 24;
    }
    /* makes m lie between 0.707 and 1.414 */
    bits += 0x3f800000u - 0x3f3504f3u;
    e += (int)(bits >> 23);
    float m = sb_gpu_float((bits & 0x7fffffu) + 0x3f3504f3u);
    return m == 1.0f && e == 0
               ? 0.0f
               : sb_gpu_finish_signed(sb_gpu_log_pair(m, 0.0f, e), ROWS, COUNT, input);
}

/* log(1 + u) for a normalised pair 0 < u <= 1. */
SB_GPU_FN sb_gpu_pair sb_gpu_log1p_pair(sb_gpu_pair u)
{
    if (u.h < 0x1p-7f)
        return sb_gpu_log1p_near(u);
    sb_gpu_pair d = sb_gpu_sum_ordered(1.0f, u.h);
    d = sb_gpu_sum_ordered(d.h, d.l + u.l);
    return d.h < 1.414f ? sb_gpu_log_pair(d.h, d.l, 0) : sb_gpu_log_pair(0.5f * d.h, 0.5f * d.l, 1);
}

/* With u = e^-|x| the value is log(1 + u), plus x for positive x. From 18 on, x + u rounds to x.
 * Below -35, u^2/2 is negligible compared with u. Below -104, u is below 2^-150. */
SB_GPU_FN float sb_gpu_softplus(float x)
{
#include "gpu/math/softplus_exceptions.inc"
    uint32_t input = sb_gpu_bits(x);
    if (x != x)
        return sb_gpu_nan();
    if (x >= 18.0f)
        return x;
    if (x <= -104.0f)
        return 0.0f;
    sb_gpu_scaled u = sb_gpu_exp_scaled(-sb_gpu_abs(x));
    if (x < -35.0f)
        return sb_gpu_finish(u, ROWS, COUNT, input);
    float scale = sb_gpu_power_of_two(u.k);
    sb_gpu_pair y = sb_gpu_log1p_pair({u.h * scale, u.l * scale});
    if (x > 0) {
        sb_gpu_pair s = sb_gpu_sum(x, y.h);
        y = sb_gpu_sum_ordered(s.h, s.l + y.l);
    }
    return sb_gpu_finish_signed(y, ROWS, COUNT, input);
}

#endif
