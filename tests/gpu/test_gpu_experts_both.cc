/* test_gpu_experts_both.cc - gate and up of experts in one launch (Y-66): the same bits as in
 * separate launches, with one sort and one staging. Every code of the needed experts is read
 * once. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/pack.h"
#include "gpu/op/experts.h"
#include "gpu/op/fused.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/launches_of.h"
#include "tests/gpu/linear_layers.h"
#include "tests/gpu/plant.h"

namespace
{

enum { EXPERTS = 6, KEPT = 3, N = 24, K = 320, ROWS = 9, PAIRS = ROWS * KEPT };

struct rig {
    sb_gpu *gpu;
    sb_knobs knobs;
    layer drawn[2][EXPERTS];
    sb_matrix weight[2][EXPERTS];
    uint32_t ids[PAIRS];
    float in[PAIRS * K], together[2][PAIRS * N], alone[PAIRS * N];
    sb_expert_linear_args args[2];
};

/* The rows choose experts 0 to 4 in turn, and the last rows the same ones. No row chooses expert
 * 5. */
void open(rig *r, layer_kind gate, layer_kind up, size_t rows, size_t each)
{
    assert_int_equal(sb_gpu_open(&r->gpu, nullptr), SB_OK);
    assert_int_equal(sb_knobs_profile(&r->knobs, "sm121", nullptr), SB_OK);
    for (uint32_t i = 0; i < PAIRS; i++)
        r->ids[i] = i < 6 ? i % 5 : i % KEPT;
    for (size_t i = 0; i < PAIRS * K; i++)
        r->in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(K, i));
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t e = 0; e < EXPERTS; e++) {
            assert_true(layer_draw(&r->drawn[p][e], p ? up : gate, N, K, 10 * e + p));
            r->weight[p][e] = r->drawn[p][e].matrix;
        }
        r->args[p] = {r->weight[p], sizeof(sb_matrix), EXPERTS, r->ids,        rows, KEPT,
                      each,         SB_LINEAR_layer,   r->in,   r->together[p]};
    }
}

void close(rig *r)
{
    for (uint32_t p = 0; p < 2; p++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            layer_free(&r->drawn[p][e]);
    sb_gpu_close(r->gpu);
}

bool as_alone(rig *r)
{
    bool same = true;
    for (uint32_t p = 0; p < 2; p++) {
        sb_expert_linear_args args = r->args[p];
        args.out = r->alone;
        assert_int_equal(sb_gpu_experts(r->gpu, &r->knobs, &args), SB_OK);
        same = same && memcmp(r->alone, r->together[p], args.rows * KEPT * N * sizeof(float)) == 0;
    }
    return same;
}

void check(layer_kind gate, layer_kind up, size_t rows, size_t each, uint64_t launches)
{
    static rig r;
    sb_emu_counts counts = {};
    open(&r, gate, up, rows, each);
    sb_emu_count(sb_gpu_emulator(r.gpu), &counts);
    assert_int_equal(sb_gpu_experts_both(r.gpu, &r.knobs, r.args, nullptr, nullptr), SB_OK);
    sb_emu_count(sb_gpu_emulator(r.gpu), nullptr);
    for (const char *kernel : {"sb_tile_kernel", "sb_expert_stage", "sb_route_order"})
        if (launches_of(counts, kernel) != launches)
            fail_msg("%s: %d launches", kernel, static_cast<int>(launches_of(counts, kernel)));
    assert_true(as_alone(&r));
    close(&r);
}

TEST(test_bits_and_launches)
{
    for (const layer_kind kind :
         {LAYER_bf16, LAYER_nvfp4_ct, LAYER_fp8_block, LAYER_fp8_channel, LAYER_awq, LAYER_ct8})
        for (const size_t rows : {size_t(1), size_t(3), size_t(9)}) {
            check(kind, kind, rows, KEPT, 1);
            check(kind, kind, rows, 1, 1);
        }
    check(LAYER_bf16, LAYER_nvfp4_ct, 2, KEPT, 2); /* two kinds, in separate launches */
    check(LAYER_fp8_block, LAYER_fp8_channel, 2, KEPT, 2);
}

TEST(test_refused)
{
    static rig r;
    open(&r, LAYER_bf16, LAYER_bf16, 2, KEPT);
    r.ids[4] = EXPERTS;
    assert_int_equal(sb_gpu_experts_both(r.gpu, &r.knobs, r.args, nullptr, nullptr), SB_ERR_USAGE);
    r.ids[4] = 0;
    r.in[5] = 1.0f + 0x1p-20f;
    assert_int_equal(sb_gpu_experts_both(r.gpu, &r.knobs, r.args, nullptr, nullptr),
                     SB_ERR_UNSUPPORTED);
    r.in[5] = 1.0f;
    r.args[1].each = 1;
    assert_int_equal(sb_gpu_experts_both(r.gpu, &r.knobs, r.args, nullptr, nullptr), SB_OK);
    assert_true(as_alone(&r));
    close(&r);
}

TEST(test_planted)
{
    static rig r;
    open(&r, LAYER_nvfp4_ct, LAYER_nvfp4_ct, 3, KEPT);
    plant("experts_both");
    assert_int_equal(sb_gpu_experts_both(r.gpu, &r.knobs, r.args, nullptr, nullptr), SB_OK);
    assert_false(as_alone(&r));
    assert_int_equal(sb_gpu_experts(r.gpu, &r.knobs, r.args), SB_OK); /* without an effect of the
                                                                       * fault */
    plant("");
    sb_expert_linear_args args = r.args[0];
    args.out = r.alone;
    assert_int_equal(sb_gpu_experts(r.gpu, &r.knobs, &args), SB_OK);
    assert_memory_equal(r.alone, r.together[0], 3 * KEPT * N * sizeof(float));
    close(&r);
}

} // namespace
