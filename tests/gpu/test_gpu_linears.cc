/* test_gpu_linears.cc - several linear layers with one input (Y-65): the bits of each alone, in as
 * few launches as the kinds of their weights allow, with the input staged once or already
 * staged. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/linear_launch.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/op/linears.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "ref/ops/rounding.h"
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/launches_of.h"
#include "tests/gpu/linear_layers.h"
#include "tests/gpu/plant.h"

namespace
{

enum { MOST = 6, K = 320, ROWS = 17, WIDEST = 72 };

struct one {
    layer_kind kind;
    uint32_t n;
    sb_linear_kind as;
};
struct several {
    const char *name;
    size_t count, launches, stagings;
    one of[MOST];
};

/* A launch covers up to four neighbours with one kind of codes and scales. */
const several cases[] = {
    {"in_proj",
     4,
     1,
     1,
     {{LAYER_bf16, 72, SB_LINEAR_layer},
      {LAYER_bf16, 40, SB_LINEAR_layer},
      {LAYER_f16, 8, SB_LINEAR_layer},
      {LAYER_bf16, 8, SB_LINEAR_layer}}},
    {"q, k and v",
     3,
     1,
     1,
     {{LAYER_fp8_block, 72, SB_LINEAR_layer},
      {LAYER_mxfp8, 24, SB_LINEAR_layer},
      {LAYER_fp8_block, 8, SB_LINEAR_layer}}},
    {"router and the gate of the shared expert",
     2,
     1,
     1,
     {{LAYER_bf16, 40, SB_LINEAR_router}, {LAYER_bf16, 1, SB_LINEAR_shared_gate}}},
    {"integers", 2, 1, 1, {{LAYER_ct, 24, SB_LINEAR_layer}, {LAYER_awq, 40, SB_LINEAR_layer}}},
    {"one that stays wide",
     2,
     1,
     1,
     {{LAYER_nvfp4_ct, 24, SB_LINEAR_head}, {LAYER_nvfp4_modelopt, 24, SB_LINEAR_layer}}},
    {"scales of groups and of rows",
     2,
     2,
     2,
     {{LAYER_fp8_block, 24, SB_LINEAR_layer}, {LAYER_fp8_channel, 24, SB_LINEAR_layer}}},
    {"two kinds",
     4,
     3,
     3,
     {{LAYER_bf16, 24, SB_LINEAR_layer},
      {LAYER_nvfp4_ct, 24, SB_LINEAR_layer},
      {LAYER_nvfp4_ct, 8, SB_LINEAR_layer},
      {LAYER_bf16, 8, SB_LINEAR_layer}}},
    {"six",
     6,
     2,
     2,
     {{LAYER_bf16, 8, SB_LINEAR_layer},
      {LAYER_bf16, 16, SB_LINEAR_layer},
      {LAYER_bf16, 24, SB_LINEAR_layer},
      {LAYER_bf16, 8, SB_LINEAR_layer},
      {LAYER_bf16, 8, SB_LINEAR_layer},
      {LAYER_bf16, 40, SB_LINEAR_layer}}},
    {"columns with an index",
     3,
     3,
     3,
     {{LAYER_gptq, 24, SB_LINEAR_layer},
      {LAYER_gptq_ordered, 24, SB_LINEAR_layer},
      {LAYER_gptq_ordered, 8, SB_LINEAR_layer}}},
};

struct rig {
    sb_gpu *gpu;
    sb_knobs knobs;
    layer of[MOST];
    float in[ROWS * K], together[MOST][ROWS * WIDEST], alone[ROWS * WIDEST];
    sb_linear_args args[MOST];
};

void open(rig *r, const several &c, size_t rows)
{
    assert_int_equal(sb_gpu_open(&r->gpu, nullptr), SB_OK);
    assert_int_equal(sb_knobs_profile(&r->knobs, "sm121", nullptr), SB_OK);
    for (size_t i = 0; i < ROWS * K; i++)
        r->in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(K, i));
    for (size_t i = 0; i < c.count; i++) {
        assert_true(layer_draw(&r->of[i], c.of[i].kind, c.of[i].n, K, 100 + i));
        r->args[i] = {&r->of[i].matrix, c.of[i].as, r->in, rows, r->together[i]};
    }
}

void close(rig *r, const several &c)
{
    for (size_t i = 0; i < c.count; i++)
        layer_free(&r->of[i]);
    sb_gpu_close(r->gpu);
}

