/* pair.h - a number as the sum of two binary32 numbers, with some 47 bits, and its rounding to one
 * binary32. */
#ifndef SB_GPU_MATH_PAIR_H
#define SB_GPU_MATH_PAIR_H

#include "gpu/math/word.h"

/* h + l, where |l| is at most about one ulp of h; normalised: at most half an ulp of h. */
struct sb_gpu_pair {
    float h, l;
};

/* 2^k (h + l) */
struct sb_gpu_scaled {
    float h, l;
    int k;
};

/* The exact sum a + b, for |a| >= |b| or a = 0. */
SB_GPU_FN sb_gpu_pair sb_gpu_sum_ordered(float a, float b)
{
    float s = a + b;
    return {s, b - (s - a)};
}

/* The exact sum a + b. */
SB_GPU_FN sb_gpu_pair sb_gpu_sum(float a, float b)
{
    float s = a + b, back = s - a;
    return {s, (a - (s - back)) + (b - back)};
}

/* The exact product a b, if nothing underflows. */
SB_GPU_FN sb_gpu_pair sb_gpu_product(float a, float b)
{
    float p = a * b;
    return {p, sb_gpu_fma(a, b, -p)};
}

/* The product x y with a relative error of at most 3 2^-48. */
SB_GPU_FN sb_gpu_pair sb_gpu_pair_product(sb_gpu_pair x, sb_gpu_pair y)
{
    sb_gpu_pair p = sb_gpu_product(x.h, y.h);
    float l = sb_gpu_fma(x.h, y.l, sb_gpu_fma(x.l, y.h, p.l));
    return sb_gpu_sum_ordered(p.h, l);
}

/* 1/d for a pair d with h in [1, 2], by Newton's step from the rounded quotient q. With r = 1 - q
 * d, the quotient is q (1 + r + r^2 + ..), and |r| < 2^-22. 1 - q d.h is exact. */
SB_GPU_FN sb_gpu_pair sb_gpu_reciprocal(sb_gpu_pair d)
{
    float q = 1.0f / d.h;
    float r = sb_gpu_fma(-q, d.l, sb_gpu_fma(-q, d.h, 1.0f));
    return sb_gpu_sum_ordered(q, q * sb_gpu_fma(r, r, r));
}

/* True if the rounding of the normalised h + l may change when l changes by 2^-18 of its value. The
 * error of every function here is smaller. */
SB_GPU_FN bool sb_gpu_doubtful(float h, float l)
{
    return h + l * (1.0f + 0x1p-18f) != h + l * (1.0f - 0x1p-18f);
}

/* An argument for which 47 bits do not decide the rounding, and the correctly rounded value. */
struct sb_gpu_exception {
    uint32_t input, output;
};

/* Returns the output of `input` in a table sorted by input, or `otherwise` if the table lacks this
 * input. The program that makes the tables is built without them (SB_GPU_MATH_BARE). */
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

/* Rounds 2^k (h + l), where 0 < h and the value is below 2^-126, to a multiple of 2^-149. `base` is
 * 2^23 such units, scaled by 2^-k: base + h rounds h to whole units, and then the rounding error
 * and l are added. */
SB_GPU_FN float sb_gpu_round_tiny(float h, float l, int k)
{
    float base = sb_gpu_power_of_two(23 - 149 - k);
    sb_gpu_pair s = sb_gpu_sum_ordered(base, h);
    float units = (s.h + (s.l + l)) - base;
    int half = k / 2;
    return units * sb_gpu_power_of_two(half) * sb_gpu_power_of_two(k - half);
}

/* Rounds y, which is normalised with 0 < y.h, to binary32. Looks the value up in `rows` if 47 bits
 * do not decide the rounding. */
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
