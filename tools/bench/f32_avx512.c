/* f32_avx512.c - rows in binary32, 16 lanes.
 *
 * A register of codes is never unpacked. vpermps uses four bits of each doubleword, so nibble j of
 * all doublewords takes a shift by 4 j and one look-up. The input has this order. */
#include "tools/bench/f32_parts.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma")))
#define INLINE AVX512 static inline __attribute__((always_inline))

/* Prefetch distances in bytes: rows are consecutive, and the hardware prefetch is short. They go to
 * the second-level cache, because the first level holds the input. */
enum { AHEAD = 16384, SCALES_AHEAD = AHEAD / 8 };

AVX512 static float bf16(const sb_f32_row *r)
{
    const __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    __m512 even = _mm512_setzero_ps(), odd = even, even2 = even, odd2 = even;
    for (size_t k = 0; k < r->n; k += 64) {
        const char *at = (const char *)r->codes + 2 * k;
        const float *x = r->x + k;
        _mm_prefetch(at + AHEAD, _MM_HINT_T1);
        _mm_prefetch(at + AHEAD + 64, _MM_HINT_T1);
        __m512i a = _mm512_loadu_si512(at), b = _mm512_loadu_si512(at + 64);
        even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)), _mm512_loadu_ps(x),
                               even);
        odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, high)),
                              _mm512_loadu_ps(x + 16), odd);
        even2 = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(b, 16)),
                                _mm512_loadu_ps(x + 32), even2);
        odd2 = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(b, high)),
                               _mm512_loadu_ps(x + 48), odd2);
    }
    return _mm512_reduce_add_ps(
        _mm512_add_ps(_mm512_add_ps(even, odd), _mm512_add_ps(even2, odd2)));
}

/* Adds 128 codes times their inputs; lane l gets those of bytes 4 l .. 4 l + 3. */
INLINE __m512 nvfp4_128(__m512i d, const float *x, __m512 table)
{
    __m512 a = _mm512_mul_ps(_mm512_permutexvar_ps(d, table), _mm512_loadu_ps(x));
    __m512 b = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(d, 4), table),
                             _mm512_loadu_ps(x + 16));
#define STEP(sum, j)                                                                               \
    sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(d, 4 * (j)), table),             \
                          _mm512_loadu_ps(x + 16 * (j)), sum)
    STEP(a, 2);
    STEP(b, 3);
    STEP(a, 4);
    STEP(b, 5);
    STEP(a, 6);
    STEP(b, 7);
#undef STEP
    return _mm512_add_ps(a, b);
}

/* E4M3 without a sign as a binary16 number of 2^-8 times its value: the exponent fields differ by a
 * shift. */
INLINE __m512 scales_16(const unsigned char *codes)
{
    __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)codes));
    return _mm512_cvtph_ps(_mm256_slli_epi16(wide, 7));
}

AVX512 static float nvfp4(const sb_f32_row *r)
{
    const __m512 table =
        _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
    const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    __m512 sum = _mm512_setzero_ps(), sum2 = sum;
    size_t k = 0;
    for (; k + 256 <= r->n; k += 256) {
        const char *at = (const char *)r->codes + k / 2;
        __m512 s = scales_16(r->codes_scales + k / 16);
        _mm_prefetch(at + AHEAD, _MM_HINT_T1);
        _mm_prefetch(at + AHEAD + 64, _MM_HINT_T1);
        if (k % 1024 == 0)
            _mm_prefetch((const char *)r->codes_scales + k / 16 + SCALES_AHEAD, _MM_HINT_T0);
        sum = _mm512_fmadd_ps(nvfp4_128(_mm512_loadu_si512(at), r->x + k, table),
                              _mm512_permutexvar_ps(low, s), sum);
        sum2 = _mm512_fmadd_ps(nvfp4_128(_mm512_loadu_si512(at + 64), r->x + k + 128, table),
                               _mm512_permutexvar_ps(high, s), sum2);
    }
    if (k < r->n) { /* the last 128, with the last eight scales */
        unsigned char last[16] = {0};
        for (unsigned i = 0; i < 8; i++)
            last[i] = r->codes_scales[k / 16 + i];
        sum = _mm512_fmadd_ps(nvfp4_128(_mm512_loadu_si512(r->codes + k / 2), r->x + k, table),
                              _mm512_permutexvar_ps(low, scales_16(last)), sum);
    }
    return 256.0f * _mm512_reduce_add_ps(_mm512_add_ps(sum, sum2));
}

/* 32 words whose upper bytes are codes: 16 products twice. */
INLINE __m512 fp8_32(__m512i words, const float *x, __m512 sum)
{
    const __m512i fields = _mm512_set1_epi16((short)0xbf80);
    __m512i halves = _mm512_and_si512(_mm512_srai_epi16(words, 1), fields);
    sum = _mm512_fmadd_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)), _mm512_loadu_ps(x), sum);
    return _mm512_fmadd_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)),
                           _mm512_loadu_ps(x + 16), sum);
}

AVX512 static float fp8(const sb_f32_row *r)
{
    __m512 total = _mm512_setzero_ps();
    for (size_t k = 0; k < r->n; k += r->group) {
        size_t end = r->n - k < r->group ? r->n : k + r->group;
        __m512 even = _mm512_setzero_ps(), odd = even;
        for (size_t i = k; i < end; i += 64) {
            const char *at = (const char *)r->codes + i;
            __m512i words = _mm512_loadu_si512(at);
            _mm_prefetch(at + AHEAD, _MM_HINT_T1);
            even = fp8_32(_mm512_slli_epi16(words, 8), r->x + i, even);
            odd = fp8_32(words, r->x + i + 32, odd);
        }
        total = _mm512_fmadd_ps(_mm512_add_ps(even, odd),
                                _mm512_set1_ps(256.0f * r->scales[k / r->group]), total);
    }
    return _mm512_reduce_add_ps(total);
}

static const sb_f32_set set = {"avx512", 16, bf16, nvfp4, fp8};
const sb_f32_set *const sb_f32_avx512 = &set;

#else
const sb_f32_set *const sb_f32_avx512 = NULL;
#endif
