/* test_gpu_norm.cc - the norms: inside their bounds, and independent rows. */
#include "tests/lib/suite.h"

#include "gpu/kernel/norm.cuh"
#include "ref/formats/plain_row.h"
#include "tests/gpu/gpu_op.h"

enum { MOST = 65 * 2304 };
static float x[MOST], z[MOST], out[MOST], second[MOST], again[MOST], again2[MOST];
static const float eps = 1e-6f;

static const uint32_t widths[] = {1, 32, 64, 96, 128, 129, 320, 2304};
static const size_t rows_of[] = {1, 2, 3, 5, 9, 16, 17, 64, 65};

static sb_matrix weights[sizeof widths / sizeof *widths];

TEST_FIXTURE(setup)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        weights[i] = op_matrix("weight", widths[i], 0.3f, SB_FORMAT_bf16, 1, widths[i]);
    op_draw("x", 1, 2.0f, MOST, x);
    op_draw("z", 1, 2.0f, MOST, z);
    return 0;
}

TEST_FIXTURE(teardown)
{
    sb_gpu_forget(sb_backend_emu());
    for (const sb_matrix &w : weights)
        free(const_cast<unsigned char *>(w.data));
    return 0;
}

static sb_rmsnorm_args rmsnorm(size_t width, const float *in, size_t rows, float *to)
{
    return {in, &weights[width], eps, rows, widths[width], to, 0};
}

static sb_gated_rmsnorm_args gated(size_t width, const float *in, const float *gate, size_t rows,
                                   float *to)
{
    return {in, gate, &weights[width], eps, rows, 1, widths[width], to};
}

/* A row has some values after its queries and keys, as in the output of the convolution. */
static sb_l2norm_args l2norm(const float *in, size_t rows, size_t heads, size_t dk, float *q,
                             float *k)
{
    return {in, rows, 2 * heads * dk + 5, heads, dk, eps, 1, SB_FORM_prompt, q, k};
}

/* --- bounds ----------------------------------------------------------------------------------- */
TEST(test_rmsnorm)
{
    for (size_t width = 0; width < sizeof widths / sizeof *widths; width++)
        for (const size_t rows : rows_of)
            if (rows * widths[width] < 12000 || check_all())
                is_within(SB_OP_rmsnorm, rmsnorm(width, x, rows, out), rows % 6);
}

TEST(test_gated_rmsnorm)
{
    for (size_t width = 0; width < sizeof widths / sizeof *widths; width++)
        for (const size_t rows : rows_of)
            if (rows * widths[width] < 12000 || check_all())
                is_within(SB_OP_gated_rmsnorm, gated(width, x, z, rows, out), rows % 6);
}

TEST(test_l2norm)
{
    for (const size_t dk : {32, 64, 128, 144})
        for (const size_t rows : rows_of)
            if (rows < 20 || dk == 32 || check_all())
                is_within(SB_OP_l2norm, l2norm(x, rows, 3, dk, out, second), rows % 6);
}

/* Zeros, the smallest and the largest values. */
TEST(test_edges)
{
    static float edges[6 * 64];
    static const float values[] = {0.0f, 0x1p-149f, 0x1p-70f, 0x1p60f, -0x1p-30f, 0x1p-126f};
    for (size_t i = 0; i < 6 * 64; i++)
        edges[i] = values[i / 64] * (i % 2 ? 1.0f : -1.0f);
    is_within(SB_OP_rmsnorm, rmsnorm(2, edges, 6, out));
    is_within(SB_OP_gated_rmsnorm, gated(2, edges, z, 6, out));
    const sb_l2norm_args l2 = {edges, 3, 128, 1, 64, eps, 0, SB_FORM_decode, out, second};
    is_within(SB_OP_l2norm, l2);
}

/* --- a row by itself -------------------------------------------------------------------------- */
template <class F, class G> static void each_width(size_t most, size_t to, F run, G same)
{
    run(0, most);
    memcpy(again, out, sizeof out);
    memcpy(again2, second, sizeof second);
    for (size_t width = 1; width < to; width++)
        for (size_t first = 0; first + width <= most; first += check_all() ? 1 : width) {
            run(first, width);
            same(first, width);
        }
}

