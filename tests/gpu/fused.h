/* fused.h - for tests of fused kernels: the sizes of presets, and comparison with the bits of the
 * kernels that they replace. */
#ifndef SB_TESTS_GPU_FUSED_H
#define SB_TESTS_GPU_FUSED_H

#include "gpu/kernel/fused_stage.cuh"
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/gpu_op.h"

enum { FUSED_ROWS = 9 };

/* The letters of docs/spec.md; E is 0 for a dense model. */
struct fused_shape {
    const char *name;
    uint32_t H, nQ, nKV, hd, nK, nV, dk, dv, E, k, I;
    bool large;
};
static const fused_shape fused_shapes[] = {
    {"T1", 128, 4, 2, 64, 2, 4, 64, 64, 16, 4, 128, false},
    {"T2", 256, 4, 2, 256, 2, 4, 128, 128, 32, 8, 128, false},
    {"T3", 128, 4, 1, 128, 2, 6, 64, 64, 8, 2, 128, false},
    {"T4", 128, 2, 2, 64, 2, 2, 64, 64, 0, 0, 256, false},
    {"T5", 128, 4, 2, 64, 2, 4, 64, 64, 16, 4, 128, false},
    {"T6", 320, 4, 2, 64, 16, 32, 32, 32, 8, 2, 96, false},
    {"35b-a3b", 2048, 16, 2, 256, 16, 32, 128, 128, 256, 8, 512, true},
    {"122b-a10b", 3072, 32, 2, 256, 16, 64, 128, 128, 256, 8, 1024, true},
};

/* 1 to 9 rows. `make check` tests one row and a third of the other numbers, different ones for each
 * model. It tests large models with 1 and 9 rows, and the one with the most heads with 1 row. */
static inline bool fused_rows_there(const fused_shape &s, uint32_t rows)
{
    if (rows == 1 || check_all())
        return true;
    return s.large ? rows == 9 && s.nV != 64 : (rows + s.nV) % 3 == 0;
}

/* Checks every shape of the table with every number of rows. */
template <class F> static void fused_all(F same)
{
    for (const fused_shape &s : fused_shapes)
        for (uint32_t rows = 1; rows <= FUSED_ROWS; rows++)
            if (fused_rows_there(s, rows) && !same(s, rows, s.large ? 0 : rows % SCHEDULES))
                fail_msg("%s, %u rows: other bits than those of the kernels one by one", s.name,
                         rows);
}

/* Asserts that a fault shows in this call under every schedule, and that without it the call is
 * right. */
template <class F> static void fused_catches(const char *fault, F same)
{
    for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
        assert_true(same(seed));
        plant(fault);
        const bool right = same(seed);
        plant("");
        if (right)
            fail_msg("%s: not caught", fault);
    }
}

template <class T> static T *fused_room(size_t n)
{
    return reinterpret_cast<T *>(test_output((n * sizeof(T) + 3) / 4));
}

static inline size_t fused_staged(const sb_linear_shape &shape, uint32_t rows)
{
    return static_cast<size_t>((rows + 7) / 8) * shape.chunks * SB_STEPS * 32;
}
static inline size_t fused_pairs(const sb_linear_shape &shape, uint32_t rows)
{
    return static_cast<size_t>(rows) * shape.chunks * (SB_CHUNK / 2);
}
static inline unsigned fused_blocks(size_t n, size_t each)
{
    return static_cast<unsigned>((n + each - 1) / each);
}

/* The inputs of layers staged from `in` (rows, cols), by the separate staging kernels. */
struct fused_input {
    uint2 *staged;
    uint32_t *pairs;
};
static inline fused_input fused_stage(const float *in, const sb_linear_shape &shape, uint32_t rows)
{
    emu_bench b(0);
    const size_t words = fused_staged(shape, rows), pairs = fused_pairs(shape, rows);
    const fused_input x = {fused_room<uint2>(words), fused_room<uint32_t>(pairs)};
    const auto from = b.in("in", in, static_cast<size_t>(rows) * shape.cols);
    EMU_RUN(b, sb_linear_stage<float>, fused_blocks(words, 256), 256, 0, from, nullptr,
            b.out("staged", x.staged, words), shape, rows);
    EMU_RUN(b, sb_expert_stage<float>, fused_blocks(pairs, 256), 256, 0, from, nullptr,
            b.out("pairs", x.pairs, pairs), shape, rows);
    assert_true(b.complete());
    return x;
}

template <class T> static bool fused_same(const T *a, const T *b, size_t n)
{
    return memcmp(a, b, n * sizeof(T)) == 0;
}

#endif
