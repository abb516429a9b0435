#include "gpu/kernel/lowbit_pack.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"

sb_act_scheme sb_lowbit_scheme(const sb_matrix *matrix)
{
    if (matrix->format == SB_FORMAT_e2m1)
        return SB_SCHEME_nvfp4;
    return sb_container_has_grid(matrix->quant.container) ? SB_SCHEME_fp8_group
                                                          : SB_SCHEME_fp8_token;
}

sb_status sb_lowbit_pack_shape(const sb_matrix *matrix, sb_act_scheme scheme,
                               sb_lowbit_shape *shape)
{
    const sb_quant *q = &matrix->quant;
    const bool fp4 = scheme == SB_SCHEME_nvfp4, group = scheme == SB_SCHEME_fp8_group;
    if (!fp4 && !group && scheme != SB_SCHEME_fp8_token && scheme != SB_SCHEME_fp8_static)
        return SB_ERR_UNSUPPORTED;
    if (matrix->format != (fp4 ? SB_FORMAT_e2m1 : SB_FORMAT_e4m3) || q->group_index ||
        q->packing != SB_PACKING_rows || q->zeros != SB_ZEROS_none || q->zero)
        return SB_ERR_UNSUPPORTED;
    if (fp4 && (q->scale_format != SB_FORMAT_e4m3 || q->block_rows != 1 ||
                q->block_cols != SB_LOWBIT_GROUP || matrix->cols % 2))
        return SB_ERR_UNSUPPORTED;
    if (!fp4 && !group && q->block_cols < matrix->cols)
        return SB_ERR_UNSUPPORTED;
    *shape = sb_lowbit_shape_of(matrix->rows, matrix->cols, fp4 ? 4 : 8, group ? q->block_cols : 0);
    return SB_OK;
}

/* --- packed bytes, which depend on no knob ---------------------------------------------------- */
sb_status sb_lowbit_code_bytes(const sb_matrix *matrix, size_t first, size_t bytes,
                               unsigned char *to)
{
    sb_lowbit_shape shape;
    const sb_status status = sb_lowbit_pack_shape(matrix, sb_lowbit_scheme(matrix), &shape);
    if (status)
        return status;
    const size_t tile = sb_lowbit_tile_bytes(shape);
    sb_lowbit_pack_codes(matrix, &shape, static_cast<uint32_t>(first / tile),
                         static_cast<uint32_t>((first + bytes) / tile),
                         reinterpret_cast<uint32_t *>(to));
    return SB_OK;
}

sb_status sb_lowbit_scale_bytes(const sb_matrix *matrix, size_t first, size_t bytes,
                                unsigned char *to)
{
    sb_lowbit_shape shape;
    const sb_status status = sb_lowbit_pack_shape(matrix, sb_lowbit_scheme(matrix), &shape);
    if (status)
        return status;
    const size_t tile = sb_lowbit_weight_scales(shape) / sb_lowbit_tiles(shape) * 4;
    sb_lowbit_pack_scales(matrix, &shape, static_cast<uint32_t>(first / tile),
                          static_cast<uint32_t>((first + bytes) / tile),
                          reinterpret_cast<uint32_t *>(to));
    return SB_OK;
}

/* --- tiles ------------------------------------------------------------------------------------ */
/* Returns four bytes of codes of a row, from `column` of a unit on. Bytes outside the unit or the
 * row are 0. */
static uint32_t word_at(const sb_matrix *m, const sb_lowbit_shape *shape, uint32_t row,
                        uint32_t unit, uint32_t column)
{
    const uint32_t each = 8 / shape->bits, bytes = m->cols / each;
    if (row >= m->rows)
        return 0;
    const unsigned char *codes = m->data + sb_matrix_stored_row(m, row) * bytes;
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4 && column + i * each < shape->unit; i++) {
        const uint32_t at = (unit * shape->unit + column) / each + i;
        word |= at < bytes ? static_cast<uint32_t>(codes[at]) << 8 * i : 0;
    }
    return word;
}

