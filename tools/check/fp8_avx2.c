/* fp8_avx2.c - the look of fp8_fast.c at eight codes at once: the same operations on the same
 * lanes, so the same results. A square of a value has 8 bits and one of that 16: products that are
 * exact, so that a multiplication and an addition may be one operation. */
#include "tools/check/fp8.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

#include "ref/base/bytes.h"

enum { GROUP = SB_FP8_GROUP, HALF = GROUP / 2 };

#define AVX2 __attribute__((target("avx2,f16c,fma")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* What weights are: none, binary32, BF16. */
typedef enum kind { NONE, F32, BF16 } kind;

/* Of eight lanes of the sixteen: each has a chain of additions of its own. */
typedef struct sums {
    __m256 sum, sum2, sum4, error2, master2;
} sums;

INLINE void add_eight(sums *s, __m256 v, int shape)
{
    s->sum2 = _mm256_fmadd_ps(v, v, s->sum2);
    if (!shape)
        return;
    __m256 square = _mm256_mul_ps(v, v);
    s->sum = _mm256_add_ps(s->sum, v);
    s->sum4 = _mm256_fmadd_ps(square, square, s->sum4);
}

/* Weights first to first + 7. */
INLINE __m256 weights_of(sb_fp8_weights w, kind of, unsigned first)
{
    if (of == F32)
        return _mm256_loadu_ps(w.values + first);
    __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(w.bf16 + 2 * (size_t)first));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/* Returns what is beyond 2 * SB_FP8_REACH where there is a doubt. */
INLINE __m256i against_eight(sums *s, __m256 v, __m256 weights, __m256 inverse)
{
    __m256 t = _mm256_mul_ps(weights, inverse);
    __m256 error = _mm256_sub_ps(v, t);
    s->error2 = _mm256_add_ps(s->error2, _mm256_mul_ps(error, error));
    s->master2 = _mm256_add_ps(s->master2, _mm256_mul_ps(t, t));
    __m256i apart = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(v));
    return _mm256_add_epi32(apart, _mm256_set1_epi32(SB_FP8_REACH));
}

/* Sixteen codes as F16: the sign stands in two places of what is extended and moved. */
INLINE __m256i halves_of(const unsigned char *codes)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)codes);
    return _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                            _mm256_set1_epi16((short)0xbf80));
}

/* Returns the larger ones of what against_eight() does. */
INLINE __m256i look_at_half(sums s[2], const unsigned char *codes, sb_fp8_weights w, kind of,
                            unsigned first, __m256 inverse, int shape)
{
    __m256i halves = halves_of(codes);
    __m256 v = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 u = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    add_eight(&s[0], v, shape);
    add_eight(&s[1], u, shape);
    if (of == NONE)
        return _mm256_setzero_si256();
    return _mm256_max_epu32(against_eight(&s[0], v, weights_of(w, of, first), inverse),
                            against_eight(&s[1], u, weights_of(w, of, first + HALF / 2), inverse));
}

/* Whether the group leaves a doubt. */
INLINE uint32_t look_at_group(sums s[2], const unsigned char *codes, sb_fp8_weights w, kind of,
                              unsigned first, __m256 inverse, int shape)
{
    const __m256i most = _mm256_set1_epi32(2 * SB_FP8_REACH);
    __m256i a = look_at_half(s, codes, w, of, first, inverse, shape);
    __m256i b = look_at_half(s, codes + HALF, w, of, first + HALF, inverse, shape);
    __m256i apart = _mm256_max_epu32(_mm256_max_epu32(a, b), most);
    return of != NONE && _mm256_movemask_epi8(_mm256_cmpeq_epi32(apart, most)) != -1;
}

/* Of bytes: zeros of up to 255 groups, largest codes and one more, and whether there is a NaN. */
typedef struct bytes {
    __m256i zeros, tops, nan;
} bytes;

/* One more than 0x7f is below all as a signed number. */
INLINE void look_at_bytes(bytes *b, const unsigned char *codes)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i magnitudes = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)codes),
                                          _mm256_set1_epi8(0x7f));
    __m256i above = _mm256_add_epi8(magnitudes, one);
    b->tops = _mm256_max_epi8(b->tops, above);
    b->nan = _mm256_or_si256(b->nan, above);
    b->zeros = _mm256_sub_epi8(b->zeros, _mm256_cmpeq_epi8(above, one));
}

