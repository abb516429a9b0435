#include "ref/fast/simd/tiles.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <string.h>

#include "ref/fast/simd/avx512.h"

/* Looks up sixteen four-bit codes, the low half of a byte first, in a table of values. */
INLINE __m512 of_e2m1(const unsigned char *at)
{
    const __m512 table =
        _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)at);
    const __m128i codes = _mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4));
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), table);
}

/* Decodes sixteen E4M3 codes. Their bits, shifted to the fields of a binary16, give 2^-8 of the
 * value. */
INLINE __m512 of_e4m3(const unsigned char *at)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    const __m256i code = _mm256_cvtepu8_epi16(bytes), mask = _mm256_set1_epi16(0x7f);
    const __m256i size = _mm256_and_si256(code, mask);
    const __m256i half = _mm256_mask_mov_epi16(
        _mm256_or_si256(_mm256_slli_epi16(size, 7),
                        _mm256_slli_epi16(_mm256_andnot_si256(mask, code), 8)),
        _mm256_cmpeq_epi16_mask(size, mask), _mm256_set1_epi16(0x7e00));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256));
}

/* Rounds to BF16, to nearest, ties to even. */
INLINE __m256i in_bf16(__m512 x)
{
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, _mm512_set1_epi32(0x7fc0)));
}

/* A kernel for codes of `bits` bits; `of` reads sixteen codes. The last codes are read from a copy,
 * so that no byte past the row is read. */
#define BF16(name, bits, of)                                                                       \
    AVX512 void name(const sb_row_codes *w, size_t n, unsigned char *values)                       \
    {                                                                                              \
        for (size_t i = 0, g = 0; i < n; g++) {                                                    \
            const size_t end = w->group < n - i ? i + w->group : n;                                \
            const __m512 scale = _mm512_set1_ps((float)(w->scales ? w->scales[g] : 1));            \
            for (; i + STEP <= end; i += STEP)                                                     \
                _mm256_storeu_si256((__m256i *)(void *)(values + 2 * i),                           \
                                    in_bf16(_mm512_mul_ps(of(w->codes + i / 8 * (bits)), scale))); \
            if (i < end) {                                                                         \
                unsigned char rest[STEP] = {0};                                                    \
                memcpy(rest, w->codes + i / 8 * (bits), ((end - i) * (bits) + 7) / 8);             \
                _mm256_mask_storeu_epi16(values + 2 * i, first_of(end - i),                        \
                                         in_bf16(_mm512_mul_ps(of(rest), scale)));                 \
                i = end;                                                                           \
            }                                                                                      \
        }                                                                                          \
    }
BF16(sb_avx512_bf16_e4m3, 8, of_e4m3)
BF16(sb_avx512_bf16_e2m1, 4, of_e2m1)

AVX512 void sb_avx512_pick(const unsigned char *codes, const unsigned char *scales, size_t group,
                           size_t n, const uint16_t (*table)[16], unsigned char *values)
{
    for (size_t i = 0; i < n; i += group, scales++) {
        const __m256i of = _mm256_loadu_si256((const __m256i *)(const void *)table[*scales]);
        for (size_t k = i; k < i + group; k += STEP) {
            const __m128i at = _mm_loadl_epi64((const __m128i *)(const void *)(codes + k / 2));
            const __m128i each = _mm_unpacklo_epi8(at, _mm_srli_epi16(at, 4));
            _mm256_storeu_si256((__m256i *)(void *)(values + 2 * k),
                                _mm256_permutexvar_epi16(_mm256_cvtepu8_epi16(each), of));
        }
    }
}

#endif
