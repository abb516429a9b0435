#include "ref/fast/dot/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <string.h>

#include "ref/fast/simd/avx2.h"
#include "ref/fast/simd/fixed.h"
#include "ref/fast/dot/strips.h"
#include "ref/formats/format.h"

enum { BLOCK = SB_STRIP_BLOCK, DIGITS = SB_STRIP_DIGITS, ROWS = SB_STRIP_ROWS };
enum { EIGHTS = ROWS / 8, FOURS = BLOCK / 4 };
/* groups of eight rows that are opened together: their codes fit the L1 cache */
enum { PIECE = 16 };
_Static_assert((int)SB_STRIP_DIGITS == (int)SB_FIXED_DIGITS, "one form of numbers");

/* --- the input -------------------------------------------------------------------------------- */

/* The place of column k of a block among the digits. A GPTQ word has eight columns; the even
 * columns are in the low nibbles. */
static size_t place_of(sb_packing packing, size_t k)
{
    return packing == SB_PACKING_gptq ? k / 8 * 8 + k % 2 * 4 + k % 8 / 2 : k;
}

/* The largest magnitude and the sum of magnitudes in each of 16 lanes. */
typedef struct survey {
    double most[16], all[16];
} survey;

static survey survey_of(const double *x, size_t n)
{
    survey s = {{0}, {0}};
    for (size_t i = 0; i < n; i += 16)
        for (size_t l = 0; l < 16 && i + l < n; l++) {
            const double size = sb_absolute(x[i + l]);
            s.most[l] = size > s.most[l] ? size : s.most[l];
            s.all[l] += size;
        }
    return s;
}

static double added_up(const double lanes[16])
{
    double sum = 0;
    for (size_t l = 0; l < 16; l++)
        sum += lanes[l];
    return sum;
}

/* Writes up to BLOCK columns as digits of integer multiples of the unit. After 128 is added to each
 * digit, each byte of the number is one digit plus 128. Adds the magnitudes of the rounding errors
 * to `errors`, by lane. */
AVX2 static void write_block(const double *x, size_t n, double units, sb_packing packing,
                             sb_strip_block *to, double errors[16])
{
    uint64_t biased[BLOCK], any = 0;
    for (size_t k = 0; k < BLOCK; k++) {
        const double exact = k < n ? x[k] * units : 0, shifted = exact + 0x1.8p52;
        const uint64_t number = sb_bits_f64(shifted) - sb_bits_f64(0x1.8p52);
        errors[k % 16] += sb_absolute(exact - (shifted - 0x1.8p52));
        any |= number;
        biased[place_of(packing, k)] = number + 0x808080808080;
    }
    for (size_t d = 0; d < DIGITS; d++)
        for (size_t k = 0; k < BLOCK; k++)
            to->digits[d][k] = (int8_t)(biased[k] >> 8 * d ^ 0x80);
    to->lowest = sb_fixed_lowest(any);
}

/* The factor of rounding errors in the size of a group, as in sb_fixed_spread(). A product passes
 * through one rounding of its group's sum and one for each group that is added, at most n / 32 + 2.
 * row.h allows n / 16 + 24, so that 22 + n / 32 are left. 16 + n / 32 of them cover the rounding of
 * the inputs. */
static double spread_of(size_t n)
{
    return 0x1p53 / (double)(16 + n / BLOCK);
}

static void write_group(const double *x, size_t n, double spread, sb_packing packing,
                        sb_strip_block *blocks, sb_strip_group *to)
{
    const survey s = survey_of(x, n);
    double most = 0, errors[16] = {0};
    for (size_t l = 0; l < 16; l++)
        most = s.most[l] > most ? s.most[l] : most;
    const double all = added_up(s.all), top = sb_fixed_top(most, all);
    const double units = top > 0 ? 0x1p47 / top : 0;
    memset(to->sums, 0, sizeof to->sums);
    for (size_t k = 0; k < n; k += BLOCK, blocks++) {
        write_block(x + k, n - k < BLOCK ? n - k : BLOCK, units, packing, blocks, errors);
        for (size_t d = 0; d < DIGITS; d++)
            for (size_t i = 0; i < BLOCK; i++)
                to->sums[d] += blocks->digits[d][i];
    }
    to->unit = top * 0x1p-47;
    to->size = all + spread * (added_up(errors) * to->unit);
}

