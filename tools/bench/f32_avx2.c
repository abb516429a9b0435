/* f32_avx2.c - rows in binary32, 8 lanes: like f32_avx512.c, but vpermps uses only three bits for
 * eight entries, so the sign of an E2M1 code is added separately. */
#include "tools/bench/f32_parts.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c,fma")))
#define INLINE AVX2 static inline __attribute__((always_inline))

enum { AHEAD = 2048 };

INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

INLINE float across(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

AVX2 static float bf16(const sb_f32_row *r)
{
    const __m256i high = _mm256_set1_epi32((int)0xffff0000u);
    __m256 even = _mm256_setzero_ps(), odd = even, even2 = even, odd2 = even;
    for (size_t k = 0; k < r->n; k += 32) {
        const char *at = (const char *)r->codes + 2 * k;
        const float *x = r->x + k;
        _mm_prefetch(at + AHEAD, _MM_HINT_T0);
        __m256i a = load(at), b = load(at + 32);
        even = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_loadu_ps(x),
                               even);
        odd = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(a, high)),
                              _mm256_loadu_ps(x + 8), odd);
        even2 = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_slli_epi32(b, 16)),
                                _mm256_loadu_ps(x + 16), even2);
        odd2 = _mm256_fmadd_ps(_mm256_castsi256_ps(_mm256_and_si256(b, high)),
                               _mm256_loadu_ps(x + 24), odd2);
    }
    return across(_mm256_add_ps(_mm256_add_ps(even, odd), _mm256_add_ps(even2, odd2)));
}

/* The value of nibble j of each doubleword; its highest bit becomes the sign. */
#define NIBBLE(d, j)                                                                               \
    _mm256_xor_ps(_mm256_permutevar8x32_ps(table, _mm256_srli_epi32(d, 4 * (j))),                  \
                  _mm256_castsi256_ps(_mm256_and_si256(_mm256_slli_epi32(d, 28 - 4 * (j)), sign)))

INLINE __m256 nvfp4_64(__m256i d, const float *x, __m256 table)
{
    const __m256i sign = _mm256_set1_epi32((int)0x80000000u);
    __m256 a = _mm256_mul_ps(NIBBLE(d, 0), _mm256_loadu_ps(x));
    __m256 b = _mm256_mul_ps(NIBBLE(d, 1), _mm256_loadu_ps(x + 8));
    a = _mm256_fmadd_ps(NIBBLE(d, 2), _mm256_loadu_ps(x + 16), a);
    b = _mm256_fmadd_ps(NIBBLE(d, 3), _mm256_loadu_ps(x + 24), b);
    a = _mm256_fmadd_ps(NIBBLE(d, 4), _mm256_loadu_ps(x + 32), a);
    b = _mm256_fmadd_ps(NIBBLE(d, 5), _mm256_loadu_ps(x + 40), b);
    a = _mm256_fmadd_ps(NIBBLE(d, 6), _mm256_loadu_ps(x + 48), a);
    b = _mm256_fmadd_ps(NIBBLE(d, 7), _mm256_loadu_ps(x + 56), b);
    return _mm256_add_ps(a, b);
}

AVX2 static float nvfp4(const sb_f32_row *r)
{
    const __m256 table = _mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6);
    const __m256i low = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(4));
    __m256 sum = _mm256_setzero_ps(), sum2 = sum;
    for (size_t k = 0; k < r->n; k += 128) {
        const char *at = (const char *)r->codes + k / 2;
        __m128i codes = _mm_loadl_epi64((const __m128i *)(const void *)(r->codes_scales + k / 16));
        __m256 s = _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(codes), 7));
        _mm_prefetch(at + AHEAD, _MM_HINT_T0);
        sum = _mm256_fmadd_ps(nvfp4_64(load(at), r->x + k, table), _mm256_permutevar8x32_ps(s, low),
                              sum);
        sum2 = _mm256_fmadd_ps(nvfp4_64(load(at + 32), r->x + k + 64, table),
                               _mm256_permutevar8x32_ps(s, high), sum2);
    }
    return 256.0f * across(_mm256_add_ps(sum, sum2));
}

/* 16 words whose upper bytes are codes. */
INLINE __m256 fp8_16(__m256i words, const float *x, __m256 sum)
{
    const __m256i fields = _mm256_set1_epi16((short)0xbf80);
    __m256i halves = _mm256_and_si256(_mm256_srai_epi16(words, 1), fields);
    sum = _mm256_fmadd_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_loadu_ps(x), sum);
    return _mm256_fmadd_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)),
                           _mm256_loadu_ps(x + 8), sum);
}

AVX2 static float fp8(const sb_f32_row *r)
{
    __m256 total = _mm256_setzero_ps();
    for (size_t k = 0; k < r->n; k += r->group) {
        size_t end = r->n - k < r->group ? r->n : k + r->group;
        __m256 even = _mm256_setzero_ps(), odd = even;
        for (size_t i = k; i < end; i += 32) {
            const char *at = (const char *)r->codes + i;
            __m256i words = load(at);
            _mm_prefetch(at + AHEAD, _MM_HINT_T0);
            even = fp8_16(_mm256_slli_epi16(words, 8), r->x + i, even);
            odd = fp8_16(words, r->x + i + 16, odd);
        }
        total = _mm256_fmadd_ps(_mm256_add_ps(even, odd),
                                _mm256_set1_ps(256.0f * r->scales[k / r->group]), total);
    }
    return across(total);
}

static const sb_f32_set set = {"avx2", 8, bf16, nvfp4, fp8};
const sb_f32_set *const sb_f32_avx2 = &set;

#else
const sb_f32_set *const sb_f32_avx2 = NULL;
#endif
