/* bf16_avx2.c - the scan of bf16_fast.c, with sixteen numbers at once: the same operations on the
 * same lanes, so the same results. */
#include "tools/check/read/bf16.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

typedef struct sums {
    __m256 sum, sum2, sum4;
} sums;

INLINE void add_eight(sums *s, __m256i bits, int shape)
{
    __m256 value = _mm256_castsi256_ps(bits), square = _mm256_mul_ps(value, value);
    s->sum2 = _mm256_add_ps(s->sum2, square);
    if (!shape)
        return;
    s->sum = _mm256_add_ps(s->sum, value);
    s->sum4 = _mm256_add_ps(s->sum4, _mm256_mul_ps(square, square));
}

INLINE __m256d lower(__m256 lanes)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(lanes));
}

INLINE __m256d upper(__m256 lanes)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(lanes, 1));
}

/* As sb_bf16_fold(). */
INLINE double fold(__m256 a, __m256 b)
{
    __m256d four =
        _mm256_add_pd(_mm256_add_pd(lower(a), lower(b)), _mm256_add_pd(upper(a), upper(b)));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* The sum of sixteen counters of up to 2^15 - 1. */
INLINE uint32_t total(__m256i counters)
{
    __m256i eight = _mm256_madd_epi16(counters, _mm256_set1_epi16(1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

INLINE uint16_t largest(__m256i numbers)
{
    __m128i eight =
        _mm_max_epu16(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
    __m128i least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
    return (uint16_t)~_mm_cvtsi128_si32(least);
}

INLINE void look(const unsigned char *bytes, unsigned steps, int shape, sb_bf16_sums *out)
{
    const __m256i upper_half = _mm256_set1_epi32((int)0xffff0000u),
                  magnitude = _mm256_set1_epi16(0x7fff);
    const __m256 zero = _mm256_setzero_ps();
    sums even = {zero, zero, zero}, odd = even;
    __m256i zeros = _mm256_setzero_si256(), top = zeros;
    for (unsigned i = 0; i < steps; i++, bytes += 2 * (size_t)SB_BF16_STEP) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
        __m256i a = _mm256_and_si256(x, magnitude);
        top = _mm256_max_epu16(top, a);
        zeros = _mm256_sub_epi16(zeros, _mm256_cmpeq_epi16(a, _mm256_setzero_si256()));
        add_eight(&even, _mm256_slli_epi32(x, 16), shape);
        add_eight(&odd, _mm256_and_si256(x, upper_half), shape);
    }
    out->sum2 = fold(even.sum2, odd.sum2);
    out->sum = shape ? fold(even.sum, odd.sum) : 0;
    out->sum4 = shape ? fold(even.sum4, odd.sum4) : 0;
    out->zeros = total(zeros);
    out->top = largest(top);
}

AVX2 void sb_bf16_look_avx2(const unsigned char *bytes, unsigned steps, int shape,
                            sb_bf16_sums *out)
{
    if (shape)
        look(bytes, steps, 1, out);
    else
        look(bytes, steps, 0, out);
}

#endif
