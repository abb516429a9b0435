/* avx512.h - shared by the files of the AVX-512 set. */
#ifndef SB_SIMD_AVX512_H
#define SB_SIMD_AVX512_H

#include <immintrin.h>

#include "ref/fast/dot/kernels.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")))
#define INLINE AVX512 static inline __attribute__((always_inline))

enum { STEP = 16 }; /* elements per iteration: two registers of eight doubles */

/* The mask of the first `left` of sixteen elements. */
INLINE __mmask16 first_of(size_t left)
{
    return (__mmask16)(left < STEP ? (1u << left) - 1 : 0xffffu);
}

INLINE __m512d low(__m512 x)
{
    return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}

INLINE __m512d high(__m512 x)
{
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

/* Loads sixteen values. Where the mask is 0 the value is zero and no byte is read. */
INLINE __m512 of_f32(const void *at, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps(mask, at);
}

INLINE __m512 of_bf16(const void *at, __mmask16 mask)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

INLINE __m512 of_f16(const void *at, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, at));
}

/* Prefetches a line far after this line of codes, which belongs to a later row, because rows are
 * contiguous. The data goes to the second-level cache, because the first-level cache holds the
 * input. */
INLINE void sb_fetch_far(const unsigned char *codes)
{
    enum { AHEAD = 16384 };
    _mm_prefetch((const char *)codes + AHEAD, _MM_HINT_T1);
}

/* The distance in bytes at which data is prefetched from the second-level to the first-level cache,
 * shortly before use. If rows are short and read in pairs, the processor does not predict the next
 * line in time. */
enum { SB_FETCH_NEAR = 2048 };
INLINE void sb_fetch_near(const unsigned char *codes)
{
    _mm_prefetch((const char *)codes + SB_FETCH_NEAR, _MM_HINT_T0);
}

INLINE void sb_fetch(const unsigned char *codes)
{
    sb_fetch_far(codes);
    sb_fetch_near(codes);
}

/* The row kernels (row.h), and functions that arrange their inputs. */
sb_partial sb_avx512_row_int4(const sb_row_codes *w, const sb_row_input *x);
sb_partial sb_avx512_row_uint4(const sb_row_codes *w, const sb_row_input *x);
void sb_avx512_arrange_nibbles(const double *x, size_t n, double *lanes);
void sb_avx512_fixed_pair_e2m1(const sb_row_codes w[2], const sb_row_input *x,
                               sb_partial partials[2]);
void sb_avx512_fixed_many_e2m1(const sb_row_codes *w, const sb_row_input *x, size_t inputs,
                               double *sums, double *magnitudes, size_t stride);
sb_partial sb_avx512_fixed_e2m1(const sb_row_codes *w, const sb_row_input *x);
void sb_avx512_arrange_fixed(const double *x, size_t n, double *lanes);
void sb_avx512_pair_e4m3(const sb_row_codes w[2], const sb_row_input *x, sb_partial partials[2]);
sb_partial sb_avx512_row_e4m3(const sb_row_codes *w, const sb_row_input *x);
void sb_avx512_arrange_e4m3(const double *x, size_t n, double *lanes);
int sb_avx512_reads_scales(const unsigned char *codes, size_t n);
int sb_avx512_scales(const unsigned char *codes, size_t n, double *values);
int sb_avx512_parts(const double *a, const double *b, size_t n, double parts[SB_PARTS]);
void sb_avx512_compensated(sb_compensated *to, const double *a, const double *b, size_t n);
void sb_avx512_arrange_bf16(const double *x, size_t n, double *lanes);
void sb_avx512_pair_bf16(const sb_row_codes w[2], const sb_row_input *x, sb_partial partials[2]);
sb_partial sb_avx512_row_bf16(const sb_row_codes *w, const sb_row_input *x);
void sb_avx512_squares_pair_bf16(const sb_row_codes w[2], const sb_row_input *x,
                                 sb_partial partials[2]);
sb_partial sb_avx512_squares_row_bf16(const sb_row_codes *w, const sb_row_input *x);
sb_partial sb_avx512_row_f16(const sb_row_codes *w, const sb_row_input *x);
sb_partial sb_avx512_row_f32(const sb_row_codes *w, const sb_row_input *x);
sb_partial sb_avx512_row_int8(const sb_row_codes *w, const sb_row_input *x);
sb_partial sb_avx512_row_uint8(const sb_row_codes *w, const sb_row_input *x);

#endif
