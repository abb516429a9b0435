/* fp4_bytes.c - one row of codes and block scales, without an original. */
#include "tools/check/fp4.h"

/* Sums over the codes of a byte, in fields wide enough for the 16 bytes of a block. x is twice the
 * value of a code, an integer: the sum of x^4, of x^2, of x (24 more, so that it is not negative),
 * and how many codes are not zero, are 7, are 6. */
#define X(c) (((c)&7) < 5 ? ((c)&7) : ((c)&7) == 5 ? 6 : ((c)&7) == 6 ? 8 : 12)
#define SIGNED(c) ((c)&8 ? -X(c) : X(c))
#define FIELD_2 20
#define FIELD_1 33
#define FIELD_NONZERO 43
#define FIELD_SEVEN 49
#define FIELD_SIX 55
#define BIAS 24
#define POWER4(c) ((uint64_t)(X(c) * X(c) * X(c) * X(c)))
#define POWER2(c) ((uint64_t)(X(c) * X(c)) << FIELD_2)
#define ONE(c)                                                                                     \
    (POWER4(c) + POWER2(c) + ((uint64_t)(SIGNED(c) + BIAS / 2) << FIELD_1) +                       \
     ((uint64_t)(((c)&7) != 0) << FIELD_NONZERO) + ((uint64_t)(((c)&7) == 7) << FIELD_SEVEN) +     \
     ((uint64_t)(((c)&7) == 6) << FIELD_SIX))
#define BYTE(h, l) (ONE(h) + ONE(l))
#define BYTES(h)                                                                                   \
    BYTE(h, 0), BYTE(h, 1), BYTE(h, 2), BYTE(h, 3), BYTE(h, 4), BYTE(h, 5), BYTE(h, 6),            \
        BYTE(h, 7), BYTE(h, 8), BYTE(h, 9), BYTE(h, 10), BYTE(h, 11), BYTE(h, 12), BYTE(h, 13),    \
        BYTE(h, 14), BYTE(h, 15)

static const uint64_t sums[256] = {BYTES(0),  BYTES(1),  BYTES(2),  BYTES(3), BYTES(4),  BYTES(5),
                                   BYTES(6),  BYTES(7),  BYTES(8),  BYTES(9), BYTES(10), BYTES(11),
                                   BYTES(12), BYTES(13), BYTES(14), BYTES(15)};

static unsigned field(uint64_t sum, unsigned first, unsigned bits)
{
    return (unsigned)(sum >> first & ((1u << bits) - 1u));
}

/* Scale bytes of all-zero blocks that quantizers are known to write; their places in zero_bytes. */
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

/* The largest magnitude of a block without a 7 or a 6. */
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

/* V-19: "every block with a scale byte of at least 4 and a code that is not zero has one of
 * magnitude 7" */
static unsigned judge_largest(const sb_fp4 *f, const unsigned char *codes, uint64_t sum,
                              uint8_t byte, uint32_t row, uint32_t block)
{
    static const unsigned twice[8] = {0, 1, 2, 3, 4, 6, 8, 12};
    if (field(sum, FIELD_SEVEN, 6))
        return 12;
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
    return four ? 8 : twice[largest_code(codes, f->chunks * 8)];
}

/* V-15: "0x7f and 0xff are NaN, a byte with its sign bit set is negative" */
static void odd_scale(const sb_fp4 *f, uint8_t byte, int codes, uint32_t row, uint32_t block)
{
    if (f->mx ? byte == 0xff : (byte & 0x7f) == 0x7f)
        sb_fp4_place(&f->seen->nan_scale, row, block);
    else if (byte & 0x80)
        sb_fp4_place(&f->seen->minus_scale, row, block);
    else if (codes)
        sb_fp4_place(&f->seen->vanished, row, block);
}

/* What a row adds to the moments, in units of the multiplier and of half a code. */
typedef struct row_sums {
    double sum, sum2, sum4, largest;
    uint32_t zeros;
} row_sums;

static void one_block(const sb_fp4 *f, const unsigned char *codes, uint64_t sum, uint8_t byte,
                      uint32_t row, uint32_t block, row_sums *r)
{
    int nonzero = (int)field(sum, FIELD_NONZERO, 6);
    double scale = f->scale[byte], square = scale * scale;
    uint32_t count = f->chunks * 16;
    if (!(scale > 0))
        odd_scale(f, byte, nonzero, row, block);
    if (!nonzero) {
        zero_block(f, byte, row, block);
        r->zeros += count;
        return;
    }
    double largest = judge_largest(f, codes, sum, byte, row, block) * scale;
    r->zeros += scale > 0 ? count - (uint32_t)nonzero : count;
    r->largest = largest > r->largest ? largest : r->largest;
    r->sum += ((int)field(sum, FIELD_1, 10) - BIAS * (int)count / 2) * scale;
    r->sum2 += field(sum, FIELD_2, 13) * square;
    r->sum4 += field(sum, 0, 20) * square * square;
    if (!f->mx && byte > f->seen->largest_scale && byte < 0x7f)
        f->seen->largest_scale = byte;
    if (!f->mx && byte > 0 && byte < 8)
        sb_fp4_place(&f->seen->flushed, row, block);
}

static void add_row(const sb_fp4 *f, const row_sums *r, uint32_t row)
{
    sb_seen *seen = f->panel->seen;
    sb_moments *m = &seen->moments;
    double half = f->multiplier / 2, square = half * half;
    m->count += f->panel->matrix.cols;
    m->zeros += r->zeros;
    if (f->usable) {
        m->sum += r->sum * half;
        m->sum2 += r->sum2 * square;
        m->sum4 += r->sum4 * square * square;
        m->largest = r->largest * half > m->largest ? r->largest * half : m->largest;
    }
    if (r->zeros < f->panel->matrix.cols) {
        seen->run = 0;
        return;
    }
    seen->zero_rows++;
    if (++seen->run > seen->zero_run) {
        seen->zero_run = seen->run;
        seen->zero_run_first = row + 1 - seen->run;
    }
}

void sb_fp4_row(const sb_fp4 *f, const unsigned char *codes, const unsigned char *scales,
                uint32_t row, uint32_t *histogram)
{
    row_sums r = {0, 0, 0, 0, 0};
    unsigned bytes = f->chunks * 8;
    for (uint32_t b = 0; b < f->blocks; b++, codes += bytes) {
        uint64_t sum = 0;
        for (unsigned i = 0; i < bytes; i += 2) {
            sum += sums[codes[i]] + sums[codes[i + 1]];
            histogram[codes[i]]++;
            histogram[256 + codes[i + 1]]++;
        }
        one_block(f, codes, sum, scales[b], row, b, &r);
    }
    f->seen->blocks += f->blocks;
    add_row(f, &r, row);
}
