/* test_gpu_rope.cc - rotary positions: the bits of the reference for one and for three position
 * streams, and for the elements that are not rotated. */
#include "tests/gpu/gpu_op.h"
#include "tests/lib/suite.h"

struct shape {
    size_t heads, hd, rd;
    bool streams;
};
static const shape shapes[] = {{4, 64, 16, true},
                               {4, 64, 16, false},
                               {3, 24, 24, true},
                               {2, 256, 64, true},
                               {1, 10, 2, false}};

enum { MOST = 65 };

static sb_rope_args call_of(const shape &s, size_t rows, size_t skipped)
{
    static uint32_t position[3][MOST];
    static const uint32_t section[3] = {3, 3, 2};
    const size_t size = s.heads * s.hd;
    sb_rope_args a = {};
    a.x = test_copy(bf16_values("x", MOST * size, 0.0f, 1.5f) + skipped * size, rows * size);
    a.rows = rows;
    a.heads = s.heads;
    a.hd = s.hd;
    a.rd = s.rd;
    a.theta = 1e7;
    a.section = s.streams ? section : nullptr;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t t = 0; t < MOST; t++)
            position[i][t] = t % 5 == 4 ? 262143 - t - i : 3 * t + 100 * i;
        a.position[i] = position[i] + skipped;
    }
    return a;
}

TEST_WITH(test_values, NULL, test_release)
{
    for (const size_t rows : call_rows)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            is_exact(SB_OP_rope, call_of(shapes[0], rows, 0), seed);
    for (const shape &s : shapes)
        for (const size_t rows : {size_t(1), size_t(9), size_t(65)})
            is_exact(SB_OP_rope, call_of(s, rows, 0), rows);
}

TEST_WITH(test_rows, NULL, test_release)
{
    const shape &s = shapes[0];
    const size_t size = s.heads * s.hd;
    const sb_rope_args whole = call_of(s, MOST, 0);
    runs(SB_OP_rope, whole, 0);
    for (size_t width = 1; width <= 9; width++)
        for (size_t row = 0; row + width <= 20; row++) {
            const sb_rope_args part = call_of(s, width, row);
            runs(SB_OP_rope, part, row);
            assert_true(same_bits(part.x, whole.x + row * size, width * size));
        }
}

TEST_WITH(test_faults, NULL, test_release)
{
    for (const char *fault : {"rope_stream", "rope_pair", "rope_sign"})
        catches(fault, SB_OP_rope, call_of(shapes[0], 9, 0), true);
}
