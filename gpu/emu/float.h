/* float.h - CUDA's intrinsics for IEEE 754 arithmetic and for bits.
 *
 * They use no function of libm, which the program does not link. */
#ifndef SB_GPU_EMU_FLOAT_H
#define SB_GPU_EMU_FLOAT_H

#include <stdint.h>
#include <string.h>

inline float __uint_as_float(unsigned u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
inline unsigned __float_as_uint(float x)
{
    unsigned u;
    memcpy(&u, &x, sizeof u);
    return u;
}
inline float __int_as_float(int i)
{
    return __uint_as_float(static_cast<unsigned>(i));
}
inline int __float_as_int(float x)
{
    return static_cast<int>(__float_as_uint(x));
}

inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __frcp_rn(float a)
{
    return 1.0f / a;
}
inline float __fsqrt_rn(float a)
{
    return __builtin_sqrtf(a);
}

/* a * b is exact in binary64. The sum is rounded to odd in binary64, so that the final rounding to
 * binary32 is correct (Boldo and Melquiond, 2008). */
inline float __fmaf_rn(float a, float b, float c)
{
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    const double p = static_cast<double>(a) * b, q = c, s = p + q;
    const double t = s - p, lost = (p - (s - t)) + (q - t);
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (!(lost == 0) && lost == lost && (bits & 1) == 0)
        bits += (lost > 0) == (s > 0) ? 1 : -1;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return static_cast<float>(odd);
#endif
}
inline float __int2float_rn(int i)
{
    return static_cast<float>(i);
}
inline float __uint2float_rn(unsigned i)
{
    return static_cast<float>(i);
}
/* Conversions from float to integers saturate; a NaN becomes 0. */
inline int __float2int_rz(float x)
{
    if (!(x == x))
        return 0;
    return x >= 2147483648.0f ? INT32_MAX : x < -2147483648.0f ? INT32_MIN : static_cast<int>(x);
}
inline int __float2int_rn(float x)
{
    const double even = 6755399441055744.0; /* 1.5 * 2^52: here binary64 has only integers */
    if (!(x > -2147483648.0f && x < 2147483648.0f))
        return __float2int_rz(x);
    return static_cast<int>((static_cast<double>(x) + even) - even);
}

inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
    unsigned result = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned s = selector >> (4 * i) & 7; /* bit 3, the sign mode of PTX, is ignored */
        result |= static_cast<unsigned>(bytes >> (8 * s) & 255) << (8 * i);
    }
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    return static_cast<unsigned>(both << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    const uint64_t both = static_cast<uint64_t>(high) << 32 | low;
    return static_cast<unsigned>(both >> (shift & 31));
}

#endif
