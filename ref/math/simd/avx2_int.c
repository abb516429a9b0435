#include "ref/math/ints_kernels.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include <immintrin.h>
#include <stdatomic.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* Four scales in units of 2^-9, as 64-bit integers. */
INLINE __m256i scales_of(__m128i codes)
{
    const __m256i one = _mm256_set1_epi64x(1), wide = _mm256_cvtepu8_epi64(codes);
    const __m256i exponent = _mm256_srli_epi64(wide, 3);
    const __m256i fraction = _mm256_and_si256(wide, _mm256_set1_epi64x(7));
    const __m256i bare = _mm256_cmpeq_epi64(exponent, _mm256_setzero_si256());
    const __m256i whole =
        _mm256_or_si256(fraction, _mm256_andnot_si256(bare, _mm256_set1_epi64x(8)));
    return _mm256_sllv_epi64(whole, _mm256_sub_epi64(exponent, _mm256_andnot_si256(bare, one)));
}

/* Half a block, 64 columns: codes + 12, and the scales of four groups. */
typedef struct decoded {
    __m256i low, high, scales;
} decoded;

/* Sixteen-bit sums of four products of at most 24 and 12 are far from their end. */
INLINE __m256i products(const decoded *w, const sb_int_block *x, int half)
{
    const __m256i low = _mm256_loadu_si256((const void *)(x->low + 32 * half));
    const __m256i high = _mm256_loadu_si256((const void *)(x->high + 32 * half));
    const __m256i pairs =
        _mm256_add_epi16(_mm256_maddubs_epi16(w->low, low), _mm256_maddubs_epi16(w->high, high));
    __m256i sum = _mm256_add_epi32(_mm256_loadu_si256((const void *)(x->start + 8 * half)),
                                   _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    sum = _mm256_add_epi32(sum, _mm256_srli_epi64(sum, 32));
    sum = _mm256_mul_epi32(sum, w->scales);
    return _mm256_mul_epi32(sum, _mm256_loadu_si256((const void *)(x->scale + 4 * half)));
}

INLINE int row_of(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                  const sb_int_block *x, size_t stride, int count, int64_t *sums)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    __m128i largest = _mm_setzero_si128();
    __m256i acc[SB_INT_INPUTS];
    for (int t = 0; t < count; t++)
        acc[t] = _mm256_setzero_si256();
    for (size_t b = 0; b < 2 * blocks; b++) {
        const __m256i bytes = _mm256_loadu_si256((const void *)(codes + b * SB_INT_BYTES / 2));
        int32_t four;
        __builtin_memcpy(&four, scales + b * SB_INT_GROUPS / 2, 4);
        const __m128i s = _mm_cvtsi32_si128(four);
        const decoded w = {
            _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble)),
            _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)),
            scales_of(s)};
        largest = _mm_max_epu8(largest, s);
        for (int t = 0; t < count; t++)
            acc[t] = _mm256_add_epi64(acc[t],
                                      products(&w, x + b / 2 + (size_t)t * stride, (int)(b % 2)));
    }
    for (int t = 0; t < count; t++) {
        int64_t lanes[4];
        _mm256_storeu_si256((void *)lanes, acc[t]);
        sums[t] += lanes[0] + lanes[1] + lanes[2] + lanes[3];
    }
    return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(largest, _mm_set1_epi8(0x7f)), largest)) ==
           0;
}

AVX2 static int row(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                    const sb_int_block *x, size_t stride, size_t count, int64_t *sums)
{
    switch (count) {
    case 1:
        return row_of(codes, scales, blocks, x, stride, 1, sums);
    case 2:
        return row_of(codes, scales, blocks, x, stride, 2, sums);
    case 3:
        return row_of(codes, scales, blocks, x, stride, 3, sums);
    default:
        return row_of(codes, scales, blocks, x, stride, SB_INT_INPUTS, sums);
    }
}

sb_int_row_fn sb_int_row_avx2(void)
{
    static _Atomic int answer = -1; /* all threads that ask at once store the same */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known < 0) {
        __builtin_cpu_init();
        known = __builtin_cpu_supports("avx2") != 0;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known ? row : NULL;
}

#else

sb_int_row_fn sb_int_row_avx2(void)
{
    return NULL;
}

#endif
