/* test_gpu_cost_lowbit.cc - B-15 for quantized inputs, the delta rule in chunks, draws, and a cache
 * that is resident: kernels move what gpu/kernel/cost.def says, to the byte, and nothing else. */
#include "tests/gpu/lowbit_layer.h"

#include <initializer_list>
#include <stdio.h>

#include "gpu/emu/count.h"
#include "gpu/kernel/cost.h"
#include "gpu/op/draw.h"
#include "gpu/op/experts.h"
#include "gpu/op/resident.h"
#include "tests/lib/check_all.h"

extern "C" {
#include "tests/lib/poison.h"
}

namespace
{

typedef unsigned long long number;

const size_t rows_of_calls[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64, 65};
bool seen[SB_COST_KERNELS];

/* --- what a call has moved, beside what it should ----------------------------------------------
 */
struct account {
    sb_gpu *gpu;
    sb_emu_counts counts;
    sb_cost_buffer all[SB_COST_BUFFERS];
    uint64_t macs[SB_COST_KERNELS];
    bool wrong;
    char text[200]; /* what differs first */
};

void open(account *a)
{
    memset(static_cast<void *>(a), 0, sizeof *a);
    assert_int_equal(sb_gpu_open(&a->gpu, nullptr), SB_OK);
    sb_gpu_count(a->gpu, &a->counts);
}

void close(account *a)
{
    sb_gpu_close(a->gpu);
    test_release(nullptr);
}

void differs(account *a, const char *kernel, const char *what, uint64_t is, uint64_t should)
{
    if (!a->wrong && is != should)
        snprintf(a->text, sizeof a->text, "%s, %s: %llu, not %llu", kernel, what,
                 static_cast<number>(is), static_cast<number>(should));
    a->wrong = a->wrong || is != should;
}

/* "(sb_tile_kernel<LAYER, ...>)" and "sb_tile_kernel<sb_w4a4, ...>" are one kernel. */
bool is_of(const char *launched, const char *name)
{
    launched += *launched == '(';
    const size_t length = strcspn(launched, "<)");
    return length == strcspn(name, "<") && memcmp(name, launched, length) == 0;
}

const sb_cost_buffer *buffer_of(const account *a, sb_cost_kernel kernel, const char *name)
{
    for (const sb_cost_buffer &b : a->all)
        if (b.kernel == kernel && strcmp(b.name, name) == 0)
            return &b;
    return nullptr;
}

/* What is largest is not read again within a block, and codes come 16 bytes at a time. */
void once(account *a, const sb_emu_tally &t, const sb_cost_buffer &should)
{
    const bool codes = strcmp(should.name, "weight") == 0;
    if (codes || strcmp(should.name, "state") == 0)
        differs(a, t.kernel, "bytes of weights or states that threads read", t.read, t.block.read);
    if (codes)
        differs(a, t.kernel, "bytes of weights that come in small pieces", t.narrow, 0);
}

/* B-15: "a kernel touches no buffer that its list lacks" */
void compare(account *a, sb_cost_kernel kernel, const char *launched)
{
    char what[80];
    seen[kernel] = true;
    for (const sb_cost_buffer &should : a->all) {
        if (should.kernel != kernel)
            continue;
        const sb_emu_tally t = sb_emu_counted(&a->counts, launched, should.name);
        snprintf(what, sizeof what, "bytes of %s that are read", should.name);
        differs(a, launched, what, t.launch.read, should.read);
        snprintf(what, sizeof what, "bytes of %s that are written", should.name);
        differs(a, launched, what, t.launch.written, should.written);
        differs(a, launched, what, t.block.written, should.written);
        snprintf(what, sizeof what, "bytes of %s that blocks read", should.name);
        if (should.by_blocks != SB_COST_AGAIN)
            differs(a, launched, what, t.block.read, should.by_blocks);
        once(a, t, should);
    }
    for (const sb_emu_tally &t : a->counts.tally)
        if (t.kernel && t.what && strcmp(t.kernel, launched) == 0 && !buffer_of(a, kernel, t.what))
            differs(a, launched, t.what, t.read + t.written, 0);
}

/* What differs first, of a call of this shape that starts these kernels; NULL: nothing. */
const char *compared(account *a, const sb_cost_shape &shape, sb_status status,
                     std::initializer_list<sb_cost_kernel> kernels)
{
    uint64_t launches = 0, expected = 0;
    a->wrong = false;
    sb_cost_of(&shape, a->all, a->macs);
    if (status != SB_OK)
        fail_msg("%s", sb_gpu_said(a->gpu)->text);
    for (const sb_cost_kernel kernel : kernels) {
        const uint64_t times = sb_cost_launches(kernel);
        expected += times;
        for (const sb_emu_tally &t : a->counts.tally)
            if (t.kernel && !t.what && is_of(t.kernel, sb_cost_name(kernel))) {
                differs(a, t.kernel, "launches", t.times, times);
                compare(a, kernel, t.kernel);
                launches += t.times;
            }
    }
    differs(a, sb_cost_name(*kernels.begin()), "launches of it and others", launches, expected);
    uint64_t all = 0;
    for (const sb_emu_tally &t : a->counts.tally)
        all += t.kernel && !t.what ? t.times : 0;
    differs(a, sb_cost_name(*kernels.begin()), "launches of all kernels", all, expected);
    a->counts = {};
    return a->wrong ? a->text : nullptr;
}

void is(account *a, const sb_cost_shape &shape, sb_status status,
        std::initializer_list<sb_cost_kernel> kernels)
{
    if (compared(a, shape, status, kernels))
        fail_msg("%llu rows: %s", static_cast<number>(shape.rows), a->text);
}

float *drawn(size_t count)
{
    float *x = test_copy(test_normal("x", count, 0.0f, 1.0f), count);
    for (size_t i = 0; i < count; i++)
        x[i] = sb_round_to(SB_FORMAT_bf16, x[i]);
    return x;
}

sb_knobs knobs_of(const char *profile)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, profile, nullptr), SB_OK);
    return knobs;
}

