/* fp8_avx2.c - the scan of fp8_fast.c, with eight codes at once: the same operations on the same
 * lanes, so the same results. The square of a value has 8 significant bits and its fourth power has
 * 16: such products are exact, so that a fused multiply-add gives the same bits, and squares may be
 * looked up. */
#include "tools/check/scan/fp8.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <string.h>

#include "ref/base/bytes.h"

enum { GROUP = SB_FP8_GROUP, HALF = GROUP / 2 };

#define AVX2 __attribute__((target("avx2,f16c,fma")))
#define INLINE AVX2 static inline __attribute__((always_inline))

/* How the weights are given: not at all, as binary32, as BF16. */
typedef enum kind { NONE, F32, BF16 } kind;

/* Sums of eight of the sixteen lanes. The other eight lanes have a second object, so that two
 * chains of additions run side by side. */
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

/* Returns, in each lane with a doubt, a number above 2 * SB_FP8_REACH. */
INLINE __m256i against_eight(sums *s, __m256 v, __m256 weights, __m256 inverse)
{
    __m256 t = _mm256_mul_ps(weights, inverse);
    __m256 error = _mm256_sub_ps(v, t);
    s->error2 = _mm256_add_ps(s->error2, _mm256_mul_ps(error, error));
    s->master2 = _mm256_add_ps(s->master2, _mm256_mul_ps(t, t));
    __m256i apart = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(v));
    return _mm256_add_epi32(apart, _mm256_set1_epi32(SB_FP8_REACH));
}

/* Sixteen codes as F16. After sign extension and shift the sign is in two bits; the mask keeps
 * one. */
INLINE __m256i halves_of(const unsigned char *codes)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)codes);
    return _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                            _mm256_set1_epi16((short)0xbf80));
}

/* Returns the larger results of against_eight(). */
INLINE __m256i look_at_half(sums *s, const unsigned char *codes, sb_fp8_weights w, kind of,
                            unsigned first, __m256 inverse, int shape)
{
    __m256i halves = halves_of(codes);
    __m256 v = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    __m256 u = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    add_eight(s, v, shape);
    add_eight(s, u, shape);
    if (of == NONE)
        return _mm256_setzero_si256();
    __m256i apart = against_eight(s, v, weights_of(w, of, first), inverse);
    return _mm256_max_epu32(apart,
                            against_eight(s, u, weights_of(w, of, first + HALF / 2), inverse));
}

/* 1 if the group leaves a doubt. */
INLINE uint32_t look_at_group(sums s[2], const unsigned char *codes, sb_fp8_weights w, kind of,
                              unsigned first, __m256 inverse, int shape)
{
    const __m256i most = _mm256_set1_epi32(2 * SB_FP8_REACH);
    __m256i a = look_at_half(&s[0], codes, w, of, first, inverse, shape);
    __m256i b = look_at_half(&s[1], codes + HALF, w, of, first + HALF, inverse, shape);
    __m256i apart = _mm256_max_epu32(_mm256_max_epu32(a, b), most);
    return of != NONE && _mm256_movemask_epi8(_mm256_cmpeq_epi32(apart, most)) != -1;
}

/* Counters in bytes: zeros of up to 255 groups, the largest codes of a run, and NaN codes. */
typedef struct bytes {
    __m256i zeros, tops, nan;
    unsigned groups;
} bytes;

/* Returns the codes without their signs. */
INLINE __m256i look_at_bytes(bytes *b, const unsigned char *codes)
{
    __m256i magnitudes = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)codes),
                                          _mm256_set1_epi8(0x7f));
    b->tops = _mm256_max_epu8(b->tops, magnitudes);
    b->zeros = _mm256_sub_epi8(b->zeros, _mm256_cmpeq_epi8(magnitudes, _mm256_setzero_si256()));
    return magnitudes;
}

/* Raises the tops. 0x7f + 1 is the least signed byte, so that NaN codes do not raise them. */
INLINE void end_tops(bytes *b, unsigned char *tops)
{
    __m256i *at = (__m256i *)(void *)tops;
    __m256i above = _mm256_add_epi8(b->tops, _mm256_set1_epi8(1));
    b->nan = _mm256_or_si256(b->nan, above);
    _mm256_storeu_si256(at, _mm256_max_epi8(_mm256_loadu_si256(at), above));
    b->tops = _mm256_setzero_si256();
}

INLINE uint64_t total(__m256i four)
{
    __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

/* --- sums of more than a piece ---------------------------------------------------------------- */

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

/* Adds each even lane and the next odd one. */
INLINE __m256 pairs_of(__m256 a, __m256 b)
{
    __m256d by_half = _mm256_castps_pd(_mm256_hadd_ps(a, b));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(by_half, 0xd8));
}

