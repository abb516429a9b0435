/* test_gpu_wide.cc - linear layers of many rows: the bits of the kernel for few rows, in every
 * format and for sizes that no tile divides; counts of the bytes read; planted faults. */
#include "tests/lib/suite.h"

#include <initializer_list>

#include "gpu/emu/count.h"
#include "tests/gpu/linear_bench.h"
#include "tests/gpu/schedules.h"
#include "tests/lib/check_all.h"

namespace
{

enum { MOST = 300 };

/* Runs the first rows of the input by sb_wide_kernel, even if sb_wide_takes would not choose it for
 * so few rows. out (rows, N) is written completely. If counts is given, reads of the weights and
 * the staged input are counted. */
sb_status run_wide(bench *b, uint32_t rows, uint32_t wide, uint64_t seed, float *out,
                   sb_emu_counts *counts = nullptr)
{
    const size_t places = static_cast<size_t>(rows) * b->shape.chunks * SB_CHUNK;
    const size_t bytes = sb_pack_tiles(b->shape) * b->shape.tile_bytes;
    uint32_t *staging = static_cast<uint32_t *>(room_for(places / 2, sizeof *staging));
    sb_status status;
    {
        emu_bench e(seed);
        const auto columns = e.in("columns", b->columns, b->shape.chunks * SB_CHUNK);
        const auto in = e.in("in", b->in, static_cast<size_t>(rows) * b->shape.cols);
        const auto staged = e.out("staged", staging, places / 2);
        assert_int_equal(
            sb_linear_prepare(&e.queue, in, columns, sb_cast<uint2>(staged), b->shape, rows, true),
            SB_OK);
        assert_true(e.complete());
        const auto y = e.out("out", out, static_cast<size_t>(rows) * b->shape.rows);
        sb_emu_region weights, inputs;
        assert_int_equal(
            sb_emu_region_counted(&weights, "weights", b->tiles, bytes, SB_EMU_INPUT, &e.err),
            SB_OK);
        assert_int_equal(
            sb_emu_region_counted(&inputs, "inputs", staging, 2 * places, SB_EMU_INPUT, &e.err),
            SB_OK);
        const sb_global<const unsigned char> w(&weights), x(&inputs);
        sb_emu_count(e.queue.emu, counts);
        status = sb_linear_launch({&e.queue, sb_cast<const uint4>(w), sb_cast<const uint2>(x), y,
                                   b->shape, rows, wide, 1});
        sb_emu_count(e.queue.emu, nullptr);
        if (status == SB_OK)
            assert_true(e.complete());
        b->err = e.err;
        sb_emu_region_close(&weights);
        sb_emu_region_close(&inputs);
    }
    free(staging);
    return status;
}

/* --- the bits --------------------------------------------------------------------------------- */
struct pair_of_outputs {
    bench b;
    size_t count;
    float *few, *many;
};

void open_pair(pair_of_outputs *p, layer_kind kind, uint32_t n, uint32_t k, uint32_t rows)
{
    bench_open(&p->b, kind, n, k, rows);
    p->count = static_cast<size_t>(rows) * n;
    p->few = static_cast<float *>(room_for(p->count, 4));
    p->many = static_cast<float *>(room_for(p->count, 4));
}

void close_pair(pair_of_outputs *p)
{
    free(p->few);
    free(p->many);
    bench_close(&p->b);
}

/* The number of outputs that differ from those of the kernel for few rows, which test_gpu_linear
 * compares with a plain program. */
size_t differing(const pair_of_outputs *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        n += !same_or_nan(p->few[i], p->many[i]);
    return n;
}

void compare(layer_kind kind, uint32_t n, uint32_t k, uint32_t rows, uint32_t wide, uint64_t seed)
{
    pair_of_outputs p;
    open_pair(&p, kind, n, k, rows);
    assert_int_equal(bench_run(&p.b, 0, rows, wide, 0, p.few), SB_OK);
    if (run_wide(&p.b, rows, wide, seed, p.many) != SB_OK)
        fail_msg("%s, %u x %u, %u rows: %s", layer_name(kind), n, k, rows, p.b.err.text);
    if (differing(&p))
        fail_msg("%s, %u x %u, %u rows: %zu outputs of %zu differ", layer_name(kind), n, k, rows,
                 differing(&p), p.count);
    close_pair(&p);
}

/* Fewer chunks than parts, more, as many, and a single one; N below a tile of 16, next to a block
 * of 128, and beyond one. The kinds have groups of all sizes. */
TEST(test_bits)
{
    static const uint32_t shapes[][2] = {{24, 96},  {136, 320}, {40, 576},
                                         {8, 1040}, {256, 512}, {16, 48}};
    static const uint32_t rows[] = {65, 128, 300, 1, 129, 127, 66};
    for (uint32_t kind = 0; kind < LAYER_COUNT; kind++)
        for (uint32_t i = 0; i < 6; i++)
            if (check_some(kind + i, 3))
                compare(static_cast<layer_kind>(kind), shapes[i][0], shapes[i][1],
                        i == 4 ? 65 : rows[(kind + i) % 7], (kind + i) % 2, kind + i);
}

/* Zeros of either sign, infinities and NaN. */
TEST(test_hostile)
{
    for (const uint32_t k : {uint32_t(96), uint32_t(576)}) {
        pair_of_outputs p;
        open_pair(&p, LAYER_nvfp4_ct, 24, k, 80);
        p.b.of.scales[4 * (k / 16) + 2] = 0x7f; /* a NaN in row 4 */
        assert_int_equal(sb_pack_linear(&p.b.of.matrix, 0, 2 * p.b.shape.tile_bytes, p.b.tiles),
                         SB_OK);
        p.b.in[1 * k + 50] = __uint_as_float(0x7f800000);
        p.b.in[2 * k + 95] = __uint_as_float(0x7fc00000);
        for (uint32_t i = 0; i < k; i++) {
            p.b.in[3 * k + i] = i % 2 ? -0.0f : 0.0f;
            p.b.in[66 * k + i] = -0.0f;
        }
        assert_int_equal(bench_run(&p.b, 0, 80, 1, 0, p.few), SB_OK);
        assert_int_equal(run_wide(&p.b, 80, 1, 3, p.many), SB_OK);
        assert_int_equal(differing(&p), 0);
        assert_true(p.many[4] != p.many[4] && p.many[5] == p.many[5]);
        close_pair(&p);
    }
}

TEST(test_schedules)
{
    pair_of_outputs p;
    open_pair(&p, LAYER_awq, 40, 576, 90);
    assert_int_equal(bench_run(&p.b, 0, 90, 0, 0, p.few), SB_OK);
    for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
        assert_int_equal(run_wide(&p.b, 90, 0, seed, p.many), SB_OK);
        assert_int_equal(differing(&p), 0);
    }
    close_pair(&p);
}

