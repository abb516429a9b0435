/* fp4_bytes.c - rows of codes and block scales, without an original. */
#include "tools/check/scan/fp4.h"

enum { CHUNK = 16, BYTES = CHUNK / 2 };

const uint8_t sb_fp4_twice[8] = {0, 1, 2, 3, 4, 6, 8, 12};

/* Sums over the two codes of a byte, in bit fields that can add 8 bytes (a chunk), and 16. With x
 * as twice the value of a code, an integer: the sums of x^4, of x^2, and of x (plus 24 per byte, to
 * stay positive), and the numbers of codes that are not zero, that are 7, and that are 6. */
enum { FIELD_2 = 20, FIELD_1 = 33, FIELD_NONZERO = 43, FIELD_SEVEN = 49, FIELD_SIX = 55 };
enum { BIAS = 12 };

static uint64_t one_code(unsigned code)
{
    unsigned magnitude = code & 7u, x = sb_fp4_twice[magnitude];
    uint64_t biased = code & 8u ? BIAS - x : BIAS + x;
    return (uint64_t)(x * x * x * x) | (uint64_t)(x * x) << FIELD_2 | biased << FIELD_1 |
           (uint64_t)(magnitude != 0) << FIELD_NONZERO | (uint64_t)(magnitude == 7) << FIELD_SEVEN |
           (uint64_t)(magnitude == 6) << FIELD_SIX;
}

static void prepare_counts(sb_fp4 *f, unsigned code)
{
    unsigned magnitude = code & 7u, x = sb_fp4_twice[magnitude], square = x * x;
    f->counts[SB_FP4_PLUS_12][code] = (uint8_t)(code & 8u ? 12 - x : 12 + x);
    f->counts[SB_FP4_SQUARE][code] = (uint8_t)square;
    f->counts[SB_FP4_FOURTH][code] = (uint8_t)(square * square & 0xffu);
    f->counts[SB_FP4_FOURTHS][code] = (uint8_t)(square * square >> 8);
    for (unsigned i = 0; i < 3; i++)
        f->counts[SB_FP4_COUNT_1 + i][code] = magnitude == 2 * i + 1   ? 1
                                              : magnitude == 2 * i + 2 ? 16
                                                                       : 0;
    f->counts[SB_FP4_COUNT_9][code] = code > 8 ? 1 : code == 8 ? 16 : 0;
    f->counts[SB_FP4_COUNT_0][code] = code > 8 ? 16 : magnitude == 0 ? 1 : 0;
}

void sb_fp4_prepare_sums(sb_fp4 *f)
{
    for (unsigned i = 0; i < 16; i++)
        prepare_counts(f, i);
    uint64_t one[16];
    for (unsigned i = 0; i < 16; i++)
        one[i] = one_code(i);
    for (unsigned i = 0; i < 256; i++)
        f->sums[i] = one[i & 15u] + one[i >> 4];
}

static unsigned field(uint64_t sum, unsigned first, unsigned bits)
{
    return (unsigned)(sum >> first & ((1u << bits) - 1u));
}

/* Scale bytes that known quantizers write for all-zero blocks; the index is the bit in
 * zero_bytes. */
static const uint8_t conventions[] = {0x00, 0x01, 0x20, 0x38, 0x7e};

static void zero_block(const sb_fp4 *f, uint8_t byte, uint32_t row, uint32_t block)
{
    sb_seen_fp4 *seen = f->seen;
    seen->zero_blocks++;
    if (f->mx && byte == 0)
        return;
    for (unsigned i = 0; i < sizeof conventions && !f->mx; i++)
        if (byte == conventions[i]) {
            seen->zero_bytes |= 1u << i;
            return;
        }
    if (!(f->scale[byte] > 0))
        return;
    seen->lost_mixed |= seen->lost.count > 0 && byte != seen->lost_byte;
    seen->lost_byte = byte;
    sb_fp4_place(&seen->lost, row, block);
}

/* The largest magnitude of a block that has neither a 7 nor a 6. */
static unsigned largest_code(const unsigned char *codes, unsigned bytes)
{
    unsigned largest = 0;
    for (unsigned i = 0; i < bytes; i++) {
        unsigned l = codes[i] & 7u, h = codes[i] >> 4 & 7u;
        largest = l > largest ? l : largest;
        largest = h > largest ? h : largest;
    }
    return largest;
}

/* V-19: "every block with a scale byte of at least 4 and a code that is not zero has a code of
 * magnitude 7" */
