/* fp4_bytes_avx512.c - rows of NVFP4 codes and block scales, eight blocks at once, where zeros and
 * negative codes are the only counts (sb_fp4_tally.few); the definition is in fp4_bytes.c. The
 * numbers are those of the AVX2 loop to the bit: sums of squares times squared scales are added in
 * its order. */
#include "tools/check/scan/fp4.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <string.h>

#include "tools/check/scan/fp4_blocks.h"

#define TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c"
#define INLINE SB_FP4_INLINE(TARGET)

/* A stretch is what fits into the counters: up to SB_FP4_STEPS steps of eight blocks of a row. */
enum { CHUNK = 16, EIGHT = 8, BYTES = EIGHT * CHUNK / 2, STEPS = SB_FP4_STEPS + 1 };

typedef struct sums {
    __m256d sum2;
    __m512i count; /* two counters per byte */
    __m512i top;   /* the largest scale bytes of ordinary blocks */
} sums;

/* The scales of a stretch. */
typedef struct stretch {
    __m512i scales;
    uint64_t odd;                 /* a bit for each unusual scale */
    float squares[EIGHT * STEPS]; /* squares of the scales, times 2^-16 */
} stretch;

/* The squares of 16 scales, as in sb_fp4_scale_squares(). */
INLINE __m512 squares_of(__m256i halves)
{
    __m512 values = _mm512_cvtph_ps(halves);
    return _mm512_mul_ps(values, values);
}

INLINE void prepare(const unsigned char *scales, unsigned blocks, stretch *s)
{
    const __mmask64 there = ~0ull >> (64 - blocks);
    s->scales = _mm512_maskz_loadu_epi8(there, scales);
    __m512i above = _mm512_sub_epi8(s->scales, _mm512_set1_epi8(8)); /* from 0 to 0x76 if usual */
    s->odd = _mm512_mask_cmpgt_epu8_mask(there, above, _mm512_set1_epi8(0x76));
    __mmask64 positive = _mm512_cmplt_epu8_mask(s->scales, _mm512_set1_epi8(0x7f));
    __m512i bytes = _mm512_maskz_mov_epi8(positive, s->scales);
    for (unsigned i = 0; i < 2; i++) {
        __m256i half = i ? _mm512_extracti64x4_epi64(bytes, 1) : _mm512_castsi512_si256(bytes);
        __m512i halves = _mm512_slli_epi16(_mm512_cvtepu8_epi16(half), 7);
        _mm512_storeu_ps(s->squares + 32 * i, squares_of(_mm512_castsi512_si256(halves)));
        _mm512_storeu_ps(s->squares + 32 * i + 16,
                         squares_of(_mm512_extracti64x4_epi64(halves, 1)));
    }
}

INLINE __m512i table_of(const sb_fp4 *f, sb_fp4_count count)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)f->counts[count]));
}

/* Adds the codes of eight blocks. Returns a bit for each block without a code of magnitude 7: only
 * its square has the highest bit set. */
INLINE __mmask8 eight_blocks(__m512i square, __m512i few, const unsigned char *bytes,
                             const float *scale_squares, sums *x)
{
    const __m512i low_half = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    __m512i all = _mm512_loadu_si512(bytes);
    __m512i low = _mm512_and_si512(all, low_half);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(all, 4), low_half);
    __m512i low2 = _mm512_shuffle_epi8(square, low), high2 = _mm512_shuffle_epi8(square, high);
    __m512i sum2 = _mm512_add_epi64(_mm512_sad_epu8(low2, zero), _mm512_sad_epu8(high2, zero));
    __m512d by =
        _mm512_mul_pd(_mm512_cvtepu64_pd(sum2), _mm512_cvtps_pd(_mm256_loadu_ps(scale_squares)));
    x->sum2 = _mm256_add_pd(x->sum2, _mm512_castpd512_pd256(by));
    x->sum2 = _mm256_add_pd(x->sum2, _mm512_extractf64x4_pd(by, 1));
    x->count = _mm512_add_epi8(x->count, _mm512_shuffle_epi8(few, low));
    x->count = _mm512_add_epi8(x->count, _mm512_shuffle_epi8(few, high));
    return _mm512_testn_epi64_mask(_mm512_or_si512(low2, high2),
                                   _mm512_set1_epi64((long long)0x8080808080808080u));
}

/* Adds a stretch. Returns a bit for each special block: without a 7, or with an unusual scale.
 * Calls no function, so that tables and sums stay in registers. */
