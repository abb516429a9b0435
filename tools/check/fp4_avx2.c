/* fp4_avx2.c - the fast test of fp4_fast.c on eight columns at once. */
#include "tools/check/fp4.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

enum { CHUNK = 16 };

#define AVX2 __attribute__((target("avx2")))

/* By magnitude, for quotients that have the sign of their code: eight entries fill a register. */
typedef struct ranges {
    __m256 value, low, high;
} ranges;

/* Eight columns: the operations of sure(), on the magnitude of the code. */
AVX2 static inline __m256 eight(const ranges *r, __m256i code, __m256 t, __m256 scale,
                                sb_fp4_lanes *l, unsigned at)
{
    __m256 sign = _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_slli_epi32(code, 28), _mm256_set1_epi32((int)0x80000000u)));
    __m256 turned = _mm256_xor_ps(t, sign);
    __m256 low = _mm256_permutevar8x32_ps(r->low, code);
    __m256 high = _mm256_permutevar8x32_ps(r->high, code);
    __m256 value = _mm256_permutevar8x32_ps(r->value, code);
    __m256 error = _mm256_mul_ps(_mm256_sub_ps(value, turned), scale);
    __m256 size = _mm256_mul_ps(t, scale);
    float *error2 = l->error2 + at, *weight2 = l->weight2 + at;
    _mm256_storeu_ps(error2, _mm256_add_ps(_mm256_loadu_ps(error2), _mm256_mul_ps(error, error)));
    _mm256_storeu_ps(weight2, _mm256_add_ps(_mm256_loadu_ps(weight2), _mm256_mul_ps(size, size)));
    return _mm256_or_ps(_mm256_cmp_ps(turned, low, _CMP_NGE_UQ),
                        _mm256_cmp_ps(turned, high, _CMP_NLE_UQ));
}

/* The same operations on the same lanes: the same results. */
AVX2 int sb_fp4_doubts_avx2(const sb_fp4 *f, sb_fp4_line *x)
{
    const ranges r = {_mm256_loadu_ps(sb_fp4_ranges[0]), _mm256_loadu_ps(sb_fp4_ranges[1]),
                      _mm256_loadu_ps(sb_fp4_ranges[2])};
    const __m128i low_half = _mm_set1_epi8(15);
    __m256 bad = _mm256_setzero_ps();
    sb_fp4_lanes l;
    int odd = 0;
    memcpy(l.error2, x->error2, sizeof l.error2);
    memcpy(l.weight2, x->weight2, sizeof l.weight2);
    for (uint32_t i = 0; i < f->blocks * f->chunks; i++) {
        uint8_t byte = x->scales[i / f->chunks];
        const float *w = x->weights + (size_t)i * CHUNK;
        __m256 inverse = _mm256_set1_ps(f->inverse[byte]), scale = _mm256_set1_ps(f->value[byte]);
        __m128i c = _mm_loadl_epi64((const __m128i *)(x->codes + (size_t)i * (CHUNK / 2)));
        __m128i nibbles = _mm_unpacklo_epi8(_mm_and_si128(c, low_half),
                                            _mm_and_si128(_mm_srli_epi16(c, 4), low_half));
        __m256 t = _mm256_mul_ps(_mm256_loadu_ps(w), inverse);
        bad = _mm256_or_ps(bad, eight(&r, _mm256_cvtepu8_epi32(nibbles), t, scale, &l, 0));
        t = _mm256_mul_ps(_mm256_loadu_ps(w + 8), inverse);
        nibbles = _mm_srli_si128(nibbles, 8);
        bad = _mm256_or_ps(bad, eight(&r, _mm256_cvtepu8_epi32(nibbles), t, scale, &l, 8));
        odd |= f->inverse[byte] == 0;
    }
    memcpy(x->error2, l.error2, sizeof l.error2);
    memcpy(x->weight2, l.weight2, sizeof l.weight2);
    return odd | (_mm256_movemask_ps(bad) != 0);
}

#endif