INLINE uint64_t total(__m256i four)
{
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

/* --- sums of more than a piece -----------------------------------------------------------------
 */

typedef struct fours {
    __m256d sum, sum2, sum4, error2, master2;
} fours;

INLINE __m256d lower(__m256 lanes)
{
    return _mm256_cvtps_pd(_mm256_castps256_ps128(lanes));
}

INLINE __m256d upper(__m256 lanes)
{
    return _mm256_cvtps_pd(_mm256_extractf128_ps(lanes, 1));
}

INLINE void fold(__m256 a, __m256 b, __m256d *four)
{
    __m256d both =
        _mm256_add_pd(_mm256_add_pd(lower(a), lower(b)), _mm256_add_pd(upper(a), upper(b)));
    *four = _mm256_add_pd(*four, both);
}

INLINE void end_piece(const sums s[2], kind of, int shape, fours *run)
{
    fold(s[0].sum2, s[1].sum2, &run->sum2);
    if (shape) {
        fold(s[0].sum, s[1].sum, &run->sum);
        fold(s[0].sum4, s[1].sum4, &run->sum4);
    }
    if (of != NONE) {
        fold(s[0].error2, s[1].error2, &run->error2);
        fold(s[0].master2, s[1].master2, &run->master2);
    }
}

INLINE double all(__m256d four)
{
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

INLINE void add_times(__m256d *to, __m256d four, double factor)
{
    *to = _mm256_add_pd(*to, _mm256_mul_pd(four, _mm256_set1_pd(factor)));
}

INLINE void end_run(const fours *run, double scale, kind of, int shape, fours *row)
{
    double square = scale * scale;
    add_times(&row->sum2, run->sum2, square);
    if (shape) {
        add_times(&row->sum, run->sum, scale);
        add_times(&row->sum4, run->sum4, square * square);
    }
    if (of != NONE) {
        add_times(&row->error2, run->error2, square);
        add_times(&row->master2, run->master2, square);
    }
}

/* --- a row -------------------------------------------------------------------------------------
 */

/* What is left of a run behind whole groups, and zeros behind that. */
typedef struct rest {
    unsigned char codes[GROUP];
    float weights[GROUP];
} rest;

static void take_rest(const sb_fp8_line *x, uint32_t first, unsigned count, rest *to)
{
    *to = (rest){.codes = {0}};
    memcpy(to->codes, x->codes + first, count);
    for (unsigned i = 0; i < count && x->weights.bf16; i++)
        to->weights[i] = sb_f32_from_bits(
            (uint32_t)sb_load_u16(x->weights.bf16 + 2 * ((size_t)first + i)) << 16);
    if (x->weights.values)
        memcpy(to->weights, x->weights.values + first, count * sizeof *to->weights);
}

/* A piece of up to SB_FP8_PIECE columns. */
INLINE void look_at_piece(const sb_fp8_line *x, uint32_t first, uint32_t count, __m256 by, kind of,
                          int shape, unsigned char **doubts, bytes *b, fours *run, sb_fp8_sums *out)
{
    const __m256 zero = _mm256_setzero_ps();
    sums s[2] = {{zero, zero, zero, zero, zero}, {zero, zero, zero, zero, zero}};
    const unsigned groups = count / GROUP, left = count % GROUP;
    b->zeros = _mm256_setzero_si256();
    for (unsigned g = 0; g < groups; g++) {
        const unsigned char *codes = x->codes + first + (size_t)g * GROUP;
        look_at_bytes(b, codes);
        uint32_t doubt = look_at_group(s, codes, x->weights, of, first + g * GROUP, by, shape);
        if (of != NONE)
            out->doubts += *(*doubts)++ = (unsigned char)doubt;
    }
    if (left) {
        rest r;
        take_rest(x, first + groups * GROUP, left, &r);
        look_at_bytes(b, r.codes);
        uint32_t doubt = look_at_group(s, r.codes, (sb_fp8_weights){.values = r.weights},
                                       of == NONE ? NONE : F32, 0, by, shape);
        if (of != NONE)
            out->doubts += *(*doubts)++ = (unsigned char)doubt;
        out->zeros -= GROUP - left;
    }
    out->zeros += (uint32_t)total(_mm256_sad_epu8(b->zeros, _mm256_setzero_si256()));
    end_piece(s, of, shape, run);
}

INLINE void look(const sb_fp8_line *x, kind of, int shape, sb_fp8_sums *out)
{
    const __m256d zero = _mm256_setzero_pd();
    fours row = {zero, zero, zero, zero, zero};
    bytes b = {.nan = _mm256_setzero_si256()};
    unsigned char *doubts = x->doubts;
    *out = (sb_fp8_sums){.nan = 0};
    for (uint32_t r = 0, first = 0; first < x->cols; r++, first += x->run) {
        const uint32_t end = x->cols - first < x->run ? x->cols : first + x->run;
        const __m256 by = _mm256_set1_ps(of == NONE ? 0 : x->inverses[r]);
        __m256i *tops = (__m256i *)(void *)(x->tops + (size_t)r * GROUP);
        fours run = {zero, zero, zero, zero, zero};
        b.tops = _mm256_loadu_si256(tops);
        for (uint32_t k = first, n; k < end; k += n) {
            n = end - k < SB_FP8_PIECE ? end - k : SB_FP8_PIECE;
            look_at_piece(x, k, n, by, of, shape, &doubts, &b, &run, out);
        }
        _mm256_storeu_si256(tops, b.tops);
        if (of != NONE)
            out->odd |= !sb_fp8_holds(all(run.master2));
        end_run(&run, (double)x->scales[r], of, shape, &row);
    }
    out->nan = _mm256_movemask_epi8(b.nan) != 0;
    out->sum = all(row.sum);
    out->sum2 = all(row.sum2);
    out->sum4 = all(row.sum4);
    out->error2 = all(row.error2);
    out->master2 = all(row.master2);
}

INLINE void look_of(const sb_fp8_line *x, int shape, sb_fp8_sums *out)
{
    if (x->weights.bf16)
        look(x, BF16, shape, out);
    else if (x->weights.values)
        look(x, F32, shape, out);
    else
        look(x, NONE, shape, out);
}

AVX2 void sb_fp8_look_avx2(const sb_fp8_line *x, sb_fp8_sums *out)
{
    if (x->shape)
        look_of(x, 1, out);
    else
        look_of(x, 0, out);
}

#endif
