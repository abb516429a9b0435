/* test_gpu_elementwise.cc - the ops without a sum: the bits of the reference for all values, shapes
 * and schedules. */
#include "tests/lib/suite.h"

#include "gpu/kernel/elementwise.cuh"
#include "tests/gpu/gpu_op.h"

enum { MOST = 65 * 400 };
static float x[MOST], y[MOST], z[MOST], out[MOST], second[MOST];

static const size_t rows_of[] = {1, 2, 3, 5, 8, 9, 16, 17, 64, 65};

static void draw(uint64_t seed)
{
    op_draw("x", seed, 2.0f, MOST, x);
    op_draw("y", seed, 3.0f, MOST, y);
    op_draw("z", seed, 1.0f, MOST, z);
}

/* --- random values, every shape --------------------------------------------------------------- */
TEST(test_embed)
{
    static const sb_format formats[] = {SB_FORMAT_bf16, SB_FORMAT_f16, SB_FORMAT_f32};
    static const uint32_t widths[] = {1, 96, 320, 513};
    uint32_t tokens[65];
    for (uint32_t i = 0; i < 65; i++)
        tokens[i] = i * 7 % 40;
    for (const sb_format format : formats)
        for (const uint32_t width : widths) {
            const sb_matrix table = op_matrix("table", width, 1.0f, format, 40, width);
            for (const size_t rows : {1, 3, 17, 40}) {
                const sb_embed_args args = {&table, tokens, rows, out};
                is_exact(SB_OP_embed, args, rows);
            }
            sb_gpu_forget(sb_backend_emu());
            free(const_cast<unsigned char *>(table.data));
        }
}

/* Also binary32 values that are no bfloat16 values. */
TEST(test_add)
{
    draw(1);
    for (size_t i = 0; i < MOST; i++)
        x[i] *= 1.0f + static_cast<float>(i % 97) * 0x1p-20f;
    for (const size_t rows : rows_of) {
        const sb_add_args args = {x, y, rows * 96 + 1, out, nullptr};
        is_exact(SB_OP_add, args, rows);
    }
}

TEST(test_gates)
{
    draw(2);
    for (const uint32_t heads : {1, 6, 24}) {
        const sb_matrix a_log = op_matrix("a_log", 1, 1.0f, SB_FORMAT_f32, 1, heads);
        const sb_matrix dt_bias = op_matrix("dt_bias", 1, 2.0f, SB_FORMAT_bf16, 1, heads);
        for (const size_t rows : rows_of) {
            const sb_gates_args args = {x,   y,     &a_log, &dt_bias, rows, heads, SB_FORM_prompt,
                                        out, second};
            is_exact(SB_OP_gates, args, rows);
        }
        sb_gpu_forget(sb_backend_emu());
        free(const_cast<unsigned char *>(a_log.data));
        free(const_cast<unsigned char *>(dt_bias.data));
    }
}

TEST(test_split_gate)
{
    draw(3);
    for (const size_t rows : rows_of) {
        const sb_split_gate_args args = {x, rows, 3, rows % 2 ? 64u : 31u, out, second};
        is_exact(SB_OP_split_gate, args, rows);
    }
}

TEST(test_products)
{
    draw(4);
    for (const size_t rows : rows_of) {
        const sb_attn_gate_args gated = {x, y, rows * 33, out};
        is_exact(SB_OP_attn_gate, gated, rows);
        for (int kind = SB_MLP_expert; kind <= SB_MLP_dense; kind++) {
            const sb_swiglu_args args = {x, y, rows * 37, static_cast<sb_mlp_kind>(kind), out};
            is_exact(SB_OP_swiglu, args, rows);
        }
    }
}

/* --- values at the edges ---------------------------------------------------------------------- */
TEST(test_hostile)
{
    static const uint32_t bits[] = {0,          0x80000000, 1,          0x80000001, 0x00010000,
                                    0x007f0000, 0x00800000, 0x7f7f0000, 0xff7f0000, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0x42b00000, 0xc2b00000, 0xc2d00000,
                                    0x3f800000, 0x3f808000, 0x3f818000, 0x41a00000, 0xc1a00000};
    const size_t n = sizeof bits / sizeof *bits;
    for (size_t i = 0; i < n * n; i++) {
        x[i] = __uint_as_float(bits[i % n]);
        y[i] = __uint_as_float(bits[i / n]);
    }
    const sb_add_args sums = {x, y, n * n, out, nullptr};
    const sb_attn_gate_args gated = {x, y, n * n, out};
    const sb_swiglu_args products = {x, y, n * n, SB_MLP_expert, out};
    const sb_split_gate_args halves = {x, n, 1, n / 2, out, second};
    is_exact(SB_OP_add, sums);
    is_exact(SB_OP_attn_gate, gated);
    is_exact(SB_OP_swiglu, products);
    is_exact(SB_OP_split_gate, halves);
}

/* In place, as the schedule runs them. */
TEST(test_in_place)
{
    draw(5);
    const sb_knobs knobs = sm121();
    const sb_swiglu_args apart = {x, y, 1000, SB_MLP_shared, out};
    assert_int_equal(ops()->swiglu(&knobs, &apart), SB_OK);
    memcpy(z, x, sizeof z);
    const sb_swiglu_args same = {z, y, 1000, SB_MLP_shared, z};
    assert_int_equal(ops()->swiglu(&knobs, &same), SB_OK);
    assert_memory_equal(z, out, 1000 * sizeof *z);
    const sb_add_args sum = {x, y, 1000, out, nullptr};
    assert_int_equal(ops()->add(&knobs, &sum), SB_OK);
    memcpy(z, x, sizeof z);
    const sb_add_args into = {z, y, 1000, z, nullptr};
    assert_int_equal(ops()->add(&knobs, &into), SB_OK);
    assert_memory_equal(z, out, 1000 * sizeof *z);
}

/* --- faults ----------------------------------------------------------------------------------- */
TEST(test_faults)
{
    const sb_matrix a_log = op_matrix("a_log", 1, 1.0f, SB_FORMAT_f32, 1, 8);
    const sb_matrix dt_bias = op_matrix("dt_bias", 1, 2.0f, SB_FORMAT_bf16, 1, 8);
    draw(6);
    const sb_gates_args gates = {x, y, &a_log, &dt_bias, 4, 8, SB_FORM_decode, out, second};
    const sb_split_gate_args halves = {x, 4, 2, 16, out, second};
    const sb_attn_gate_args gated = {x, y, 100, out};
    const sb_swiglu_args products = {x, y, 300, SB_MLP_expert, out};
    const sb_add_args sums = {x, y, 300, out, nullptr};
    catches("gates_decay", SB_OP_gates, gates, true, 1);
    catches("split_interleaved", SB_OP_split_gate, halves, true, 1);
    catches("attn_gate_silu", SB_OP_attn_gate, gated, true, 1);
    catches("swiglu_rounded", SB_OP_swiglu, products, true, 1);
    catches("add_last", SB_OP_add, sums, true, 1);
    catches("add_wait", SB_OP_add, sums, true, 1);
    sb_gpu_forget(sb_backend_emu());
    free(const_cast<unsigned char *>(a_log.data));
    free(const_cast<unsigned char *>(dt_bias.data));
}
