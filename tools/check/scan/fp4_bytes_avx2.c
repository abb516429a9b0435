/* fp4_bytes_avx2.c - rows of codes and block scales, four or eight chunks at once; the definition
 * is in fp4_bytes.c. */
#include "tools/check/scan/fp4.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include "ref/base/bytes.h"
#include "tools/check/scan/fp4_blocks.h"

/* Four chunks fill a register. */
enum { CHUNK = 16, FOUR = 4, BYTES = FOUR * CHUNK / 2 };

#define AVX2 __attribute__((target("avx2,f16c")))
#define INLINE SB_FP4_INLINE("avx2,f16c")

/* Sums over rows, and the counters of a panel. */
typedef struct sums {
    __m256d sum, sum2, sum4;
    __m256i squares; /* sums of squares of four chunks, or of eight */
    /* two counters per byte, for up to SB_FP4_STEPS steps */
    __m256i count_1, count_3, count_5, count_9;
    __m128i top; /* the largest scale byte of ordinary blocks */
} sums;

/* The codes of four chunks, one per byte. */
typedef struct codes {
    __m256i low, high;
} codes;

INLINE __m256i table_of(const sb_fp4 *f, sb_fp4_count count)
{
    return _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)f->counts[count]));
}

INLINE __m256i look_up(const sb_fp4 *f, sb_fp4_count count, codes c)
{
    __m256i table = table_of(f, count);
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, c.low), _mm256_shuffle_epi8(table, c.high));
}

/* The sum of each chunk. */
INLINE __m256i per_chunk(__m256i bytes)
{
    return _mm256_sad_epu8(bytes, _mm256_setzero_si256());
}

/* Integers from 0 to 2^52 as doubles, minus `less`. */
INLINE __m256d real(__m256i integers, double less)
{
    const __m256i bits_of_two52 = _mm256_set1_epi64x(0x4330000000000000);
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(integers, bits_of_two52)),
                         _mm256_set1_pd(0x1p52 + less));
}

/* Table entries for the scales of four chunks; in MXFP4 two chunks share a scale. */
INLINE __m256d by_scale(const double *x, const unsigned char *scales, int two)
{
    return two ? _mm256_setr_pd(x[scales[0]], x[scales[0]], x[scales[1]], x[scales[1]])
               : _mm256_setr_pd(x[scales[0]], x[scales[1]], x[scales[2]], x[scales[3]]);
}

/* The sums for the mean and the kurtosis. */
INLINE void add_shape(const sb_fp4 *f, codes c, const unsigned char *scales, int two, sums *x)
{
    __m256d scale = by_scale(f->scale, scales, two), square = _mm256_mul_pd(scale, scale);
    __m256d sum = real(per_chunk(look_up(f, SB_FP4_PLUS_12, c)), 12 * CHUNK);
    __m256i sum4 = _mm256_add_epi64(per_chunk(look_up(f, SB_FP4_FOURTH, c)),
                                    _mm256_slli_epi64(per_chunk(look_up(f, SB_FP4_FOURTHS, c)), 8));
    x->sum = _mm256_add_pd(x->sum, _mm256_mul_pd(sum, scale));
    x->sum4 = _mm256_add_pd(x->sum4, _mm256_mul_pd(real(sum4, 0), _mm256_mul_pd(square, square)));
}

/* Returns a bit for each chunk without a code of magnitude 7; both chunks of an MXFP4 block get the
 * same bit. */
