/* avx2_row.c - rows of codes with one input in binary64, four elements per register. */
#include "ref/fast/simd/rows.h"

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)

#include <immintrin.h>

#define KERNEL __attribute__((target("avx2,fma,f16c")))
#define INLINE KERNEL static inline __attribute__((always_inline))

typedef __m256d vec;
typedef __m256i sixteen;
enum { WIDTH = 4, SUMS = 4 };

/* Tables for decoding, and the sums of a group. */
typedef struct row {
    __m256i low, high; /* tables of the lower and the upper byte */
    __m256i top;       /* the largest codes without sign, for E4M3 and floats */
    int zeroed;
    vec zero, sum[SUMS];
} row;

INLINE vec all(double x)
{
    return _mm256_set1_pd(x);
}

INLINE vec load_vec(const double *at)
{
    return _mm256_loadu_pd(at);
}

INLINE vec plus(vec a, vec b)
{
    return _mm256_add_pd(a, b);
}

INLINE vec fused(vec a, vec b, vec c)
{
    return _mm256_fmadd_pd(a, b, c);
}

INLINE vec absolute(vec a)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
}

INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256(at);
}

INLINE __m128i load8(const void *at)
{
    return _mm_loadl_epi64(at);
}

/* Copies sixteen bytes to both lanes, because shuffles work within lanes. */
INLINE __m256i twice(const void *at)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(at));
}

INLINE double across(vec x)
{
    __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(pair, _mm_unpackhi_pd(pair, pair)));
}

INLINE vec all_sums(const row *r)
{
    return plus(plus(r->sum[0], r->sum[1]), plus(r->sum[2], r->sum[3]));
}

INLINE row row_start(const sb_two_bytes *bytes)
{
    return (row){.low = twice(bytes->low), .high = twice(bytes->high)};
}

INLINE void store_top(const row *r, unsigned char *codes)
{
    _mm256_storeu_si256((void *)codes, r->top);
}

/* Makes doubles from their upper two bytes: in each lane, bytes a and b are for the first double, c
 * and d for the second. */
INLINE vec from_bytes(__m256i bytes, int a, int b, int c, int d)
{
    const __m128i at = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, (char)a, (char)b, /* */
                                     -1, -1, -1, -1, -1, -1, (char)c, (char)d);
    return _mm256_castsi256_pd(_mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(at)));
}

/* Looks up 32 four-bit codes. half[h] has 16 elements: pairs 2q in the first lane, pairs 2q + 1 in
 * the second. Each lane has the low bytes of the first elements of its four pairs, then the low
 * bytes of the second elements, then the high bytes in the same order. */
INLINE void nibbles(const row *r, const unsigned char *codes, sixteen half[2])
{
    const __m256i by_lane =
        _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14, /* */
                         1, 3, 5, 7, 9, 11, 13, 15, 1, 3, 5, 7, 9, 11, 13, 15);
    __m256i c = _mm256_shuffle_epi8(twice(codes), by_lane);
    c = _mm256_srlv_epi64(c, _mm256_setr_epi64x(0, 4, 0, 4));
    c = _mm256_and_si256(c, _mm256_set1_epi8(15));
    const __m256 low = _mm256_castsi256_ps(_mm256_shuffle_epi8(r->low, c));
    const __m256 high = _mm256_castsi256_ps(_mm256_shuffle_epi8(r->high, c));
    half[0] = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    half[1] = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));
}

INLINE vec nibble_quad(sixteen half, int q)
{
    return from_bytes(half, q, q + 8, q + 4, q + 12);
}

/* Converts 32 codes of E4M3 to 2^-8 of their values: half[h] has the bytes of elements 0, 1, 4, 5
 * ... of 16 in its first lane, and the bytes of the other elements in its second lane. */
