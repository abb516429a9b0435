/* fp4_bytes_avx2.c - a row of codes and block scales, four chunks at once: fp4_bytes.c says what.
 */
#include "tools/check/fp4.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include "ref/base/bytes.h"

/* Four chunks fill a register. */
enum { CHUNK = 16, FOUR = 4, BYTES = FOUR * CHUNK / 2 };

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline))

enum { MISSING = 144 - 127 };

/* What is added up over a row. */
typedef struct sums {
    __m256d sum, sum2, sum4, largest;
    __m256i sevens;
    __m256i count_1, count_3, count_5, count_9; /* two counters in each byte, of up to 7 steps */
    __m256i totals[8];                          /* of magnitude 1 to 6, of codes 9 to 15, of 8 */
    __m128i top;                                /* the largest scale byte */
} sums;

/* The codes of four chunks, one in each byte. */
typedef struct codes {
    __m256i low, high;
} codes;

AVX2 INLINE __m256i look_up(const sb_fp4 *f, sb_fp4_count count, codes c)
{
    __m256i table = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)f->counts[count]));
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, c.low), _mm256_shuffle_epi8(table, c.high));
}

/* A sum for each chunk. */
AVX2 INLINE __m256i per_chunk(const sb_fp4 *f, sb_fp4_count count, codes c)
{
    return _mm256_sad_epu8(look_up(f, count, c), _mm256_setzero_si256());
}

/* Integers from 0 to 2^52, less something. */
AVX2 INLINE __m256d real(__m256i integers, double less)
{
    const __m256i bits_of_two52 = _mm256_set1_epi64x(0x4330000000000000);
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(integers, bits_of_two52)),
                         _mm256_set1_pd(0x1p52 + less));
}

/* The scales of four chunks; of MXFP4 two share one. */
AVX2 INLINE __m256d scales_of(const sb_fp4 *f, const unsigned char *scales, int two)
{
    const double *x = f->scale;
    return two ? _mm256_setr_pd(x[scales[0]], x[scales[0]], x[scales[1]], x[scales[1]])
               : _mm256_setr_pd(x[scales[0]], x[scales[1]], x[scales[2]], x[scales[3]]);
}

/* Whether there is more to say of a block than that its largest code is 7 under a common scale.
 * Else only its scale counts. */
AVX2 INLINE int is_special(const sb_fp4 *f, __m256i sevens, __m256d scale, int two, sums *x)
{
    if (two)
        sevens = _mm256_or_si256(sevens, _mm256_shuffle_epi32(sevens, 0x4e));
    __m256i none = _mm256_cmpeq_epi64(sevens, _mm256_setzero_si256());
    __m256d small = _mm256_cmp_pd(scale, _mm256_set1_pd(f->least), _CMP_LT_OQ);
    if (_mm256_movemask_pd(_mm256_or_pd(_mm256_castsi256_pd(none), small)))
        return 1;
    x->largest = _mm256_max_pd(x->largest, scale);
    return 0;
}

AVX2 INLINE int four_chunks(const sb_fp4 *f, const unsigned char *bytes,
                            const unsigned char *scales, int two, sums *x)
{
    const __m256i low_half = _mm256_set1_epi8(15);
    __m256i all = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    codes c = {_mm256_and_si256(all, low_half),
               _mm256_and_si256(_mm256_srli_epi16(all, 4), low_half)};
    __m256i sevens = per_chunk(f, SB_FP4_SEVEN, c);
    __m256i sum2 = _mm256_add_epi64(per_chunk(f, SB_FP4_SQUARE, c), sevens);
    __m256i sum4 = _mm256_add_epi64(per_chunk(f, SB_FP4_FOURTH, c),
                                    _mm256_slli_epi64(per_chunk(f, SB_FP4_FOURTHS, c), 8));
    __m256d scale = scales_of(f, scales, two), square = _mm256_mul_pd(scale, scale);
    __m256d sum = real(per_chunk(f, SB_FP4_PLUS_12, c), 12 * CHUNK);
    x->sum = _mm256_add_pd(x->sum, _mm256_mul_pd(sum, scale));
    x->sum2 = _mm256_add_pd(x->sum2, _mm256_mul_pd(real(sum2, 0), square));
    x->sum4 = _mm256_add_pd(x->sum4, _mm256_mul_pd(real(sum4, 0), _mm256_mul_pd(square, square)));
    x->sevens = _mm256_add_epi64(x->sevens, sevens);
    x->count_1 = _mm256_add_epi8(x->count_1, look_up(f, SB_FP4_COUNT_1, c));
    x->count_3 = _mm256_add_epi8(x->count_3, look_up(f, SB_FP4_COUNT_3, c));
    x->count_5 = _mm256_add_epi8(x->count_5, look_up(f, SB_FP4_COUNT_5, c));
    x->count_9 = _mm256_add_epi8(x->count_9, look_up(f, SB_FP4_COUNT_9, c));
    return is_special(f, sevens, scale, two, x);
}

