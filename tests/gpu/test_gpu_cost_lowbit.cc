/* test_gpu_cost_lowbit.cc - B-15 for quantized inputs, the delta rule in chunks, draws, and a
 * resident cache: kernels move exactly the bytes given by gpu/kernel/cost.def, and touch nothing
 * else. */
#include "tests/gpu/lowbit_layer.h"

#include "gpu/op/draw.h"
#include "gpu/op/experts.h"
#include "gpu/op/resident.h"
#include "tests/gpu/cost_cases.h"
#include "tests/lib/suite.h"

namespace
{

/* A block reads the largest arrays (weights and states) only once, and codes 16 bytes at a time. */
void once(const sb_emu_counts &counts)
{
    for (const sb_emu_tally &t : counts.tally) {
        const bool codes = t.kernel && t.what && strcmp(t.what, "weight") == 0;
        if (codes || (t.kernel && t.what && strcmp(t.what, "state") == 0))
            assert_int_equal(t.read, t.block.read);
        if (codes)
            assert_int_equal(t.narrow, 0);
    }
}

struct account : cost_gpu {
    void is(const sb_cost_shape &shape, sb_status status,
            std::initializer_list<sb_cost_kernel> kernels)
    {
        once(counts);
        cost_gpu::is(shape, status, kernels);
    }
};

float *drawn(size_t count)
{
    return bf16_values("x", count, 0.0f, 1.0f);
}

/* --- layers ----------------------------------------------------------------------------------- */
const sb_factor none = {SB_NO_FACTOR, 0.0f};
const lowbit_kind kinds[] = {
    {"a scale for each row", SB_CONTAINER_fp8_channel, 40, 320, 1, 0, none, none},
    {"one scale, K 96", SB_CONTAINER_fp8_tensor, 17, 96, 0, 0, none, none},
    {"an input scale", SB_CONTAINER_fp8_tensor, 24, 1200, 0, 0, none, {SB_MULTIPLIER, 0.043f}},
    {"blocks of 128", SB_CONTAINER_fp8_block, 40, 320, 128, 128, none, none},
    {"blocks of 100", SB_CONTAINER_fp8_block, 33, 130, 16, 100, none, none},
    {"ten blocks", SB_CONTAINER_fp8_block_ct, 16, 1280, 16, 128, none, none},
    {"E2M1", SB_CONTAINER_nvfp4_ct, 40, 320, 1, 16, {SB_DIVISOR, 3100.0f}, {SB_DIVISOR, 620.0f}},
    {"E2M1, K 48",
     SB_CONTAINER_nvfp4_modelopt,
     17,
     48,
     1,
     16,
     {SB_MULTIPLIER, 0.0004f},
     {SB_MULTIPLIER, 0.002f}},
    {"E2M1, ten units", SB_CONTAINER_nvfp4_ct, 8, 1280, 1, 16, none, {SB_DIVISOR, 620.0f}},
    {"136 scales", SB_CONTAINER_fp8_channel, 136, 96, 1, 0, none, none},
    {"136 rows, blocks of 128", SB_CONTAINER_fp8_block, 136, 128, 128, 128, none, none},
    {"136 rows of E2M1", SB_CONTAINER_nvfp4_ct, 136, 64, 1, 16, none, {SB_DIVISOR, 620.0f}},
};

sb_cost_shape shape_of(const test_layer &l, size_t rows)
{
    sb_cost_shape shape = {};
    shape.rows = shape.quantized = rows;
    shape.outputs = l.shape.rows;
    shape.inputs = l.shape.cols;
    shape.packed = sb_lowbit_tiles(l.shape) * sb_lowbit_tile_bytes(l.shape);
    shape.width = sb_lowbit_words(l.shape) * 32 / l.shape.bits;
    shape.scales = sb_lowbit_scales(l.shape);
    return shape;
}

bool is_fp4(const test_layer &l)
{
    return l.scheme == SB_SCHEME_nvfp4;
}

/* The kernel that quantizes the inputs of a layer, and the kernel that multiplies them. */
sb_cost_kernel quantizes(const test_layer &l)
{
    return is_fp4(l) ? SB_COST_act_fp4 : SB_COST_act_fp8;
}
sb_cost_kernel multiplies(const test_layer &l)
{
    return is_fp4(l)         ? SB_COST_tile_fp4
           : l.shape.grouped ? SB_COST_tile_fp8_units
                             : SB_COST_tile_fp8;
}
sb_cost_kernel multiplies_many(const test_layer &l)
{
    return is_fp4(l)         ? SB_COST_wide_sets_fp4
           : l.shape.grouped ? SB_COST_wide_sets_fp8_units
                             : SB_COST_wide_sets_fp8;
}
sb_cost_kernel multiplies_sets(const test_layer &l)
{
    return is_fp4(l)         ? SB_COST_sets_fp4
           : l.shape.grouped ? SB_COST_sets_fp8_units
                             : SB_COST_sets_fp8;
}

/* Y-90: blocks of 128 by 128 for many rows. */
TEST(test_wide)
{
    for (const lowbit_kind &kind : kinds) {
        if (kind.cols > (check_all() ? 320 : 130))
            continue;
        account a;
        test_layer l = make_layer(&kind, 1, 5, false, false);
        const size_t rows = (kind.rows > 128 ? 32 : 64) * 128 + 9;
        const sb_cost_kernel multiplies = is_fp4(l)         ? SB_COST_wide_fp4
                                          : l.shape.grouped ? SB_COST_wide_fp8_units
                                                            : SB_COST_wide_fp8;
        const sb_linear_args args = {l.matrix, SB_LINEAR_layer, drawn(rows * kind.cols), rows,
                                     test_output(rows * kind.rows)};
        a.is(shape_of(l, rows), sb_gpu_linear(a.gpu, &l.knobs, &args), {quantizes(l), multiplies});
        drop_layer(&l);
        test_release(nullptr);
    }
}

TEST(test_linear)
{
    for (const lowbit_kind &kind : kinds) {
        account a;
        test_layer l = make_layer(&kind, 1, 5, false, false);
        for (const size_t rows : call_rows) {
            const sb_linear_args args = {l.matrix, SB_LINEAR_layer, drawn(rows * kind.cols), rows,
                                         test_output(rows * kind.rows)};
            a.is(shape_of(l, rows), sb_gpu_linear(a.gpu, &l.knobs, &args),
                 {quantizes(l), multiplies(l)});
            test_release(nullptr);
        }
        drop_layer(&l);
    }
}

/* --- experts ---------------------------------------------------------------------------------- */
enum { EXPERTS = COST_EXPERTS, KEPT = COST_KEPT, MOST_ROWS = 200 };

/* each: KEPT for the layers before the activation, 1 after it. own: each expert has another factor
 * for its inputs. */
void check_experts(const lowbit_kind &kind, size_t rows, size_t each, unsigned spread, bool own)
{
    uint32_t ids[MOST_ROWS * KEPT];
    account a;
    test_layer l = make_layer(&kind, EXPERTS, 7, false, false);
    for (unsigned e = 0; e < EXPERTS && own; e++)
        l.matrix[e].quant.input.value *= 1.0f + static_cast<float>(e);
    const size_t inputs = rows * KEPT / each;
    sb_cost_shape shape = shape_of(l, inputs);
    cost_route(rows, spread, ids, &shape);
    shape.quantized = own ? shape.pairs : shape.rows;
    sb_expert_linear_args args = {};
    args.weight = l.matrix;
    args.stride = sizeof *l.matrix;
    args.experts = EXPERTS;
    args.ids = ids;
    args.rows = rows;
    args.kept = KEPT;
    args.each = each;
    args.kind = SB_LINEAR_layer;
    args.in = drawn(inputs * kind.cols);
    args.out = test_output(rows * KEPT * kind.rows);
    const sb_status status = sb_gpu_experts(a.gpu, &l.knobs, &args);
    a.is(shape, status,
         {own ? SB_COST_expert_act_fp4 : quantizes(l), SB_COST_route_count, SB_COST_route_place,
          SB_COST_route_order,
          sb_cost_set(shape.pairs, EXPERTS) == 128 ? multiplies_many(l) : multiplies_sets(l)});
    drop_layer(&l);
    test_release(nullptr);
}

TEST(test_experts)
{
    size_t i = 0;
    for (const lowbit_kind &kind : kinds)
        for (const size_t rows : {1, 2, 4, 8, 9, 40, 65, +MOST_ROWS})
            for (const size_t each : {1, +KEPT})
                for (const unsigned spread : {1u, EXPERTS / 2u}) {
                    if (!check_some(i++, 3) || (kind.cols > 1000 && rows > 4 && !check_all()))
                        continue;
                    check_experts(kind, rows, each, spread, false);
                    if (kind.block_cols == SB_LOWBIT_GROUP)
                        check_experts(kind, rows, each, spread, true);
                }
}

/* --- the delta rule --------------------------------------------------------------------------- */
/* R-22, product by product: the products of each kernel for a head, in chunks of 64 rows. */
void count_products(uint64_t rows, uint64_t dk, uint64_t dv, uint64_t *chunk, uint64_t *carry)
{
    *chunk = *carry = 0;
    for (uint64_t row = 0; row < rows; row++) {
        const uint64_t first = row / 64 * 64;
        *carry += row == first ? dk * dv : 0; /* S exp(G_last) */
        *carry += 3 * dk * dv;                /* W S', q S', k V */
        for (uint64_t before = first; before <= row; before++) {
            *chunk += before < row ? dk : 0; /* A */
            *chunk += dk + dv + dk;          /* P, U, W */
            *chunk += row - before;          /* X: A with the rows of X between */
            *carry += dv;                    /* P V */
        }
    }
}

void check_delta(account *a, size_t rows, size_t dk, size_t dv, bool rounds)
{
    sb_knobs knobs = sm121();
    assert_int_equal(sb_knobs_set(&knobs, "delta_rule=prompt_fla", nullptr), SB_OK);
    if (rounds)
        assert_int_equal(sb_knobs_set(&knobs, "l2norm_round=act_prompt", nullptr), SB_OK);
    sb_delta_rule_chunk_args args = {};
    sb_cost_shape shape = cost_delta(rows, dk, dv, &args);
    uint64_t chunk, carry;
    shape.rounded = rounds;
    a->is(shape, sb_gpu_delta_rule_chunk(a->gpu, &knobs, &args),
          {SB_COST_delta_chunk, SB_COST_delta_carry});
    count_products(rows, dk, dv, &chunk, &carry);
    assert_int_equal(a->macs[SB_COST_delta_chunk], shape.heads * chunk);
    assert_int_equal(a->macs[SB_COST_delta_carry], shape.heads * carry);
    test_release(nullptr);
}

TEST(test_delta)
{
    account a;
    for (const size_t rows : {1, 2, 15, 17, 63, 64, 65, 128, 130})
        for (const bool rounds : {false, true}) {
            check_delta(&a, rows, 24, 40, rounds);
            if (rows % 2 == 1 || check_all())
                check_delta(&a, rows, 72, 32, rounds);
        }
    check_delta(&a, 65, 128, 128, true);
}

/* --- tokens ----------------------------------------------------------------------------------- */
/* Settings that keep all tokens, that keep few of them for each reason, and that do not draw. The
 * values determine how often the row is read again, and change no other count. */
const sb_sampling settings[] = {{1, 0, 1.0f, 0, 1.0f, 0.0f},
                                {2, 1, 0.7f, 20, 1.0f, 0.0f},
                                {3, 2, 0.7f, 40, 0.8f, 0.05f},
                                {4, 3, 0.0f, 0, 1.0f, 0.0f}};

void check_draw(account *a, const sb_sampling &of, uint32_t rows, uint32_t n, bool wanted)
{
    uint32_t tokens[16];
    sb_draw_args args = {};
    args.settings = of;
    args.logits = drawn(rows * n);
    args.rows = rows;
    args.n = n;
    args.position = 1000;
    args.purpose = SB_DRAW_token;
    args.p = wanted ? test_output(rows * n) : nullptr;
    args.tokens = tokens;
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    shape.draws = of.temperature > 0;
    if (shape.draws)
        a->is(shape, sb_gpu_draw(a->gpu, &args),
              {SB_COST_sample_begin, SB_COST_sample_look, SB_COST_sample_weigh, SB_COST_sample_sum,
               SB_COST_sample_pick});
    else
        a->is(shape, sb_gpu_draw(a->gpu, &args),
              {SB_COST_sample_begin, SB_COST_sample_look, SB_COST_sample_pick});
}

void check_judge(account *a, const sb_sampling &of, uint32_t rows, uint32_t n)
{
    uint32_t drafts[16], accepted[16], tokens[16];
    float *p = drawn(rows * n), *q = drawn(rows * n);
    for (uint32_t i = 0; i < rows * n; i++) {
        p[i] = p[i] > 0 ? p[i] / static_cast<float>(n) : 0.0f;
        q[i] = q[i] > 0 ? q[i] / static_cast<float>(n) : 0.0f;
    }
    for (uint32_t t = 0; t < rows; t++)
        drafts[t] = t * 7 % n;
    sb_judge_args args = {};
    args.settings = of;
    args.p = p;
    args.q = q;
    args.rows = rows;
    args.n = n;
    args.drafts = drafts;
    args.position = 1000;
    args.accepted = accepted;
    args.tokens = tokens;
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    a->is(shape, sb_gpu_judge(a->gpu, &args), {SB_COST_judge});
}

TEST(test_tokens)
{
    account a;
    for (const uint32_t rows : {1u, 4u, 16u})
        for (const uint32_t n : {1u, 300u, 9001u}) { /* the last one in three parts */
            uint32_t tokens[16];
            sb_cost_shape shape = {};
            shape.rows = rows;
            shape.outputs = n;
            a.is(shape, sb_gpu_greedy(a.gpu, drawn(rows * n), rows, n, tokens),
                 {SB_COST_argmax_part, SB_COST_argmax_end});
            if (n > 300 && rows > 1 && !check_all())
                continue;
            for (const sb_sampling &of : settings) {
                if (of.top_k == 0) /* test_gpu_cost_fused has selections */
                    check_draw(&a, of, rows, n, rows > 1);
                check_judge(&a, of, rows, n);
            }
            test_release(nullptr);
        }
}

/* --- a resident cache ------------------------------------------------------------------------- */
template <class KV> void check_append(account *a, const char *cache, size_t rows)
{
    static KV codes[100 * 48];
    const size_t heads = 2, hd = 24;
    const uint32_t first = 30;
    sb_knobs knobs = sm121();
    assert_int_equal(sb_knobs_set(&knobs, cache, nullptr), SB_OK);
    const sb_gpu_cache all = {codes, nullptr, &first, 100, 100};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.groups = heads;
    shape.key = hd;
    shape.kv_bytes = sizeof(KV);
    a->is(shape,
          sb_gpu_append(a->gpu, &knobs, drawn(rows * heads * hd), rows, heads * hd, 1.0f, codes,
                        &all),
          {SB_COST_kv_append});
}

TEST(test_append)
{
    account a;
    for (const size_t rows : call_rows) {
        check_append<uint16_t>(&a, "kv_cache=act", rows);
        check_append<uint8_t>(&a, "kv_cache=fp8", rows);
        test_release(nullptr);
    }
}

/* --- mistakes --------------------------------------------------------------------------------- */
/* A layer of 3 rows whose kernel has a fault, or whose expected shape is wrong. */
void is_seen(const lowbit_kind &kind, const char *fault, const sb_cost_shape &off, const char *why)
{
    account a;
    test_layer l = make_layer(&kind, 1, 5, false, false);
    const sb_linear_args args = {l.matrix, SB_LINEAR_layer, drawn(3 * kind.cols), 3,
                                 test_output(3 * kind.rows)};
    sb_cost_shape shape = shape_of(l, 3);
    a.is(shape, sb_gpu_linear(a.gpu, &l.knobs, &args), {quantizes(l), multiplies(l)});
    shape.packed += off.packed;
    shape.width += off.width;
    shape.scales += off.scales;
    plant(fault);
    const sb_status status = sb_gpu_linear(a.gpu, &l.knobs, &args);
    plant("");
    cost_expect(a.compared(shape, status, {quantizes(l), multiplies(l)}), why);
    drop_layer(&l);
    test_release(nullptr);
}

TEST(test_mistakes)
{
    sb_cost_shape right = {}, byte = {}, step = {}, scale = {};
    byte.packed = 1;
    step.width = 32;
    scale.scales = 1;
    is_seen(kinds[3], "tile_tail", right, "bytes of weight read: 12288, not 18432");
    is_seen(kinds[6], "tile_tail", right, "bytes of weight read");
    is_seen(kinds[0], "", byte, "bytes of weight read: 18432, not 18433");
    is_seen(kinds[6], "", step, "bytes of codes written");
    is_seen(kinds[3], "", scale, "bytes of scales of the input written: 36, not 48");

    /* also a kernel that is not expected, and an expected one that is not launched */
    account a;
    uint32_t tokens[3];
    sb_cost_shape shape = {};
    shape.rows = 3;
    shape.outputs = 40;
    cost_expect(
        a.compared(shape, sb_gpu_greedy(a.gpu, drawn(120), 3, 40, tokens), {SB_COST_argmax_part}),
        "all kernels, launches: 2, not 1");
    cost_expect(a.compared(shape, sb_gpu_greedy(a.gpu, drawn(120), 3, 40, tokens),
                           {SB_COST_argmax_part, SB_COST_argmax_end, SB_COST_sample_pick}),
                "sb_sample_pick, launches: 0, not 1");
    test_release(nullptr);
}

TEST(test_all_seen)
{
    cost_all_seen(SB_COST_act_fp8, SB_COST_KERNELS);
}

} // namespace