static void arrange(const sb_matrix *w, const double *x, const sb_strip_input *to)
{
    const size_t each = w->quant.block_cols;
    for (size_t k = 0, g = 0; k < w->cols; k += each, g++)
        write_group(x + k, w->cols - k < each ? w->cols - k : each, spread_of(w->cols),
                    w->quant.packing, to->blocks + k / BLOCK, to->groups + g);
}

/* --- codes ------------------------------------------------------------------------------------ */

/* The codes of a block as bytes: four columns of each of eight rows. */
typedef struct opened {
    __m256i fours[FOURS][PIECE];
} opened;

/* Up to PIECE groups of eight rows of a strip, from stored row `first` on. */
typedef struct piece {
    const sb_matrix *w;
    size_t first, eights;
} piece;

INLINE __m256i load(const void *at)
{
    return _mm256_loadu_si256(at);
}

INLINE __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

INLINE __m256i high_nibbles(__m256i bytes)
{
    return low_nibbles(_mm256_srli_epi16(bytes, 4));
}

/* Prefetches data further ahead. */
INLINE void fetch(const unsigned char *at, size_t bytes, size_t further)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)at + further + i, _MM_HINT_T1);
}

/* a word has eight columns of a row. */
INLINE void open_gptq(const piece *p, size_t k, opened *to)
{
    const sb_matrix *w = p->w;
    const size_t line = (size_t)4 * w->quant.stored_rows, eights = p->eights;
    const unsigned char *at = w->data + k / 8 * line + 4 * p->first;
    for (size_t j = 0; j < BLOCK / 8; j++, at += line) {
        const int there = k + 8 * j < w->cols;
        fetch(at, 32 * eights, 2 * (BLOCK / 8) * line);
        for (size_t e = 0; e < eights; e++) {
            const __m256i codes = there ? load(at + 32 * e) : _mm256_setzero_si256();
            to->fours[2 * j][e] = low_nibbles(codes);
            to->fours[2 * j + 1][e] = high_nibbles(codes);
        }
    }
}

/* Sorts the rows of a column: lane l of rows[0] gets rows 32 l to 32 l + 15, and lane l of rows[1]
 * gets the next 16 rows. In the bytes of a word, rows 0, 4, 1, 5 are low nibbles, and rows 2, 6, 3,
 * 7 are high nibbles. */
INLINE void in_order(__m256i codes, __m256i rows[2])
{
    const __m128i by_pairs = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
    const __m256i bytes = _mm256_shuffle_epi8(codes, _mm256_broadcastsi128_si256(by_pairs));
    rows[0] = _mm256_unpacklo_epi16(low_nibbles(bytes), high_nibbles(bytes));
    rows[1] = _mm256_unpackhi_epi16(low_nibbles(bytes), high_nibbles(bytes));
}

/* Transposes four columns of 64 rows; to[e] has rows 8 e to 8 e + 7. */
INLINE void turn(const __m256i columns[4], __m256i to[8])
{
    __m256i rows[4][2];
    for (int k = 0; k < 4; k++)
        in_order(columns[k], rows[k]);
    for (int h = 0; h < 2; h++) {
        const __m256i a = _mm256_unpacklo_epi8(rows[0][h], rows[1][h]);
        const __m256i b = _mm256_unpacklo_epi8(rows[2][h], rows[3][h]);
        const __m256i c = _mm256_unpackhi_epi8(rows[0][h], rows[1][h]);
        const __m256i d = _mm256_unpackhi_epi8(rows[2][h], rows[3][h]);
        const __m256i first = _mm256_unpacklo_epi16(a, b), second = _mm256_unpackhi_epi16(a, b);
        const __m256i third = _mm256_unpacklo_epi16(c, d), fourth = _mm256_unpackhi_epi16(c, d);
        to[2 * h] = _mm256_permute2x128_si256(first, second, 0x20);
        to[2 * h + 1] = _mm256_permute2x128_si256(third, fourth, 0x20);
        to[2 * h + 4] = _mm256_permute2x128_si256(first, second, 0x31);
        to[2 * h + 5] = _mm256_permute2x128_si256(third, fourth, 0x31);
    }
}