/* --- layers ------------------------------------------------------------------------------------
 */
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

/* What quantizes the inputs of a layer, and what multiplies them. */
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
void test_wide(void **)
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
        open(&a);
        const sb_linear_args args = {l.matrix, SB_LINEAR_layer, drawn(rows * kind.cols), rows,
                                     test_output(rows * kind.rows)};
        is(&a, shape_of(l, rows), sb_gpu_linear(a.gpu, &l.knobs, &args),
           {quantizes(l), multiplies});
        close(&a);
        drop_layer(&l);
    }
}

void test_linear(void **)
{
    for (const lowbit_kind &kind : kinds) {
        account a;
        test_layer l = make_layer(&kind, 1, 5, false, false);
        open(&a);
        for (const size_t rows : rows_of_calls) {
            const sb_linear_args args = {l.matrix, SB_LINEAR_layer, drawn(rows * kind.cols), rows,
                                         test_output(rows * kind.rows)};
            is(&a, shape_of(l, rows), sb_gpu_linear(a.gpu, &l.knobs, &args),
               {quantizes(l), multiplies(l)});
            test_release(nullptr);
        }
        close(&a);
        drop_layer(&l);
    }
}

/* --- experts -----------------------------------------------------------------------------------
 */
enum { EXPERTS = 8, KEPT = 2, MOST_ROWS = 200 };

/* Y-61: the most pairs that a set has. */
size_t set_of(size_t pairs)
{
    return pairs / 32 > EXPERTS ? 128 : pairs / 8 > EXPERTS ? 64 : 8;
}

/* Which experts have pairs, and the sets that their pairs are in. */
void count_pairs(const uint32_t *ids, size_t pairs, sb_cost_shape *shape)
{
    size_t of[EXPERTS] = {};
    const size_t most = set_of(pairs);
    for (size_t i = 0; i < pairs; i++)
        of[ids[i]]++;
    for (const size_t n : of) {
        shape->used += n != 0;
        shape->sets += (n + most - 1) / most;
    }
    shape->experts = EXPERTS;
    shape->pairs = pairs;
}

/* `each`: KEPT for the layers in front of the activation, and 1 behind it. `own`: each expert has
 * another factor for its inputs. */
void check_experts(const lowbit_kind &kind, size_t rows, size_t each, unsigned spread, bool own)
{
    uint32_t ids[MOST_ROWS * KEPT];
    account a;
    test_layer l = make_layer(&kind, EXPERTS, 7, false, false);
    open(&a);
    for (unsigned e = 0; e < EXPERTS && own; e++)
        l.matrix[e].quant.input.value *= 1.0f + static_cast<float>(e);
    for (uint32_t i = 0; i < rows * KEPT; i++)
        ids[i] = i / KEPT * 3 % spread + i % KEPT * (EXPERTS / 2);
    const size_t inputs = rows * KEPT / each;
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
    sb_cost_shape shape = shape_of(l, inputs);
    count_pairs(ids, rows * KEPT, &shape);
    shape.quantized = own ? shape.pairs : shape.rows;
    is(&a, shape, status,
       {own ? SB_COST_expert_act_fp4 : quantizes(l), SB_COST_route_count, SB_COST_route_place,
        SB_COST_route_order, set_of(rows * KEPT) == 128 ? multiplies_many(l) : multiplies_sets(l)});
    close(&a);
    drop_layer(&l);
}

