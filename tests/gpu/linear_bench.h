/* linear_bench.h - a linear layer in the emulator, for tests: the layer, its input, a launch. */
#ifndef SB_TESTS_GPU_LINEAR_BENCH_H
#define SB_TESTS_GPU_LINEAR_BENCH_H

#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/linear_launch.cuh"
#include "gpu/kernel/pack.h"
#include "ref/formats/format.h"
#include "ref/ops/op.h"
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/linear_layers.h"
#include "tests/gpu/plant.h"

struct bench {
    layer of;
    sb_linear_shape shape;
    unsigned char *tiles;
    uint32_t *columns;
    float *in; /* (most, K) values of bfloat16 */
    sb_error err;
};

static void bench_open(bench *b, layer_kind kind, uint32_t n, uint32_t k, uint32_t most)
{
    memset(b, 0, sizeof *b);
    assert_true(layer_draw(&b->of, kind, n, k, n * 1000 + k));
    assert_int_equal(sb_pack_shape(&b->of.matrix, &b->shape), SB_OK);
    const size_t bytes = sb_pack_tiles(b->shape) * b->shape.tile_bytes;
    b->tiles = static_cast<unsigned char *>(room_for(bytes, 1));
    b->columns = static_cast<uint32_t *>(room_for(b->shape.chunks * SB_CHUNK, 4));
    b->in = static_cast<float *>(room_for(static_cast<size_t>(most) * k, 4));
    assert_int_equal(sb_pack_linear(&b->of.matrix, 0, bytes, b->tiles), SB_OK);
    assert_int_equal(sb_pack_columns(&b->of.matrix, b->shape, b->columns), SB_OK);
    const uint64_t key = sb_rng_key(k, "input");
    for (size_t i = 0; i < static_cast<size_t>(most) * k; i++)
        b->in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(key, i));
}

static void bench_close(bench *b)
{
    layer_free(&b->of);
    free(b->tiles);
    free(b->columns);
    free(b->in);
}

/* Runs the layer on the input's rows from `first` on, under a schedule. out (rows, N) is written
 * completely. */
static sb_status bench_run(bench *b, uint32_t first, uint32_t rows, uint32_t wide, uint64_t seed,
                           float *out)
{
    const size_t k = b->shape.cols, staged = sb_linear_staged(b->shape, rows);
    uint2 *staging = static_cast<uint2 *>(room_for(staged, sizeof *staging));
    sb_status status;
    {
        emu_bench e(seed);
        e.queue.dependent = true;
        const auto w = e.in("weights", b->tiles, sb_pack_tiles(b->shape) * b->shape.tile_bytes);
        const auto columns = e.in("columns", b->columns, b->shape.chunks * SB_CHUNK);
        const auto in = e.in("in", b->in + first * k, rows * k);
        const auto x = e.out("staged", staging, staged);
        const auto y = e.out("out", out, static_cast<size_t>(rows) * b->shape.rows);
        status = sb_linear_prepare(&e.queue, in, columns, x, b->shape, rows, false);
        const sb_linear_call call = {&e.queue, sb_cast<const uint4>(w), x, y, b->shape, rows, wide};
        if (status == SB_OK)
            status = sb_linear_launch(call);
        if (status == SB_OK)
            assert_true(e.complete());
        b->err = e.err;
    }
    free(staging);
    return status;
}

#endif