static unsigned judge_largest(const sb_fp4 *f, const unsigned char *codes, uint64_t sum,
                              uint8_t byte, uint32_t row, uint32_t block)
{
    if (field(sum, FIELD_SEVEN, 6))
        return sb_fp4_twice[7];
    int four = field(sum, FIELD_SIX, 6) != 0;
    if (four)
        f->seen->fours++;
    else
        f->seen->lower++;
    if (f->mx ? byte >= 1 : byte >= 4) {
        sb_fp4_place(&f->seen->not_six, row, block);
        if (!four)
            sb_fp4_place(&f->seen->not_four, row, block);
    }
    return four ? 8 : sb_fp4_twice[largest_code(codes, f->chunks * 8)];
}

/* V-15: "0x7f and 0xff are NaN, and a byte with its sign bit set is negative" */
static void odd_scale(const sb_fp4 *f, uint8_t byte, int codes, uint32_t row, uint32_t block)
{
    if (f->mx ? byte == 0xff : (byte & 0x7f) == 0x7f)
        sb_fp4_place(&f->seen->nan_scale, row, block);
    else if (byte & 0x80)
        sb_fp4_place(&f->seen->minus_scale, row, block);
    else if (codes)
        sb_fp4_place(&f->seen->vanished, row, block);
}

static uint64_t sum_chunk(const sb_fp4 *f, const unsigned char *codes)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < BYTES; i++)
        sum += f->sums[codes[i]];
    return sum;
}

void sb_fp4_block(const sb_fp4 *f, const unsigned char *codes, uint8_t byte, uint32_t row,
                  uint32_t block, sb_fp4_sums *r)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < f->chunks; i++)
        sum += sum_chunk(f, codes + (size_t)i * BYTES);
    unsigned nonzero = field(sum, FIELD_NONZERO, 6);
    double scale = f->scale[byte];
    if (!(scale > 0))
        odd_scale(f, byte, nonzero != 0, row, block);
    if (!nonzero) {
        r->zeros++;
        zero_block(f, byte, row, block);
        return;
    }
    double largest = judge_largest(f, codes, sum, byte, row, block) * scale;
    r->vanished += scale > 0 ? 0 : nonzero;
    r->largest = largest > r->largest ? largest : r->largest;
    if (!f->mx && byte > f->seen->largest_scale && byte < 0x7f)
        f->seen->largest_scale = byte;
    if (!f->mx && byte > 0 && byte < 8)
        sb_fp4_place(&f->seen->flushed, row, block);
}

/* The moments of a chunk, which sb_fp4_block() leaves out. */
static void moments(const sb_fp4 *f, const unsigned char *codes, double scale, uint32_t chunk,
                    sb_fp4_tally *tally, sb_fp4_sums *r)
{
    uint64_t sum = sum_chunk(f, codes);
    double square = scale * scale;
    const unsigned at = chunk % 4 + (chunk / 4 == f->blocks * f->chunks / 4 ? 4 : 0);
    for (unsigned i = 0; i < BYTES; i += 2) {
        tally->bytes[codes[i]]++;
        tally->bytes[256 + codes[i + 1]]++;
    }
    r->sum2[at] += field(sum, FIELD_2, 13) * square;
    if (!f->shape)
        return;
    r->sum[at] += ((int)field(sum, FIELD_1, 10) - BIAS * CHUNK) * scale;
    r->sum4[at] += field(sum, 0, 20) * (square * square);
}