INLINE unsigned four_chunks(const sb_fp4 *f, const unsigned char *bytes,
                            const unsigned char *scales, int two, int shape, sums *x)
{
    const __m256i low_half = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    const __m256i table = table_of(f, SB_FP4_SQUARE);
    __m256i all = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    codes c = {_mm256_and_si256(all, low_half),
               _mm256_and_si256(_mm256_srli_epi16(all, 4), low_half)};
    __m256i low = _mm256_shuffle_epi8(table, c.low), high = _mm256_shuffle_epi8(table, c.high);
    __m256i sum2 = _mm256_add_epi64(per_chunk(low), per_chunk(high));
    x->squares = _mm256_add_epi64(x->squares, sum2);
    x->sum2 =
        _mm256_add_pd(x->sum2, _mm256_mul_pd(real(sum2, 0), by_scale(f->scale2, scales, two)));
    x->count_1 = _mm256_add_epi8(x->count_1, look_up(f, SB_FP4_COUNT_1, c));
    x->count_3 = _mm256_add_epi8(x->count_3, look_up(f, SB_FP4_COUNT_3, c));
    x->count_5 = _mm256_add_epi8(x->count_5, look_up(f, SB_FP4_COUNT_5, c));
    x->count_9 = _mm256_add_epi8(x->count_9, look_up(f, SB_FP4_COUNT_9, c));
    if (shape)
        add_shape(f, c, scales, two, x);
    __m256i sevens = _mm256_cmpeq_epi8(_mm256_max_epu8(low, high), _mm256_set1_epi8((char)144));
    if (two)
        sevens = _mm256_or_si256(sevens, _mm256_shuffle_epi32(sevens, 0x4e));
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(sevens, zero)));
}

/* --- eight chunks of NVFP4, where mean and kurtosis are not needed ---------------------------- */

INLINE codes codes_of(const unsigned char *bytes)
{
    const __m256i low_half = _mm256_set1_epi8(15);
    __m256i all = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    return (codes){_mm256_and_si256(all, low_half),
                   _mm256_and_si256(_mm256_srli_epi16(all, 4), low_half)};
}

INLINE __m256i count_both(const sb_fp4 *f, sb_fp4_count count, codes a, codes b)
{
    return _mm256_add_epi8(look_up(f, count, a), look_up(f, count, b));
}

/* Counts the codes of eight chunks, and stores the sum of squares of each chunk. Returns a byte per
 * chunk, which is 0 if no code has magnitude 7: only its square has the highest bit set. */
INLINE uint64_t eight_chunks(const sb_fp4 *f, const unsigned char *bytes, int few,
                             uint32_t *squares, sums *x)
{
    const __m256i table = table_of(f, SB_FP4_SQUARE);
    codes a = codes_of(bytes), b = codes_of(bytes + BYTES);
    __m256i al = _mm256_shuffle_epi8(table, a.low), ah = _mm256_shuffle_epi8(table, a.high);
    __m256i bl = _mm256_shuffle_epi8(table, b.low), bh = _mm256_shuffle_epi8(table, b.high);
    __m256 sums_of_a = _mm256_castsi256_ps(_mm256_add_epi64(per_chunk(al), per_chunk(ah)));
    __m256 sums_of_b = _mm256_castsi256_ps(_mm256_add_epi64(per_chunk(bl), per_chunk(bh)));
    __m256i eight = _mm256_castps_si256(_mm256_shuffle_ps(sums_of_a, sums_of_b, 0x88));
    _mm256_storeu_si256((__m256i *)(void *)squares, _mm256_permute4x64_epi64(eight, 0xd8));
    if (few) {
        x->count_1 = _mm256_add_epi8(x->count_1, count_both(f, SB_FP4_COUNT_0, a, b));
    } else {
        x->count_1 = _mm256_add_epi8(x->count_1, count_both(f, SB_FP4_COUNT_1, a, b));
        x->count_3 = _mm256_add_epi8(x->count_3, count_both(f, SB_FP4_COUNT_3, a, b));
        x->count_5 = _mm256_add_epi8(x->count_5, count_both(f, SB_FP4_COUNT_5, a, b));
        x->count_9 = _mm256_add_epi8(x->count_9, count_both(f, SB_FP4_COUNT_9, a, b));
    }
    uint32_t sevens_of_a = (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(al, ah));
    uint32_t sevens_of_b = (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(bl, bh));
    return (uint64_t)sevens_of_b << 32 | sevens_of_a;
}