void test_experts(void **)
{
    for (const lowbit_kind &kind : kinds)
        for (const size_t rows : {1, 2, 4, 8, 9, 40, 65, +MOST_ROWS})
            for (const size_t each : {1, +KEPT})
                for (const unsigned spread : {1u, EXPERTS / 2u}) {
                    if (kind.cols > 1000 && rows > 4 && !check_all())
                        continue;
                    check_experts(kind, rows, each, spread, false);
                    if (kind.block_cols == SB_LOWBIT_GROUP)
                        check_experts(kind, rows, each, spread, true);
                }
}

/* --- the delta rule ----------------------------------------------------------------------------
 */
/* R-22, product by product: what each kernel has of them for a head, in chunks of 64 rows. */
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
            *chunk += row - before;          /* X: A with those rows of X that are between */
            *carry += dv;                    /* P V */
        }
    }
}

void check_delta(account *a, size_t rows, size_t dk, size_t dv, bool rounds)
{
    const size_t k_heads = 2, v_heads = 4;
    sb_knobs knobs = knobs_of("sm121");
    assert_int_equal(sb_knobs_set(&knobs, "delta_rule=prompt_fla", nullptr), SB_OK);
    if (rounds)
        assert_int_equal(sb_knobs_set(&knobs, "l2norm_round=act_prompt", nullptr), SB_OK);
    sb_delta_rule_chunk_args args = {};
    args.q = drawn(rows * k_heads * dk);
    args.k = drawn(rows * k_heads * dk);
    args.v_stride = v_heads * dv + 5;
    args.v = drawn(rows * args.v_stride);
    args.g = drawn(rows * v_heads);
    args.beta = drawn(rows * v_heads);
    args.rows = rows;
    args.k_heads = k_heads;
    args.v_heads = v_heads;
    args.dk = dk;
    args.dv = dv;
    args.state = drawn(v_heads * dk * dv);
    args.out = test_output(rows * v_heads * dv);
    sb_cost_shape shape = {};
    uint64_t chunk, carry;
    shape.rows = rows;
    shape.heads = v_heads;
    shape.groups = k_heads;
    shape.key = dk;
    shape.value = dv;
    shape.rounded = rounds;
    is(a, shape, sb_gpu_delta_rule_chunk(a->gpu, &knobs, &args),
       {SB_COST_delta_chunk, SB_COST_delta_carry});
    count_products(rows, dk, dv, &chunk, &carry);
    assert_int_equal(a->macs[SB_COST_delta_chunk], v_heads * chunk);
    assert_int_equal(a->macs[SB_COST_delta_carry], v_heads * carry);
    test_release(nullptr);
}

void test_delta(void **)
{
    account a;
    open(&a);
    for (const size_t rows : {1, 2, 15, 17, 63, 64, 65, 128, 130})
        for (const bool rounds : {false, true}) {
            check_delta(&a, rows, 24, 40, rounds);
            if (rows % 2 == 1 || check_all())
                check_delta(&a, rows, 72, 32, rounds);
        }
    check_delta(&a, 65, 128, 128, true);
    close(&a);
}

/* --- tokens ------------------------------------------------------------------------------------
 */
/* All tokens, few of them by each of the settings, and no draw: how often the row is read again
 * depends on its values, and moves no other byte. */
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
    is(a, shape, sb_gpu_draw(a->gpu, &args), {SB_COST_sample});
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
    is(a, shape, sb_gpu_judge(a->gpu, &args), {SB_COST_judge});
}

void test_tokens(void **)
{
    account a;
    open(&a);
    for (const uint32_t rows : {1u, 4u, 16u})
        for (const uint32_t n : {1u, 300u, 9001u}) { /* the last in three parts */
            uint32_t tokens[16];
            sb_cost_shape shape = {};
            shape.rows = rows;
            shape.outputs = n;
            is(&a, shape, sb_gpu_greedy(a.gpu, drawn(rows * n), rows, n, tokens),
               {SB_COST_argmax_part, SB_COST_argmax_end});
            if (n > 300 && rows > 1 && !check_all())
                continue;
            for (const sb_sampling &of : settings) {
                check_draw(&a, of, rows, n, rows > 1);
                check_judge(&a, of, rows, n);
            }
            test_release(nullptr);
        }
    close(&a);
}