AVX2 INLINE uint64_t total(__m256i four)
{
    uint64_t x[FOUR];
    _mm256_storeu_si256((__m256i *)(void *)x, four);
    return x[0] + x[1] + x[2] + x[3];
}

/* Empties a pair of counters. */
AVX2 INLINE void empty(__m256i *counters, __m256i *totals)
{
    const __m256i low_half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    __m256i low = _mm256_and_si256(*counters, low_half);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(*counters, 4), low_half);
    totals[0] = _mm256_add_epi64(totals[0], _mm256_sad_epu8(low, zero));
    totals[1] = _mm256_add_epi64(totals[1], _mm256_sad_epu8(high, zero));
    *counters = zero;
}

/* After at most seven steps. */
AVX2 INLINE void count(sums *x)
{
    empty(&x->count_1, x->totals);
    empty(&x->count_3, x->totals + 2);
    empty(&x->count_5, x->totals + 4);
    empty(&x->count_9, x->totals + 6);
}

AVX2 static void finish(const sb_fp4 *f, const sums *x, uint64_t all, sb_fp4_sums *r)
{
    sb_seen_fp4 *seen = f->seen;
    uint64_t sevens = total(x->sevens) / MISSING, zeros = all - sevens;
    double largest[FOUR];
    uint8_t top[16];
    for (unsigned m = 1; m < 7; m++) {
        uint64_t n = total(x->totals[m - 1]);
        seen->magnitude[m] += n;
        zeros -= n;
    }
    seen->magnitude[0] += zeros;
    seen->magnitude[7] += sevens;
    seen->negative += total(x->totals[6]);
    seen->minus_zero += total(x->totals[7]);
    r->zeros += zeros;
    _mm256_storeu_pd(r->sum, x->sum);
    _mm256_storeu_pd(r->sum2, x->sum2);
    _mm256_storeu_pd(r->sum4, x->sum4);
    _mm256_storeu_pd(largest, x->largest);
    _mm_storeu_si128((__m128i *)(void *)top, x->top);
    for (unsigned i = 0; i < FOUR; i++) {
        if (sb_fp4_twice[7] * largest[i] > r->largest)
            r->largest = sb_fp4_twice[7] * largest[i];
        if (top[i] > seen->largest_scale)
            seen->largest_scale = top[i];
    }
}

AVX2 INLINE uint32_t blocks_of(const sb_fp4 *f, const unsigned char *bytes,
                               const unsigned char *scales, uint32_t row, int two, sb_fp4_sums *r)
{
    sums x = {.sevens = _mm256_setzero_si256()};
    uint32_t blocks = two ? FOUR / 2 : FOUR, steps = f->blocks / blocks;
    unsigned done = 0;
    for (uint32_t b = 0; b < steps * blocks; b += blocks) {
        const unsigned char *four = bytes + (size_t)b / blocks * BYTES;
        if (four_chunks(f, four, scales + b, two, &x))
            for (uint32_t i = 0; i < blocks; i++) /* these and those beside them */
                sb_fp4_block(f, four + (size_t)i * (BYTES / blocks), scales[b + i], row, b + i, r);
        else if (!two) /* of MXFP4 it says nothing */
            x.top = _mm_max_epu8(x.top, _mm_cvtsi32_si128((int)sb_load_u32(scales + b)));
        if (++done == 7) {
            count(&x);
            done = 0;
        }
    }
    count(&x);
    finish(f, &x, (uint64_t)steps * FOUR * CHUNK, r);
    return steps * blocks;
}

AVX2 uint32_t sb_fp4_blocks_avx2(const sb_fp4 *f, const unsigned char *bytes,
                                 const unsigned char *scales, uint32_t row, sb_fp4_sums *r)
{
    return f->chunks == 2 ? blocks_of(f, bytes, scales, row, 1, r)
                          : blocks_of(f, bytes, scales, row, 0, r);
}

#else

uint32_t sb_fp4_blocks_avx2(const sb_fp4 *f, const unsigned char *codes,
                            const unsigned char *scales, uint32_t row, sb_fp4_sums *r)
{
    (void)f, (void)codes, (void)scales, (void)row, (void)r;
    return 0;
}

#endif