/* --- bytes read ------------------------------------------------------------------------------- */
/* Y-86: codes and scales are read once for each 128 rows of inputs, and inputs once for each 128
 * rows of weights. Scales are read again with each chunk they belong to. If a row has one scale, it
 * is looked up for each output. */
void expect_read(layer_kind kind, uint32_t n, uint32_t k, uint32_t rows)
{
    pair_of_outputs p;
    open_pair(&p, kind, n, k, rows);
    sb_emu_counts counts = {};
    assert_int_equal(run_wide(&p.b, rows, 0, 0, p.many, &counts), SB_OK);
    const sb_linear_shape &shape = p.b.shape;
    const uint64_t tiles = sb_pack_tiles(shape), chunks = shape.chunks;
    const uint64_t down = sb_linear_over(n, SB_WIDE_ROWS),
                   across = sb_linear_over(rows, SB_WIDE_ROWS);
    const uint64_t integer = sb_codes_integer(shape.codes) ? 8 : 4;
    const bool of_rows =
        shape.parts == 0 && shape.codes != SB_CODES_bf16 && shape.codes != SB_CODES_nvfp4;
    const uint64_t scales = shape.codes == SB_CODES_nvfp4 ? 4
                            : shape.parts                 ? shape.parts * integer
                            : integer == 8                ? 8
                                                          : 0;
    const uint64_t weights = across * tiles * (shape.scale_at + chunks * scales * sizeof(uint4)) +
                             (of_rows ? static_cast<uint64_t>(rows) * n * sizeof(float) : 0);
    const uint64_t inputs = down * rows * chunks * SB_CHUNK * 2;
    assert_int_equal(sb_emu_counted(&counts, nullptr, "weights").read, weights);
    assert_int_equal(sb_emu_counted(&counts, nullptr, "inputs").read, inputs);
    close_pair(&p);
}