/* --- a cache that is resident ------------------------------------------------------------------
 */
template <class KV> void check_append(account *a, const char *cache, size_t rows)
{
    static KV codes[100 * 48];
    const size_t heads = 2, hd = 24;
    const uint32_t first = 30;
    sb_knobs knobs = knobs_of("sm121");
    assert_int_equal(sb_knobs_set(&knobs, cache, nullptr), SB_OK);
    const sb_gpu_cache all = {codes, nullptr, &first, 100, 100};
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.groups = heads;
    shape.key = hd;
    shape.kv_bytes = sizeof(KV);
    is(a, shape,
       sb_gpu_append(a->gpu, &knobs, drawn(rows * heads * hd), rows, heads * hd, 1.0f, codes, &all),
       {SB_COST_kv_append});
}

void test_append(void **)
{
    account a;
    open(&a);
    for (const size_t rows : rows_of_calls) {
        check_append<uint16_t>(&a, "kv_cache=act", rows);
        check_append<uint8_t>(&a, "kv_cache=fp8", rows);
    }
    close(&a);
}

/* --- mistakes ----------------------------------------------------------------------------------
 */
/* A layer of 3 rows, whose kernel makes a mistake or whose shape is another one. */
void is_seen(const lowbit_kind &kind, const char *fault, const sb_cost_shape &off, const char *why)
{
    account a;
    test_layer l = make_layer(&kind, 1, 5, false, false);
    open(&a);
    const sb_linear_args args = {l.matrix, SB_LINEAR_layer, drawn(3 * kind.cols), 3,
                                 test_output(3 * kind.rows)};
    sb_cost_shape shape = shape_of(l, 3);
    is(&a, shape, sb_gpu_linear(a.gpu, &l.knobs, &args), {quantizes(l), multiplies(l)});
    shape.packed += off.packed;
    shape.width += off.width;
    shape.scales += off.scales;
    plant(fault);
    const sb_status status = sb_gpu_linear(a.gpu, &l.knobs, &args);
    plant("");
    const char *wrong = compared(&a, shape, status, {quantizes(l), multiplies(l)});
    if (!wrong || !strstr(wrong, why))
        fail_msg("%s, %s: %s", kind.name, fault, wrong ? wrong : "not seen");
    close(&a);
    drop_layer(&l);
}

void test_mistakes(void **)
{
    sb_cost_shape right = {}, byte = {}, step = {}, scale = {};
    byte.packed = 1;
    step.width = 32;
    scale.scales = 1;
    is_seen(kinds[3], "tile_tail", right, "bytes of weight that are read: 12288, not 18432");
    is_seen(kinds[6], "tile_tail", right, "bytes of weight that are read");
    is_seen(kinds[0], "", byte, "bytes of weight that are read: 18432, not 18433");
    is_seen(kinds[6], "", step, "bytes of codes that are written");
    is_seen(kinds[3], "", scale, "bytes of scales of the input that are written: 36, not 48");

    /* and a kernel that is not named, or that is named and not there */
    account a;
    open(&a);
    uint32_t tokens[3];
    sb_cost_shape shape = {};
    shape.rows = 3;
    shape.outputs = 40;
    const char *wrong =
        compared(&a, shape, sb_gpu_greedy(a.gpu, drawn(120), 3, 40, tokens), {SB_COST_argmax_part});
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "launches of all kernels: 2, not 1"));
    wrong = compared(&a, shape, sb_gpu_greedy(a.gpu, drawn(120), 3, 40, tokens),
                     {SB_COST_argmax_part, SB_COST_argmax_end, SB_COST_sample});
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "launches of it and others: 2, not 3"));
    close(&a);
}

/* No line is of a kernel that is not there any more. */
void test_all_seen(void **)
{
    for (int k = SB_COST_act_fp8; k <= SB_COST_kv_append; k++)
        if (!seen[k])
            fail_msg("%s: no op has started it", sb_cost_name(static_cast<sb_cost_kernel>(k)));
}

} // namespace

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),   cmocka_unit_test(test_wide),
        cmocka_unit_test(test_experts),  cmocka_unit_test(test_delta),
        cmocka_unit_test(test_tokens),   cmocka_unit_test(test_append),
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_all_seen),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
