/* test_gpu_linear_pack.cc - packed weights, decoded by the formulas of the layout, equal the
 * weights. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/pack.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/formats/wide.h"
#include "tests/gpu/atom_model.h"
#include "tests/gpu/linear_layers.h"

struct packed {
    sb_linear_shape shape;
    size_t bytes;
    unsigned char *tiles;
    uint32_t *columns;
};

static void pack(const sb_matrix *m, packed *p)
{
    assert_int_equal(sb_pack_shape(m, &p->shape), SB_OK);
    p->bytes = sb_pack_tiles(p->shape) * p->shape.tile_bytes;
    p->tiles = static_cast<unsigned char *>(malloc(p->bytes));
    p->columns = static_cast<uint32_t *>(malloc(p->shape.chunks * SB_CHUNK * sizeof(uint32_t)));
    assert_true(p->tiles && p->columns);
    assert_int_equal(sb_pack_linear(m, 0, p->bytes, p->tiles), SB_OK);
    assert_int_equal(sb_pack_columns(m, p->shape, p->columns), SB_OK);
}

static void drop(packed *p)
{
    free(p->tiles);
    free(p->columns);
}

/* --- independent decoding of the layout: from lanes to rows and columns ----------------------- */
/* The bits of code `i` of a lane in a step. */
static uint32_t code_at(const packed *p, const unsigned char *tile, uint32_t chunk, uint32_t step,
                        uint32_t lane, uint32_t i)
{
    const uint32_t bits = sb_codes_bits(p->shape.codes), loads = bits / 4;
    const uint32_t bit = (step * 8 + i) * bits, byte = bit / 8;
    const unsigned char *at = tile + ((chunk * loads + byte / 16) * 32 + lane) * 16 + byte % 16;
    if (bits == 16)
        return static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8;
    return bits == 8 ? at[0] : at[0] >> bit % 8 & 15;
}

static float float_at(const unsigned char *at)
{
    float x;
    memcpy(&x, at, sizeof x);
    return x;
}

static double value_of(const packed *p, const unsigned char *tile, uint32_t row, uint32_t chunk,
                       uint32_t step, uint32_t code)
{
    const unsigned char *scales = tile + p->shape.scale_at;
    const uint32_t j = p->shape.parts == 2   ? chunk * 2 + step / 2
                       : p->shape.parts == 1 ? chunk / p->shape.shared
                                             : 0;
    switch (p->shape.codes) {
    case SB_CODES_bf16:
        return static_cast<double>(sb_bf16_to_f32(static_cast<uint16_t>(code)));
    case SB_CODES_nvfp4:
        return static_cast<double>(sb_e2m1_to_f32(static_cast<uint8_t>(code))) *
               static_cast<double>(
                   sb_e4m3_to_f32(scales[chunk * 64 + row % 8 * 8 + row / 8 * 4 + step]));
    case SB_CODES_e4m3:
        return static_cast<double>(sb_e4m3_to_f32(static_cast<uint8_t>(code))) *
               static_cast<double>(float_at(scales + (j * 16 + row) * 4));
    case SB_CODES_e2m1:
        return static_cast<double>(sb_e2m1_to_f32(static_cast<uint8_t>(code))) *
               static_cast<double>(float_at(scales + (j * 16 + row) * 4));
    default:
        return (static_cast<double>(code) +
                static_cast<double>(float_at(scales + (j * 16 + row) * 8 + 4))) *
               static_cast<double>(float_at(scales + (j * 16 + row) * 8));
    }
}

/* values is (rows padded to tiles, places). Returns the number of padding places whose code is not
 * 0. */
static uint32_t unpack(const packed *p, double *values)
{
    const uint32_t width = p->shape.chunks * SB_CHUNK;
    uint32_t dirty = 0;
    for (size_t t = 0; t < sb_pack_tiles(p->shape); t++)
        for (uint32_t at = 0; at < p->shape.chunks * 4 * 32 * 8; at++) {
            const uint32_t chunk = at / 1024, step = at / 256 % 4, lane = at / 8 % 32, i = at % 8;
            unsigned row, k;
            atom_place_a(2, lane, i, &row, &k);
            const unsigned char *tile = p->tiles + t * p->shape.tile_bytes;
            const uint32_t code = code_at(p, tile, chunk, step, lane, i);
            const uint32_t place = chunk * 64 + step * 16 + k;
            values[(t * 16 + row) * width + place] = value_of(p, tile, row, chunk, step, code);
            dirty +=
                code != 0 && (t * 16 + row >= p->shape.rows || p->columns[place] == SB_NO_COLUMN);
        }
    return dirty;
}

/* The number of values that differ from the matrix, plus the rows in which a column is missing or
 * occurs twice. */
static uint32_t differing(const sb_matrix *m, const packed *p)
{
    const uint32_t width = p->shape.chunks * SB_CHUNK;
    double *values =
        static_cast<double *>(malloc(sb_pack_tiles(p->shape) * 16 * width * sizeof(double)));
    double *wide = static_cast<double *>(malloc(m->cols * sizeof(double)));
    assert_true(values && wide);
    uint32_t wrong = unpack(p, values);
    for (uint32_t row = 0; row < m->rows; row++) {
        uint32_t seen = 0;
        sb_matrix_wide(m, row, wide);
        for (uint32_t place = 0; place < width; place++) {
            const uint32_t k = p->columns[place];
            if (k == SB_NO_COLUMN)
                continue;
            const double got = values[row * width + place];
            seen++;
            wrong += !(got == wide[k] || (got != got && wide[k] != wide[k]));
        }
        wrong += seen != m->cols;
    }
    free(values);
    free(wide);
    return wrong;
}