TEST(test_read)
{
    for (uint32_t kind = 0; kind < LAYER_COUNT; kind++)
        if (check_some(kind, 2))
            expect_read(static_cast<layer_kind>(kind), 144, 192, 140);
    expect_read(LAYER_bf16, 128, 128, 128);
    expect_read(LAYER_ct, 128, 128, 256);
}

/* --- the choice of the kernel ----------------------------------------------------------------- */
TEST(test_choice)
{
    sb_linear_shape shape = sb_linear_shape();
    shape.rows = 2048;
    assert_false(sb_wide_takes(shape, 64));
    assert_false(sb_wide_takes(shape, 384));
    assert_true(sb_wide_takes(shape, 385));
    shape.rows = 512;
    assert_false(sb_wide_takes(shape, 1920));
    assert_true(sb_wide_takes(shape, 1921));
    shape.rows = 1 << 18; /* logits of few rows do not use blocks of 128 rows */
    assert_false(sb_wide_takes(shape, 64));
    assert_true(sb_wide_takes(shape, 65));
    assert_false(sb_wide_takes_experts(256 * 32 + 31, 256));
    assert_true(sb_wide_takes_experts(256 * 33, 256));
}

/* In any grid, every position belongs to exactly one block. */
__global__ void places(sb_global<uint32_t> out)
{
    const uint2 at = sb_wide_block();
    sb_launch_wait();
    out[at.y * gridDim.x + at.x] = blockIdx.y * gridDim.x + blockIdx.x + 1;
}

TEST(test_blocks)
{
    static uint32_t seen[64 * 64];
    for (uint32_t x = 1; x <= 20; x += 3)
        for (uint32_t y = 1; y <= 33; y += 4) {
            emu_bench e(x + y);
            EMU_RUN(e, places, dim3(x, y), 1, 0, e.out("seen", seen, size_t(x) * y));
            assert_true(e.complete());
            if (y >= 8) /* the second block has the same weights and the next inputs */
                assert_int_equal(seen[x], 2);
        }
}

/* --- faults ----------------------------------------------------------------------------------- */
bool caught(layer_kind kind, const char *what)
{
    pair_of_outputs p;
    open_pair(&p, kind, 40, 320, 70);
    assert_int_equal(bench_run(&p.b, 0, 70, 1, 0, p.few), SB_OK);
    bool seen = false;
    plant(what);
    for (uint64_t seed = 0; seed < 3 && !seen; seed++)
        seen = run_wide(&p.b, 70, 1, seed, p.many) != SB_OK || differing(&p) != 0;
    plant("");
    close_pair(&p);
    return seen;
}

TEST(test_planted)
{
    assert_false(caught(LAYER_nvfp4_ct, ""));
    assert_true(caught(LAYER_nvfp4_ct, "wide_wait"));
    assert_true(caught(LAYER_bf16, "wide_barrier"));
    assert_true(caught(LAYER_awq, "wide_parts"));
    assert_true(caught(LAYER_ct8, "wide_rows"));
    assert_true(caught(LAYER_mxfp4, "wide_piece"));
    assert_true(caught(LAYER_bf16, "linear_lanes"));
    assert_true(caught(LAYER_nvfp4_ct, "linear_scales"));
    assert_false(caught(LAYER_fp8_block, "linear_scales")); /* without such scales */
}

} // namespace
