/* test_gpu_cost.cc - B-15: every kernel of an op moves exactly the bytes given by
 * gpu/kernel/cost.def. It reads weights and kept data as often as stated there, and touches nothing
 * else. */
#include "gpu/kernel/experts_rows.cuh"
#include "gpu/kernel/linear_shape.h"
#include "gpu/kernel/pack.h"
#include "gpu/op/experts.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "tests/gpu/cost_cases.h"
#include "tests/gpu/linear_layers.h"
#include "tests/lib/suite.h"

namespace
{

struct account : cost_gpu {
    sb_knobs knobs = sm121();
};

float *drawn(size_t count)
{
    return bf16_values("x", count, 0.0f, 1.0f);
}

/* --- layers ----------------------------------------------------------------------------------- */
const std::initializer_list<sb_cost_kernel> linear = {SB_COST_linear_stage, SB_COST_linear};

sb_cost_shape shape_of(const sb_matrix *m, size_t rows)
{
    sb_linear_shape s;
    assert_int_equal(sb_pack_shape(m, &s), SB_OK);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = m->rows;
    shape.inputs = m->cols;
    shape.packed = sb_pack_tiles(s) * s.tile_bytes;
    if (s.parts == 0 && (s.codes == SB_CODES_e4m3 || s.codes == SB_CODES_e2m1))
        shape.packed -= sizeof(float) * (16 * sb_pack_tiles(s) - s.rows); /* the padding */
    shape.width = s.chunks * SB_CHUNK;
    shape.gathers = s.gathers != 0;
    return shape;
}

/* Codes are read 16 bytes at a time, and scales in the pieces that a lane needs, 8 bytes for
 * NVFP4. */
void codes_are_wide(const account *a, const char *kernel, const layer &of, uint64_t tiles)
{
    sb_linear_shape s;
    assert_int_equal(sb_pack_shape(&of.matrix, &s), SB_OK);
    for (const sb_emu_tally &t : a->counts.tally)
        if (t.kernel && t.what && strstr(t.kernel, kernel) && strcmp(t.what, "weights") == 0)
            assert_int_equal(t.read - t.narrow, tiles * s.scale_at);
}

/* The number of tiles that the blocks of a call read. A block of two tiles whose last one is
 * missing reads the first one again. */
uint64_t tiles_read(const sb_matrix &m, size_t rows)
{
    const uint64_t tiles = sb_cost_up(m.rows, 16);
    return rows <= 16 ? tiles : sb_cost_up(tiles, 2) * 2 * sb_cost_up(rows, 64);
}

TEST(test_linear)
{
    static const uint32_t sizes[][2] = {{40, 320}, {48, 576}, {8, 96}};
    for (uint32_t kind = 0; kind < LAYER_COUNT; kind++)
        for (const auto &size : sizes) {
            account a;
            layer l;
            assert_true(layer_draw(&l, static_cast<layer_kind>(kind), size[0], size[1], kind));
            for (const size_t rows : call_rows) {
                if (&size != sizes && rows % 8 != 1 && !check_all())
                    continue;
                const sb_linear_args args = {&l.matrix, SB_LINEAR_layer, drawn(rows * size[1]),
                                             rows, test_output(rows * size[0])};
                const sb_status status = sb_gpu_linear(a.gpu, &a.knobs, &args);
                codes_are_wide(&a, "sb_linear_kernel", l, tiles_read(l.matrix, rows));
                a.is(shape_of(&l.matrix, rows), status, linear);
                test_release(nullptr);
            }
            layer_free(&l);
        }
}

/* The bytes of a matrix computed from its format alone, as in `samebit bench`. */
TEST(test_packed)
{
    static const struct {
        layer_kind kind;
        sb_cost_format format;
    } known[] = {{LAYER_bf16, {16, 0, 0}},       {LAYER_nvfp4_ct, {4, 1, 16}},
                 {LAYER_fp8_tensor, {8, 4, 0}},  {LAYER_fp8_channel, {8, 4, 0}},
                 {LAYER_fp8_block, {8, 4, 128}}, {LAYER_mxfp8, {8, 4, 32}},
                 {LAYER_mxfp4, {4, 4, 32}},      {LAYER_gptq, {4, 8, 64}},
                 {LAYER_awq, {4, 8, 32}},        {LAYER_int8_channel, {8, 8, 0}}};
    static const uint32_t sizes[][2] = {{40, 320}, {48, 576}, {8, 64}, {128, 2048}, {16, 32}};
    for (const auto &of : known)
        for (const auto &size : sizes) {
            layer l;
            assert_true(layer_draw(&l, of.kind, size[0], size[1], 1));
            const uint64_t bytes = sb_cost_packed(of.format, size[0], size[1]);
            if (shape_of(&l.matrix, 1).packed != bytes)
                fail_msg("%s, %u x %u: %llu bytes, not %llu", layer_name(of.kind), size[0], size[1],
                         static_cast<unsigned long long>(shape_of(&l.matrix, 1).packed),
                         static_cast<unsigned long long>(bytes));
            layer_free(&l);
        }
}

/* Blocks of 128 rows by 128 outputs. 64 blocks are the minimum. */
TEST(test_wide)
{
    enum { N = 64 * 128 - 40, COLUMNS = 96 };
    static const layer_kind kinds[] = {LAYER_bf16, LAYER_nvfp4_ct, LAYER_fp8_channel};
    for (const layer_kind kind : kinds) {
        account a;
        layer l;
        assert_true(layer_draw(&l, kind, N, COLUMNS, kind));
        const sb_linear_args args = {&l.matrix, SB_LINEAR_layer, drawn(65 * COLUMNS), 65,
                                     test_output(65 * N)};
        a.is(shape_of(&l.matrix, 65), sb_gpu_linear(a.gpu, &a.knobs, &args),
             {SB_COST_expert_stage, SB_COST_wide});
        test_release(nullptr);
        layer_free(&l);
    }
}

enum { EXPERTS = COST_EXPERTS, KEPT = COST_KEPT, MANY = 130 };

/* each: KEPT for the layers before the activation, 1 after it. */
void check_experts(layer_kind kind, size_t rows, size_t each, unsigned spread)
{
    layer of[EXPERTS];
    sb_matrix matrices[EXPERTS];
    uint32_t ids[MANY * KEPT];
    account a;
    for (unsigned e = 0; e < EXPERTS; e++) {
        assert_true(layer_draw(&of[e], kind, 40, 320, kind * 10u + e));
        matrices[e] = of[e].matrix;
    }
    const size_t inputs = rows * KEPT / each;
    sb_cost_shape shape = shape_of(matrices, inputs);
    cost_route(rows, spread, ids, &shape);
    const sb_expert_linear_args args = {matrices,
                                        sizeof *matrices,
                                        EXPERTS,
                                        ids,
                                        rows,
                                        KEPT,
                                        each,
                                        SB_LINEAR_layer,
                                        drawn(inputs * 320),
                                        test_output(rows * KEPT * 40)};
    const sb_status status = sb_gpu_experts(a.gpu, &a.knobs, &args);
    codes_are_wide(&a, "sb_tile_kernel", of[0], shape.sets * sb_cost_up(matrices->rows, 16));
    a.is(shape, status,
         {SB_COST_expert_stage, SB_COST_route_count, SB_COST_route_place, SB_COST_route_order,
          sb_cost_set(shape.pairs, EXPERTS) == 128 ? SB_COST_wide : SB_COST_tile});
    for (layer &l : of)
        layer_free(&l);
    test_release(nullptr);
}

TEST(test_experts)
{
    static const layer_kind kinds[] = {LAYER_bf16,  LAYER_nvfp4_ct,    LAYER_fp8_block,
                                       LAYER_mxfp8, LAYER_fp8_tensor,  LAYER_gptq,
                                       LAYER_ct,    LAYER_int8_channel};
    for (const layer_kind kind : kinds)
        for (const size_t rows : {1, 2, 4, 8, 9, 40, 65, +MANY})
            for (const size_t each : {1, +KEPT})
                for (const unsigned spread : {1u, EXPERTS / 2u})
                    if (rows < 9 || spread > 1 || check_all())
                        check_experts(kind, rows, each, spread);
}

/* --- linear attention ------------------------------------------------------------------------- */
sb_matrix plain(size_t rows, size_t cols)
{
    return test_matrix(SB_FORMAT_bf16, test_normal("w", rows * cols, 0.0f, 1.0f), rows, cols);
}

void check_conv(account *a, size_t rows, size_t channels, bool trail)
{
    const sb_matrix weight = plain(channels, 4);
    sb_conv_args args = {};
    args.in = drawn(rows * channels);
    args.weight = &weight;
    args.rows = rows;
    args.state = drawn(3 * channels);
    args.trail = trail ? test_output(rows * 3 * channels) : nullptr;
    args.out = test_output(rows * channels);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = channels;
    shape.inputs = 4;
    shape.trail = trail;
    a->is(shape, sb_gpu_conv(a->gpu, &a->knobs, &args), {SB_COST_conv});
}

void check_delta(account *a, size_t rows, size_t width, bool trail)
{
    const size_t dk = width, dv = width + 8;
    sb_delta_rule_args args = {};
    sb_cost_shape shape = cost_delta(rows, dk, dv, &args);
    shape.trail = trail;
    args.trail = trail ? test_output(rows * shape.heads * dk * dv) : nullptr;
    a->is(shape, sb_gpu_delta_rule(a->gpu, &a->knobs, &args), {SB_COST_delta_rule});
}

void check_gates(account *a, size_t rows, size_t heads)
{
    const sb_matrix a_log = plain(1, heads), dt_bias = plain(1, heads);
    sb_gates_args args = {};
    args.a = drawn(rows * heads);
    args.b = drawn(rows * heads);
    args.a_log = &a_log;
    args.dt_bias = &dt_bias;
    args.rows = rows;
    args.heads = heads;
    args.g = test_output(rows * heads);
    args.beta = test_output(rows * heads);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.heads = heads;
    a->is(shape, sb_gpu_gates(a->gpu, &a->knobs, &args), {SB_COST_gates});
}

void check_l2norm(account *a, size_t rows, size_t heads, size_t dk)
{
    sb_l2norm_args args = {};
    args.stride = 2 * heads * dk + 24;
    args.qkv = drawn(rows * args.stride);
    args.rows = rows;
    args.heads = heads;
    args.dk = dk;
    args.eps = 1e-6f;
    args.q = test_output(rows * heads * dk);
    args.k = test_output(rows * heads * dk);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.heads = heads;
    shape.key = dk;
    a->is(shape, sb_gpu_l2norm(a->gpu, &a->knobs, &args), {SB_COST_l2norm});
}

void check_norms(account *a, size_t rows, size_t n)
{
    const sb_matrix weight = plain(1, n);
    const sb_rmsnorm_args norm = {drawn(rows * n),       &weight, 1e-6f, rows, n,
                                  test_output(rows * n), 0};
    const sb_gated_rmsnorm_args gated = {
        drawn(rows * n), drawn(rows * n), &weight, 1e-6f, rows, 1, n, test_output(rows * n)};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    a->is(shape, sb_gpu_rmsnorm(a->gpu, &a->knobs, &norm), {SB_COST_rmsnorm});
    a->is(shape, sb_gpu_gated_rmsnorm(a->gpu, &a->knobs, &gated), {SB_COST_gated_rmsnorm});
}

TEST(test_recurrent)
{
    account a;
    for (const size_t rows : call_rows) {
        for (const bool trail : {false, true}) {
            check_conv(&a, rows, 320, trail);
            for (const size_t width : {24, 64, 120})
                if (rows < 10 || width < 64 || check_all())
                    check_delta(&a, rows, width, trail && rows < 10);
        }
        check_gates(&a, rows, 6);
        check_l2norm(&a, rows, 3, 40);
        check_norms(&a, rows, 200);
        sb_gpu_forget_weights(a.gpu);
        test_release(nullptr);
    }
}

/* --- full attention --------------------------------------------------------------------------- */
void check_attention(account *a, size_t rows, size_t first, size_t hd, const char *cache,
                     size_t heads = 6, size_t kv_heads = 2)
{
    const size_t positions = (first + rows) * kv_heads * hd;
    float *keys = drawn(positions), *values = drawn(positions);
    sb_knobs knobs = a->knobs;
    assert_int_equal(sb_knobs_set(&knobs, cache, nullptr), SB_OK);
    for (size_t i = 0; i < positions && SB_IS(&knobs, kv_cache, fp8); i++) {
        keys[i] = sb_round_to(SB_FORMAT_e4m3, keys[i]);
        values[i] = sb_round_to(SB_FORMAT_e4m3, values[i]);
    }
    sb_attention_args args = {};
    args.q = drawn(rows * heads * hd);
    args.keys = keys;
    args.values = values;
    args.rows = rows;
    args.first = first;
    args.heads = heads;
    args.kv_heads = kv_heads;
    args.hd = hd;
    args.out = test_output(rows * heads * hd);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.first = first;
    shape.heads = heads;
    shape.groups = kv_heads;
    shape.key = hd;
    shape.kv_bytes = SB_IS(&knobs, kv_cache, fp8) ? 1 : 2;
    shape.split = sb_cost_splits(&shape);
    const sb_status status = sb_gpu_attention(a->gpu, &knobs, &args);
    if (shape.split)
        a->is(shape, status, {SB_COST_kv, SB_COST_attention, SB_COST_attention_parts});
    else
        a->is(shape, status, {SB_COST_kv, SB_COST_attention});
    test_release(nullptr);
}

void check_rope(account *a, size_t rows, size_t heads, size_t hd, size_t rd)
{
    uint32_t position[65];
    for (uint32_t i = 0; i < rows; i++)
        position[i] = 1000 + i;
    sb_rope_args args = {
        drawn(rows * heads * hd), rows, heads, hd, rd, 1e7, {position}, nullptr, 0, 0, 0, 0};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.heads = heads;
    shape.key = rd; /* the rest is left as it is */
    a->is(shape, sb_gpu_rope(a->gpu, &a->knobs, &args), {SB_COST_rope_table, SB_COST_rope});
}

void check_gate(account *a, size_t rows, size_t heads, size_t hd)
{
    const size_t n = heads * hd;
    const sb_split_gate_args split = {drawn(2 * rows * n),  rows, heads, hd, test_output(rows * n),
                                      test_output(rows * n)};
    const sb_attn_gate_args gate = {drawn(rows * n), drawn(rows * n), rows * n,
                                    test_output(rows * n)};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    shape.heads = heads;
    shape.key = hd;
    a->is(shape, sb_gpu_split_gate(a->gpu, &a->knobs, &split), {SB_COST_split_gate});
    a->is(shape, sb_gpu_attn_gate(a->gpu, &a->knobs, &gate), {SB_COST_attn_gate});
}

TEST(test_attention)
{
    account a;
    for (const size_t rows : call_rows) {
        for (const char *cache : {"kv_cache=act", "kv_cache=fp8"}) {
            check_attention(&a, rows, 0, 64, cache);
            check_attention(&a, rows, 250, 64, cache);
            if (rows % 3 == 1 || check_all())
                check_attention(&a, rows, 600, 128, cache);
        }
        check_rope(&a, rows, 3, 40, 24);
        check_gate(&a, rows, 3, 40);
        test_release(nullptr);
    }
    check_attention(&a, 3, 30, 256, "kv_cache=act");
    /* blocks of 64 pairs, for all parts and for single ones, and one row too few for such blocks */
    check_attention(&a, 64, 3, 64, "kv_cache=act", 32, 16);
    check_attention(&a, 63, 3, 64, "kv_cache=act", 32, 16);
    check_attention(&a, 22, 250, 64, "kv_cache=fp8", 96, 16);
    check_attention(&a, 65, 200, 64, "kv_cache=act", 16, 8);
}

/* --- the rest --------------------------------------------------------------------------------- */
void check_embed(account *a, size_t rows)
{
    const sb_matrix table = plain(40, 72);
    uint32_t tokens[65];
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = i * i % 13;
    const sb_embed_args args = {&table, tokens, rows, test_output(rows * 72)};
    sb_cost_shape shape = {};
    bool used[13] = {};
    for (size_t i = 0; i < rows; i++)
        used[tokens[i]] = true;
    for (const bool one : used)
        shape.used += one;
    shape.rows = rows;
    shape.outputs = 72;
    a->is(shape, sb_gpu_embed(a->gpu, &a->knobs, &args), {SB_COST_embed});
}

void check_router(account *a, size_t rows)
{
    uint32_t ids[65 * KEPT];
    const sb_router_args args = {drawn(rows * 40),        rows, 40, KEPT, 1, ids,
                                 test_output(rows * KEPT)};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.experts = 40;
    shape.pairs = rows * KEPT;
    a->is(shape, sb_gpu_router(a->gpu, &a->knobs, &args), {SB_COST_router});
}

void check_elements(account *a, size_t rows)
{
    const size_t n = 200;
    const sb_add_args add = {drawn(rows * n), drawn(rows * n), rows * n, test_output(rows * n),
                             nullptr};
    const sb_swiglu_args swiglu = {drawn(rows * n), drawn(rows * n), rows * n, SB_MLP_expert,
                                   test_output(rows * n)};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    a->is(shape, sb_gpu_add(a->gpu, &a->knobs, &add), {SB_COST_add});
    a->is(shape, sb_gpu_swiglu(a->gpu, &a->knobs, &swiglu), {SB_COST_swiglu});
}

void check_combine(account *a, size_t kept)
{
    static const uint32_t ids[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const size_t n = 300;
    const sb_moe_combine_args args = {drawn(kept * n), drawn(kept), ids, drawn(n), 0.5f, kept, n,
                                      test_output(n)};
    sb_cost_shape shape = {};
    shape.rows = 1;
    shape.outputs = n;
    shape.pairs = kept;
    a->is(shape, sb_gpu_moe_combine(a->gpu, &a->knobs, &args), {SB_COST_moe_combine});
}

TEST(test_rest)
{
    account a;
    for (const size_t rows : call_rows) {
        check_embed(&a, rows);
        check_router(&a, rows);
        check_elements(&a, rows);
        check_combine(&a, rows % 8 + 1);
        sb_gpu_forget_weights(a.gpu);
        test_release(nullptr);
    }
}

/* --- mistakes --------------------------------------------------------------------------------- */
sb_status few_rows(account *a, const layer &l)
{
    const sb_linear_args args = {&l.matrix, SB_LINEAR_layer, drawn(3 * 320), 3,
                                 test_output(3 * 40)};
    return sb_gpu_linear(a->gpu, &a->knobs, &args);
}

/* A layer of 40 x 320 in 3 rows, with a mistake in its kernel: the difference found contains
 * `why`. */
void is_seen(const char *fault, const char *why)
{
    account a;
    layer l;
    assert_true(layer_draw(&l, LAYER_fp8_block, 40, 320, 1));
    const sb_cost_shape shape = shape_of(&l.matrix, 3);
    a.is(shape, few_rows(&a, l), linear);
    plant(fault);
    const sb_status status = few_rows(&a, l);
    plant("");
    cost_expect(a.compared(shape, status, linear), why);
    layer_free(&l);
    test_release(nullptr);
}

/* Also with wrong expectations: a byte of weights too few, the bytes of a role in another
 * buffer. */
TEST(test_mistakes)
{
    is_seen("linear_tail", "bytes of weights read: 12672, not 15936");
    account a;
    layer l;
    assert_true(layer_draw(&l, LAYER_bf16, 40, 320, 1));
    sb_cost_shape shape = shape_of(&l.matrix, 3);
    shape.packed--;
    cost_expect(a.compared(shape, few_rows(&a, l), linear),
                "bytes of weights read: 30720, not 30719");
    shape.packed++;
    shape.rows = 9;
    assert_non_null(a.compared(shape, few_rows(&a, l), linear));
    shape.rows = 3;
    shape.gathers = 1;
    cost_expect(a.compared(shape, few_rows(&a, l), linear), "bytes of columns read: 0, not 1280");
    layer_free(&l);
    test_release(nullptr);
}

/* test_gpu_cost_fused and test_gpu_cost_lowbit check the kernels from add_norm on. */
TEST(test_all_seen)
{
    cost_all_seen(static_cast<sb_cost_kernel>(0), SB_COST_add_norm);
}

} // namespace