INLINE uint64_t add_stretch(const sb_fp4 *f, const unsigned char *bytes,
                            const unsigned char *scales, unsigned steps, sums *total)
{
    const __m512i square = table_of(f, SB_FP4_SQUARE), few = table_of(f, SB_FP4_COUNT_0);
    unsigned char lacking[8] = {0};
    uint64_t special;
    stretch s;
    sums x = *total;
    prepare(scales, steps * EIGHT, &s);
    for (unsigned i = 0; i < steps; i++)
        lacking[i] = eight_blocks(square, few, bytes + i * BYTES, s.squares + i * EIGHT, &x);
    memcpy(&special, lacking, sizeof special); /* block b of step i is bit b of byte i */
    special |= s.odd;
    if (!special)
        x.top = _mm512_max_epu8(x.top, s.scales);
    *total = x;
    return special;
}

/* Adds the counters to their totals, and resets them. */
INLINE void empty(__m512i *counters, sb_fp4_tally *tally)
{
    const __m512i low_half = _mm512_set1_epi8(15), zero = _mm512_setzero_si512();
    __m512i low = _mm512_and_si512(*counters, low_half);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(*counters, 4), low_half);
    tally->totals[0][0] += (uint64_t)_mm512_reduce_add_epi64(_mm512_sad_epu8(low, zero));
    tally->totals[1][0] += (uint64_t)_mm512_reduce_add_epi64(_mm512_sad_epu8(high, zero));
    *counters = zero;
}

/* The largest bytes of the four quarters and both halves of them. */
INLINE __m128i fold(__m512i bytes)
{
    __m256i half =
        _mm256_max_epu8(_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64(bytes, 1));
    __m128i quarter = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    return _mm_max_epu8(quarter, _mm_srli_si128(quarter, 8));
}

/* Rows that follow each other in memory without a gap are as one long row. */
typedef struct line {
    const unsigned char *codes, *scales;
    uint32_t row, end;            /* its rows: row to end - 1 */
    uint32_t steps, steps_of_row; /* of eight blocks */
} line;

INLINE void add_line(const sb_fp4 *f, const sb_fp4_rows *rows, const line *l, sums *x, __m128i *top,
                     sb_fp4_tally *tally, sb_fp4_sums *r)
{
    const uint32_t blocks = l->steps_of_row * EIGHT;
    uint32_t row = l->row; /* the rows before it are ended */
    for (uint32_t i = 0, n; i < l->steps; i += n) {
        n = l->steps - i < SB_FP4_STEPS ? l->steps - i : SB_FP4_STEPS;
        const unsigned char *codes = l->codes + i * BYTES, *scales = l->scales + i * EIGHT;
        uint64_t special = add_stretch(f, codes, scales, n, x);
        empty(&x->count, tally);
        for (uint32_t j = 0; j < n && special; j++) {
            const uint32_t own = l->row + (i + j) / l->steps_of_row;
            while (row < own)
                sb_fp4_end_row(f, rows, row++, blocks, tally, r);
            sb_fp4_each_block(f, codes + j * BYTES, scales + j * EIGHT, EIGHT,
                              special >> EIGHT * j & 0xff, rows->first + own,
                              (i + j) % l->steps_of_row * EIGHT, r, top);
        }
    }
    if (row < l->end && blocks == f->blocks && !r->zeros && r->vanished == r->hidden) {
        f->panel->seen->run = 0; /* the rows that are left have no special block */
        return;
    }
    while (row < l->end)
        sb_fp4_end_row(f, rows, row++, blocks, tally, r);
}

__attribute__((target(TARGET))) void sb_fp4_few_avx512(const sb_fp4 *f, const sb_fp4_rows *rows,
                                                       sb_fp4_tally *tally, sb_fp4_sums *r)
{
    const uint32_t steps = f->blocks / EIGHT;
    const int one = f->blocks % EIGHT == 0 && rows->scales_step == f->blocks &&
                    rows->codes_step == (size_t)f->blocks * (CHUNK / 2);
    sums x = {_mm256_setzero_pd(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    __m128i top = _mm_setzero_si128();
    for (uint32_t k = 0, count = one ? rows->count : 1; k < rows->count; k += count) {
        line l = {.codes = rows->codes + k * rows->codes_step,
                  .scales = rows->scales + k * rows->scales_step,
                  .row = k,
                  .end = k + count,
                  .steps = count * steps,
                  .steps_of_row = steps};
        add_line(f, rows, &l, &x, &top, tally, r);
    }
    tally->codes += (uint64_t)rows->count * steps * EIGHT * CHUNK;
    _mm256_storeu_pd(r->sum2, _mm256_mul_pd(x.sum2, _mm256_set1_pd(0x1p16)));
    sb_fp4_note_top(f, _mm_max_epu8(top, fold(x.top)), r);
}

#else

void sb_fp4_few_avx512(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally,
                       sb_fp4_sums *r)
{
    (void)f, (void)rows, (void)tally, (void)r;
}

#endif
