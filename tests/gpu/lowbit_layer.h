/* lowbit_layer.h - linear layers with quantized inputs for tests: a drawn weight of a container and
 * the kernels that use it. */
#ifndef SB_TESTS_GPU_LOWBIT_LAYER_H
#define SB_TESTS_GPU_LOWBIT_LAYER_H

#include "tests/gpu/emu_bench.h"
#include "tests/gpu/plant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/act_quant.cuh"
#include "gpu/kernel/linear_w4a4.cuh"
#include "gpu/kernel/linear_w8a8.cuh"
#include "gpu/kernel/lowbit_pack.h"
#include "ref/base/bytes.h"
#include "ref/formats/atoms.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "ref/math/law.h"
#include "ref/ops/act_group.h"
#include "ref/ops/op.h"

namespace
{

struct lowbit_kind {
    const char *name;
    sb_container container;
    uint32_t rows, cols;             /* N, K */
    uint32_t block_rows, block_cols; /* 0: all */
    sb_factor factor, input;
};

/* One weight, or several of one shape in consecutive memory. */
struct test_layer {
    const lowbit_kind *kind;
    uint32_t matrices;
    sb_matrix *matrix;
    unsigned char *data, *scales;
    uint32_t *row_map;
    sb_knobs knobs;
    sb_act_scheme scheme;
    sb_lowbit_shape shape;
    uint32_t *codes, *packed_scales; /* packed */
    float2 *factor;
};

/* The codes and scales of one matrix: of similar size, or any finite values. */
inline void draw_matrix(const lowbit_kind *k, uint64_t key, bool any, sb_matrix *m,
                        unsigned char *data, unsigned char *scales)
{
    const bool fp4 = m->format == SB_FORMAT_e2m1;
    const size_t bytes = static_cast<size_t>(k->rows) * k->cols / (fp4 ? 2 : 1);
    for (size_t i = 0; i < bytes; i++) {
        const uint64_t bits = sb_rng_u64(key, i);
        const float x = sb_rng_normal(key, i) * 40.0f;
        data[i] = fp4 ? static_cast<unsigned char>(bits) : sb_f32_to_e4m3(x);
        if (!fp4 && any)
            data[i] = static_cast<unsigned char>((bits & 0x80) | bits % 0x7f);
    }
    const size_t count = static_cast<size_t>(m->quant.groups) *
                         ((k->rows + m->quant.block_rows - 1) / m->quant.block_rows);
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = sb_rng_u64(key + 1, i);
        const float s = 0.01f + 0.05f * sb_rng_uniform(key + 1, i);
        const uint16_t half = sb_f32_to_bf16(any ? s * (bits & 1 ? 0x1p-12f : 0x1p9f) : s);
        if (fp4)
            scales[i] = any ? static_cast<unsigned char>(bits % 0x7f)
                            : static_cast<unsigned char>(0x30 + bits % 16);
        else
            memcpy(scales + 2 * i, &half, 2);
    }
}

inline void pack(test_layer *l)
{
    const size_t codes = sb_lowbit_fragments(l->shape) * 4;
    const size_t scales = sb_lowbit_weight_scales(l->shape);
    l->codes = static_cast<uint32_t *>(room_for(codes * l->matrices, 4));
    l->packed_scales = static_cast<uint32_t *>(room_for(scales * l->matrices, 4));
    l->factor = static_cast<float2 *>(room_for(l->matrices, sizeof *l->factor));
    for (uint32_t i = 0; i < l->matrices; i++) {
        const uint32_t tiles = sb_lowbit_tiles(l->shape);
        sb_lowbit_pack_codes(&l->matrix[i], &l->shape, 0, tiles, l->codes + i * codes);
        sb_lowbit_pack_scales(&l->matrix[i], &l->shape, 0, tiles, l->packed_scales + i * scales);
        assert_true(sb_lowbit_factor(&l->matrix[i], l->scheme, &l->factor[i].x, &l->factor[i].y));
    }
}

/* Packs again after a change of data or scales. */
inline void repack(test_layer *l)
{
    free(l->codes);
    free(l->packed_scales);
    free(l->factor);
    pack(l);
}

