/* nibble_spreads_avx2.c - nibble_spreads.c, four groups at once. */
#include "tools/check/scan/nibble_spreads.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum { FOUR = 4, CODES = 16, PLUS = 12 };

/* For each group: the sum of the table's entries for its codes. */
INLINE __m256i sums_of(__m128i table, __m256i low, __m256i high)
{
    const __m256i both = _mm256_broadcastsi128_si256(table), zero = _mm256_setzero_si256();
    return _mm256_add_epi64(_mm256_sad_epu8(_mm256_shuffle_epi8(both, low), zero),
                            _mm256_sad_epu8(_mm256_shuffle_epi8(both, high), zero));
}

AVX2 void sb_spreads_avx2(const uint64_t codes[SB_FIT_WINDOW], unsigned n, sb_fit_keys keys)
{
    const __m256i low_half = _mm256_set1_epi8(15);
    const __m128i squares =
        _mm_setr_epi8(0, 1, 4, 9, 16, 36, 64, (char)144, 0, 1, 4, 9, 16, 36, 64, (char)144);
    /* twice the value of a code, plus PLUS */
    const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    const unsigned whole = n / FOUR * FOUR;
    for (unsigned i = 0; i < whole; i += FOUR) {
        __m256i all = _mm256_loadu_si256((const __m256i *)(const void *)(codes + i));
        __m256i low = _mm256_and_si256(all, low_half);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(all, 4), low_half);
        __m256i sum =
            _mm256_sub_epi64(sums_of(values, low, high), _mm256_set1_epi64x(PLUS * CODES));
        __m256i key = _mm256_sub_epi64(_mm256_slli_epi64(sums_of(squares, low, high), 4),
                                       _mm256_mul_epi32(sum, sum));
        key = _mm256_sub_epi64(key, _mm256_set1_epi64x(1 << 15));
        keys[i] = (int16_t)_mm256_extract_epi16(key, 0);
        keys[i + 1] = (int16_t)_mm256_extract_epi16(key, 4);
        keys[i + 2] = (int16_t)_mm256_extract_epi16(key, 8);
        keys[i + 3] = (int16_t)_mm256_extract_epi16(key, 12);
    }
    sb_spreads_plain(codes + whole, n - whole, keys + whole);
}

#endif