INLINE void e4m3(row *r, const unsigned char *codes, sixteen half[2])
{
    const __m256i by_lane = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    const __m256i sign = _mm256_set1_epi8((char)0x80);
    const __m256i c =
        _mm256_permute4x64_epi64(_mm256_shuffle_epi8(load(codes), by_lane), 0xd8); /* 0 2 1 3 */
    const __m256i size = _mm256_andnot_si256(sign, c);
    const __m256i fix =
        _mm256_add_epi8(size, _mm256_set1_epi8(0x78)); /* 0x80 and more: no correction */
    r->top = _mm256_max_epu8(r->top, size);
    __m256i low = _mm256_add_epi8(c, c);
    __m256i high = _mm256_or_si256(_mm256_and_si256(c, sign), _mm256_set1_epi8(0x3f));
    low = _mm256_xor_si256(low, _mm256_shuffle_epi8(r->low, fix));
    high = _mm256_xor_si256(high, _mm256_shuffle_epi8(r->high, fix));
    half[0] = _mm256_unpacklo_epi8(low, high);
    half[1] = _mm256_unpackhi_epi8(low, high);
}

/* Reads four elements of the other formats. */
INLINE vec quad(sb_format format, const unsigned char *at)
{
    switch (format) {
    case SB_FORMAT_bf16:
        return _mm256_cvtps_pd(
            _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), load8(at))));
    case SB_FORMAT_f16:
        return _mm256_cvtps_pd(_mm_cvtph_ps(load8(at)));
    case SB_FORMAT_int8:
        return _mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_cvtsi32_si128((int)sb_load_u32(at))));
    case SB_FORMAT_uint8:
        return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128((int)sb_load_u32(at))));
    default:
        return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_loadu_si128((const void *)at)));
    }
}

/* Updates the largest codes with sixteen elements of 16-bit and 32-bit formats. */
INLINE void keep_top(row *r, sb_format format, const unsigned char *codes)
{
    const __m256i narrow = _mm256_set1_epi16(0x7fff), wide = _mm256_set1_epi32(0x7fffffff);
    if (sb_row_bits(format) == 16) {
        r->top = _mm256_max_epu16(r->top, _mm256_and_si256(load(codes), narrow));
    } else if (format == SB_FORMAT_f32) {
        r->top = _mm256_max_epu32(r->top, _mm256_and_si256(load(codes), wide));
        r->top = _mm256_max_epu32(r->top, _mm256_and_si256(load(codes + 32), wide));
    }
}

INLINE void add(row *r, int i, vec value, const double *x)
{
    if (r->zeroed)
        value = _mm256_sub_pd(value, r->zero); /* exact, because both are integers */
    r->sum[i] = fused(value, load_vec(x), r->sum[i]);
}

/* Adds the products of the next sb_row_block elements. */
INLINE void add_block(row *r, sb_format format, const unsigned char *codes, const double *x)
{
    const size_t bytes = sb_row_bits(format) / 2; /* bytes of four elements */
    sixteen half[2];
    if (sb_row_bits(format) == 4) {
        nibbles(r, codes, half);
        for (int q = 0; q < 8; q++)
            add(r, q % 4, nibble_quad(half[q / 4], q % 4), x + 4 * q);
    } else if (format == SB_FORMAT_e4m3) {
        e4m3(r, codes, half);
        for (int q = 0; q < 8; q++) {
            const int at = 4 * (q % 4);
            add(r, q % 4, from_bytes(half[q / 4], at, at + 1, at + 2, at + 3), x + 4 * q);
        }
    } else {
        keep_top(r, format, codes);
        for (int q = 0; q < 4; q++)
            add(r, q, quad(format, codes + bytes * (size_t)q), x + 4 * q);
    }
}

INLINE vec sum_of_16(sixteen half, const double *x)
{
    vec sum = _mm256_mul_pd(nibble_quad(half, 0), load_vec(x));
    for (int q = 1; q < 4; q++)
        sum = fused(nibble_quad(half, q), load_vec(x + 4 * q), sum);
    return sum;
}

#include "ref/fast/simd/row_body.h"

SB_ROWS_BUT_E2M1(SB_ROW_KERNEL, avx2)

#endif
