/* test_gpu_wide_ops.cc - the choice of calls that blocks of 128 rows compute (Y-61, Y-85), as seen
 * in the launches of ordinary calls. The choice changes no bit: the results equal those of calls of
 * few rows. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/op/experts.h"
#include "gpu/op/fused.h"
#include "gpu/op/gpu.h"
#include "gpu/op/linears.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/ops/rounding.h"
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/launches_of.h"
#include "tests/gpu/linear_layers.h"
#include "tests/lib/check_all.h"

namespace
{

struct rig {
    sb_gpu *gpu;
    sb_knobs knobs;
    sb_emu_counts counts; /* of the counted call */
};

void open(rig *r)
{
    *r = rig();
    assert_int_equal(sb_gpu_open(&r->gpu, nullptr), SB_OK);
    assert_int_equal(sb_knobs_profile(&r->knobs, "sm121", nullptr), SB_OK);
    sb_gpu_history(r->gpu, false); /* test_gpu_wide looks for races */
}

template <class F> void counted(rig *r, F call)
{
    r->counts = sb_emu_counts();
    sb_emu_count(sb_gpu_emulator(r->gpu), &r->counts);
    const sb_status status = call();
    sb_emu_count(sb_gpu_emulator(r->gpu), nullptr);
    if (status != SB_OK)
        fail_msg("%s", sb_gpu_said(r->gpu)->text);
}

/* Asserts `many` launches of the kernel for many rows, and `few` of the one for few. */
void launched(const rig &r, uint64_t many, const char *kernel, uint64_t few, const char *what)
{
    if (launches_of(r.counts, "sb_wide_kernel") != many || launches_of(r.counts, kernel) != few)
        fail_msg("%s: sb_wide_kernel was started %d times, %s %d times", what,
                 static_cast<int>(launches_of(r.counts, "sb_wide_kernel")), kernel,
                 static_cast<int>(launches_of(r.counts, kernel)));
}

float *bf16_input(size_t count)
{
    float *in = static_cast<float *>(room_for(count, 4));
    for (size_t i = 0; i < count; i++)
        in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(count, i));
    return in;
}

/* --- linear layers ---------------------------------------------------------------------------- */
struct one {
    layer_kind kind;
    uint32_t n, k, rows;
    bool many;
};

/* Y-85: "more than 64 rows", and "at least 64 blocks of 128 rows of weights by 128 of inputs" */
const one linears[] = {
    {LAYER_bf16, 8072, 16, 65, true},          /* 64 blocks, the last one of 8 outputs */
    {LAYER_bf16, 8064, 16, 65, false},         /* 63 */
    {LAYER_bf16, 8192, 16, 64, false},         /* 64, but few rows */
    {LAYER_nvfp4_ct, 4040, 32, 129, true},     /* 32 times 2 */
    {LAYER_nvfp4_ct, 4040, 32, 128, false},    /* 32 */
    {LAYER_gptq_ordered, 2696, 64, 257, true}, /* 22 times 3; columns in another order */
};

/* Computes each row separately, or in calls of up to `width` rows. */
void in_few(rig *r, const sb_linear_args &all, size_t width, float *out)
{
    for (size_t first = 0; first < all.rows; first += width) {
        sb_linear_args some = all;
        some.rows = all.rows - first < width ? all.rows - first : width;
        some.in = all.in + first * all.weight->cols;
        some.out = out + first * all.weight->rows;
        counted(r, [&] { return sb_gpu_linear(r->gpu, &r->knobs, &some); });
        launched(*r, 0, "sb_linear_kernel", 1, "few rows");
    }
}

void check_linear(const one &c)
{
    rig r;
    layer of;
    const size_t outputs = static_cast<size_t>(c.rows) * c.n;
    char what[64];
    open(&r);
    assert_true(layer_draw(&of, c.kind, c.n, c.k, c.n + c.rows));
    float *in = bf16_input(static_cast<size_t>(c.rows) * c.k);
    float *all = static_cast<float *>(room_for(outputs, 4));
    float *few = static_cast<float *>(room_for(outputs, 4));
    const sb_linear_args args = {&of.matrix, SB_LINEAR_layer, in, c.rows, all};
    snprintf(what, sizeof what, "%s, %u outputs, %u rows", layer_name(c.kind), c.n, c.rows);
    counted(&r, [&] { return sb_gpu_linear(r.gpu, &r.knobs, &args); });
    launched(r, c.many, "sb_linear_kernel", !c.many, what);
    if (c.many) {
        in_few(&r, args, check_all() ? 1 : 64, few);
        if (memcmp(all, few, outputs * sizeof *all) != 0)
            fail_msg("%s: other bits", what);
    }
    free(in);
    free(all);
    free(few);
    layer_free(&of);
    sb_gpu_close(r.gpu);
}

