/* word.h - the basis of gpu/math: access to bits, the fused multiply-add, and the function
 * qualifier SB_GPU_FN. The same source compiles as C++17 for the host and with nvcc.
 *
 * Z-1: "only IEEE binary32 operations, each rounded to nearest even, and fused multiply-adds where
 * the source names one" - so the host needs -ffp-contract=off and nvcc -fmad=false. */
#ifndef SB_GPU_MATH_WORD_H
#define SB_GPU_MATH_WORD_H

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define SB_GPU_FN static __host__ __device__ __forceinline__
#else
#define SB_GPU_FN static inline
#endif

#if defined(__FAST_MATH__)
#error "gpu/math needs IEEE arithmetic"
#endif

SB_GPU_FN uint32_t sb_gpu_bits(float x)
{
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

SB_GPU_FN float sb_gpu_float(uint32_t bits)
{
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

#if !defined(__CUDA_ARCH__)
/* The fused a b + c without the instruction. The product is exact in binary64. The sum is rounded
 * to odd: an inexact even result moves to its odd neighbour on the side of the exact value.
 * Binary64 has 29 bits more than binary32, so rounding this number to binary32 rounds the exact sum
 * correctly. */
SB_GPU_FN float sb_gpu_fma_in_double(float a, float b, float c)
{
    double p = (double)a * (double)b, wide = (double)c;
    double s = p + wide;
    double back = s - p;
    double lost = (p - (s - back)) + (wide - back);
    uint64_t bits;
    std::memcpy(&bits, &s, sizeof bits);
    if ((lost > 0 || lost < 0) && (bits & 1) == 0) {
        bits = (lost > 0) == (s > 0) ? bits + 1 : bits - 1;
        std::memcpy(&s, &bits, sizeof s);
    }
    return (float)s;
}
#endif

/* The one fused operation: a b + c, rounded once. */
SB_GPU_FN float sb_gpu_fma(float a, float b, float c)
{
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(a, b, c);
#else
    return sb_gpu_fma_in_double(a, b, c);
#endif
}

SB_GPU_FN float sb_gpu_abs(float x)
{
    return sb_gpu_float(sb_gpu_bits(x) & 0x7fffffffu);
}

/* A-6's canonical NaN. */
SB_GPU_FN float sb_gpu_nan()
{
    return sb_gpu_float(0x7fc00000u);
}

/* 2^k for -126 <= k <= 127 */
SB_GPU_FN float sb_gpu_power_of_two(int k)
{
    return sb_gpu_float((uint32_t)(k + 127) << 23);
}

#endif
