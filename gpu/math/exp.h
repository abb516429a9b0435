/* exp.h - exp, sigmoid and silu, correctly rounded to binary32 in binary32 operations. */
#ifndef SB_GPU_MATH_EXP_H
#define SB_GPU_MATH_EXP_H

#include "gpu/math/pair.h"

/* e^x, normalised, for |x| <= 110: x = n ln2/32 + r, |r| < 2^-6.5, n = 32 k + j, and e^x = 2^k
 * 2^(j/32) e^r. The first step of r is exact, since both terms are multiples of 2^-30. n LN2_B is
 * exact, too (13 and 11 bits). The low part of r is multiplied by e^r. The terms from r^3/6 on need
 * only one binary32: they are below 2^-22, with an error of some units of 2^-46. */
SB_GPU_FN sb_gpu_scaled sb_gpu_exp_scaled(float x)
{
#include "gpu/math/exp_table.inc"
    float shifted = sb_gpu_fma(x, PER_LN2, 0x1.8p23f), n = shifted - 0x1.8p23f;
    int i = (int)(sb_gpu_bits(shifted) - 0x4b400000u), j = i & 31;

    sb_gpu_pair r = sb_gpu_sum(sb_gpu_fma(-n, LN2_A, x), -n * LN2_B);
    r.l = sb_gpu_fma(-n, LN2_C, r.l);
    sb_gpu_pair square = sb_gpu_product(r.h, r.h);
    float rest = sb_gpu_fma(r.h, sb_gpu_fma(r.h, sb_gpu_fma(r.h, C6, C5), C4), C3);
    sb_gpu_pair p = sb_gpu_sum_ordered(r.h, 0.5f * square.h);
    float low = sb_gpu_fma(0.5f, square.l, sb_gpu_fma(r.l, p.h, r.l));
    p.l += sb_gpu_fma(r.h * square.h, rest, low);

    sb_gpu_pair root = {ROOT[2 * j], ROOT[2 * j + 1]};
    sb_gpu_pair m = sb_gpu_product(root.h, p.h), y = sb_gpu_sum_ordered(root.h, m.h);
    y.l += root.l + sb_gpu_fma(root.h, p.l, sb_gpu_fma(root.l, p.h, m.l));
    y = sb_gpu_sum_ordered(y.h, y.l);
    return {y.h, y.l, (i - j) / 32};
}

/* The limits: e^89 > 2^128, and e^-104 < 2^-150, half of the smallest binary32. */
SB_GPU_FN float sb_gpu_exp(float x)
{
#include "gpu/math/exp_exceptions.inc"
    if (x != x)
        return sb_gpu_nan();
    if (x >= 89.0f)
        return sb_gpu_float(0x7f800000u);
    if (x <= -104.0f)
        return 0.0f;
    return sb_gpu_finish(sb_gpu_exp_scaled(x), ROWS, COUNT, sb_gpu_bits(x));
}

/* 1/(1 + e^-x) as 2^k (h + l), for |x| <= 110. With u = e^-|x| this is 1/(1 + u), or u/(1 + u) for
 * negative x. In 1 + u the exponent k of u may be raised to -100. */
SB_GPU_FN sb_gpu_scaled sb_gpu_sigmoid_scaled(float x)
{
    sb_gpu_scaled u = sb_gpu_exp_scaled(-sb_gpu_abs(x));
    float scale = sb_gpu_power_of_two(u.k > -100 ? u.k : -100);
    sb_gpu_pair d = sb_gpu_sum_ordered(1.0f, u.h * scale);
    d.l = sb_gpu_fma(u.l, scale, d.l);
    sb_gpu_pair y = sb_gpu_reciprocal(d);
    if (x >= 0)
        return {y.h, y.l, 0};
    y = sb_gpu_pair_product({u.h, u.l}, y);
    return {y.h, y.l, u.k};
}

/* 1/2 + x/4 - x^3/48 for |x| < 2^-10; the next term, x^5/480, is below 2^-58. The first sum leaves
 * an exact rest e; e - x^3/48 is rounded to odd, so that the last sum rounds like the exact
 * value. */
SB_GPU_FN float sb_gpu_sigmoid_small(float x)
{
    sb_gpu_pair s = sb_gpu_sum_ordered(0.5f, 0.25f * x);
    sb_gpu_pair t = sb_gpu_sum(s.l, x * x * x * (-1.0f / 48.0f));
    uint32_t bits = sb_gpu_bits(t.h);
    if ((t.l > 0 || t.l < 0) && (bits & 1) == 0)
        t.h = sb_gpu_float((t.l > 0) == (t.h > 0) ? bits + 1 : bits - 1);
    return s.h + t.h;
}

/* From 18 on, e^-x is below 2^-25.9, so the result rounds to 1. Below -104, e^x is below 2^-150. */
SB_GPU_FN float sb_gpu_sigmoid(float x)
{
#include "gpu/math/sigmoid_exceptions.inc"
    if (x != x)
        return sb_gpu_nan();
    if (x >= 18.0f)
        return 1.0f;
    if (x <= -104.0f)
        return 0.0f;
    if (sb_gpu_abs(x) < 0x1p-10f)
        return sb_gpu_abs(x) < 0x1p-30f ? 0.5f : sb_gpu_sigmoid_small(x);
    return sb_gpu_finish(sb_gpu_sigmoid_scaled(x), ROWS, COUNT, sb_gpu_bits(x));
}

/* x/2 + x^2/4 for |x| < 2^-26. If x/2 is normal, x^2/4 is too small to change its rounding. If x/2
 * is a subnormal tie, x^2/4 rounds it up. */
SB_GPU_FN float sb_gpu_silu_tiny(float x)
{
    uint32_t bits = sb_gpu_bits(x), sign = bits & 0x80000000u, units = bits & 0x7fffffffu;
    if (units >= 0x01000000u)
        return 0.5f * x;
    return sb_gpu_float(sign | (sign ? units : units + 1) >> 1);
}

/* From 104 on, x (1 - e^-x) rounds to x. Below -110, |x| e^x is below 2^-150. */
SB_GPU_FN float sb_gpu_silu(float x)
{
#include "gpu/math/silu_exceptions.inc"
    if (x != x)
        return sb_gpu_nan();
    if (x >= 104.0f)
        return x;
    if (x <= -110.0f)
        return -0.0f;
    float size = sb_gpu_abs(x);
    if (size < 0x1p-26f)
        return sb_gpu_silu_tiny(x);
    sb_gpu_scaled s = sb_gpu_sigmoid_scaled(x);
    sb_gpu_pair p = sb_gpu_product(size, s.h);
    p = sb_gpu_sum_ordered(p.h, sb_gpu_fma(size, s.l, p.l));
    float y = sb_gpu_finish({p.h, p.l, s.k}, ROWS, COUNT, sb_gpu_bits(x));
    return sb_gpu_float((sb_gpu_bits(y) & 0x7fffffffu) | (sb_gpu_bits(x) & 0x80000000u));
}

#endif