static double all(const double *x)
{
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

/* 1 if each value of the row is 0. For rows in which some scales are not above zero. */
static int is_zero(const sb_fp4 *f, const unsigned char *codes, const unsigned char *scales)
{
    size_t bytes = (size_t)f->chunks * BYTES;
    for (size_t i = 0; i < bytes * f->blocks; i++)
        if ((codes[i] & 0x77) != 0 && f->scale[scales[i / bytes]] > 0)
            return 0;
    return 1;
}

static void see_zero(sb_seen *seen, uint32_t row)
{
    seen->zero_rows++;
    if (++seen->run > seen->zero_run) {
        seen->zero_run = seen->run;
        seen->zero_run_first = row + 1 - seen->run;
    }
}

void sb_fp4_end_row(const sb_fp4 *f, const sb_fp4_rows *rows, uint32_t k, uint32_t block,
                    sb_fp4_tally *tally, sb_fp4_sums *r)
{
    const unsigned char *codes = rows->codes + k * rows->codes_step;
    const unsigned char *scales = rows->scales + k * rows->scales_step;
    const size_t bytes = (size_t)f->chunks * BYTES;
    for (; block < f->blocks; block++) {
        const unsigned char *at = codes + block * bytes;
        for (unsigned i = 0; i < f->chunks; i++)
            moments(f, at + (size_t)i * BYTES, f->scale[scales[block]], block * f->chunks + i,
                    tally, r);
        sb_fp4_block(f, at, scales[block], rows->first + k, block, r);
    }
    if (r->zeros == f->blocks || (r->vanished > r->hidden && is_zero(f, codes, scales))) {
        r->dead |= 1u << k;
        see_zero(f->panel->seen, rows->first + k);
    } else {
        f->panel->seen->run = 0;
    }
    r->zeros = 0;
    r->hidden = r->vanished;
}

uint32_t sb_fp4_add_rows(const sb_fp4 *f, const sb_fp4_rows *rows, sb_fp4_tally *tally)
{
    sb_moments *m = &f->panel->seen->moments;
    double half = f->multiplier / 2, square = half * half;
    sb_fp4_sums r = {.dead = 0};
    if (f->loops == SB_FP4_AVX512 && tally->few)
        sb_fp4_few_avx512(f, rows, tally, &r);
    else if (f->loops)
        sb_fp4_rows_avx2(f, rows, tally, &r);
    for (uint32_t k = 0; k < rows->count && !f->loops; k++)
        sb_fp4_end_row(f, rows, k, 0, tally, &r);
    f->seen->blocks += rows->count * f->blocks;
    m->count += (uint64_t)rows->count * f->panel->matrix.cols;
    m->zeros += r.vanished;
    if (f->usable) {
        m->sum += f->shape ? all(r.sum) * half : 0;
        m->sum2 += all(r.sum2) * square;
        m->sum4 += f->shape ? all(r.sum4) * square * square : 0;
        m->largest = r.largest * half > m->largest ? r.largest * half : m->largest;
    }
    return r.dead;
}

/* --- a panel ---------------------------------------------------------------------------------- */

static void add_bytes(sb_seen *seen, const uint32_t *bytes, int few)
{
    for (unsigned i = 0; i < 512; i++)
        for (unsigned half = 0; half < 2 && bytes[i]; half++) {
            unsigned code = i >> 4 * half & 15u;
            seen->fp4.magnitude[code & 7u] += few && (code & 7u) ? 0 : bytes[i];
            seen->fp4.negative += code > 8 ? bytes[i] : 0;
            seen->fp4.minus_zero += !few && code == 8 ? bytes[i] : 0;
            seen->moments.zeros += (code & 7u) == 0 ? bytes[i] : 0;
        }
}

static uint64_t total(const sb_fp4_tally *tally, unsigned i)
{
    const uint64_t *x = tally->totals[i];
    uint64_t sum = x[0] + x[1] + x[2] + x[3];
    for (unsigned k = 0; k < 32 && i < SB_FP4_SQUARES; k++)
        sum += (unsigned)tally->pending[i / 2][k] >> 4 * (i % 2) & 15u;
    return sum;
}

static void add_few(sb_seen *seen, const sb_fp4_tally *tally)
{
    uint64_t zeros = total(tally, 0);
    seen->fp4.magnitude[0] += zeros;
    seen->moments.zeros += zeros;
    seen->fp4.negative += total(tally, 1);
}

/* The rest of the sum of squares, without the other magnitudes, comes from magnitude 7. */
static void add_totals(sb_seen *seen, const sb_fp4_tally *tally)
{
    uint64_t squares = total(tally, SB_FP4_SQUARES), zeros = tally->codes;
    for (unsigned m = 1; m < 7; m++) {
        uint64_t n = total(tally, m - 1);
        seen->fp4.magnitude[m] += n;
        squares -= n * sb_fp4_twice[m] * sb_fp4_twice[m];
        zeros -= n;
    }
    uint64_t sevens = squares / 144;
    zeros -= sevens;
    seen->fp4.magnitude[7] += sevens;
    seen->fp4.magnitude[0] += zeros;
    seen->moments.zeros += zeros;
    seen->fp4.negative += total(tally, SB_FP4_MINUS);
    seen->fp4.minus_zero += total(tally, SB_FP4_MINUS_ZERO);
}

void sb_fp4_add_tally(sb_seen *seen, sb_fp4_tally *tally)
{
    add_bytes(seen, tally->bytes, tally->few);
    if (tally->few)
        add_few(seen, tally);
    else
        add_totals(seen, tally);
    *tally = (sb_fp4_tally){.few = 0};
}

int sb_fp4_few_will_do(const sb_fp4 *f)
{
    const sb_seen_fp4 *s = f->seen;
    int all = s->minus_zero && s->magnitude[0] > (uint64_t)s->zero_blocks * f->chunks * CHUNK;
    for (unsigned i = 1; i < 8; i++)
        all = all && s->magnitude[i];
    return all && sb_fp4_keeps_few(f) && sb_fp4_member(f->panel);
}

void sb_fp4_count_all(const sb_matrix *m, uint64_t magnitude[8])
{
    for (uint32_t row = 0; row < m->rows; row++) {
        const unsigned char *p = m->data + sb_matrix_stored_row(m, row) * (m->cols / 2);
        for (uint32_t k = 0; k < m->cols / 2; k++) {
            magnitude[p[k] & 7]++;
            magnitude[p[k] >> 4 & 7]++;
        }
    }
}
