#include "tests/gpu/linear_layers.h"

#include <stdlib.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"

typedef struct row {
    const char *name;
    sb_format format, scale_format;
    uint32_t block_rows, block_cols; /* 0: all of them */
    sb_packing packing;
    sb_zeros zeros;
    int32_t zero;
    sb_factor factor;
} row;

#define PLAIN(name, format)                                                                        \
    {                                                                                              \
        name, SB_FORMAT_##format, SB_FORMAT_COUNT, 0, 0, SB_PACKING_rows, SB_ZEROS_none, 0,        \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

static const row kinds[LAYER_COUNT] = {
    [LAYER_bf16] = PLAIN("bf16", bf16),
    [LAYER_f16] = PLAIN("f16", f16),
    [LAYER_nvfp4_ct] = {"nvfp4-ct",
                        SB_FORMAT_e2m1,
                        SB_FORMAT_e4m3,
                        1,
                        16,
                        SB_PACKING_rows,
                        SB_ZEROS_none,
                        0,
                        {SB_DIVISOR, 1234.5f}},
    [LAYER_nvfp4_modelopt] = {"nvfp4-modelopt",
                              SB_FORMAT_e2m1,
                              SB_FORMAT_e4m3,
                              1,
                              16,
                              SB_PACKING_rows,
                              SB_ZEROS_none,
                              0,
                              {SB_MULTIPLIER, 0.00081f}},
    [LAYER_mxfp4] =
        {"mxfp4", SB_FORMAT_e2m1, SB_FORMAT_e8m0, 1, 32, SB_PACKING_rows, SB_ZEROS_none, 0, {0}},
    [LAYER_mxfp8] =
        {"mxfp8", SB_FORMAT_e4m3, SB_FORMAT_e8m0, 1, 32, SB_PACKING_rows, SB_ZEROS_none, 0, {0}},
    [LAYER_fp8_block] = {"fp8-block",
                         SB_FORMAT_e4m3,
                         SB_FORMAT_bf16,
                         24,
                         128,
                         SB_PACKING_rows,
                         SB_ZEROS_none,
                         0,
                         {0}},
    [LAYER_fp8_channel] = {"fp8-channel",
                           SB_FORMAT_e4m3,
                           SB_FORMAT_f32,
                           1,
                           0,
                           SB_PACKING_rows,
                           SB_ZEROS_none,
                           0,
                           {0}},
    [LAYER_fp8_tensor] =
        {"fp8-tensor", SB_FORMAT_e4m3, SB_FORMAT_f32, 0, 0, SB_PACKING_rows, SB_ZEROS_none, 0, {0}},
    [LAYER_int8_channel] = {"int8-channel",
                            SB_FORMAT_int8,
                            SB_FORMAT_f32,
                            1,
                            0,
                            SB_PACKING_rows,
                            SB_ZEROS_none,
                            0,
                            {0}},
    [LAYER_gptq] =
        {"gptq", SB_FORMAT_uint4, SB_FORMAT_f16, 1, 64, SB_PACKING_gptq, SB_ZEROS_gptq_v1, 0, {0}},
    [LAYER_gptq_ordered] = {"gptq-ordered",
                            SB_FORMAT_uint4,
                            SB_FORMAT_f16,
                            1,
                            64,
                            SB_PACKING_gptq,
                            SB_ZEROS_gptq_v1,
                            0,
                            {0}},
    [LAYER_awq] =
        {"awq", SB_FORMAT_uint4, SB_FORMAT_f16, 1, 32, SB_PACKING_awq, SB_ZEROS_awq, 0, {0}},
    [LAYER_ct] =
        {"ct", SB_FORMAT_uint4, SB_FORMAT_bf16, 1, 32, SB_PACKING_rows, SB_ZEROS_rows, 0, {0}},
    [LAYER_ct8] =
        {"ct8", SB_FORMAT_uint8, SB_FORMAT_bf16, 1, 48, SB_PACKING_rows, SB_ZEROS_none, 128, {0}},
    [LAYER_pairs] =
        {"pairs", SB_FORMAT_int4, SB_FORMAT_bf16, 1, 128, SB_PACKING_pairs, SB_ZEROS_none, 0, {0}},
};

const char *layer_name(layer_kind kind)
{
    return kinds[kind].name;
}

static void draw_codes(layer *l, size_t count, uint64_t key)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = sb_rng_u64(key, i);
        if (l->matrix.format == SB_FORMAT_bf16 || l->matrix.format == SB_FORMAT_f16) {
            float x = sb_round_to(SB_FORMAT_bf16, 0.05f * sb_rng_normal(key, i));
            if (l->matrix.format == SB_FORMAT_f16)
                x = (float)(int)(bits % 511) / 256.0f - 1.0f; /* exact in bfloat16 */
            if (l->matrix.format == SB_FORMAT_f16)
                x = sb_round_to(SB_FORMAT_bf16, x);
            sb_encode(l->matrix.format, &x, 1, l->data + 2 * i);
        } else {
            unsigned char code = (unsigned char)bits;
            l->data[i] = l->matrix.format == SB_FORMAT_e4m3 && (code & 0x7f) == 0x7f ? 0 : code;
        }
    }
}