INLINE void fold(__m256 pairs, __m256d *four)
{
    *four = _mm256_add_pd(*four, _mm256_add_pd(lower(pairs), upper(pairs)));
}

INLINE void end_piece(const sums s[2], kind of, int shape, fours *run)
{
    fold(pairs_of(s[0].sum2, s[1].sum2), &run->sum2);
    if (shape) {
        fold(pairs_of(s[0].sum, s[1].sum), &run->sum);
        fold(pairs_of(s[0].sum4, s[1].sum4), &run->sum4);
    }
    if (of != NONE) {
        fold(pairs_of(s[0].error2, s[1].error2), &run->error2);
        fold(pairs_of(s[0].master2, s[1].master2), &run->master2);
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

/* --- a row ------------------------------------------------------------------------------------ */

/* The columns of a run after its last whole group, padded with zeros. */
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

/* Empties the counters before they overflow. */
INLINE void end_zeros(bytes *b, unsigned groups, sb_fp8_sums *out)
{
    b->groups += groups;
    if (b->groups + SB_FP8_PIECE / GROUP < 255)
        return;
    out->zeros += (uint32_t)total(_mm256_sad_epu8(b->zeros, _mm256_setzero_si256()));
    b->zeros = _mm256_setzero_si256();
    b->groups = 0;
}

/* Scans a piece of up to SB_FP8_PIECE columns. */
INLINE void look_at_piece(const sb_fp8_line *x, uint32_t first, uint32_t count, __m256 by, kind of,
                          int shape, unsigned char **doubts, bytes *b, fours *run, sb_fp8_sums *out)
{
    const __m256 zero = _mm256_setzero_ps();
    sums s[2] = {{zero, zero, zero, zero, zero}, {zero, zero, zero, zero, zero}};
    const unsigned groups = count / GROUP, left = count % GROUP;
    for (unsigned g = 0; g < groups; g++) {
        const unsigned char *codes = x->codes + first + (size_t)g * GROUP;
        (void)look_at_bytes(b, codes);
        uint32_t doubt = look_at_group(s, codes, x->weights, of, first + g * GROUP, by, shape);
        if (of != NONE)
            out->doubts += *(*doubts)++ = (unsigned char)doubt;
    }
    if (left) {
        rest r;
        take_rest(x, first + groups * GROUP, left, &r);
        (void)look_at_bytes(b, r.codes);
        uint32_t doubt = look_at_group(s, r.codes, (sb_fp8_weights){.values = r.weights},
                                       of == NONE ? NONE : F32, 0, by, shape);
        if (of != NONE)
            out->doubts += *(*doubts)++ = (unsigned char)doubt;
        out->zeros -= GROUP - left;
    }
    end_zeros(b, groups + 1, out);
    end_piece(s, of, shape, run);
}

INLINE void look(const sb_fp8_line *x, kind of, int shape, sb_fp8_sums *out)
{
    const __m256d zero = _mm256_setzero_pd();
    const __m256i none = _mm256_setzero_si256();
    fours row = {zero, zero, zero, zero, zero};
    bytes b = {none, none, none, 0};
    unsigned char *doubts = x->doubts;
    *out = (sb_fp8_sums){.nan = 0};
    for (uint32_t r = 0, first = 0; first < x->cols; r++, first += x->run) {
        const uint32_t end = x->cols - first < x->run ? x->cols : first + x->run;
        const __m256 by = _mm256_set1_ps(of == NONE ? 0 : x->inverses[r]);
        fours run = {zero, zero, zero, zero, zero};
        for (uint32_t k = first, n; k < end; k += n) {
            n = end - k < SB_FP8_PIECE ? end - k : SB_FP8_PIECE;
            look_at_piece(x, k, n, by, of, shape, &doubts, &b, &run, out);
        }
        end_tops(&b, x->tops + (size_t)r * GROUP);
        if (of != NONE)
            out->odd |= !sb_fp8_holds(all(run.master2));
        end_run(&run, (double)x->scales[r], of, shape, &row);
    }
    end_zeros(&b, 255, out);
    out->nan = _mm256_movemask_epi8(b.nan) != 0;
    out->sum = all(row.sum);
    out->sum2 = all(row.sum2);
    out->sum4 = all(row.sum4);
    out->error2 = all(row.error2);
    out->master2 = all(row.master2);
}

/* --- a row for which only squares are needed -------------------------------------------------- */

/* The square of an E4M3 value has at most 8 significant bits, so it is a BF16 number. Two tables
 * give its two bytes. The last three bits of the code select the lower byte, and the upper byte for
 * exponent 0. The exponent of the code is added to the upper byte. Codes below the least normal one
 * have entries of their own. */
typedef struct squares {
    __m256i low, high;
} squares;

INLINE squares squares_of(void)
{
    /* entry k: the bytes of (k 2^-17)^2; from k = 8 on, less the exponent 1, which is added
     * later */
    static const unsigned char low[16] = {0x00, 0x80, 0x80, 0x10, 0x80, 0xc8, 0x10, 0x44,
                                          0x80, 0xa2, 0xc8, 0xf2, 0x10, 0x29, 0x44, 0x61};
    static const unsigned char high[16] = {0x00, 0x2e, 0x2f, 0x30, 0x30, 0x30, 0x31, 0x31,
                                           0x30, 0x30, 0x30, 0x30, 0x31, 0x31, 0x31, 0x31};
    return (squares){
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)low)),
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)high))};
}

