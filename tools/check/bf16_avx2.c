/* bf16_avx2.c - the look of bf16_fast.c at sixteen numbers at once: the same operations on the same
 * lanes, so the same results. */
#include "tools/check/bf16.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

enum { LANES = SB_BF16_STEP / 2 };

#define AVX2 __attribute__((target("avx2")))

typedef struct sums {
    __m256 sum, sum2, sum4;
} sums;

AVX2 static inline __attribute__((always_inline)) void add_eight(sums *s, __m256i bits)
{
    __m256 value = _mm256_castsi256_ps(bits), square = _mm256_mul_ps(value, value);
    s->sum = _mm256_add_ps(s->sum, value);
    s->sum2 = _mm256_add_ps(s->sum2, square);
    s->sum4 = _mm256_add_ps(s->sum4, _mm256_mul_ps(square, square));
}

AVX2 static void store(const sums *s, unsigned lane, sb_bf16_lanes *out)
{
    _mm256_storeu_ps(out->sum + lane, s->sum);
    _mm256_storeu_ps(out->sum2 + lane, s->sum2);
    _mm256_storeu_ps(out->sum4 + lane, s->sum4);
}

AVX2 static void end_integers(__m256i zeros, __m256i top, sb_bf16_lanes *out)
{
    uint16_t zero[SB_BF16_STEP], most[SB_BF16_STEP];
    _mm256_storeu_si256((__m256i *)(void *)zero, zeros);
    _mm256_storeu_si256((__m256i *)(void *)most, top);
    out->zeros = 0;
    out->top = 0;
    for (unsigned j = 0; j < SB_BF16_STEP; j++) {
        out->zeros += zero[j];
        out->top = most[j] > out->top ? most[j] : out->top;
    }
}

AVX2 void sb_bf16_look_avx2(const unsigned char *bytes, unsigned steps, sb_bf16_lanes *out)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u),
                  magnitude = _mm256_set1_epi16(0x7fff);
    const __m256 zero = _mm256_setzero_ps();
    sums even = {zero, zero, zero}, odd = even;
    __m256i zeros = _mm256_setzero_si256(), top = zeros;
    for (unsigned i = 0; i < steps; i++, bytes += 2 * (size_t)SB_BF16_STEP) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
        __m256i a = _mm256_and_si256(x, magnitude);
        top = _mm256_max_epu16(top, a);
        zeros = _mm256_sub_epi16(zeros, _mm256_cmpeq_epi16(a, _mm256_setzero_si256()));
        add_eight(&even, _mm256_slli_epi32(x, 16));
        add_eight(&odd, _mm256_and_si256(x, upper));
    }
    store(&even, 0, out);
    store(&odd, LANES, out);
    end_integers(zeros, top, out);
}

#endif