/* H-8: "register r of A has row g + 8 (r mod 2) and starts at k = W t + 4 W (r / 2)" */
void sb_lowbit_pack_codes(const sb_matrix *matrix, const sb_lowbit_shape *shape, uint32_t first,
                          uint32_t last, uint32_t *to)
{
    const uint32_t width = 32 / shape->bits, step = SB_LOWBIT_WORDS * width;
    for (uint32_t tile = first; tile < last; tile++)
        for (uint32_t unit = 0; unit < shape->units; unit++)
            for (uint32_t s = 0; s < shape->steps; s++)
                for (uint32_t i = 0; i < 128; i++) {
                    const uint32_t lane = i / 4, r = i % 4;
                    const uint32_t row = tile * SB_LOWBIT_ROWS + lane / 4 + 8 * (r % 2);
                    const uint32_t k = s * step + width * (lane % 4) + 4 * width * (r / 2);
                    *to++ = word_at(matrix, shape, row, unit, k);
                }
}

/* "A block scale of an FP4 or FP8 format with its sign bit set has no value": the unit would
 * ignore the sign. */
static uint32_t scale_byte(const sb_matrix *m, uint32_t row, uint32_t column)
{
    const sb_quant *q = &m->quant;
    if (row >= m->rows || column >= m->cols)
        return 0;
    const uint64_t at =
        sb_matrix_stored_row(m, row) * q->scale_row + column / SB_LOWBIT_GROUP * q->scale_col;
    return q->scales[at] & 0x80 ? 0x7f : q->scales[at];
}

/* H-9: "The scales of row m are in the word of lane 4 (m mod 8) + 2 p + m / 8" */
static void scale_words(const sb_matrix *m, uint32_t tile, uint32_t unit, uint32_t *to)
{
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t row = tile * SB_LOWBIT_ROWS + lane / 4 + 8 * (lane % 2);
        const uint32_t column = unit * SB_LOWBIT_COLUMNS + lane / 2 % 2 * 64;
        to[lane] = 0;
        for (uint32_t i = 0; i < 4; i++)
            to[lane] |= scale_byte(m, row, column + i * SB_LOWBIT_GROUP) << 8 * i;
    }
}

void sb_lowbit_pack_scales(const sb_matrix *matrix, const sb_lowbit_shape *shape, uint32_t first,
                           uint32_t last, uint32_t *to)
{
    for (uint32_t tile = first; tile < last; tile++) {
        if (shape->bits == 4) {
            for (uint32_t unit = 0; unit < shape->units; unit++, to += 32)
                scale_words(matrix, tile, unit, to);
            continue;
        }
        for (uint32_t i = 0; i < sb_lowbit_scales(*shape); i++)
            for (uint32_t r = 0; r < SB_LOWBIT_ROWS; r++, to++) {
                const uint32_t row = tile * SB_LOWBIT_ROWS + r;
                *to = row < matrix->rows
                          ? sb_bits_f32(sb_matrix_scale(matrix, row, i * shape->unit))
                          : 0;
            }
    }
}

static bool is_normal(float x)
{
    const uint32_t exponent = sb_bits_f32(x) >> 23 & 0xff;
    return exponent != 0 && exponent != 0xff;
}

bool sb_lowbit_factor(const sb_matrix *matrix, sb_act_scheme scheme, float *multiplier,
                      float *divisor)
{
    const sb_scalar of_weight = sb_matrix_factor(matrix);
    const sb_factor input = matrix->quant.input;
    *multiplier = of_weight.mul[0];
    *divisor = of_weight.div[0];
    const bool shared = scheme == SB_SCHEME_nvfp4 || scheme == SB_SCHEME_fp8_static;
    if (shared && input.kind == SB_DIVISOR)
        *divisor *= input.value;
    else if (shared && input.kind == SB_MULTIPLIER)
        *multiplier *= input.value;
    return is_normal(*multiplier) && is_normal(*divisor);
}
