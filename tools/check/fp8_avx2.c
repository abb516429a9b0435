/* fp8_avx2.c - the look of fp8_fast.c at eight codes at once: the same operations on the same
 * lanes, so the same results. */
#include "tools/check/fp8.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

enum { GROUP = SB_FP8_GROUP, HALF = GROUP / 2 };

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE AVX2 static inline __attribute__((always_inline))

typedef struct sums {
    __m256 sum, sum2, sum4, error2, master2;
} sums;

INLINE void add_eight(sums *s, __m256 v)
{
    __m256 square = _mm256_mul_ps(v, v);
    s->sum = _mm256_add_ps(s->sum, v);
    s->sum2 = _mm256_add_ps(s->sum2, square);
    s->sum4 = _mm256_add_ps(s->sum4, _mm256_mul_ps(square, square));
}

/* Not 0 where there is a doubt; AVX2 compares signed numbers, so both sides are moved by 2^31. */
INLINE __m256i against_eight(sums *s, __m256 v, const float *weights, __m256 inverse)
{
    const __m256i reach = _mm256_set1_epi32((int)(SB_FP8_REACH ^ 0x80000000u));
    const __m256i most = _mm256_set1_epi32((int)((2 * SB_FP8_REACH) ^ 0x80000000u));
    __m256 t = _mm256_mul_ps(_mm256_loadu_ps(weights), inverse);
    __m256 error = _mm256_sub_ps(v, t);
    s->error2 = _mm256_add_ps(s->error2, _mm256_mul_ps(error, error));
    s->master2 = _mm256_add_ps(s->master2, _mm256_mul_ps(t, t));
    __m256i apart = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(v));
    return _mm256_cmpgt_epi32(_mm256_add_epi32(apart, reach), most);
}

/* Sixteen codes as F16: the sign stands in two places of what is extended and moved. */
INLINE __m256i halves_of(const unsigned char *codes)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)codes);
    return _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                            _mm256_set1_epi16((short)0xbf80));
}

INLINE __m256i look_at_half(sums *s, const unsigned char *codes, const float *weights,
                            __m256 inverse)
{
    __m256i halves = halves_of(codes);
    __m256 v = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 w = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    add_eight(s, v);
    add_eight(s, w);
    if (!weights)
        return _mm256_setzero_si256();
    __m256i first =
        against_eight(s, v, weights, inverse); /* one after the other: sums have an order */
    __m256i second = against_eight(s, w, weights + HALF / 2, inverse);
    return _mm256_or_si256(first, second);
}

INLINE uint32_t look_at_group(sums *s, const unsigned char *codes, const float *weights,
                              __m256 inverse)
{
    __m256i a = look_at_half(s, codes, weights, inverse);
    __m256i b = look_at_half(s, codes + HALF, weights ? weights + HALF : NULL, inverse);
    __m256i doubt = _mm256_or_si256(a, b);
    return weights && !_mm256_testz_si256(doubt, doubt);
}

/* Zeros of up to 255 groups, and the largest magnitude. */
typedef struct bytes {
    __m256i zeros, top;
} bytes;

INLINE void count_bytes(bytes *b, const unsigned char *codes)
{
    __m256i magnitudes = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)codes),
                                          _mm256_set1_epi8(0x7f));
    b->top = _mm256_max_epu8(b->top, magnitudes);
    b->zeros = _mm256_sub_epi8(b->zeros, _mm256_cmpeq_epi8(magnitudes, _mm256_setzero_si256()));
}

AVX2 static void end_bytes(const bytes *b, sb_fp8_lanes *out)
{
    unsigned char zeros[32], top[32];
    _mm256_storeu_si256((__m256i *)(void *)zeros, b->zeros);
    _mm256_storeu_si256((__m256i *)(void *)top, b->top);
    out->zeros = 0;
    out->top = 0;
    for (unsigned i = 0; i < 32; i++) {
        out->zeros += zeros[i];
        out->top = top[i] > out->top ? top[i] : out->top;
    }
}

INLINE void look(const unsigned char *codes, const float *weights, unsigned groups, float inverse,
                 sb_fp8_lanes *out)
{
    const __m256 zero = _mm256_setzero_ps(), by = _mm256_set1_ps(inverse);
    sums s = {zero, zero, zero, zero, zero};
    bytes b = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    out->doubts = 0;
    for (unsigned g = 0; g < groups; g++, codes += GROUP) {
        count_bytes(&b, codes);
        out->doubts |= look_at_group(&s, codes, weights, by) << g;
        if (weights)
            weights += GROUP;
    }
    _mm256_storeu_ps(out->sum, s.sum);
    _mm256_storeu_ps(out->sum2, s.sum2);
    _mm256_storeu_ps(out->sum4, s.sum4);
    _mm256_storeu_ps(out->error2, s.error2);
    _mm256_storeu_ps(out->master2, s.master2);
    end_bytes(&b, out);
}

AVX2 void sb_fp8_look_avx2(const unsigned char *codes, const float *weights, unsigned groups,
                           float inverse, sb_fp8_lanes *out)
{
    if (weights)
        look(codes, weights, groups, inverse, out);
    else
        look(codes, NULL, groups, inverse, out);
}

#endif