TEST(test_linear)
{
    for (const one &c : linears)
        check_linear(c);
}

/* Y-65: among several layers with one input, those with many rows are launched separately. */
TEST(test_linears)
{
    enum { N = 8072, K = 16, ROWS = 65 };
    static float together[2][ROWS * N], alone[ROWS * N];
    const uint32_t outputs[2] = {N, 8};
    rig r;
    layer of[2];
    sb_linear_args args[2];
    float *in = bf16_input(ROWS * K);
    open(&r);
    for (size_t i = 0; i < 2; i++) {
        assert_true(layer_draw(&of[i], LAYER_bf16, outputs[i], K, i));
        args[i] = {&of[i].matrix, SB_LINEAR_layer, in, ROWS, together[i]};
    }
    counted(&r, [&] { return sb_gpu_linears(r.gpu, &r.knobs, args, 2, nullptr); });
    launched(r, 1, "sb_linear_kernel", 1, "two layers");
    for (size_t i = 0; i < 2; i++) {
        in_few(&r, args[i], 64, alone);
        assert_memory_equal(alone, together[i], ROWS * outputs[i] * sizeof *alone);
        layer_free(&of[i]);
    }
    free(in);
    sb_gpu_close(r.gpu);
}

/* --- experts ---------------------------------------------------------------------------------- */
enum { EXPERTS = 2, N = 136, WIDTH = 320, PAIRS = 300 };

struct mixture {
    layer drawn[2][EXPERTS];
    sb_matrix weight[2][EXPERTS];
    uint32_t ids[PAIRS];
    float together[2][PAIRS * N], alone[PAIRS * N];
    sb_expert_linear_args args[2];
    float *in;
};

/* One row per pair; two of three choose expert 1. */
void open_mixture(mixture *m, layer_kind kind, size_t rows)
{
    m->in = bf16_input(rows * WIDTH);
    for (uint32_t i = 0; i < PAIRS; i++)
        m->ids[i] = i % 3 != 0;
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            assert_true(layer_draw(&m->drawn[p][e], kind, N, WIDTH, 10 * e + p));
            m->weight[p][e] = m->drawn[p][e].matrix;
        }
        m->args[p] = {m->weight[p], sizeof(sb_matrix), EXPERTS, m->ids, rows, 1, 1, SB_LINEAR_layer,
                      m->in,        m->together[p]};
    }
}

void close_mixture(mixture *m)
{
    for (auto &both : m->drawn)
        for (layer &l : both)
            layer_free(&l);
    free(m->in);
}

/* One layer, in calls of 8 pairs. */
void experts_in_few(rig *r, mixture *m, uint32_t p)
{
    for (size_t first = 0; first < m->args[p].rows; first += 8) {
        sb_expert_linear_args some = m->args[p];
        some.rows = some.rows - first < 8 ? some.rows - first : 8;
        some.ids += first;
        some.in += first * WIDTH;
        some.out = m->alone + first * N;
        counted(r, [&] { return sb_gpu_experts(r->gpu, &r->knobs, &some); });
        launched(*r, 0, "sb_tile_kernel", 1, "few pairs");
    }
}

/* Y-61: "Where an expert has more than 32 on average, sets of 128" */
void check_experts(layer_kind kind, size_t rows)
{
    static mixture m;
    const bool many = rows > 32 * EXPERTS;
    rig r;
    char what[64];
    open(&r);
    open_mixture(&m, kind, rows);
    snprintf(what, sizeof what, "%s, %zu pairs", layer_name(kind), rows);
    counted(&r, [&] { return sb_gpu_experts(r.gpu, &r.knobs, m.args); });
    launched(r, many, "sb_tile_kernel", !many, what);
    memset(m.together[0], 0, sizeof m.together[0]);
    counted(&r, [&] { return sb_gpu_experts_both(r.gpu, &r.knobs, m.args, nullptr, nullptr); });
    launched(r, many ? 2 : 0, "sb_tile_kernel", !many, what);
    for (uint32_t p = 0; p < 2; p++) {
        experts_in_few(&r, &m, p);
        assert_memory_equal(m.alone, m.together[p], rows * N * sizeof *m.alone);
    }
    close_mixture(&m);
    sb_gpu_close(r.gpu);
}

TEST(test_experts)
{
    for (const size_t rows : {size_t(64), size_t(96), size_t(300)})
        check_experts(LAYER_nvfp4_ct, rows);
    check_experts(LAYER_fp8_block, 96);
}

} // namespace