/* Adds the squares of sixteen numbers, even and odd ones apart. */
INLINE void add_squares(__m256 s[2], __m256i bf16)
{
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    s[0] = _mm256_add_ps(s[0], _mm256_castsi256_ps(_mm256_slli_epi32(bf16, 16)));
    s[1] = _mm256_add_ps(s[1], _mm256_castsi256_ps(_mm256_and_si256(bf16, upper)));
}

/* Adds the squares of a group to the even lanes and to the odd lanes. */
INLINE void square_group(const squares *t, __m256 s[2], __m256i magnitudes)
{
    __m256i exponents = _mm256_and_si256(_mm256_srli_epi16(magnitudes, 3), _mm256_set1_epi8(15));
    __m256i last =
        _mm256_or_si256(_mm256_and_si256(magnitudes, _mm256_set1_epi8(7)), _mm256_set1_epi8(8));
    __m256i at = _mm256_min_epu8(magnitudes, last);
    __m256i low = _mm256_shuffle_epi8(t->low, at);
    __m256i high = _mm256_add_epi8(_mm256_shuffle_epi8(t->high, at), exponents);
    add_squares(s, _mm256_unpacklo_epi8(low, high));
    add_squares(s, _mm256_unpackhi_epi8(low, high));
}

INLINE void square_piece(const sb_fp8_line *x, const squares *t, uint32_t first, uint32_t count,
                         bytes *b, __m256d *run, sb_fp8_sums *out)
{
    const unsigned groups = count / GROUP, left = count % GROUP;
    const unsigned char *codes = x->codes + first;
    __m256 s[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (unsigned g = 0; g < groups; g++, codes += GROUP)
        square_group(t, s, look_at_bytes(b, codes));
    if (left) {
        rest r;
        take_rest(x, first + groups * GROUP, left, &r);
        square_group(t, s, look_at_bytes(b, r.codes));
        out->zeros -= GROUP - left;
    }
    end_zeros(b, groups + 1, out);
    fold(_mm256_add_ps(s[0], s[1]), run);
}

AVX2 static void look_at_squares(const sb_fp8_line *x, sb_fp8_sums *out)
{
    const __m256i none = _mm256_setzero_si256();
    const squares t = squares_of();
    __m256d row = _mm256_setzero_pd();
    bytes b = {none, none, none, 0};
    *out = (sb_fp8_sums){.nan = 0};
    for (uint32_t r = 0, first = 0; first < x->cols; r++, first += x->run) {
        const uint32_t end = x->cols - first < x->run ? x->cols : first + x->run;
        const double scale = (double)x->scales[r];
        __m256d run = _mm256_setzero_pd();
        for (uint32_t k = first, n; k < end; k += n) {
            n = end - k < SB_FP8_PIECE ? end - k : SB_FP8_PIECE;
            square_piece(x, &t, k, n, &b, &run, out);
        }
        end_tops(&b, x->tops + (size_t)r * GROUP);
        add_times(&row, run, scale * scale);
    }
    end_zeros(&b, 255, out);
    out->nan = _mm256_movemask_epi8(b.nan) != 0;
    out->sum2 = all(row);
}

INLINE void look_of(const sb_fp8_line *x, int shape, sb_fp8_sums *out)
{
    if (x->weights.bf16)
        look(x, BF16, shape, out);
    else if (x->weights.values)
        look(x, F32, shape, out);
    else
        look(x, NONE, 1, out);
}

AVX2 void sb_fp8_look_avx2(const sb_fp8_line *x, sb_fp8_sums *out)
{
    if (!x->shape && !x->weights.bf16 && !x->weights.values)
        look_at_squares(x, out);
    else if (x->shape)
        look_of(x, 1, out);
    else
        look_of(x, 0, out);
}

#endif