/* a word has eight rows of a column. Nothing after the rows of the strip is read. */
INLINE void open_awq(const piece *p, size_t k, opened *to)
{
    const sb_matrix *w = p->w;
    const size_t line = w->quant.stored_rows / 2, eights = p->eights;
    const unsigned char *at = w->data + k * line + p->first / 2;
    for (size_t f = 0; f < FOURS; f++, at += 4 * line)
        for (size_t e = 0; e < eights; e += 8) {
            const size_t bytes = eights - e < 8 ? 4 * (eights - e) : 32;
            __m256i columns[4];
            for (size_t i = 0; i < 4; i++) {
                unsigned char some[32];
                columns[i] = _mm256_setzero_si256();
                if (k + 4 * f + i >= w->cols)
                    continue;
                if (e == 0)
                    fetch(at + i * line, 4 * eights, BLOCK * line);
                if (bytes == 32) {
                    columns[i] = load(at + i * line + 4 * e);
                    continue;
                }
                memset(some, 0, sizeof some);
                memcpy(some, at + i * line + 4 * e, bytes);
                columns[i] = load(some);
            }
            turn(columns, to->fours[f] + e);
        }
}

/* --- sums ------------------------------------------------------------------------------------- */

/* The sums of codes times digits of a group, for each digit. */
typedef struct digit_sums {
    __m256i of[DIGITS][EIGHTS];
} digit_sums;

/* The sum of 16 products fits 16 bits: 16 * 15 * 128 < 2^15. */
INLINE void add_piece(digit_sums *to, size_t at, const piece *p, size_t k, const sb_strip_block *x)
{
    const __m256i one = _mm256_set1_epi16(1);
    opened codes;
    if (p->w->quant.packing == SB_PACKING_gptq)
        open_gptq(p, k, &codes);
    else
        open_awq(p, k, &codes);
    for (size_t e = 0; e < p->eights; e++) {
        __m256i fours[FOURS];
#pragma GCC unroll 8
        for (size_t f = 0; f < FOURS; f++) {
            fours[f] = codes.fours[f][e];
            __asm__("" : "+x"(fours[f])); /* keeps the codes in a register for all digits */
        }
        for (int d = x->lowest; d < DIGITS; d++) {
            __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 8
            for (size_t f = 0; f < FOURS; f++) {
                int32_t four;
                memcpy(&four, x->digits[d] + 4 * f, sizeof four);
                sums[f % 2] = _mm256_add_epi16(
                    sums[f % 2], _mm256_maddubs_epi16(fours[f], _mm256_set1_epi32(four)));
            }
            const __m256i all = _mm256_madd_epi16(_mm256_add_epi16(sums[0], sums[1]), one);
            to->of[d][at + e] = _mm256_add_epi32(to->of[d][at + e], all);
        }
    }
}

/* "un-borrowed on the whole word" - returns the zero points of eight rows. */
INLINE __m256i zeros_of(const sb_matrix *w, size_t row, size_t group)
{
    const sb_quant *q = &w->quant;
    const __m256i in_turn = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    const __m256i as_awq = _mm256_setr_epi32(0, 16, 4, 20, 8, 24, 12, 28);
    if (q->zeros == SB_ZEROS_none)
        return _mm256_set1_epi32(q->zero);
    uint32_t word = sb_load_u32(q->zero_points + 4 * (group * (q->stored_rows / 8) + row / 8));
    if (q->zeros == SB_ZEROS_gptq_v1)
        word += 0x11111111u;
    return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)word),
                                              q->zeros == SB_ZEROS_awq ? as_awq : in_turn),
                            _mm256_set1_epi32(15));
}

/* Joins the sums of three digits, for four rows; exact, because they are below 2^47. */
INLINE __m256d three(const __m128i sums[3])
{
    const __m256d most = _mm256_mul_pd(_mm256_cvtepi32_pd(sums[2]), _mm256_set1_pd(0x1p16));
    return _mm256_add_pd(_mm256_fmadd_pd(_mm256_cvtepi32_pd(sums[1]), _mm256_set1_pd(0x1p8), most),
                         _mm256_cvtepi32_pd(sums[0]));
}

