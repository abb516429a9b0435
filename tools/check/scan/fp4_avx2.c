/* fp4_avx2.c - the fast test of fp4_fast.c on sixteen columns at once. */
#include "tools/check/scan/fp4.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#include "ref/base/bytes.h"

enum { CHUNK = 16 };

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline))

/* Bounds by magnitude. Quotients are multiplied by the sign of their code before, so that eight
 * entries are enough; eight fill a register. */
typedef struct ranges {
    __m256 value, low, high;
} ranges;

/* The weights of a chunk at even and at odd columns, and the sums over them. */
typedef struct pairs {
    __m256 even, odd;
    __m256 error2, weight2, bad, least; /* the least inverse */
} pairs;

/* Loads a chunk of BF16 weights and returns the bits of the largest magnitude. A BF16 number is the
 * upper half of a binary32 number. */
AVX2 INLINE uint32_t load_bf16(const unsigned char *bytes, pairs *p)
{
    const __m256i magnitude = _mm256_set1_epi16(0x7fff);
    __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    p->even = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
    p->odd = _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000u)));
    __m256i room = _mm256_andnot_si256(w, magnitude); /* 0x7fff minus the magnitude */
    __m128i least = _mm_minpos_epu16(
        _mm_min_epu16(_mm256_castsi256_si128(room), _mm256_extracti128_si256(room, 1)));
    return (0x7fffu - ((uint32_t)_mm_cvtsi128_si32(least) & 0xffffu)) << 16;
}

AVX2 INLINE uint32_t load_f32(const float *weights, pairs *p)
{
    const __m256i by_four = _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7);
    __m256 a = _mm256_loadu_ps(weights), b = _mm256_loadu_ps(weights + CHUNK / 2);
    p->even = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(a, b, 0x88), by_four);
    p->odd = _mm256_permutevar8x32_ps(_mm256_shuffle_ps(a, b, 0xdd), by_four);
    uint32_t largest = 0;
    for (unsigned k = 0; k < CHUNK; k++) {
        uint32_t bits = sb_bits_f32(weights[k]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* Tests eight columns. The low four bits of `code` are their codes; the top bit of `sign` is the
 * sign of the code. Returns the squared error. */
AVX2 INLINE __m256 eight(const ranges *r, __m256i code, __m256i sign, __m256 t, __m256 *bad)
{
    const __m256i top = _mm256_set1_epi32((int)0x80000000u);
    __m256 turned = _mm256_xor_ps(t, _mm256_castsi256_ps(_mm256_and_si256(sign, top)));
    __m256 low = _mm256_permutevar8x32_ps(r->low, code); /* uses three bits of the index */
    __m256 high = _mm256_permutevar8x32_ps(r->high, code);
    __m256 error = _mm256_sub_ps(_mm256_permutevar8x32_ps(r->value, code), turned);
    *bad = _mm256_or_ps(*bad, _mm256_or_ps(_mm256_cmp_ps(turned, low, _CMP_NGE_UQ),
                                           _mm256_cmp_ps(turned, high, _CMP_NLE_UQ)));
    return _mm256_mul_ps(error, error);
}

/* The operations of sure(), on the magnitudes of the codes. */
AVX2 INLINE void chunk(const ranges *r, const unsigned char *codes, float inverse, float square,
                       pairs *p)
{
    /* each byte fills a lane: its low code is in place, its high code is shifted there */
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4,
                                            4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
    __m128i stored = _mm_loadl_epi64((const __m128i *)(const void *)codes);
    __m256i c = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(stored), spread);
    __m256 by = _mm256_set1_ps(inverse), unit = _mm256_set1_ps(square);
    __m256 t = _mm256_mul_ps(p->even, by), u = _mm256_mul_ps(p->odd, by);
    p->least = _mm256_min_ps(p->least, by);
    __m256 error = _mm256_add_ps(eight(r, c, _mm256_slli_epi32(c, 28), t, &p->bad),
                                 eight(r, _mm256_srli_epi32(c, 4), c, u, &p->bad));
    __m256 weight = _mm256_add_ps(_mm256_mul_ps(t, t), _mm256_mul_ps(u, u));
    p->error2 = _mm256_add_ps(p->error2, _mm256_mul_ps(error, unit));
    p->weight2 = _mm256_add_ps(p->weight2, _mm256_mul_ps(weight, unit));
}

/* The same operations on the same lanes as each_chunk() of fp4_fast.c, so the same results. In
 * MXFP4, two chunks share a scale. */
AVX2 INLINE int each_chunk(const sb_fp4 *f, sb_fp4_line *x, int bf16, unsigned two)
{
    const ranges r = {_mm256_loadu_ps(f->ranges.value), _mm256_loadu_ps(f->ranges.low),
                      _mm256_loadu_ps(f->ranges.high)};
    const unsigned char *codes = x->codes, *scales = x->scales;
    size_t chunks = (size_t)f->blocks << two;
    pairs p = {.error2 = _mm256_loadu_ps(x->error2),
               .weight2 = _mm256_loadu_ps(x->weight2),
               .bad = _mm256_setzero_ps(),
               .least = _mm256_set1_ps(1)};
    for (size_t i = 0; i < chunks; i++) {
        uint8_t byte = scales[i >> two];
        x->largest[i] =
            bf16 ? load_bf16(x->bf16 + i * (2 * CHUNK), &p) : load_f32(x->weights + i * CHUNK, &p);
        chunk(&r, codes + i * (CHUNK / 2), f->inverse[byte], f->square[byte], &p);
    }
    _mm256_storeu_ps(x->error2, p.error2);
    _mm256_storeu_ps(x->weight2, p.weight2);
    return _mm256_cvtss_f32(p.least) == 0 || _mm256_movemask_ps(p.bad) != 0;
}

AVX2 int sb_fp4_doubts_avx2(const sb_fp4 *f, sb_fp4_line *x)
{
    if (x->bf16)
        return f->chunks == 2 ? each_chunk(f, x, 1, 1) : each_chunk(f, x, 1, 0);
    return each_chunk(f, x, 0, f->chunks - 1);
}

#else

int sb_fp4_doubts_avx2(const sb_fp4 *f, sb_fp4_line *x)
{
    (void)f, (void)x;
    return 1;
}

#endif