TEST(test_rows)
{
    const sb_knobs knobs = sm121();
    const size_t w = 6, n = widths[w];
    sb_backend_emu_seed(3);
    each_width(
        17, 10,
        [&](size_t first, size_t rows) {
            const sb_rmsnorm_args args = rmsnorm(w, x + first * n, rows, out);
            assert_int_equal(ops()->rmsnorm(&knobs, &args), SB_OK);
        },
        [&](size_t first, size_t rows) {
            assert_memory_equal(out, again + first * n, rows * n * sizeof *out);
        });
    each_width(
        17, 10,
        [&](size_t first, size_t rows) {
            const size_t stride = 2 * 2 * 32 + 5;
            const sb_l2norm_args args = l2norm(x + first * stride, rows, 2, 32, out, second);
            assert_int_equal(ops()->l2norm(&knobs, &args), SB_OK);
        },
        [&](size_t first, size_t rows) {
            assert_memory_equal(out, again + first * 64, rows * 64 * sizeof *out);
            assert_memory_equal(second, again2 + first * 64, rows * 64 * sizeof *out);
        });
}

/* The same bits if activations are stored as bfloat16. */
TEST(test_storage)
{
    enum { ROWS = 3, N = 320 };
    static uint16_t narrow[ROWS * N], to[ROWS * N];
    static float w[N], wide[ROWS * N];
    sb_emu *emu = sb_emu_new(7);
    sb_error err;
    sb_queue queue = {emu, &err};
    sb_emu_region in, weight, result;
    assert_non_null(emu);
    for (size_t i = 0; i < ROWS * N; i++)
        narrow[i] = static_cast<uint16_t>(sb_atom_bits(x[i]) >> 16);
    sb_matrix_row(&weights[6], 0, w);
    assert_int_equal(sb_emu_region_open(&in, "in", narrow, sizeof narrow, SB_EMU_INPUT, &err),
                     SB_OK);
    assert_int_equal(sb_emu_region_open(&weight, "weight", w, sizeof w, SB_EMU_INPUT, &err), SB_OK);
    assert_int_equal(sb_emu_region_open(&result, "out", to, sizeof to, SB_EMU_OUTPUT, &err), SB_OK);
    assert_int_equal(SB_LAUNCH(&queue, (sb_rmsnorm_kernel<uint16_t, uint16_t>), ROWS,
                               sb_sum_threads(N), 0, &in, &weight, eps, size_t(N), &result),
                     SB_OK);
    const sb_knobs knobs = sm121();
    const sb_rmsnorm_args args = {x, &weights[6], eps, ROWS, N, wide, 0};
    assert_int_equal(ops()->rmsnorm(&knobs, &args), SB_OK);
    for (size_t i = 0; i < ROWS * N; i++)
        assert_int_equal(static_cast<uint32_t>(to[i]) << 16, sb_atom_bits(wide[i]));
    sb_emu_region_close(&in);
    sb_emu_region_close(&weight);
    sb_emu_region_close(&result);
    sb_emu_free(emu);
}

/* --- faults ----------------------------------------------------------------------------------- */
TEST(test_faults)
{
    static float small[5 * 320];
    for (size_t i = 0; i < 5 * 320; i++)
        small[i] = x[i] * 0x1p-12f; /* small enough for eps to matter */
    for (const char *which :
         {"reduce_half_warp", "reduce_barrier", "norm_eps", "norm_plain_weight"})
        catches(which, SB_OP_rmsnorm, rmsnorm(6, small, 5, out));
    catches("norm_tail", SB_OP_rmsnorm, rmsnorm(5, x, 5, out));
    catches("reduce_barrier", SB_OP_gated_rmsnorm, gated(6, x, z, 5, out));
    catches("reduce_half_warp", SB_OP_l2norm, l2norm(x, 5, 2, 32, out, second));
}

TEST_GROUP(setup, teardown)
