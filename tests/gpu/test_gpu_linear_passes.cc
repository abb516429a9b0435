/* test_gpu_linear_passes.cc - a call of up to 64 rows reads the weights of a linear layer once, as
 * counted in the emulator (Y-15). */
#include "tests/lib/suite.h"

#include "gpu/emu/count.h"
#include "tests/gpu/linear_bench.h"

enum { N = 64, K = 576, MOST = 65, ROWS_OF_A_PASS = 64 };

/* Runs a call; returns the bytes of weights that its threads read. */
static uint64_t read_by(bench *b, uint32_t rows, float *out)
{
    const size_t bytes = sb_pack_tiles(b->shape) * b->shape.tile_bytes;
    const size_t staged = sb_linear_staged(b->shape, rows);
    uint2 *staging = static_cast<uint2 *>(room_for(staged, sizeof *staging));
    sb_emu_counts counts = {};
    sb_emu_region weights;
    {
        emu_bench e(0);
        assert_int_equal(
            sb_emu_region_counted(&weights, "weights", b->tiles, bytes, SB_EMU_INPUT, &e.err),
            SB_OK);
        const auto columns = e.in("columns", b->columns, b->shape.chunks * SB_CHUNK);
        const auto in = e.in("in", b->in, static_cast<size_t>(rows) * K);
        const auto x = e.out("staged", staging, staged);
        const auto y = e.out("out", out, static_cast<size_t>(rows) * N);
        const sb_global<const unsigned char> w(&weights);
        const sb_linear_call call = {&e.queue, sb_cast<const uint4>(w), x, y, b->shape, rows, 0};
        assert_int_equal(sb_linear_prepare(&e.queue, in, columns, x, b->shape, rows, false), SB_OK);
        sb_emu_count(e.queue.emu, &counts);
        assert_int_equal(sb_linear_launch(call), SB_OK);
        sb_emu_count(e.queue.emu, nullptr);
        sb_emu_region_close(&weights);
    }
    free(staging);
    return sb_emu_counted(&counts, nullptr, "weights").read;
}

/* The codes once per pass. For scales: those of two rows, which a lane looks up for each chunk, or
 * for each half of a chunk (a warp gets them from a few sectors), or once for integers without
 * groups. If a row has one scale, also one lookup per output. */
static uint64_t expected(const bench *b, uint32_t rows)
{
    const sb_linear_shape &shape = b->shape;
    const uint64_t passes = sb_linear_over(rows, ROWS_OF_A_PASS), tiles = sb_pack_tiles(shape);
    const bool scaled = shape.codes != SB_CODES_bf16;
    const bool of_rows = scaled && shape.codes != SB_CODES_nvfp4 && shape.parts == 0;
    const uint64_t found = sb_codes_integer(shape.codes) ? 16 : 8;
    const uint64_t groups = shape.codes == SB_CODES_nvfp4 ? 1 : shape.parts ? 2 : 0;
    const uint64_t of_warps = sb_codes_integer(shape.codes) && groups == 0 ? 8 : 0;
    const uint64_t lookups = tiles * 32 * (shape.chunks * groups + of_warps);
    return passes * (tiles * shape.scale_at + lookups * found) +
           (of_rows ? static_cast<uint64_t>(rows) * N * sizeof(float) : 0);
}

TEST(test_one_pass)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 9, 16, 17, 64, 65};
    static float counted[MOST * N], out[MOST * N];
    for (uint32_t kind = 0; kind < LAYER_COUNT; kind++) {
        bench b;
        bench_open(&b, static_cast<layer_kind>(kind), N, K, MOST);
        for (const uint32_t rows : widths) {
            const uint64_t read = read_by(&b, rows, counted);
            if (read != expected(&b, rows))
                fail_msg("%s, %u rows: %llu bytes are read, not %llu",
                         layer_name(static_cast<layer_kind>(kind)), rows,
                         static_cast<unsigned long long>(read),
                         static_cast<unsigned long long>(expected(&b, rows)));
            assert_int_equal(bench_run(&b, 0, rows, 0, 0, out), SB_OK);
            assert_memory_equal(counted, out, rows * N * sizeof(float));
        }
        bench_close(&b);
    }
}
