#include "ref/fast/dot/int_dot_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <stdatomic.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c")))
#define INLINE VNNI static inline __attribute__((always_inline))

/* The prefetch distance in bytes of codes; rows are contiguous in memory. The data goes to the
 * second-level cache, from which the processor prefetches well by itself. The first-level cache can
 * track only a few outstanding lines. */
enum { AHEAD = 8192 };

/* 256 columns of a row of weights: codes + 12 in the order of sb_int_block, and scales by slot. */
typedef struct decoded {
    __m512i half[4], scales;
} decoded;

/* Returns sixteen scales in units of 2^-9. E4M3 bits, read as a binary16, give 2^-8 of the
 * value. */
INLINE __m512i scales_of(__m128i codes)
{
    const __m128i slots = _mm_shuffle_epi8(
        codes, _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
    const __m512 value = _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(slots), 7));
    return _mm512_cvtps_epi32(_mm512_mul_ps(value, _mm512_set1_ps(0x1p17f)));
}

INLINE __m512i words(__m512i a, __m512i b, const int which)
{
    const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return _mm512_castps_si512(which ? _mm512_shuffle_ps(x, y, 0xdd)
                                     : _mm512_shuffle_ps(x, y, 0x88));
}

INLINE decoded decode(const unsigned char *codes, __m128i scales)
{
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i a = _mm512_loadu_si512(codes), b = _mm512_loadu_si512(codes + 64);
    const __m512i first = words(a, b, 0), second = words(a, b, 1);
    return (decoded){
        {_mm512_shuffle_epi8(table, _mm512_and_si512(first, nibble)),
         _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(first, 4), nibble)),
         _mm512_shuffle_epi8(table, _mm512_and_si512(second, nibble)),
         _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(second, 4), nibble))},
        scales_of(scales)};
}

/* Multiplies a row with an input. The sum of a group times the scale of the weight is below
 * 2^30. */
INLINE __m512i multiplied(const decoded *w, const sb_int_block *x, __m512i to)
{
    __m512i sum = _mm512_loadu_si512(x->start);
    for (int i = 0; i < 4; i++)
        sum = _mm512_dpbusd_epi32(sum, w->half[i], _mm512_loadu_si512(x->half[i]));
    sum = _mm512_mullo_epi32(sum, w->scales);
    const __m512i even = _mm512_mul_epi32(sum, _mm512_loadu_si512(x->scale[0]));
    const __m512i odd =
        _mm512_mul_epi32(_mm512_srli_epi64(sum, 32), _mm512_loadu_si512(x->scale[1]));
    return _mm512_add_epi64(to, _mm512_add_epi64(even, odd));
}

/* Returns the sum of each of two registers. */
INLINE __m128i across(__m512i a, __m512i b)
{
    const __m512i ab = _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m256i half =
        _mm256_add_epi64(_mm512_castsi512_si256(ab), _mm512_extracti64x4_epi64(ab, 1));
    return _mm_add_epi64(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* The sums and the largest scales of the rows of a call. */
typedef struct tile {
    __m512i acc[SB_INT_INPUTS][SB_INT_ROWS];
    __m128i largest[SB_INT_ROWS]; /* the largest scales */
} tile;

/* Multiplies rows first to first + rows - 1 with `count` inputs; all three numbers are
 * constants. */
INLINE void add_rows(tile *to, const unsigned char *const *codes,
                     const unsigned char *const *scales, size_t blocks, const sb_int_block *x,
                     size_t stride, const int first, const int rows, const int count)
{
    tile of; /* a local variable whose address is not taken stays in registers */
    for (int r = 0; r < rows; r++) {
        of.largest[r] = _mm_setzero_si128();
        for (int t = 0; t < count; t++)
            of.acc[t][r] = _mm512_setzero_si512();
    }
    for (size_t b = 0; b < blocks; b++, x++) {
        decoded w[SB_INT_ROWS];
        for (int r = 0; r < rows; r++) {
            const unsigned char *at = codes[first + r] + b * SB_INT_BYTES;
            const unsigned char *with = scales[first + r] + b * SB_INT_GROUPS;
            const __m128i s = _mm_loadu_si128((const void *)with);
            _mm_prefetch((const void *)(at + AHEAD), _MM_HINT_T1);
            _mm_prefetch((const void *)(at + AHEAD + 64), _MM_HINT_T1);
            if (b % 4 == 0) /* a cache line of scales */
                _mm_prefetch((const void *)(with + AHEAD / 8), _MM_HINT_T1);
            of.largest[r] = _mm_max_epu8(of.largest[r], s);
            w[r] = decode(at, s);
        }
        for (int t = 0; t < count; t++)
            for (int r = 0; r < rows; r++)
                of.acc[t][r] = multiplied(&w[r], x + (size_t)t * stride, of.acc[t][r]);
    }
    for (int r = 0; r < rows; r++) {
        to->largest[first + r] = of.largest[r];
        for (int t = 0; t < count; t++)
            to->acc[t][first + r] = of.acc[t][r];
    }
}

/* With one input, rows are processed one by one in memory order. With more inputs, two rows at a
 * time, so that the inputs are read half as often. */
INLINE unsigned tile_of(const unsigned char *const *codes, const unsigned char *const *scales,
                        size_t blocks, const sb_int_block *x, size_t stride, const int count,
                        int64_t *sums)
{
    enum { PAIR = 2 };
    tile of;
    unsigned spoiled = 0;
    if (count == 1)
        for (int r = 0; r < SB_INT_ROWS; r++)
            add_rows(&of, codes, scales, blocks, x, stride, r, 1, 1);
    else
        for (int r = 0; r < SB_INT_ROWS; r += PAIR)
            add_rows(&of, codes, scales, blocks, x, stride, r, PAIR, count);
    for (int t = 0; t < count; t++)
        for (int r = 0; r < SB_INT_ROWS; r += PAIR, sums += PAIR)
            _mm_storeu_si128((void *)sums, across(of.acc[t][r], of.acc[t][r + 1]));
    for (int r = 0; r < SB_INT_ROWS; r++)
        spoiled |= (unsigned)(_mm_cmpge_epu8_mask(of.largest[r], _mm_set1_epi8(0x7f)) != 0) << r;
    return spoiled;
}

VNNI static unsigned rows(const unsigned char *const *codes, const unsigned char *const *scales,
                          size_t blocks, const sb_int_block *x, size_t stride, size_t count,
                          int64_t *sums)
{
    switch (count) {
    case 1:
        return tile_of(codes, scales, blocks, x, stride, 1, sums);
    case 2:
        return tile_of(codes, scales, blocks, x, stride, 2, sums);
    case 3:
        return tile_of(codes, scales, blocks, x, stride, 3, sums);
    default:
        return tile_of(codes, scales, blocks, x, stride, SB_INT_INPUTS, sums);
    }
}

sb_int_rows_fn sb_int_rows_avx512(void)
{
    static _Atomic int answer = -1; /* concurrent threads store the same value */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known < 0) {
        __builtin_cpu_init();
        known = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512vnni");
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known ? rows : NULL;
}

#else

sb_int_rows_fn sb_int_rows_avx512(void)
{
    return NULL;
}

#endif
