/* int_unpack.c - integer codes of several rows at once, from each of the four packings. */
#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "tools/check/scan/ints.h"

sb_int_range sb_int_range_of(sb_format format)
{
    switch (format) {
    case SB_FORMAT_int4:
        return (sb_int_range){-8, 7};
    case SB_FORMAT_int8:
        return (sb_int_range){-128, 127};
    case SB_FORMAT_uint8:
        return (sb_int_range){0, 255};
    default:
        return (sb_int_range){0, 15};
    }
}

sb_int_range sb_int_range_in(const sb_matrix *m)
{
    int half = m->quant.code_bits ? 1 << (m->quant.code_bits - 1) : 0;
    return half ? (sb_int_range){-half, half - 1} : sb_int_range_of(m->format);
}

int sb_int_is_wide(const sb_matrix *m)
{
    return (m->quant.code_bits ? m->quant.code_bits : sb_format_bits(m->format)) > 4;
}

/* V-38: "|w / S + z - c| is at most 1/2, and |w / S| / 256 more", "at most 1 + 1/64", "the sum is
 * rounded, too" - all multiplied by 256 |S|. The end codes also stand for everything beyond
 * them. */
unsigned sb_int_stands(int code, int zero, sb_int_range range, double weight, double scale)
{
    int middle = (range.least + range.most + 1) / 2,
        from = code < middle ? middle - code : code - middle;
    double step = scale < 0 ? -scale : scale, w = scale < 0 ? -weight : weight;
    double off = 256 * (w - (code - zero) * step), slack = weight < 0 ? -weight : weight;
    if (zero != middle)
        slack += (from + 0.5) * step;
    double half = (sb_int_at_floor(step) ? 260 : 128) * step + slack;
    unsigned far = (off > half && code != range.most) || (off < -half && code != range.least);
    unsigned beyond =
        (off > 260 * step || off < -260 * step) && code != range.most && code != range.least;
    return (far ? SB_INT_FAR : 0u) | (beyond ? SB_INT_BEYOND : 0u);
}

static int16_t extended(uint32_t code, sb_format format)
{
    if (format == SB_FORMAT_int8)
        return (int16_t)(int8_t)(uint8_t)code;
    if (format == SB_FORMAT_int4)
        return (int16_t)((int)(code ^ 8u) - 8);
    return (int16_t)code;
}

static void words_down(const sb_matrix *m, uint64_t row, uint32_t rows, uint32_t first,
                       uint32_t count, int16_t *codes, uint32_t stride)
{
    uint32_t bits = (uint32_t)sb_format_bits(m->format), per = 32 / bits, mask = (1u << bits) - 1u;
    for (uint32_t k = 0; k < count; k += per) {
        const unsigned char *words =
            m->data + 4 * ((first + k) / per * (uint64_t)m->quant.stored_rows + row);
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t word = sb_load_u32(words + 4 * (size_t)r);
            for (uint32_t i = 0; i < per; i++, word >>= bits)
                codes[(size_t)r * stride + k + i] = (int16_t)(word & mask);
        }
    }
}

static void words_across(const sb_matrix *m, uint64_t row, uint32_t rows, uint32_t first,
                         uint32_t count, int16_t *codes, uint32_t stride)
{
    static const unsigned nibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    for (uint32_t k = 0; k < count; k++) {
        uint64_t at = (first + k) * (uint64_t)m->quant.stored_rows;
        for (uint32_t r = 0, end; r < rows; r = end) { /* the rows in one word */
            uint32_t in = (uint32_t)((row + r) % 8);
            uint32_t word = sb_load_u32(m->data + 4 * ((at + row + r) / 8));
            end = rows - r < 8 - in ? rows : r + 8 - in;
            for (uint32_t i = r; i < end; i++)
                codes[(size_t)i * stride + k] = (int16_t)(word >> 4 * nibble[in + i - r] & 15u);
        }
    }
}

static void row_of_pairs(const sb_matrix *m, uint64_t row, uint32_t first, uint32_t count,
                         int16_t *codes)
{
    const unsigned char *bytes = m->data + row / 2 * m->cols + first;
    for (uint32_t k = 0; k < count; k++)
        codes[k] = extended((uint32_t)bytes[k] >> 4 * (row % 2) & 15u, m->format);
}

static void row_by_itself(const sb_matrix *m, uint64_t row, uint32_t first, uint32_t count,
                          int16_t *codes)
{
    if (sb_format_bits(m->format) == 8) {
        const unsigned char *bytes = m->data + row * m->cols + first;
        for (uint32_t k = 0; k < count; k++)
            codes[k] = extended(bytes[k], m->format);
        return;
    }
    const unsigned char *bytes = m->data + row * (m->cols / 2) + first / 2;
    for (uint32_t k = 0; k < count; k += 2) {
        codes[k] = extended(bytes[k / 2] & 15u, m->format);
        codes[k + 1] = extended((uint32_t)bytes[k / 2] >> 4, m->format);
    }
}

void sb_int_unpack(const sb_matrix *m, uint64_t first_row, uint32_t rows, uint32_t first,
                   uint32_t count, int16_t *codes, uint32_t stride)
{
    if (m->quant.packing == SB_PACKING_gptq) {
        words_down(m, first_row, rows, first, count, codes, stride);
        return;
    }
    if (m->quant.packing == SB_PACKING_awq) {
        words_across(m, first_row, rows, first, count, codes, stride);
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        int16_t *to = codes + (size_t)r * stride;
        if (m->quant.packing == SB_PACKING_pairs)
            row_of_pairs(m, first_row + r, first, count, to);
        else
            row_by_itself(m, first_row + r, first, count, to);
    }
}
