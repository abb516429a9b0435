#include "tools/check/scan/scan_decoding.h"

#include <inttypes.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/formats/wide.h"

/* V-48: "one element at a time, from the bytes of its code, its scale and its zero point" - this
 * file shares nothing with the decoders of ref/formats. */

enum { COLUMNS = 32 }; /* per sampled row, besides the first and the last */

static double power_of_two(int exponent)
{
    double x = 1;
    for (; exponent > 0; exponent--)
        x *= 2;
    for (; exponent < 0; exponent++)
        x /= 2;
    return x;
}

static double not_a_number(void)
{
    return sb_f64_from_bits(0x7ff8000000000000u);
}

static double e2m1(uint32_t code)
{
    static const double magnitude[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return code & 8u ? -magnitude[code & 7u] : magnitude[code & 7u];
}

static double e4m3(uint32_t code)
{
    uint32_t exponent = code >> 3 & 15u, fraction = code & 7u;
    if (exponent == 15 && fraction == 7)
        return not_a_number();
    double magnitude = exponent == 0 ? (double)fraction * power_of_two(-9)
                                     : (8.0 + (double)fraction) * power_of_two((int)exponent - 10);
    return code & 0x80u ? -magnitude : magnitude;
}

/* An IEEE number of 16 bits, with `exponent_bits` bits of exponent. */
static double half(uint32_t code, unsigned exponent_bits)
{
    unsigned fraction_bits = 15 - exponent_bits;
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t top = (1u << exponent_bits) - 1u;
    uint32_t exponent = code >> fraction_bits & top, fraction = code & ((1u << fraction_bits) - 1u);
    double magnitude;
    if (exponent == top)
        return fraction ? not_a_number()
                        : (code >> 15 ? -1 : 1) * sb_f64_from_bits(0x7ff0000000000000u);
    if (exponent == 0)
        magnitude = (double)fraction * power_of_two(1 - bias - (int)fraction_bits);
    else
        magnitude = (double)((1u << fraction_bits) + fraction) *
                    power_of_two((int)exponent - bias - (int)fraction_bits);
    return code >> 15 ? -magnitude : magnitude;
}

/* The scale with index `at`; NaN for a negative scale of FP4 or FP8 codes. */
static double scale_of(const sb_matrix *m, uint64_t at)
{
    const unsigned char *bytes = m->quant.scales;
    double scale;
    switch (m->quant.scale_format) {
    case SB_FORMAT_e4m3:
        scale = e4m3(bytes[at]);
        break;
    case SB_FORMAT_e8m0:
        scale = bytes[at] == 255 ? not_a_number() : power_of_two((int)bytes[at] - 127);
        break;
    case SB_FORMAT_bf16:
        scale = half((uint32_t)bytes[2 * at] | (uint32_t)bytes[2 * at + 1] << 8, 8);
        break;
    case SB_FORMAT_f16:
        scale = half((uint32_t)bytes[2 * at] | (uint32_t)bytes[2 * at + 1] << 8, 5);
        break;
    default:
        scale = sb_f32_from_bits(sb_load_u32(bytes + 4 * at));
    }
    int narrow = m->format == SB_FORMAT_e2m1 || m->format == SB_FORMAT_e4m3;
    return narrow && (scale < 0 || (scale == 0 && sb_bits_f64(scale) >> 63)) ? not_a_number()
                                                                             : scale;
}

static uint32_t bits_from(const unsigned char *words, uint64_t word, uint32_t first, uint32_t count)
{
    return sb_load_u32(words + 4 * word) >> first & ((1u << count) - 1u);
}

/* The nibble of an AWQ word with column j of eight: from the low end, the columns are 0 2 4 6 1 3 5
 * 7. */
static uint32_t awq_place(uint32_t j)
{
    return j % 2 ? 4 + j / 2 : j / 2;
}

static uint32_t code_of(const sb_matrix *m, uint64_t row, uint32_t col)
{
    const sb_quant *q = &m->quant;
    uint32_t bits =
        m->format == SB_FORMAT_e2m1 || m->format == SB_FORMAT_int4 || m->format == SB_FORMAT_uint4
            ? 4
            : 8;
    uint32_t per_word = 32 / bits;
    uint64_t n = q->stored_rows;
    switch (q->packing) {
    case SB_PACKING_gptq:
        return bits_from(m->data, col / per_word * n + row, col % per_word * bits, bits);
    case SB_PACKING_awq:
        return bits_from(m->data, col * (n / 8) + row / 8, 4 * awq_place((uint32_t)(row % 8)), 4);
    case SB_PACKING_pairs:
        return (uint32_t)m->data[row / 2 * m->cols + col] >> (row % 2 ? 4 : 0) & 15u;
    case SB_PACKING_rows:
        break;
    }
    if (bits == 8)
        return m->data[row * m->cols + col];
    return (uint32_t)m->data[(row * m->cols + col) / 2] >> (col % 2 ? 4 : 0) & 15u;
}

static double number_of(sb_format format, uint32_t code)
{
    switch (format) {
    case SB_FORMAT_e2m1:
        return e2m1(code);
    case SB_FORMAT_e4m3:
        return e4m3(code);
    case SB_FORMAT_int4:
        return code < 8 ? (double)code : (double)code - 16;
    case SB_FORMAT_int8:
        return code < 128 ? (double)code : (double)code - 256;
    default:
        return (double)code;
    }
}

static double zero_of(const sb_matrix *m, uint64_t row, uint32_t group)
{
    const sb_quant *q = &m->quant;
    uint32_t bits = m->format == SB_FORMAT_int4 || m->format == SB_FORMAT_uint4 ? 4 : 8;
    uint32_t per_word = 32 / bits, place = (uint32_t)(row % per_word);
    uint64_t words = q->stored_rows / per_word, word = group * words + row / per_word;
    uint32_t borrow = bits == 4 ? 0x11111111u : 0x01010101u;
    switch (q->zeros) {
    case SB_ZEROS_gptq_v1:
        return (double)((sb_load_u32(q->zero_points + 4 * word) + borrow) >> place * bits &
                        ((1u << bits) - 1u));
    case SB_ZEROS_gptq_v2:
        return (double)bits_from(q->zero_points, word, place * bits, bits);
    case SB_ZEROS_awq:
        return (double)bits_from(q->zero_points, word, 4 * awq_place(place), 4);
    case SB_ZEROS_rows:
        return (double)bits_from(q->zero_points, row / per_word * q->groups + group, place * bits,
                                 bits);
    case SB_ZEROS_none:
        break;
    }
    return (double)q->zero;
}

static double defined(const sb_matrix *m, uint32_t row, uint32_t col)
{
    const sb_quant *q = &m->quant;
    uint64_t stored = m->first_row + (uint64_t)(m->row_map ? m->row_map[row] : row);
    uint32_t group =
        q->group_index ? sb_load_u32(q->group_index + 4 * (uint64_t)col) : col / q->block_cols;
    double number = number_of(m->format, code_of(m, stored, col));
    double zero = zero_of(m, stored, group);
    return (zero == 0 ? number : number - zero) *
           scale_of(m, stored / q->block_rows * q->scale_row + group * q->scale_col);
}

uint32_t sb_decoding_differs(const sb_matrix *m, uint32_t row, const double *values,
                             double *expected)
{
    for (uint32_t i = 0; i < COLUMNS + 2; i++) {
        uint32_t col = i == 0 ? 0 : i == 1 ? m->cols - 1 : (i * 2654435761u + row) % m->cols;
        double fast = values[col];
        *expected = defined(m, row, col);
        if (sb_bits_f64(fast) != sb_bits_f64(*expected) &&
            !(fast != fast && *expected != *expected))
            return col;
    }
    return m->cols;
}

void sb_scan_decoding(const sb_panel *panel)
{
    const sb_matrix *m = &panel->matrix;
    uint32_t samples = panel->last && panel->first == 0 && m->rows > 1 ? 3 : 1;
    double expected;
    for (uint32_t i = 0; i < samples && m->rows && m->cols; i++) {
        uint32_t row = i == 1 ? m->rows - 1 : (panel->first * 7u + 5u * i) % m->rows;
        sb_matrix_wide(m, row, panel->scratch);
        uint32_t col = sb_decoding_differs(m, row, panel->scratch, &expected);
        if (col == m->cols)
            continue;
        sb_find(panel->findings, 48, SB_LEVEL_fatal, sb_unit_tensor(panel->unit, SB_PART_COUNT),
                "%s row %" PRIu32 " column %" PRIu32
                ": the fast decoder has %.17g, the scalar definition %.17g",
                SB_SHOW(panel->name), panel->first + row, col, panel->scratch[col], expected);
        return;
    }
}
