#include "ref/fast/dot/int_dot_kernels.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include <immintrin.h>
#include <stdatomic.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum { AHEAD = 8192 }; /* as in avx512_int_dot.c */

/* Returns eight scales in units of 2^-9. */
INLINE __m256i scales_of(__m128i codes)
{
    const __m256i one = _mm256_set1_epi32(1), wide = _mm256_cvtepu8_epi32(codes);
    const __m256i exponent = _mm256_srli_epi32(wide, 3);
    const __m256i fraction = _mm256_and_si256(wide, _mm256_set1_epi32(7));
    const __m256i bare = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
    const __m256i whole =
        _mm256_or_si256(fraction, _mm256_andnot_si256(bare, _mm256_set1_epi32(8)));
    return _mm256_sllv_epi32(whole, _mm256_sub_epi32(exponent, _mm256_andnot_si256(bare, one)));
}

/* Half of the slots of a block of weights: codes + 12 in the order of sb_int_block, and scales. */
typedef struct decoded {
    __m256i half[4], scales;
} decoded;

INLINE __m256i words(__m256i a, __m256i b, const int which)
{
    const __m256 x = _mm256_castsi256_ps(a), y = _mm256_castsi256_ps(b);
    return _mm256_castps_si256(which ? _mm256_shuffle_ps(x, y, 0xdd)
                                     : _mm256_shuffle_ps(x, y, 0x88));
}

INLINE decoded decode(const unsigned char *codes, __m128i scales)
{
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i a = _mm256_loadu_si256((const void *)codes);
    const __m256i b = _mm256_loadu_si256((const void *)(codes + SB_INT_BYTES / 2));
    const __m256i first = words(a, b, 0), second = words(a, b, 1);
    return (decoded){
        {_mm256_shuffle_epi8(table, _mm256_and_si256(first, nibble)),
         _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(first, 4), nibble)),
         _mm256_shuffle_epi8(table, _mm256_and_si256(second, nibble)),
         _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(second, 4), nibble))},
        scales_of(scales)};
}

/* Sums of eight products of at most 24 times 12 fit into 16 bits. The sum of a group times the
 * scale of the weight is below 2^30. */
INLINE __m256i multiplied(const decoded *w, const sb_int_block *x, size_t part, __m256i to)
{
    __m256i pairs = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++)
        pairs = _mm256_add_epi16(
            pairs, _mm256_maddubs_epi16(
                       w->half[i], _mm256_loadu_si256((const void *)(x->half[i] + 32 * part))));
    __m256i sum = _mm256_add_epi32(_mm256_loadu_si256((const void *)(x->start + 8 * part)),
                                   _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    sum = _mm256_mullo_epi32(sum, w->scales);
    const __m256i *even = (const void *)(x->scale[0] + 4 * part),
                  *odd = (const void *)(x->scale[1] + 4 * part);
    to = _mm256_add_epi64(to, _mm256_mul_epi32(sum, _mm256_loadu_si256(even)));
    return _mm256_add_epi64(to,
                            _mm256_mul_epi32(_mm256_srli_epi64(sum, 32), _mm256_loadu_si256(odd)));
}

/* Multiplies one row with `count` inputs; count is a constant. */
INLINE int one(const unsigned char *codes, const unsigned char *scales, size_t blocks,
               const sb_int_block *x, size_t stride, const int count, int64_t *sums)
{
    __m128i largest = _mm_setzero_si128();
    __m256i acc[SB_INT_INPUTS];
    for (int t = 0; t < count; t++)
        acc[t] = _mm256_setzero_si256();
    for (size_t b = 0; b < blocks; b++, x++) {
        _mm_prefetch((const void *)(codes + b * SB_INT_BYTES + AHEAD), _MM_HINT_T1);
        _mm_prefetch((const void *)(codes + b * SB_INT_BYTES + AHEAD + 64), _MM_HINT_T1);
        if (b % 4 == 0) /* a cache line of scales */
            _mm_prefetch((const void *)(scales + b * SB_INT_GROUPS + AHEAD / 8), _MM_HINT_T1);
        const __m128i s = _mm_loadu_si128((const void *)(scales + b * SB_INT_GROUPS));
        const __m128i slots = _mm_shuffle_epi8(
            s, _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
        largest = _mm_max_epu8(largest, s);
        for (size_t part = 0; part < 2; part++) {
            const decoded w = decode(codes + b * SB_INT_BYTES + 32 * part,
                                     part ? _mm_srli_si128(slots, 8) : slots);
            for (int t = 0; t < count; t++)
                acc[t] = multiplied(&w, x + (size_t)t * stride, part, acc[t]);
        }
    }
    for (int t = 0; t < count; t++) {
        int64_t lanes[4];
        _mm256_storeu_si256((void *)lanes, acc[t]);
        sums[t * SB_INT_ROWS] = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    }
    return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(largest, _mm_set1_epi8(0x7f)), largest)) !=
           0;
}

AVX2 static unsigned rows(const unsigned char *const *codes, const unsigned char *const *scales,
                          size_t blocks, const sb_int_block *x, size_t stride, size_t count,
                          int64_t *sums)
{
    unsigned spoiled = 0;
    for (unsigned r = 0; r < SB_INT_ROWS; r++)
        switch (count) {
        case 1:
            spoiled |= (unsigned)one(codes[r], scales[r], blocks, x, stride, 1, sums + r) << r;
            break;
        case 2:
            spoiled |= (unsigned)one(codes[r], scales[r], blocks, x, stride, 2, sums + r) << r;
            break;
        case 3:
            spoiled |= (unsigned)one(codes[r], scales[r], blocks, x, stride, 3, sums + r) << r;
            break;
        default:
            spoiled |=
                (unsigned)one(codes[r], scales[r], blocks, x, stride, SB_INT_INPUTS, sums + r) << r;
        }
    return spoiled;
}

sb_int_rows_fn sb_int_rows_avx2(void)
{
    static _Atomic int answer = -1; /* concurrent threads store the same value */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known < 0) {
        __builtin_cpu_init();
        known = __builtin_cpu_supports("avx2") != 0;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known ? rows : NULL;
}

#else

sb_int_rows_fn sb_int_rows_avx2(void)
{
    return NULL;
}

#endif