/* The sums of squares of chunks times the squared scales: 12 bits times 8 bits, exact. */
INLINE void weigh(const uint32_t *squares, const unsigned char *scales, uint32_t chunks, sums *x)
{
    for (uint32_t i = 0; i < chunks; i += SB_FP4_EIGHT) {
        __m256i eight = _mm256_loadu_si256((const __m256i *)(const void *)(squares + i));
        __m256 by = _mm256_mul_ps(_mm256_cvtepi32_ps(eight), sb_fp4_scale_squares(scales + i));
        x->squares = _mm256_add_epi32(x->squares, eight);
        x->sum2 = _mm256_add_pd(x->sum2, _mm256_cvtps_pd(_mm256_castps256_ps128(by)));
        x->sum2 = _mm256_add_pd(x->sum2, _mm256_cvtps_pd(_mm256_extractf128_ps(by, 1)));
    }
}

/* --- counters --------------------------------------------------------------------------------- */

INLINE void add_total(uint64_t *total, __m256i four)
{
    __m256i *at = (__m256i *)(void *)total;
    _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), four));
}

/* Adds a pair of counters to its totals, and resets it. */
INLINE void empty(__m256i *counters, uint64_t (*totals)[4])
{
    const __m256i low_half = _mm256_set1_epi8(15);
    __m256i low = _mm256_and_si256(*counters, low_half);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(*counters, 4), low_half);
    add_total(totals[0], per_chunk(low));
    add_total(totals[1], per_chunk(high));
    *counters = _mm256_setzero_si256();
}

INLINE void count(sums *x, int few, sb_fp4_tally *tally)
{
    empty(&x->count_1, tally->totals);
    if (few)
        return;
    empty(&x->count_3, tally->totals + 2);
    empty(&x->count_5, tally->totals + 4);
    empty(&x->count_9, tally->totals + SB_FP4_MINUS);
}

INLINE __m256i *pending(sb_fp4_tally *tally, unsigned i)
{
    return (__m256i *)(void *)tally->pending[i];
}

INLINE void begin(sb_fp4_tally *tally, sums *x)
{
    x->sum = x->sum2 = x->sum4 = _mm256_setzero_pd();
    x->squares = _mm256_setzero_si256();
    x->top = _mm_setzero_si128();
    x->count_1 = _mm256_loadu_si256(pending(tally, 0));
    x->count_3 = _mm256_loadu_si256(pending(tally, 1));
    x->count_5 = _mm256_loadu_si256(pending(tally, 2));
    x->count_9 = _mm256_loadu_si256(pending(tally, 3));
}

INLINE void finish(const sb_fp4 *f, const sums *x, int eight, sb_fp4_tally *tally, sb_fp4_sums *r)
{
    const __m256i lower = _mm256_set1_epi64x(0xffffffff);
    __m256i squares = !eight ? x->squares
                             : _mm256_add_epi64(_mm256_and_si256(x->squares, lower),
                                                _mm256_srli_epi64(x->squares, 32));
    _mm256_storeu_si256(pending(tally, 0), x->count_1);
    _mm256_storeu_si256(pending(tally, 1), x->count_3);
    _mm256_storeu_si256(pending(tally, 2), x->count_5);
    _mm256_storeu_si256(pending(tally, 3), x->count_9);
    add_total(tally->totals[SB_FP4_SQUARES], squares);
    if (!eight) {
        _mm256_storeu_pd(r->sum, x->sum);
        _mm256_storeu_pd(r->sum4, x->sum4);
    }
    _mm256_storeu_pd(r->sum2, eight ? _mm256_mul_pd(x->sum2, _mm256_set1_pd(0x1p16)) : x->sum2);
    sb_fp4_note_top(f, x->top, r);
}

