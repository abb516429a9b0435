#include "ref/math/ints_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <stdatomic.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define INLINE VNNI static inline __attribute__((always_inline))

/* Blocks that are fetched before they are read: rows follow each other in memory. */
enum { AHEAD = 128 };

/* Eight scales in units of 2^-9: e = 0 shifts the bare fraction by nothing, as e = 1 does 8 + it.
 */
INLINE __m512i scales_of(__m128i codes)
{
    const __m512i one = _mm512_set1_epi64(1), wide = _mm512_cvtepu8_epi64(codes);
    const __m512i exponent = _mm512_srli_epi64(wide, 3);
    const __m512i fraction = _mm512_and_si512(wide, _mm512_set1_epi64(7));
    const __mmask8 normal = _mm512_test_epi64_mask(exponent, exponent);
    const __m512i whole = _mm512_mask_or_epi64(fraction, normal, fraction, _mm512_set1_epi64(8));
    return _mm512_sllv_epi64(whole, _mm512_mask_sub_epi64(exponent, normal, exponent, one));
}

/* 128 columns of a row: codes + 12 of the low and the high halves of the bytes, and the scales. */
typedef struct decoded {
    __m512i low, high, scales;
} decoded;

/* Those of `count` inputs, a constant. Lane 2g and 2g + 1 of `sum` are the two halves of group g;
 * their sum times the scale of the weight is below 2^30. */
INLINE void add_block(const decoded *w, const sb_int_block *x, size_t stride, int count,
                      __m512i *sums)
{
    for (int t = 0; t < count; t++, x += stride) {
        __m512i sum = _mm512_loadu_si512(x->start);
        sum = _mm512_dpbusd_epi32(sum, w->low, _mm512_loadu_si512(x->low));
        sum = _mm512_dpbusd_epi32(sum, w->high, _mm512_loadu_si512(x->high));
        sum = _mm512_add_epi32(sum, _mm512_srli_epi64(sum, 32));
        sum = _mm512_mul_epi32(sum, w->scales);
        sum = _mm512_mul_epi32(sum, _mm512_loadu_si512(x->scale));
        sums[t] = _mm512_add_epi64(sums[t], sum);
    }
}

INLINE int row_of(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                  const sb_int_block *x, size_t stride, int count, int64_t *sums)
{
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i nibble = _mm512_set1_epi8(15);
    __m128i largest = _mm_setzero_si128();
    __m512i acc[SB_INT_INPUTS];
    for (int t = 0; t < count; t++)
        acc[t] = _mm512_setzero_si512();
    for (size_t b = 0; b < blocks; b++, x++) {
        const __m512i bytes = _mm512_loadu_si512(codes + b * SB_INT_BYTES);
        const __m128i s = _mm_loadl_epi64((const void *)(scales + b * SB_INT_GROUPS));
        const decoded w = {
            _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, nibble)),
            _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble)),
            scales_of(s)};
        largest = _mm_max_epu8(largest, s);
        _mm_prefetch((const void *)(codes + (b + AHEAD) * SB_INT_BYTES), _MM_HINT_T0);
        if (b % 8 == 0) /* a line of scales */
            _mm_prefetch((const void *)(scales + (b + AHEAD) * SB_INT_GROUPS), _MM_HINT_T0);
        add_block(&w, x, stride, count, acc);
    }
    for (int t = 0; t < count; t++)
        sums[t] += _mm512_reduce_add_epi64(acc[t]);
    return _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(largest, _mm_set1_epi8(0x7f)), largest)) ==
           0;
}

VNNI static int row(const unsigned char *codes, const unsigned char *scales, size_t blocks,
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

sb_int_row_fn sb_int_row_avx512(void)
{
    static _Atomic int answer = -1; /* all threads that ask at once store the same */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known < 0) {
        __builtin_cpu_init();
        known = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512vnni");
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known ? row : NULL;
}

#else

sb_int_row_fn sb_int_row_avx512(void)
{
    return NULL;
}

#endif
