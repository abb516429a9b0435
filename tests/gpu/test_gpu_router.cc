/* test_gpu_router.cc - the choice of experts, and the sum of their outputs. */
#include "tests/lib/suite.h"

#include "gpu/cuda.h"
#include "tests/gpu/gpu_op.h"

enum { ROWS = 65, EXPERTS = 512, KEPT = 40, WIDTH = 513 };
static float logits[ROWS * EXPERTS], weights[ROWS * KEPT], again[ROWS * KEPT];
static uint32_t ids[ROWS * KEPT], ids_again[ROWS * KEPT];
static float expert_out[KEPT * WIDTH], shared_out[WIDTH], out[WIDTH];

TEST_FIXTURE(setup)
{
    op_draw("logits", 1, 3.0f, ROWS * EXPERTS, logits);
    op_draw("expert_out", 1, 1.0f, KEPT * WIDTH, expert_out);
    op_draw("shared_out", 1, 1.0f, WIDTH, shared_out);
    op_draw("weights", 1, 0.2f, KEPT, weights);
    return 0;
}

static sb_router_args router(const float *in, size_t rows, size_t experts, size_t kept)
{
    return {in, rows, experts, kept, 1, ids, weights};
}

/* Logits have the eight bits of a bfloat16, so that ties are frequent. */
TEST(test_router)
{
    static const size_t shapes[][2] = {{1, 1},   {4, 2},   {8, 8},    {31, 3},  {32, 4},
                                       {33, 33}, {96, 10}, {128, 40}, {512, 10}};
    for (const auto &shape : shapes)
        for (const size_t rows : {1, 2, 9, 16, 17, 64, 65}) {
            if (rows * shape[0] > 3000 && !check_all())
                continue;
            sb_router_args args = router(logits, rows, shape[0], shape[1]);
            is_within(SB_OP_router, args, rows % 6);
            args.renormalise = 0;
            if (rows == 9)
                is_within(SB_OP_router, args, 5);
        }
}

TEST(test_ties)
{
    static float same[3 * 64];
    for (size_t i = 0; i < 3 * 64; i++)
        same[i] = i < 64 ? 1.5f : i < 128 ? (i % 2 ? 0.0f : -0.0f) : static_cast<float>(i % 3);
    for (uint64_t seed = 0; seed < 5; seed++)
        is_within(SB_OP_router, router(same, 3, 64, 7), seed);
    for (size_t slot = 0; slot < 14; slot++)
        assert_int_equal(ids[slot], slot % 7); /* the lowest first; -0 equals 0 */
}

/* More experts than the kernel takes, and values that the session refuses: nothing breaks. */
TEST(test_limits)
{
    static float many[1025];
    const sb_knobs knobs = sm121();
    const sb_router_args args = router(many, 1, 1025, 4);
    assert_int_equal(ops()->router(&knobs, &args), SB_ERR_UNSUPPORTED);
    assert_non_null(strstr(said(), "1025 experts: the kernel takes at most 1024"));
    for (float &value : many)
        value = __uint_as_float(0x7fc00000);
    const sb_router_args nan = router(many, 1, 1024, 4);
    assert_int_equal(ops()->router(&knobs, &nan), SB_OK);
    for (size_t slot = 0; slot < 4; slot++)
        assert_true(ids[slot] < 1024);
}

TEST(test_rows)
{
    const sb_knobs knobs = sm121();
    const size_t most = 17, e = 48, k = 5;
    sb_router_args args = router(logits, most, e, k);
    sb_backend_emu_seed(1);
    assert_int_equal(ops()->router(&knobs, &args), SB_OK);
    memcpy(ids_again, ids, sizeof ids);
    memcpy(again, weights, sizeof weights);
    for (size_t width = 1; width < 10; width++)
        for (size_t first = 0; first + width <= most; first += check_all() ? 1 : width) {
            args = router(logits + first * e, width, e, k);
            assert_int_equal(ops()->router(&knobs, &args), SB_OK);
            assert_memory_equal(ids, ids_again + first * k, width * k * sizeof *ids);
            assert_memory_equal(weights, again + first * k, width * k * sizeof *weights);
        }
}

static sb_moe_combine_args combine(size_t kept, size_t n)
{
    return {expert_out, weights, ids, shared_out, -0.75f, kept, n, out};
}

TEST(test_combine)
{
    setup(nullptr);
    for (const size_t kept : {1, 2, 8, 10, 40})
        for (const size_t n : {1, 96, 320, 513})
            is_within(SB_OP_moe_combine, combine(kept, n), kept % 6);
}

/* --- faults ----------------------------------------------------------------------------------- */
TEST(test_faults)
{
    setup(nullptr);
    catches("combine_first_slot", SB_OP_moe_combine, combine(8, 96));
    for (const char *which :
         {"reduce_half_warp", "router_barrier", "router_barrier2", "router_taken_again"})
        catches(which, SB_OP_router, router(logits, 5, 96, 6));
    static float same[64];
    catches("router_last_of_equals", SB_OP_router, router(same, 1, 64, 6));
}

TEST_FIXTURE(forget)
{
    sb_gpu_forget(sb_backend_emu());
    return 0;
}
TEST_GROUP(setup, forget)
