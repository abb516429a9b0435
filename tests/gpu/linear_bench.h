/* linear_bench.h - a linear layer on the emulator, for tests: the layer, its input, a launch. */
#ifndef SB_TESTS_GPU_LINEAR_BENCH_H
#define SB_TESTS_GPU_LINEAR_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/linear_launch.cuh"
#include "gpu/kernel/pack.h"
#include "tests/gpu/linear_layers.h"
#include "tests/gpu/plant.h"

extern "C" {
#include "ref/ops/op.h"
}

/* One for all: a launch that failed leaves nothing behind. */
static sb_emu *emulator;

struct bench {
    layer of;
    sb_linear_shape shape;
    unsigned char *tiles;
    uint32_t *columns;
    float *in; /* (most, K) values of bfloat16 */
    sb_error err;
};

/* Failing is the test's: nothing here is what it tests. */
static void *room(size_t count, size_t size)
{
    void *p = calloc(count, size);
    assert_non_null(p);
    return p;
}

static void bench_open(bench *b, layer_kind kind, uint32_t n, uint32_t k, uint32_t most)
{
    memset(b, 0, sizeof *b);
    assert_true(layer_draw(&b->of, kind, n, k, n * 1000 + k));
    assert_int_equal(sb_pack_shape(&b->of.matrix, &b->shape), SB_OK);
    const size_t bytes = sb_pack_tiles(b->shape) * b->shape.tile_bytes;
    b->tiles = static_cast<unsigned char *>(room(bytes, 1));
    b->columns = static_cast<uint32_t *>(room(b->shape.chunks * SB_CHUNK, 4));
    b->in = static_cast<float *>(room(static_cast<size_t>(most) * k, 4));
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

/* A buffer; `host` is what it has, or gets. */
struct buffer {
    sb_emu_region region;

    buffer(const char *name, const void *host, size_t bytes, sb_emu_use use)
    {
        assert_int_equal(
            sb_emu_region_open(&region, name, const_cast<void *>(host), bytes, use, nullptr),
            SB_OK);
    }
    ~buffer()
    {
        sb_emu_region_close(&region);
    }
};

/* Rows `first` on of the input, under a schedule; out (rows, N), all of which is written. */
static sb_status bench_run(bench *b, uint32_t first, uint32_t rows, uint32_t wide, uint64_t seed,
                           float *out)
{
    const uint32_t k = b->shape.cols;
    const size_t staged = sb_linear_staged(b->shape, rows) * sizeof(uint2);
    const size_t outputs = static_cast<size_t>(rows) * b->shape.rows * sizeof(float);
    uint2 *x = static_cast<uint2 *>(room(staged, 1));
    sb_status status;
    {
        const sb_queue queue = {emulator, &b->err};
        buffer w("weights", b->tiles, sb_pack_tiles(b->shape) * b->shape.tile_bytes, SB_EMU_INPUT);
        buffer c("columns", b->columns, b->shape.chunks * SB_CHUNK * sizeof(uint32_t),
                 SB_EMU_INPUT);
        buffer in("in", b->in + static_cast<size_t>(first) * k,
                  static_cast<size_t>(rows) * k * sizeof(float), SB_EMU_INPUT);
        buffer fragments("staged", x, staged, SB_EMU_OUTPUT);
        buffer y("out", out, outputs, SB_EMU_OUTPUT);
        sb_emu_seed(emulator, seed);
        status = SB_LAUNCH(&queue, sb_linear_stage<float>, sb_linear_over(staged / 8, 256), 256, 0,
                           &in.region, &c.region, &fragments.region, b->shape, rows);
        const sb_linear_call call = {&queue,
                                     sb_global<const uint4>(&w.region),
                                     sb_global<const uint2>(&fragments.region),
                                     sb_global<float>(&y.region),
                                     b->shape,
                                     rows,
                                     wide};
        if (status == SB_OK)
            status = sb_linear_launch(call);
        if (status == SB_OK)
            assert_int_equal(sb_emu_unset(&y.region, 0), outputs);
    }
    free(x);
    return status;
}

#endif