/* any: extreme codes and scales; mapped: rows in another order than stored. */
inline test_layer make_layer(const lowbit_kind *k, uint32_t matrices, uint64_t seed, bool any,
                             bool mapped)
{
    test_layer l = test_layer();
    const bool fp4 =
        k->container == SB_CONTAINER_nvfp4_ct || k->container == SB_CONTAINER_nvfp4_modelopt;
    const size_t bytes = static_cast<size_t>(k->rows) * k->cols / (fp4 ? 2 : 1);
    const uint32_t across = k->block_cols ? k->block_cols : k->cols;
    const uint32_t down = k->block_rows ? k->block_rows : k->rows;
    const uint32_t groups = (k->cols + across - 1) / across;
    const size_t scales = static_cast<size_t>((k->rows + down - 1) / down) * groups * 2;
    l.kind = k;
    l.matrices = matrices;
    l.matrix = static_cast<sb_matrix *>(room_for(matrices, sizeof *l.matrix));
    l.data = static_cast<unsigned char *>(room_for(matrices, bytes));
    l.scales = static_cast<unsigned char *>(room_for(matrices, scales));
    l.row_map = static_cast<uint32_t *>(room_for(k->rows, 4));
    for (uint32_t i = 0; i < k->rows; i++)
        l.row_map[i] = k->rows - 1 - i;
    for (uint32_t i = 0; i < matrices; i++) {
        sb_matrix *m = &l.matrix[i];
        m->data = l.data + i * bytes;
        m->format = fp4 ? SB_FORMAT_e2m1 : SB_FORMAT_e4m3;
        m->rows = m->quant.stored_rows = k->rows;
        m->cols = k->cols;
        m->row_map = mapped ? l.row_map : NULL;
        m->quant.scales = l.scales + i * scales;
        m->quant.scale_format = fp4 ? SB_FORMAT_e4m3 : SB_FORMAT_bf16;
        m->quant.block_rows = down;
        m->quant.block_cols = across;
        m->quant.scale_row = m->quant.groups = groups;
        m->quant.scale_col = 1;
        m->quant.factor = k->factor;
        m->quant.input = k->input;
        m->quant.container = k->container;
        draw_matrix(k, sb_rng_key(seed + 100 * i, "weight"), any, m, l.data + i * bytes,
                    l.scales + i * scales);
    }
    assert_int_equal(sb_knobs_profile(&l.knobs, fp4 ? "sm121-w4a4" : "sm121-w8a8", NULL), SB_OK);
    l.scheme = sb_input_scheme(&l.knobs, l.matrix);
    assert_int_equal(sb_lowbit_pack_shape(l.matrix, l.scheme, &l.shape), SB_OK);
    pack(&l);
    return l;
}

inline void drop_layer(test_layer *l)
{
    free(l->matrix);
    free(l->data);
    free(l->scales);
    free(l->row_map);
    free(l->codes);
    free(l->packed_scales);
    free(l->factor);
}

/* --- the kernels ------------------------------------------------------------------------------ */

/* An input in the form that kernels take. */
struct test_input {
    size_t rows;
    uint32_t *codes;
    float *y;
    uint8_t *scales;
};

/* Quantizes without the planted fault, which belongs to the product. */
inline void quantize(const test_layer *l, const uint16_t *in, size_t rows, uint64_t seed,
                     test_input *out)
{
    const char *fault = planted;
    plant("");
    const uint32_t count = static_cast<uint32_t>(rows), groups = sb_lowbit_scales(l->shape);
    const size_t words = rows * sb_lowbit_words(l->shape);
    const size_t bytes = rows * sb_lowbit_scale_words(l->shape) * 4;
    emu_bench b(seed);
    out->rows = rows;
    out->codes = static_cast<uint32_t *>(room_for(words, 4));
    out->y = static_cast<float *>(room_for(rows * groups, 4));
    out->scales = static_cast<uint8_t *>(room_for(bytes, 1));
    const auto x = b.in("in", in, rows * l->shape.cols);
    const auto codes = b.out("codes", out->codes, words);
    const unsigned warps = (count * groups + 7) / 8;
    const float inverse = 1.0f / sb_factor_multiplier(l->kind->input);
    if (l->scheme == SB_SCHEME_nvfp4)
        EMU_RUN(b, sb_act_fp4_kernel<uint16_t>, static_cast<unsigned>((bytes + 255) / 256), 256, 0,
                x, codes, b.out("scales", out->scales, bytes), l->shape, count,
                sb_factor_divisor(l->kind->input));
    else if (l->scheme == SB_SCHEME_fp8_group)
        EMU_RUN(b, (sb_act_fp8_kernel<SB_ACT_group, uint16_t>), warps, 256, 0, x, codes,
                b.out("y", out->y, rows * groups), l->shape, count, 0.0f);
    else if (l->scheme == SB_SCHEME_fp8_token)
        EMU_RUN(b, (sb_act_fp8_kernel<SB_ACT_token, uint16_t>), warps, 256, 0, x, codes,
                b.out("y", out->y, rows * groups), l->shape, count, 0.0f);
    else
        EMU_RUN(b, (sb_act_fp8_kernel<SB_ACT_static, uint16_t>), warps, 256, 0, x, codes,
                b.out("y", out->y, rows * groups), l->shape, count, inverse);
    assert_true(b.complete());
    plant(fault);
}