static const uint32_t shapes[][2] = {{16, 64}, {24, 96}, {40, 320}, {8, 32}, {32, 512}, {72, 160}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

TEST(test_values)
{
    for (int kind = 0; kind < LAYER_COUNT; kind++)
        for (int i = 0; i < SHAPES; i++) {
            layer l;
            packed p;
            assert_true(layer_draw(&l, static_cast<layer_kind>(kind), shapes[i][0], shapes[i][1],
                                   static_cast<uint64_t>(kind * 10 + i)));
            pack(&l.matrix, &p);
            if (differing(&l.matrix, &p))
                fail_msg("%s, %u x %u: %u values differ", layer_name(static_cast<layer_kind>(kind)),
                         shapes[i][0], shapes[i][1], differing(&l.matrix, &p));
            drop(&p);
            layer_free(&l);
        }
}

/* Rows that begin within a matrix, with their own order of columns. */
TEST(test_rows)
{
    static const uint32_t map[20] = {3,  1, 4,  15, 9,  2, 6,  5,  35, 8,
                                     38, 7, 13, 12, 32, 0, 11, 10, 14, 30};
    layer l;
    packed p;
    assert_true(layer_draw(&l, LAYER_nvfp4_ct, 48, 96, 1));
    l.matrix.rows = 20;
    l.matrix.row_map = map;
    l.matrix.first_row = 8;
    pack(&l.matrix, &p);
    assert_int_equal(differing(&l.matrix, &p), 0);
    drop(&p);
    layer_free(&l);
}

/* Weights in F16 or F32 are accepted only if bfloat16 holds them: docs/gpu-linear.md after Y-40. */
TEST(test_refused)
{
    static const float held[2] = {0.5f, -1.25f}, not_held[2] = {0.5f, 1.001f};
    sb_linear_shape shape;
    unsigned char to[2048];
    sb_matrix m = sb_matrix();
    m.format = SB_FORMAT_f32;
    m.rows = 1;
    m.cols = 2;
    m.data = reinterpret_cast<const unsigned char *>(held);
    assert_int_equal(sb_pack_shape(&m, &shape), SB_OK);
    assert_int_equal(shape.tile_bytes, sizeof to);
    assert_int_equal(sb_pack_linear(&m, 0, sizeof to, to), SB_OK);
    m.data = reinterpret_cast<const unsigned char *>(not_held);
    assert_int_equal(sb_pack_linear(&m, 0, sizeof to, to), SB_ERR_UNSUPPORTED);
    m.format = SB_FORMAT_e5m2;
    assert_int_equal(sb_pack_shape(&m, &shape), SB_ERR_UNSUPPORTED);
}

/* NaN codes and scales stay NaN; a scale below zero has no value. */
TEST(test_hostile)
{
    layer l;
    packed p;
    assert_true(layer_draw(&l, LAYER_nvfp4_ct, 16, 64, 3));
    l.scales[5] = 0x7f;
    l.scales[9] = 0xff;
    l.scales[11] = 0xb8;
    pack(&l.matrix, &p);
    assert_int_equal(differing(&l.matrix, &p), 0);
    drop(&p);
    layer_free(&l);
    assert_true(layer_draw(&l, LAYER_fp8_block, 16, 192, 3));
    l.data[7] = 0x7f;
    l.data[100] = 0xff;
    pack(&l.matrix, &p);
    assert_int_equal(differing(&l.matrix, &p), 0);
    drop(&p);
    layer_free(&l);
}

/* Tiles packed one by one equal the tiles packed together. */
TEST(test_parts)
{
    layer l;
    packed p;
    assert_true(layer_draw(&l, LAYER_gptq_ordered, 40, 320, 4));
    pack(&l.matrix, &p);
    unsigned char *one = static_cast<unsigned char *>(malloc(p.shape.tile_bytes));
    assert_true(one);
    for (size_t at = 0; at < p.bytes; at += p.shape.tile_bytes) {
        assert_int_equal(sb_pack_linear(&l.matrix, at, p.shape.tile_bytes, one), SB_OK);
        assert_memory_equal(one, p.tiles + at, p.shape.tile_bytes);
    }
    free(one);
    drop(&p);
    layer_free(&l);
}

/* The comparison detects a code in another lane, swapped scales, a lost column, and a padding
 * code. */
TEST(test_planted)
{
    layer l;
    packed p;
    assert_true(layer_draw(&l, LAYER_nvfp4_ct, 24, 96, 5));
    pack(&l.matrix, &p);
    for (int fault = 0; fault < 4; fault++) {
        unsigned char *at = p.tiles + (fault == 0 ? 16 : p.shape.scale_at + 8);
        unsigned char *other = p.tiles + (fault == 0 ? 33 : p.shape.scale_at + 13);
        if (fault == 2)
            p.columns[40] = SB_NO_COLUMN;
        if (fault == 3)
            p.tiles[p.bytes - p.shape.tile_bytes + 5] |= 1; /* row 24 */
        for (int turn = 0; turn < 2 && fault < 2; turn++) {
            const unsigned char kept = *at;
            assert_int_not_equal(kept, *other);
            *at = *other;
            *other = kept;
            if (turn == 0)
                assert_int_not_equal(differing(&l.matrix, &p), 0);
        }
        if (fault >= 2)
            assert_int_not_equal(differing(&l.matrix, &p), 0);
        if (fault == 2)
            p.columns[40] = 40;
    }
    drop(&p);
    layer_free(&l);
}
