/* pair.h - a number as the sum of two binary32 numbers, some 47 bits, and its rounding to one. */
#ifndef SB_GPU_MATH_PAIR_H
#define SB_GPU_MATH_PAIR_H

#include "gpu/math/word.h"

/* h + l, |l| at most about a unit in the last place of h; normalised: at most half of one. */
struct sb_gpu_pair {
    float h, l;
};

/* 2^k (h + l) */
struct sb_gpu_scaled {
    float h, l;
    int k;
};

/* a + b exactly, for |a| >= |b| or a = 0. */
SB_GPU_FN sb_gpu_pair sb_gpu_sum_ordered(float a, float b)
{
    float s = a + b;
    return {s, b - (s - a)};
}

/* a + b exactly. */
SB_GPU_FN sb_gpu_pair sb_gpu_sum(float a, float b)
{
    float s = a + b, back = s - a;
    return {s, (a - (s - back)) + (b - back)};
}

/* a b exactly, if nothing underflows. */
SB_GPU_FN sb_gpu_pair sb_gpu_product(float a, float b)
{
    float p = a * b;
    return {p, sb_gpu_fma(a, b, -p)};
}

/* x y with a relative error of at most 3 2^-48. */
SB_GPU_FN sb_gpu_pair sb_gpu_pair_product(sb_gpu_pair x, sb_gpu_pair y)
{
    sb_gpu_pair p = sb_gpu_product(x.h, y.h);
    float l = sb_gpu_fma(x.h, y.l, sb_gpu_fma(x.l, y.h, p.l));
    return sb_gpu_sum_ordered(p.h, l);
}

/* 1/d for a pair d with h in [1, 2]: Newton's step from the rounded quotient q. With r = 1 - q d
 * the quotient is q (1 + r + r^2 + ..), |r| < 2^-22; the first product is exact. */
SB_GPU_FN sb_gpu_pair sb_gpu_reciprocal(sb_gpu_pair d)
{
    float q = 1.0f / d.h;
    float r = sb_gpu_fma(-q, d.l, sb_gpu_fma(-q, d.h, 1.0f));
    return sb_gpu_sum_ordered(q, q * sb_gpu_fma(r, r, r));
}

/* True if h + l, normalised, may round to another number than h when l changes by 2^-18 of itself,
 * which is more than the error of any function here. */
SB_GPU_FN bool sb_gpu_doubtful(float h, float l)
{
    return h + l * (1.0f + 0x1p-18f) != h + l * (1.0f - 0x1p-18f);
}

/* One argument whose rounding 47 bits do not decide, and the correctly rounded value. */
struct sb_gpu_exception {
    uint32_t input, output;
};

/* The output of `input` in a table sorted by input, or `otherwise` if it has none. A program
 * without tables, SB_GPU_MATH_BARE, makes the tables. */
SB_GPU_FN float sb_gpu_look_up(const sb_gpu_exception *rows, int count, uint32_t input,
                               float otherwise)
{
#if defined(SB_GPU_MATH_BARE)
    count = 0;
#endif
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (rows[middle].input < input)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && rows[low].input == input ? sb_gpu_float(rows[low].output) : otherwise;
}

/* Rounds 2^k (h + l), 0 < h, below 2^-126, to the grid of subnormals, 2^-149: adding 2^23 units of
 * that grid, scaled by 2^-k, rounds h to the grid, and the rest is added once more. */
SB_GPU_FN float sb_gpu_round_tiny(float h, float l, int k)
{
    float base = sb_gpu_power_of_two(23 - 149 - k);
    sb_gpu_pair s = sb_gpu_sum_ordered(base, h);
    float units = (s.h + (s.l + l)) - base;
    int half = k / 2;
    return units * sb_gpu_power_of_two(half) * sb_gpu_power_of_two(k - half);
}

/* The binary32 value of y, normalised, 0 < y.h; looked up in `rows` if 47 bits do not decide it. */
SB_GPU_FN float sb_gpu_finish(sb_gpu_scaled y, const sb_gpu_exception *rows, int count,
                              uint32_t input)
{
    int exponent = (int)(sb_gpu_bits(y.h) >> 23) - 127 + y.k;
    float value;
    if (exponent < -126) {
        value = sb_gpu_round_tiny(y.h, y.l, y.k);
    } else {
        int half = y.k / 2;
        value = y.h * sb_gpu_power_of_two(half) * sb_gpu_power_of_two(y.k - half);
        if (!sb_gpu_doubtful(y.h, y.l))
            return value;
    }
    return sb_gpu_look_up(rows, count, input, value);
}

#endif