inline void drop_input(test_input *x)
{
    free(x->codes);
    free(x->y);
    free(x->scales);
}

template <bool GROUPED>
sb_w8a8<GROUPED> w8a8_of(emu_bench &b, const test_layer *l, const test_input *x)
{
    const size_t fragments = sb_lowbit_fragments(l->shape) * l->matrices;
    const size_t scales = sb_lowbit_weight_scales(l->shape) * l->matrices;
    sb_w8a8<GROUPED> k;
    k.rows = l->shape.rows;
    k.units = l->shape.units;
    k.steps = l->shape.steps;
    k.weight = sb_cast<const uint4>(b.in("weight", l->codes, fragments * 4));
    k.scale = sb_cast<const float>(b.in("scale", l->packed_scales, scales));
    k.codes = b.in("codes", x->codes, x->rows * sb_lowbit_words(l->shape));
    k.y = b.in("y", x->y, x->rows * sb_lowbit_scales(l->shape));
    k.factor = b.in("factor", l->factor, l->matrices);
    return k;
}

inline sb_w4a4 w4a4_of(emu_bench &b, const test_layer *l, const test_input *x)
{
    const size_t fragments = sb_lowbit_fragments(l->shape) * l->matrices;
    const size_t scales = sb_lowbit_weight_scales(l->shape) * l->matrices;
    const size_t bytes = x->rows * sb_lowbit_scale_words(l->shape) * 4;
    sb_w4a4 k;
    k.rows = l->shape.rows;
    k.units = l->shape.units;
    k.weight = sb_cast<const uint4>(b.in("weight", l->codes, fragments * 4));
    k.scale = b.in("scale", l->packed_scales, scales);
    k.codes = b.in("codes", x->codes, x->rows * sb_lowbit_words(l->shape));
    k.in_scale = sb_cast<const uint32_t>(b.in("in scales", x->scales, bytes));
    k.factor = b.in("factor", l->factor, l->matrices);
    return k;
}

/* Launches with the right ROWS and grid, for all kinds of layers. Reports a failing launch. */
template <int NT, class ROWS>
sb_status launch(emu_bench &b, const test_layer *l, const test_input *x, const ROWS &rows,
                 unsigned sets, sb_global<float> out, uint32_t wide)
{
    const dim3 grid(sb_lowbit_tiles(l->shape), sets);
    if (l->scheme == SB_SCHEME_nvfp4)
        return SB_LAUNCH(&b.queue, (sb_tile_kernel<sb_w4a4, NT, ROWS, float>), grid,
                         SB_TILE_THREADS, sb_tile_bytes(NT), sb_tile_alone(w4a4_of(b, l, x), out),
                         rows, wide);
    if (l->shape.grouped)
        return SB_LAUNCH(&b.queue, (sb_tile_kernel<sb_w8a8<true>, NT, ROWS, float>), grid,
                         SB_TILE_THREADS, sb_tile_bytes(NT),
                         sb_tile_alone(w8a8_of<true>(b, l, x), out), rows, wide);
    return SB_LAUNCH(&b.queue, (sb_tile_kernel<sb_w8a8<false>, NT, ROWS, float>), grid,
                     SB_TILE_THREADS, sb_tile_bytes(NT),
                     sb_tile_alone(w8a8_of<false>(b, l, x), out), rows, wide);
}

/* out is (rows, N) for one matrix; returns false if a launch failed. nt: the number of tiles of
 * inputs in a block. */
inline bool multiply(const test_layer *l, const uint16_t *in, size_t rows, int nt, uint64_t seed,
                     uint32_t wide, float *out)
{
    test_input x;
    const sb_all_rows all = {static_cast<uint32_t>(rows)};
    quantize(l, in, rows, seed, &x);
    bool done;
    {
        emu_bench b(seed);
        const unsigned sets = static_cast<unsigned>((rows + 8u * static_cast<unsigned>(nt) - 1) /
                                                    (8u * static_cast<unsigned>(nt)));
        const auto to = b.out("out", out, rows * l->kind->rows);
        const sb_status status = nt == 1   ? launch<1>(b, l, &x, all, sets, to, wide)
                                 : nt == 2 ? launch<2>(b, l, &x, all, sets, to, wide)
                                           : launch<8>(b, l, &x, all, sets, to, wide);
        done = b.ran(status, l->kind->name) && b.complete();
    }
    drop_input(&x);
    return done;
}

inline int tiles_for(size_t rows)
{
    return rows <= 8 ? 1 : rows <= 16 ? 2 : 8;
}

} // namespace

#endif