INLINE void fours_of(const sb_fp4 *f, const sb_fp4_rows *rows, int two, int shape,
                     sb_fp4_tally *tally, sb_fp4_sums *r)
{
    sums x;
    const uint32_t blocks = two ? FOUR / 2 : FOUR, steps = f->blocks / blocks;
    unsigned done = tally->steps;
    begin(tally, &x);
    for (uint32_t k = 0; k < rows->count; k++) {
        const unsigned char *bytes = rows->codes + k * rows->codes_step;
        const unsigned char *scales = rows->scales + k * rows->scales_step;
        for (uint32_t b = 0; b < steps * blocks; b += blocks, bytes += BYTES) {
            unsigned lacking = four_chunks(f, bytes, scales + b, two, shape, &x);
            uint32_t four = two ? sb_load_u16(scales + b) : sb_load_u32(scales + b);
            lacking = two ? (lacking & 1) | (lacking >> 1 & 2) : lacking;
            lacking |= sb_fp4_odd_scales(four, blocks, two);
            if (lacking)
                sb_fp4_each_block(f, bytes, scales + b, blocks, lacking, rows->first + k, b, r,
                                  &x.top);
            else
                x.top = _mm_max_epu8(x.top, _mm_cvtsi32_si128((int)four));
            if (++done == SB_FP4_STEPS) {
                count(&x, 0, tally);
                done = 0;
            }
        }
        sb_fp4_end_row(f, rows, k, steps * blocks, tally, r);
    }
    tally->steps = done;
    tally->codes += (uint64_t)rows->count * steps * FOUR * CHUNK;
    finish(f, &x, 0, tally, r);
}

/* For up to TILE chunks, all sums of squares are made first and multiplied by their scales
 * afterwards, so that the processor does not wait for dependent operations. Eight chunks are two
 * steps of the counters. */
INLINE void eights_of(const sb_fp4 *f, const sb_fp4_rows *rows, int few, sb_fp4_tally *tally,
                      sb_fp4_sums *r)
{
    enum { TILE = 32 };
    sums x;
    uint32_t squares[TILE];
    const uint32_t chunks = f->blocks / SB_FP4_EIGHT * SB_FP4_EIGHT;
    unsigned done = tally->steps;
    begin(tally, &x);
    for (uint32_t k = 0; k < rows->count; k++) {
        const unsigned char *bytes = rows->codes + k * rows->codes_step;
        const unsigned char *scales = rows->scales + k * rows->scales_step;
        for (uint32_t b = 0, end; b < chunks; b = end) {
            const uint32_t first = b;
            end = chunks - b < TILE ? chunks : b + TILE;
            for (; b < end; b += SB_FP4_EIGHT, bytes += 2 * (size_t)BYTES) {
                if (done + 2 > SB_FP4_STEPS) {
                    count(&x, few, tally);
                    done = 0;
                }
                done += 2;
                uint64_t eight = sb_load_u64(scales + b);
                unsigned special =
                    sb_fp4_special(eight_chunks(f, bytes, few, squares + (b - first), &x), eight);
                if (special)
                    sb_fp4_each_block(f, bytes, scales + b, SB_FP4_EIGHT, special, rows->first + k,
                                      b, r, &x.top);
                else
                    x.top = _mm_max_epu8(x.top, _mm_cvtsi64_si128((long long)eight));
            }
            weigh(squares, scales + first, end - first, &x);
        }
        sb_fp4_end_row(f, rows, k, chunks, tally, r);
    }
    tally->steps = done;
    tally->codes += (uint64_t)rows->count * chunks * CHUNK;
    finish(f, &x, 1, tally, r);
}

AVX2 void sb_fp4_rows_avx2(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally,
                           sb_fp4_sums *r)
{
    if (sb_fp4_by_eights(f) && tally->few)
        eights_of(f, rows, 1, tally, r);
    else if (sb_fp4_by_eights(f))
        eights_of(f, rows, 0, tally, r);
    else if (f->shape && f->chunks == 2)
        fours_of(f, rows, 1, 1, tally, r);
    else if (f->shape)
        fours_of(f, rows, 0, 1, tally, r);
    else if (f->chunks == 2)
        fours_of(f, rows, 1, 0, tally, r);
    else
        fours_of(f, rows, 0, 0, tally, r);
}

#else

void sb_fp4_rows_avx2(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally, sb_fp4_sums *r)
{
    (void)f, (void)rows, (void)tally, (void)r;
}

#endif
