/* pack.cc - packs codes and scales of a matrix in the order of fragments. */
#include "gpu/kernel/kernel.h"
#include "gpu/kernel/pack.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/plain_row.h"
#include "ref/formats/wide.h"
#include "ref/formats/small_float.h"

enum : uint32_t { PART = 32 }; /* half a chunk, the least width with its own scale */

/* --- the shape -------------------------------------------------------------------------------- */
static bool codes_of(const sb_matrix *m, sb_linear_codes *codes)
{
    const sb_quant *q = &m->quant;
    const bool fp8_scales = q->scale_format == SB_FORMAT_e4m3 || q->scale_format == SB_FORMAT_ue4m3;
    switch (m->format) {
    case SB_FORMAT_bf16:
    case SB_FORMAT_f16:
    case SB_FORMAT_f32:
        *codes = SB_CODES_bf16;
        return !sb_matrix_quantized(m);
    case SB_FORMAT_e4m3:
        *codes = SB_CODES_e4m3;
        break;
    case SB_FORMAT_e2m1:
        *codes = fp8_scales && q->block_cols == SB_STEP && !q->group_index ? SB_CODES_nvfp4
                                                                           : SB_CODES_e2m1;
        break;
    case SB_FORMAT_int4:
    case SB_FORMAT_uint4:
        *codes = SB_CODES_u4;
        break;
    case SB_FORMAT_int8:
    case SB_FORMAT_uint8:
        *codes = SB_CODES_u8;
        break;
    default:
        return false;
    }
    return sb_matrix_quantized(m);
}

