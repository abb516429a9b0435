/* kendall_avx2.c - kendall.c for a full window, with sixteen items at once. */
#include "tools/check/scan/kendall.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

enum { WINDOW = SB_FIT_WINDOW, LANES = 16 };

#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

INLINE __m256i load(const int16_t *x)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)x);
}

/* -1, 0 or 1. */
INLINE __m256i sign_of(__m256i a, __m256i b)
{
    return _mm256_sub_epi16(_mm256_cmpgt_epi16(b, a), _mm256_cmpgt_epi16(a, b));
}

INLINE int32_t total(__m256i sixteen)
{
    __m256i eight = _mm256_madd_epi16(sixteen, _mm256_set1_epi16(1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xb1)));
}

AVX2 int64_t sb_kendall_avx2(const sb_fit_keys x, const sb_fit_keys y, unsigned n, uint64_t *ranked)
{
    int16_t xs[2 * WINDOW], ys[2 * WINDOW];
    __m256i both = _mm256_setzero_si256(), differ = both;
    if (n != WINDOW)
        return sb_kendall_plain(x, y, n, ranked);
    memcpy(xs, x, sizeof(sb_fit_keys));
    memcpy(xs + WINDOW, x, sizeof(sb_fit_keys));
    memcpy(ys, y, sizeof(sb_fit_keys));
    memcpy(ys + WINDOW, y, sizeof(sb_fit_keys));
    for (unsigned i = 0; i < WINDOW; i += LANES) {
        const __m256i own_x = load(xs + i), own_y = load(ys + i);
        const unsigned last = i < WINDOW / 2 ? WINDOW / 2 : WINDOW / 2 - 1;
        for (unsigned on = 1; on <= last; on++) {
            __m256i by_x = sign_of(own_x, load(xs + i + on));
            __m256i by_y = sign_of(own_y, load(ys + i + on));
            both = _mm256_add_epi16(both, _mm256_sign_epi16(by_x, by_y));
            differ = _mm256_add_epi16(differ, _mm256_abs_epi16(by_x));
        }
    }
    *ranked += (uint64_t)total(differ);
    return total(both);
}

#endif
