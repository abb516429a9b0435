/* lanes_plain.h - the lane operations of lanes_kernels.h in portable C, which compilers vectorize
 * if they can. */
#ifndef SB_DOT_LANES_PLAIN_H
#define SB_DOT_LANES_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/bytes.h"

#define LANES_TARGET
#define LANES_INLINE static inline

enum { W = 4, HEADS_AT_ONCE = 2, DOTS_AT_ONCE = 1 };

typedef struct vd {
    double at[W];
} vd;
typedef struct vf {
    float at[2 * W];
} vf;

#define EACH for (size_t l = 0; l < W; l++)
#define EACH_OF_TWO for (size_t l = 0; l < 2 * W; l++)

LANES_INLINE vd d_set(double x)
{
    vd y;
    EACH y.at[l] = x;
    return y;
}

LANES_INLINE vd d_load(const double *at)
{
    vd y;
    EACH y.at[l] = at[l];
    return y;
}

LANES_INLINE void d_store(double *at, vd x)
{
    EACH at[l] = x.at[l];
}

LANES_INLINE vd d_widen(const float *at)
{
    vd y;
    EACH y.at[l] = at[l];
    return y;
}

LANES_INLINE vd d_add(vd a, vd b)
{
    EACH a.at[l] += b.at[l];
    return a;
}

LANES_INLINE vd d_mul(vd a, vd b)
{
    EACH a.at[l] *= b.at[l];
    return a;
}

/* a b + c. If the product is exact, one rounding (fused) and two roundings give the same number. */
LANES_INLINE vd d_mul_add(vd a, vd b, vd c)
{
    EACH c.at[l] += a.at[l] * b.at[l];
    return c;
}

LANES_INLINE double absolute(double x)
{
    return sb_f64_from_bits(sb_bits_f64(x) & 0x7fffffffffffffffu);
}

LANES_INLINE vd d_abs(vd a)
{
    EACH a.at[l] = absolute(a.at[l]);
    return a;
}

LANES_INLINE double d_total(vd a)
{
    double total = 0;
    EACH total += a.at[l];
    return total;
}

/* Writes the total of the lanes of each of eight vectors. */
LANES_INLINE void d_totals(const vd *a, double *out)
{
    for (size_t i = 0; i < 8; i++)
        out[i] = d_total(a[i]);
}

LANES_INLINE vf f_set(float x)
{
    vf y;
    EACH_OF_TWO y.at[l] = x;
    return y;
}

LANES_INLINE vf f_load(const float *at)
{
    vf y;
    EACH_OF_TWO y.at[l] = at[l];
    return y;
}

LANES_INLINE void f_store(float *at, vf x)
{
    EACH_OF_TWO at[l] = x.at[l];
}

LANES_INLINE vf f_add(vf a, vf b)
{
    EACH_OF_TWO a.at[l] += b.at[l];
    return a;
}

LANES_INLINE vf f_mul(vf a, vf b)
{
    EACH_OF_TWO a.at[l] *= b.at[l];
    return a;
}

/* The larger magnitude. A NaN may be lost here, but the sum over the same values is then NaN. */
LANES_INLINE vf f_most(vf a, vf b)
{
    EACH_OF_TWO
    {
        float size = sb_f32_from_bits(sb_bits_f32(b.at[l]) & 0x7fffffffu);
        a.at[l] = a.at[l] > size ? a.at[l] : size;
    }
    return a;
}

LANES_INLINE float f_largest(vf a)
{
    float largest = a.at[0];
    EACH_OF_TWO largest = largest > a.at[l] ? largest : a.at[l];
    return largest;
}

LANES_INLINE vd f_low(vf x)
{
    return d_widen(x.at);
}

LANES_INLINE vd f_high(vf x)
{
    return d_widen(x.at + W);
}

/* The rounding test of dot.c in every lane. Stores the results and returns the mask of the lanes
 * that are still open; their stored results are arbitrary. */
LANES_INLINE unsigned d_round(vd sum, vd bound, float *out)
{
    unsigned open = 0;
    EACH
    {
        const double reach = absolute(sum.at[l]) * 0x1p-52 + bound.at[l];
        const float low = (float)(sum.at[l] - reach), high = (float)(sum.at[l] + reach);
        const int settled = reach < 0x1p900 && sb_bits_f32(low) == sb_bits_f32(high);
        out[l] = low;
        open |= (unsigned)!settled << l;
    }
    return open;
}

#endif