static uint32_t up(uint32_t n, uint32_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint32_t group_of(const sb_matrix *m, uint32_t column)
{
    const unsigned char *index = m->quant.group_index;
    return index ? sb_load_u32(index + 4 * size_t(column)) : column / m->quant.block_cols;
}

/* Finds the first place of each group, and in first[groups] the padded width. Each group is padded
 * to a multiple of PART. */
static void group_places(const sb_matrix *m, uint32_t *first)
{
    const sb_quant *q = &m->quant;
    memset(first, 0, (q->groups + 1) * sizeof *first);
    for (uint32_t k = 0; k < m->cols; k++)
        first[group_of(m, k) + 1]++;
    for (uint32_t g = 0; g < q->groups; g++)
        first[g + 1] = first[g] + up(first[g + 1], PART);
}

/* The padded width if columns are reordered so that each group is contiguous. */
static sb_status width_of_groups(const sb_matrix *m, uint32_t *width)
{
    const uint32_t groups = m->quant.groups;
    uint32_t *first = static_cast<uint32_t *>(sb_alloc(groups + 1, sizeof *first));
    if (!first)
        return SB_ERR_MEMORY;
    group_places(m, first);
    *width = first[groups];
    free(first);
    return SB_OK;
}

/* Sets the members of the shape that follow from the groups of scales. */
static sb_status spread(const sb_matrix *m, sb_linear_shape *s)
{
    const sb_quant *q = &m->quant;
    uint32_t width = m->cols;
    s->shared = 1;
    if (q->groups > 1 && s->codes != SB_CODES_nvfp4 && s->codes != SB_CODES_bf16) {
        s->gathers = q->group_index || q->block_cols % PART;
        s->parts = s->gathers || q->block_cols % SB_CHUNK ? 2 : 1;
        s->shared = s->parts == 1 ? q->block_cols / SB_CHUNK : 1;
    }
    const sb_status status = s->gathers ? width_of_groups(m, &width) : SB_OK;
    s->chunks = up(width, SB_CHUNK) / SB_CHUNK;
    return status;
}

sb_status sb_pack_shape(const sb_matrix *m, sb_linear_shape *s)
{
    *s = sb_linear_shape();
    if (!codes_of(m, &s->codes))
        return SB_ERR_UNSUPPORTED;
    s->rows = m->rows;
    s->cols = m->cols;
    const sb_status status = spread(m, s);
    if (status)
        return status;
    const bool wide = s->codes != SB_CODES_bf16 && s->codes != SB_CODES_nvfp4;
    s->scales = wide ? sb_linear_scale(*s, s->chunks - 1, SB_STEPS - 1) + 1 : 0;
    s->scale_at = s->chunks * SB_TILE_ROWS * SB_CHUNK / 8 * sb_codes_bits(s->codes);
    s->tile_bytes = s->scale_at + s->scales * SB_TILE_ROWS * (sb_codes_integer(s->codes) ? 8 : 4);
    if (s->codes == SB_CODES_nvfp4)
        s->tile_bytes += s->chunks * SB_TILE_ROWS * SB_STEPS;
    s->is_divisor = m->quant.factor.kind == SB_DIVISOR;
    s->factor = m->quant.factor.kind == SB_NO_FACTOR ? 1.0f : m->quant.factor.value;
    return SB_OK;
}

sb_status sb_pack_columns(const sb_matrix *m, const sb_linear_shape &s, uint32_t *columns)
{
    const uint32_t width = s.chunks * SB_CHUNK, groups = m->quant.groups;
    for (uint32_t k = 0; k < width; k++)
        columns[k] = k < m->cols && !s.gathers ? k : SB_NO_COLUMN;
    if (!s.gathers)
        return SB_OK;
    uint32_t *next = static_cast<uint32_t *>(sb_alloc(groups + 1, sizeof *next));
    if (!next)
        return SB_ERR_MEMORY;
    group_places(m, next);
    for (uint32_t k = 0; k < m->cols; k++)
        columns[next[group_of(m, k)]++] = k;
    free(next);
    return SB_OK;
}

/* --- the tiles -------------------------------------------------------------------------------- */
/* Buffers for one row: values indexed by column, columns by place, bases by scale. */
struct row_room {
    float *values;     /* (K) */
    uint32_t *columns; /* (chunks 64) */
    float *base;       /* (scales) */
};

/* H-8: "register r of A has row g + 8 (r mod 2) and starts at k = W t + 4 W (r / 2)". Writes the
 * code of a place into its tile. */
static void put(const sb_linear_shape &s, uint32_t row, uint32_t place, uint32_t code,
                unsigned char *tile)
{
    const uint32_t bits = sb_codes_bits(s.codes), k = place % SB_STEP;
    const uint32_t lane = row % 8 * 4 + k % 8 / 2, r = k / 8 * 2 + row / 8;
    const uint32_t bit = (place % SB_CHUNK / SB_STEP * 8 + r * 2 + k % 2) * bits;
    const uint32_t load = place / SB_CHUNK * (bits / 4) + bit / 128;
    unsigned char *at = tile + (size_t(load) * 32 + lane) * 16 + bit % 128 / 8;
    at[0] = static_cast<unsigned char>(at[0] | (code & 0xff) << bit % 8);
    if (bits == 16)
        at[1] = static_cast<unsigned char>(code >> 8);
}

/* Y-41: "the least of its group's values after the zero point, if that is negative, else 0" */
static void find_bases(const sb_linear_shape &s, const row_room &room)
{
    for (uint32_t j = 0; j < s.scales; j++)
        room.base[j] = 0;
    for (uint32_t p = 0; p < s.chunks * SB_CHUNK; p++) {
        float *base = &room.base[sb_linear_scale(s, p / SB_CHUNK, p % SB_CHUNK / SB_STEP)];
        if (room.columns[p] != SB_NO_COLUMN && room.values[room.columns[p]] < *base)
            *base = room.values[room.columns[p]];
    }
}

/* Finds the code of a value; returns false if the value has no code. */
static bool code_of(const sb_linear_shape &s, float value, float base, uint32_t *code)
{
    if (sb_codes_integer(s.codes)) {
        const float above = value - base;
        *code = static_cast<uint32_t>(above);
        return above < static_cast<float>(1u << sb_codes_bits(s.codes));
    }
    const sb_format format = s.codes == SB_CODES_bf16   ? SB_FORMAT_bf16
                             : s.codes == SB_CODES_e4m3 ? SB_FORMAT_e4m3
                                                        : SB_FORMAT_e2m1;
    *code = sb_f32_to_code(format, value);
    return sb_code_to_f32(format, *code) == value || value != value;
}

sb_status sb_pack_order(const sb_matrix *m, size_t, size_t, unsigned char *to)
{
    sb_linear_shape s;
    const sb_status status = sb_pack_shape(m, &s);
    return status ? status : sb_pack_columns(m, s, reinterpret_cast<uint32_t *>(to));
}

static sb_status pack_codes(const sb_linear_shape &s, uint32_t row, const row_room &room,
                            unsigned char *tile)
{
    for (uint32_t p = 0; p < s.chunks * SB_CHUNK; p++) {
        const uint32_t j = sb_linear_scale(s, p / SB_CHUNK, p % SB_CHUNK / SB_STEP);
        const float base = sb_codes_integer(s.codes) ? room.base[j] : 0;
        uint32_t code;
        if (room.columns[p] == SB_NO_COLUMN)
            continue;
        if (!code_of(s, room.values[room.columns[p]], base, &code))
            return SB_ERR_UNSUPPORTED;
        put(s, row, p, code, tile);
    }
    return SB_OK;
}

static void pack_block_scales(const sb_matrix *m, const sb_linear_shape &s, uint32_t row,
                              uint32_t in_tile, unsigned char *to)
{
    const uint32_t end = SB_PLANT(linear_pad_scales) ? s.chunks * SB_CHUNK : m->cols;
    for (uint32_t k = 0; k < end; k += SB_STEP) {
        const uint32_t chunk = k / SB_CHUNK, step = k % SB_CHUNK / SB_STEP;
        const uint32_t code =
            k < m->cols ? sb_f32_to_code(SB_FORMAT_e4m3, sb_matrix_scale(m, row, k)) : 0x7f;
        to[chunk * SB_TILE_ROWS * SB_STEPS + (in_tile % 8 * 2 + in_tile / 8) * SB_STEPS + step] =
            static_cast<unsigned char>(code);
    }
}

/* Returns the scale of an element. A planted fault uses blocks of 125 rows and columns. */
static float scale_at(const sb_matrix *m, uint32_t row, uint32_t column)
{
    if (!SB_PLANT(linear_blocks))
        return sb_matrix_scale(m, row, column);
    const uint32_t down = row / 125 * 128, right = column / 125 * 128;
    return sb_matrix_scale(m, down < m->rows ? down : m->rows - 1,
                           right < m->cols ? right : m->cols - 1);
}

static void pack_scales(const sb_matrix *m, const sb_linear_shape &s, uint32_t row,
                        uint32_t in_tile, const row_room &room, unsigned char *to)
{
    const uint32_t floats = sb_codes_integer(s.codes) ? 2 : 1;
    for (uint32_t p = 0; p < s.chunks * SB_CHUNK; p += PART) {
        const uint32_t j = sb_linear_scale(s, p / SB_CHUNK, p % SB_CHUNK / SB_STEP);
        const uint32_t column = room.columns[p];
        if (column == SB_NO_COLUMN)
            continue;
        const float pair[2] = {scale_at(m, row, column), room.base[j]};
        memcpy(to + (size_t(j) * SB_TILE_ROWS + in_tile) * floats * 4, pair, floats * 4);
    }
}

static sb_status pack_row(const sb_matrix *m, const sb_linear_shape &s, uint32_t row,
                          const row_room &room, unsigned char *tile)
{
    if (sb_matrix_quantized(m))
        sb_matrix_codes(m, row, 0, m->cols, room.values);
    else
        sb_matrix_row(m, row, room.values);
    if (sb_codes_integer(s.codes))
        find_bases(s, room);
    if (s.codes == SB_CODES_nvfp4)
        pack_block_scales(m, s, row, row % SB_TILE_ROWS, tile + s.scale_at);
    else if (s.scales)
        pack_scales(m, s, row, row % SB_TILE_ROWS, room, tile + s.scale_at);
    return pack_codes(s, row % SB_TILE_ROWS, room, tile);
}

sb_status sb_pack_linear(const sb_matrix *m, size_t first, size_t bytes, unsigned char *to)
{
    sb_linear_shape s;
    sb_status status = sb_pack_shape(m, &s);
    if (status)
        return status;
    row_room room = {static_cast<float *>(sb_alloc(s.cols, sizeof(float))),
                     static_cast<uint32_t *>(sb_alloc(s.chunks * SB_CHUNK, sizeof(uint32_t))),
                     static_cast<float *>(sb_alloc(s.scales + 1, sizeof(float)))};
    status = room.values && room.columns && room.base ? sb_pack_columns(m, s, room.columns)
                                                      : SB_ERR_MEMORY;
    memset(to, 0, bytes);
    const size_t begin = first / s.tile_bytes * SB_TILE_ROWS, tiles = bytes / s.tile_bytes;
    for (size_t i = 0; i < tiles * SB_TILE_ROWS && begin + i < s.rows && !status; i++)
        status = pack_row(m, s, static_cast<uint32_t>(begin + i), room,
                          to + i / SB_TILE_ROWS * s.tile_bytes);
    free(room.values);
    free(room.columns);
    free(room.base);
    return status;
}

/* --- values of matrices that are not quantized ------------------------------------------------ */
sb_status sb_pack_values(const sb_matrix *m, size_t first, size_t bytes, unsigned char *to)
{
    const size_t row = m->cols * sizeof(float);
    float *values = reinterpret_cast<float *>(to);
    for (size_t i = 0; i < bytes / row; i++)
        sb_matrix_row(m, static_cast<uint32_t>(first / row + i), values + i * m->cols);
    return SB_OK;
}

sb_status sb_pack_bf16(const sb_matrix *m, size_t first, size_t bytes, unsigned char *to)
{
    const size_t row = m->cols * sizeof(uint16_t);
    float *values = static_cast<float *>(sb_alloc(m->cols, sizeof *values));
    if (!values)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < bytes / row; i++) {
        sb_matrix_row(m, static_cast<uint32_t>(first / row + i), values);
        sb_encode(SB_FORMAT_bf16, values, m->cols, to + i * row);
    }
    free(values);
    return SB_OK;
}