/* Whether each has the bits of sb_gpu_linear, which reads `in`. */
bool as_alone(rig *r, const several &c)
{
    bool same = true;
    for (size_t i = 0; i < c.count; i++) {
        sb_linear_args args = r->args[i];
        args.in = r->in;
        args.out = r->alone;
        assert_int_equal(sb_gpu_linear(r->gpu, &r->knobs, &args), SB_OK);
        same = same && memcmp(r->alone, r->together[i], args.rows * c.of[i].n * sizeof(float)) == 0;
    }
    return same;
}

TEST(test_bits_and_launches)
{
    static rig r;
    for (const several &c : cases)
        for (const size_t rows : {1, 2, 8, 9, 16, 17}) {
            sb_emu_counts counts = {};
            open(&r, c, rows);
            sb_emu_count(sb_gpu_emulator(r.gpu), &counts);
            assert_int_equal(sb_gpu_linears(r.gpu, &r.knobs, r.args, c.count, nullptr), SB_OK);
            sb_emu_count(sb_gpu_emulator(r.gpu), nullptr);
            const uint64_t products = launches_of(counts, "sb_linear_kernel");
            const uint64_t stagings = launches_of(counts, "sb_linear_stage");
            if (products != c.launches || stagings != c.stagings)
                fail_msg("%s: %d launches and %d stagings", c.name, static_cast<int>(products),
                         static_cast<int>(stagings));
            if (!as_alone(&r, c))
                fail_msg("%s, %d rows: other bits", c.name, static_cast<int>(rows));
            close(&r, c);
        }
}

/* With an already staged input, the input of the arguments is not read. */
TEST(test_staged)
{
    static rig r;
    static float nothing[ROWS * K];
    for (const several &c : {cases[0], cases[1], cases[5]})
        for (const uint32_t rows : {1, 9}) {
            sb_linear_shape shape;
            open(&r, c, rows);
            assert_int_equal(sb_pack_shape(&r.of[0].matrix, &shape), SB_OK);
            const size_t staged = sb_linear_staged(shape, rows);
            uint2 *x = static_cast<uint2 *>(room_for(staged, sizeof *x));
            {
                emu_bench e(0);
                EMU_RUN(e, sb_linear_stage<float>, sb_linear_over(staged, 256), 256, 0,
                        e.in("in", r.in, rows * K), sb_global<const uint32_t>(nullptr),
                        e.out("staged", x, staged), shape, rows);
            }
            for (size_t i = 0; i < c.count; i++)
                r.args[i].in = nothing;
            assert_int_equal(sb_gpu_linears(r.gpu, &r.knobs, r.args, c.count, x), SB_OK);
            assert_true(as_alone(&r, c));
            memset(x, 0, sizeof *x * (staged / 2)); /* then the result must differ */
            assert_int_equal(sb_gpu_linears(r.gpu, &r.knobs, r.args, c.count, x), SB_OK);
            assert_false(as_alone(&r, c));
            free(x);
            close(&r, c);
        }
}

/* Layers of the arguments with another input or other rows still have the bits of each alone. An
 * input that is no bfloat16 value is refused. */
TEST(test_apart)
{
    static rig r;
    static float other[ROWS * K];
    open(&r, cases[0], 2);
    memcpy(other, r.in, sizeof other);
    r.args[1].in = other;
    r.args[3].rows = 1;
    assert_int_equal(sb_gpu_linears(r.gpu, &r.knobs, r.args, 4, nullptr), SB_OK);
    assert_true(as_alone(&r, cases[0]));
    r.args[1].in = r.in;
    r.in[3] = 1.0f + 0x1p-20f;
    assert_int_equal(sb_gpu_linears(r.gpu, &r.knobs, r.args, 4, nullptr), SB_ERR_UNSUPPORTED);
    assert_int_equal(sb_gpu_linears(r.gpu, &r.knobs, r.args, 0, nullptr), SB_OK);
    close(&r, cases[0]);
}

TEST(test_planted)
{
    static rig r;
    for (const char *fault : {"linear_block", "linear_tile", "linear_wait"})
        for (const several &c : {cases[0], cases[1]}) {
            open(&r, c, 3);
            plant(fault);
            const sb_status status = sb_gpu_linears(r.gpu, &r.knobs, r.args, c.count, nullptr);
            plant("");
            assert_true(status != SB_OK || !as_alone(&r, c));
            plant(fault);
            const sb_status single = sb_gpu_linears(r.gpu, &r.knobs, r.args, 1, nullptr);
            plant("");
            if (strcmp(fault, "linear_block") == 0) /* one matrix alone cannot show this fault */
                assert_int_equal(single, SB_OK);
            close(&r, c);
        }
}

} // namespace