/* Positive scales of different sizes, exact in each format. */
static void draw_scales(layer *l, size_t count, uint64_t key)
{
    size_t bytes = sb_format_bytes(l->matrix.quant.scale_format);
    for (size_t i = 0; i < count; i++) {
        uint32_t draw = sb_rng_below(key, i, 64);
        float x = (float)(8 + draw % 8) * (draw < 32 ? 0x1p-6f : 0x1p-8f);
        if (l->matrix.quant.scale_format == SB_FORMAT_e8m0)
            x = draw < 32 ? 0x1p-3f : draw < 48 ? 0x1p-5f : 0x1p-4f;
        sb_encode(l->matrix.quant.scale_format, &x, 1, l->scales + bytes * i);
    }
}

static void draw_quant(layer *l, const row *kind, layer_kind which, uint64_t key)
{
    sb_matrix *m = &l->matrix;
    uint32_t block_rows = kind->block_rows ? kind->block_rows : m->rows;
    uint32_t block_cols = kind->block_cols ? kind->block_cols : m->cols;
    uint32_t groups = (m->cols + block_cols - 1) / block_cols;
    m->quant = (sb_quant){.scales = l->scales,
                          .scale_format = kind->scale_format,
                          .block_rows = block_rows,
                          .block_cols = block_cols,
                          .scale_row = groups,
                          .scale_col = 1,
                          .groups = groups,
                          .packing = kind->packing,
                          .stored_rows = m->rows,
                          .zeros = kind->zeros,
                          .zero_points = l->zeros,
                          .zero = kind->zero,
                          .factor = kind->factor};
    if (kind->packing == SB_PACKING_gptq || kind->packing == SB_PACKING_awq) {
        m->quant.scale_row = 1;
        m->quant.scale_col = m->rows;
    }
    draw_scales(l, (size_t)groups * m->rows, sb_rng_key(key, "scales"));
    if (which != LAYER_gptq_ordered)
        return;
    for (uint32_t k = 0; k < m->cols; k++)
        sb_store_u32(l->index + 4 * (size_t)k, sb_rng_below(sb_rng_key(key, "index"), k, groups));
    m->quant.group_index = l->index;
}

int layer_draw(layer *l, layer_kind which, uint32_t rows, uint32_t cols, uint64_t key)
{
    const row *kind = &kinds[which];
    size_t count = (size_t)rows * cols, most = count * 4 + 1024;
    *l = (layer){.matrix = {.format = kind->format, .rows = rows, .cols = cols},
                 .data = sb_alloc(most, 1),
                 .scales = sb_alloc(most, 1),
                 .zeros = sb_alloc(most, 1),
                 .index = sb_alloc(cols, 4)};
    if (!l->data || !l->scales || !l->zeros || !l->index)
        return 0;
    l->matrix.data = l->data;
    draw_codes(l, count, sb_rng_key(key, "codes"));
    for (size_t i = 0; i < count; i++)
        l->zeros[i] = (unsigned char)sb_rng_u64(sb_rng_key(key, "zeros"), i);
    if (kind->scale_format != SB_FORMAT_COUNT)
        draw_quant(l, kind, which, key);
    return 1;
}

void layer_free(layer *l)
{
    free(l->data);
    free(l->scales);
    free(l->zeros);
    free(l->index);
}