/* Adds a group to the sums of four rows, half h of eight, minus their zero points. */
INLINE void join_four(const __m256i of[DIGITS], __m256i zeros, int h, __m256d scale,
                      const sb_strip_group *x, double *sums, double *magnitudes)
{
    const __m256i largest = _mm256_max_epi32(zeros, _mm256_sub_epi32(_mm256_set1_epi32(15), zeros));
    __m128i half[DIGITS];
    for (int d = 0; d < DIGITS; d++)
        half[d] = h ? _mm256_extracti128_si256(of[d], 1) : _mm256_castsi256_si128(of[d]);
    const __m256d all = _mm256_fmadd_pd(three(half + 3), _mm256_set1_pd(0x1p24), three(half));
    const __m256d most = _mm256_cvtepi32_pd(h ? _mm256_extracti128_si256(largest, 1)
                                              : _mm256_castsi256_si128(largest));
    const __m256d size = _mm256_mul_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.0), scale), most);
    _mm256_storeu_pd(sums, _mm256_fmadd_pd(all, _mm256_mul_pd(scale, _mm256_set1_pd(x->unit)),
                                           _mm256_loadu_pd(sums)));
    _mm256_storeu_pd(magnitudes,
                     _mm256_fmadd_pd(size, _mm256_set1_pd(x->size), _mm256_loadu_pd(magnitudes)));
}

INLINE void read_scales(sb_format format, const unsigned char *at, size_t count, float *scales)
{
    for (size_t i = 0; i < count && format == SB_FORMAT_f16; i += 8)
        _mm256_storeu_ps(scales + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(at + 2 * i))));
    if (format != SB_FORMAT_f16)
        sb_decode(format, at, count, scales);
}

INLINE void join_group(const sb_strip *s, size_t eights, size_t group, const digit_sums *digits,
                       const sb_strip_group *x, double *sums, double *magnitudes)
{
    const sb_quant *q = &s->w->quant;
    const size_t first = s->w->first_row + s->first;
    float scales[ROWS];
    read_scales(q->scale_format,
                q->scales + (first + group * q->scale_col) * sb_format_bytes(q->scale_format),
                8 * eights, scales);
    for (size_t e = 0; e < eights; e++) {
        const __m256i zeros = zeros_of(s->w, first + 8 * e, group);
        __m256i of[DIGITS];
        for (int d = 0; d < DIGITS; d++)
            of[d] = _mm256_sub_epi32(digits->of[d][e],
                                     _mm256_mullo_epi32(zeros, _mm256_set1_epi32(x->sums[d])));
        for (int h = 0; h < 2; h++) {
            const size_t at = 8 * e + 4 * (size_t)h;
            join_four(of, zeros, h, _mm256_cvtps_pd(_mm_loadu_ps(scales + at)), x, sums + at,
                      magnitudes + at);
        }
    }
}

AVX2 static void add(const sb_strip *s, const sb_strip_input *x, double *sums, double *magnitudes)
{
    const size_t eights = (s->rows + 7) / 8, each = s->w->quant.block_cols, cols = s->w->cols;
    memset(sums, 0, ROWS * sizeof *sums);
    memset(magnitudes, 0, ROWS * sizeof *magnitudes);
    for (size_t first = 0, group = 0; first < cols; first += each, group++) {
        const size_t end = cols - first < each ? cols : first + each;
        digit_sums digits;
        memset(&digits, 0, sizeof digits);
        for (size_t k = first; k < end; k += BLOCK)
            for (size_t e = 0; e < eights; e += PIECE) {
                const piece some = {s->w, s->w->first_row + s->first + 8 * e,
                                    eights - e < PIECE ? eights - e : PIECE};
                add_piece(&digits, e, &some, k, x->blocks + k / BLOCK);
            }
        join_group(s, eights, group, &digits, x->groups + group, sums, magnitudes);
    }
}

const sb_strip_kernels sb_strips_avx2 = {arrange, add};

#endif
