/* test_gpu_cost_fused.cc - B-15 for fused kernels and those of a step: each moves exactly the bytes
 * given by gpu/kernel/cost.def, and touches nothing else. */
#include "gpu/kernel/fused_argmax.cuh"
#include "gpu/kernel/fused_delta.cuh"
#include "gpu/kernel/fused_heads.cuh"
#include "gpu/kernel/fused_norm.cuh"
#include "gpu/kernel/fused_route.cuh"
#include "gpu/kernel/sample_select.cuh"
#include "gpu/kernel/step.cuh"
#include "gpu/op/experts_pairs.h"
#include "tests/gpu/cost_cases.h"
#include "tests/gpu/fused.h"
#include "tests/lib/suite.h"

namespace
{

/* None of its sizes fills blocks or chunks. */
const fused_shape odd = {"odd", 200, 6, 2, 72, 2, 4, 24, 48, 8, 3, 72, false};

/* A launch, counted. */
class counted : public cost_counts, public emu_bench
{
  public:
    using emu_bench::in;
    using emu_bench::out;

    counted() : emu_bench(0, &counts)
    {
    }

    sb_global<const float> in(const char *name, size_t n)
    {
        return in(name, bf16_values(name, n, 0.0f, 1.0f), n);
    }
    template <class T> sb_global<T> out(const char *name, size_t n)
    {
        return out(name, fused_room<T>(n), n);
    }
    template <class T> sb_global<T> out_if(bool there, const char *name, size_t n)
    {
        return there ? out<T>(name, n) : sb_global<T>(nullptr);
    }

    void is(sb_cost_kernel kernel, const sb_cost_shape &shape, sb_status status)
    {
        if (status != SB_OK)
            fail_msg("%s", err.text);
        const char *wrong = compared(shape, {kernel});
        if (wrong)
            fail_msg("%s, %u rows: %s", sb_cost_id(kernel), static_cast<unsigned>(shape.rows),
                     wrong);
    }
};

template <class F> void all_shapes(F check)
{
    for (uint32_t rows = 1; rows <= FUSED_ROWS; rows++) {
        check(odd, rows);
        for (const fused_shape &s : fused_shapes)
            if (check_all() ? fused_rows_there(s, rows) : !s.large && rows % 4 == 1)
                check(s, rows);
        test_release(nullptr);
    }
}

sb_cost_shape shape_of(uint32_t rows, uint32_t cols)
{
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.inputs = cols;
    shape.width = sb_stage_shape(cols).chunks * SB_CHUNK;
    return shape;
}

/* --- the stream ------------------------------------------------------------------------------- */
/* forms: 1 values leave, 2 staged for layers, 4 for experts. */
template <class ADDED>
sb_status run_norm(counted &c, const fused_shape &s, uint32_t rows, unsigned forms,
                   const ADDED &added)
{
    const size_t n = size_t(rows) * s.H;
    sb_add_norm_job<ADDED, float> job = {};
    job.added = added;
    job.shape = sb_stage_shape(s.H);
    if (ADDED::ADDS)
        job.x = job.sum = c.inout("x", test_copy(test_normal("x", n, 0.0f, 3.0f), n), n);
    else
        job.x = c.in("x", n);
    job.weight = c.in("weight", s.H);
    job.out = c.out_if<float>(forms & 1, "out", n);
    job.staged = c.out_if<uint2>(forms & 2, "staged", fused_staged(job.shape, rows));
    job.pairs = c.out_if<uint32_t>(forms & 4, "staged for experts", fused_pairs(job.shape, rows));
    job.rows = rows;
    job.n = s.H;
    job.eps = 1e-6f;
    return sb_add_norm_launch(&c.queue, job);
}

sb_status run_combined(counted &c, const fused_shape &s, uint32_t rows, unsigned forms)
{
    const size_t n = size_t(rows) * s.H;
    const sb_add_combined<float> all = {c.in("expert_out", n * s.k),
                                        c.in("weights", rows * s.k),
                                        c.in("shared_out", n),
                                        c.in("shared_logit", rows),
                                        s.k,
                                        s.H,
                                        0.0f};
    return run_norm(c, s, rows, forms, all);
}

sb_cost_shape shape_of_norm(const fused_shape &s, uint32_t rows, unsigned forms)
{
    sb_cost_shape shape = shape_of(rows, s.H);
    shape.outputs = s.H;
    shape.leaves = (forms & 1) != 0;
    shape.stages = (forms & 2) != 0;
    shape.feeds = (forms & 4) != 0;
    return shape;
}

void check_norms(const fused_shape &s, uint32_t rows, unsigned forms)
{
    sb_cost_shape shape = shape_of_norm(s, rows, forms);
    {
        counted c;
        c.is(SB_COST_add_norm, shape, run_norm(c, s, rows, forms, sb_add_nothing()));
    }
    if (s.E) {
        counted c;
        shape.pairs = uint64_t(rows) * s.k;
        c.is(SB_COST_add_norm, shape, run_combined(c, s, rows, forms));
    }
    counted c;
    shape.pairs = 0;
    shape.adds = 1;
    const sb_add_values<float> y = {c.in("y", size_t(rows) * s.H)};
    c.is(SB_COST_add_norm, shape, run_norm(c, s, rows, forms, y));
}

TEST_WITH(test_norms, NULL, test_release)
{
    all_shapes([](const fused_shape &s, uint32_t rows) {
        for (unsigned forms = 1; forms < 8; forms++)
            if (&s == &odd ? rows == 3 || forms == 7 : forms == 7 || forms == 1)
                check_norms(s, rows, forms);
    });
}

/* --- inputs of layers ------------------------------------------------------------------------- */
void check_swiglu(const fused_shape &s, uint32_t rows)
{
    const size_t n = size_t(rows) * s.I;
    const sb_linear_shape shape = sb_stage_shape(s.I);
    {
        counted c;
        const sb_swiglu_input<float> in = {c.in("gate", n), c.in("up", n), s.I};
        c.is(SB_COST_stage_pairs, shape_of(rows, s.I),
             sb_stage_pairs_launch(&c.queue, in, nullptr,
                                   c.out<uint32_t>("staged for experts", fused_pairs(shape, rows)),
                                   shape, rows));
    }
    counted c;
    const sb_swiglu_input<float> in = {c.in("gate", n), c.in("up", n), s.I};
    c.is(SB_COST_stage, shape_of(rows, s.I),
         sb_stage_launch(&c.queue, in, nullptr, c.out<uint2>("staged", fused_staged(shape, rows)),
                         shape, rows));
}

void check_attn_gate(const fused_shape &s, uint32_t rows)
{
    const uint32_t width = s.nQ * s.hd, n = rows * width;
    const sb_linear_shape layer = sb_stage_shape(width);
    sb_cost_shape shape = shape_of(rows, width);
    counted c;
    shape.heads = s.nQ;
    const sb_attn_gate_input<float> in = {c.in("in", n), c.in("packed", 2 * n), width, s.hd};
    c.is(SB_COST_stage, shape,
         sb_stage_launch(&c.queue, in, nullptr, c.out<uint2>("staged", fused_staged(layer, rows)),
                         layer, rows));
}

TEST_WITH(test_inputs, NULL, test_release)
{
    all_shapes([](const fused_shape &s, uint32_t rows) {
        check_swiglu(s, rows);
        check_attn_gate(s, rows);
    });
}

/* --- attention -------------------------------------------------------------------------------- */
template <class KV> void check_heads(const fused_shape &s, uint32_t rows, bool leaves)
{
    const uint32_t first = 5, n = rows * s.nQ * s.hd, kv = s.nKV * s.hd, half = s.hd / 8;
    counted c;
    sb_heads_job<float, KV> job = {};
    job.packed = c.in("packed", 2 * n);
    job.key = c.in("key", rows * kv);
    job.value = c.in("value", rows * kv);
    job.q_weight = c.in("q_norm", s.hd);
    job.k_weight = c.in("k_norm", s.hd);
    job.table = sb_cast<const float2>(c.in("turns", rows * 2 * half));
    job.query = c.out<float>("query", n);
    job.gate = c.out_if<float>(leaves, "gate", n);
    job.keys = c.out<KV>("keys", (first + rows) * kv);
    job.values = c.out<KV>("values", (first + rows) * kv);
    job.first = c.in("first", &first, 1);
    job.rows = rows;
    job.heads = s.nQ;
    job.kv_heads = s.nKV;
    job.hd = s.hd;
    job.half = half;
    job.eps = 1e-6f;
    job.key_scale = job.value_scale = 0.25f;
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.heads = s.nQ;
    shape.groups = s.nKV;
    shape.key = s.hd;
    shape.inputs = 2 * half;
    shape.kv_bytes = sizeof(KV);
    shape.leaves = leaves;
    c.is(SB_COST_heads, shape, sb_heads_launch(&c.queue, job));
}

TEST_WITH(test_heads, NULL, test_release)
{
    all_shapes([](const fused_shape &s, uint32_t rows) {
        check_heads<uint16_t>(s, rows, rows % 2 == 0);
        check_heads<uint8_t>(s, rows, rows % 2 == 1);
    });
}

/* --- linear attention ------------------------------------------------------------------------- */
enum { TAPS = SB_GDN_TAPS, SLOTS = 3 };
const uint32_t slot = 1;

sb_cost_shape shape_of_gdn(const fused_shape &s, uint32_t rows, bool trail)
{
    sb_cost_shape shape = shape_of(rows, s.nV * s.dv);
    shape.outputs = 2 * s.nK * s.dk + s.nV * s.dv;
    shape.inputs = TAPS;
    shape.heads = s.nV;
    shape.groups = s.nK;
    shape.key = s.dk;
    shape.value = s.dv;
    shape.trail = trail;
    return shape;
}

sb_conv_job<float> conv_job(counted &c, const sb_cost_shape &shape)
{
    const size_t kept = (TAPS - 1) * shape.outputs;
    sb_conv_job<float> job = {};
    job.in = c.in("in", shape.rows * shape.outputs);
    job.weight = c.in("conv", shape.outputs * TAPS);
    job.state = c.in("conv state", SLOTS * kept);
    job.slot = c.in("slot", &slot, 1);
    job.rows = static_cast<uint32_t>(shape.rows);
    job.channels = static_cast<uint32_t>(shape.outputs);
    return job;
}

void check_gdn(const fused_shape &s, uint32_t rows, bool trail)
{
    const sb_cost_shape shape = shape_of_gdn(s, rows, trail);
    const size_t state = size_t(s.nV) * s.dk * s.dv, gates = size_t(rows) * s.nV;
    counted c;
    sb_gdn_job<float> job = {};
    job.conv = conv_job(c, shape);
    job.delta.from = c.in("state", SLOTS * state);
    job.delta.slot = job.conv.slot;
    job.delta.trail = c.out_if<float>(trail, "trail", rows * state);
    job.delta.to = c.out_if<float>(!trail, "next", 2 * state);
    job.delta.out = c.out<float>("out", gates * s.dv);
    job.delta.rows = rows;
    job.delta.k_heads = s.nK;
    job.delta.v_heads = s.nV;
    job.delta.dk = s.dk;
    job.delta.dv = s.dv;
    job.a = c.in("a", gates);
    job.b = c.in("b", gates);
    job.a_log = c.in("a_log", s.nV);
    job.dt_bias = c.in("dt_bias", s.nV);
    job.eps = 1e-6f;
    job.scale = 0.125f;
    c.is(SB_COST_gdn, shape, sb_gdn_launch(&c.queue, job));
}

void check_gdn_end(const fused_shape &s, uint32_t rows, bool trail, unsigned forms)
{
    sb_cost_shape shape = shape_of_gdn(s, rows, trail);
    const size_t n = size_t(rows) * s.nV * s.dv, kept = (TAPS - 1) * shape.outputs;
    counted c;
    sb_gdn_end_job<float> job = {};
    shape.leaves = (forms & 1) != 0;
    shape.stages = (forms & 2) != 0;
    job.conv = conv_job(c, shape);
    job.conv.trail = c.out_if<float>(trail, "conv trail", rows * kept);
    job.conv.next = c.out_if<float>(!trail, "conv next", 2 * kept);
    job.shape = sb_stage_shape(s.nV * s.dv);
    job.in = c.in("core", n);
    job.z = c.in("z", n);
    job.weight = c.in("weight", s.dv);
    job.out = c.out_if<float>(forms & 1, "out", n);
    job.staged = c.out_if<uint2>(forms & 2, "staged", fused_staged(job.shape, rows));
    job.rows = rows;
    job.heads = s.nV;
    job.n = s.dv;
    job.eps = 1e-6f;
    c.is(SB_COST_gdn_end, shape, sb_gdn_end_launch(&c.queue, job));
}

TEST_WITH(test_gdn, NULL, test_release)
{
    all_shapes([](const fused_shape &s, uint32_t rows) {
        for (const bool trail : {false, true}) {
            check_gdn(s, rows, trail);
            for (unsigned forms = 1; forms < 4; forms++)
                check_gdn_end(s, rows, trail, forms);
        }
    });
}

/* --- choices ---------------------------------------------------------------------------------- */
/* Also the kernels in the files that these include. */
void check_apart(const fused_shape &s, uint32_t rows)
{
    const uint32_t pairs = rows * s.k, n = 5000, parts = fused_blocks(n, 4096);
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.experts = s.E;
    shape.pairs = pairs;
    shape.outputs = n;
    {
        counted c;
        c.is(SB_COST_router, shape,
             SB_LAUNCH(&c.queue, sb_router_kernel, rows, SB_WARP, (2 * s.E + s.k) * sizeof(float),
                       c.in("logits", size_t(rows) * s.E), s.E, s.k, true,
                       c.out<uint32_t>("ids", pairs), c.out<float>("weights", pairs)));
    }
    const size_t all = size_t(rows) * parts;
    uint64_t *partial = fused_room<uint64_t>(all);
    {
        counted c;
        c.is(SB_COST_argmax_part, shape,
             SB_LAUNCH(&c.queue, sb_argmax_part, dim3(parts, rows), SB_ARGMAX_THREADS, 0,
                       c.in("logits", size_t(rows) * n), c.inout("partial", partial, all), n));
    }
    counted c;
    c.is(SB_COST_argmax_end, shape,
         SB_LAUNCH(&c.queue, sb_argmax_end, rows, SB_ARGMAX_THREADS, 0,
                   c.in("partial", const_cast<const uint64_t *>(partial), all),
                   c.out<uint32_t>("tokens", rows), parts));
}

void check_choice(const fused_shape &s, uint32_t rows, uint32_t most, bool beside)
{
    const uint32_t pairs = rows * s.k;
    uint32_t count = 0;
    counted c;
    sb_choice_job job = {};
    job.logits = c.in("logits", size_t(rows) * s.E);
    job.ids = c.out<uint32_t>("ids", pairs);
    job.weights = c.out<float>("weights", pairs);
    job.order = c.out<uint32_t>("order of pairs", pairs);
    job.begin = c.out<uint32_t>("first pairs", s.E + 1);
    job.sets = c.out<uint2>("sets of pairs", sb_route_most(pairs, s.E, most));
    job.count = c.inout("count of sets", &count, 1);
    job.rows = rows;
    job.experts = s.E;
    job.kept = s.k;
    job.most = most;
    sb_cost_shape shape = {};
    if (beside) {
        shape = shape_of(rows, s.I);
        shape.stages = 1;
        job.shape = sb_stage_shape(s.I);
        job.beside = {c.in("gate", size_t(rows) * s.I), c.in("up", size_t(rows) * s.I), s.I};
        job.staged = c.out<uint2>("staged", fused_staged(job.shape, rows));
    }
    const sb_status status = sb_choice_launch(&c.queue, job);
    shape.rows = rows;
    shape.experts = s.E;
    shape.pairs = pairs;
    shape.sets = count;
    c.is(SB_COST_choice, shape, status);
}

void check_token(uint32_t n, uint32_t rows, uint32_t parts)
{
    uint64_t best[FUSED_ROWS] = {};
    uint32_t done[FUSED_ROWS] = {};
    counted c;
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    c.is(SB_COST_argmax, shape,
         sb_argmax_launch(&c.queue, c.in("logits", size_t(rows) * n), c.inout("best", best, rows),
                          c.inout("done", done, rows), c.out<uint32_t>("tokens", rows), n, rows,
                          parts));
}

/* The first launch of a selection. */
template <bool SUMS> void check_select(uint32_t n, uint32_t rows, uint32_t parts)
{
    const size_t bins = size_t(rows) * SB_SAMPLE_BINS * SB_SAMPLE_BIN;
    const auto zeros = [](size_t count) {
        uint64_t *room = fused_room<uint64_t>(count);
        memset(room, 0, count * sizeof *room);
        return room;
    };
    counted c;
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = n;
    shape.adds = SUMS;
    float *e = bf16_values("e", size_t(rows) * n, 0.0f, 1.0f);
    for (size_t i = 0; i < size_t(rows) * n; i++)
        e[i] = e[i] > 0 && e[i] < 1 ? e[i] : 0.5f;
    const auto limit = zeros(size_t(rows) * SB_LIMIT_ROW);
    const sb_sample_enough enough = {n / 3 + 1, 0.5f};
    c.is(SB_COST_sample_select, shape,
         SB_LAUNCH(&c.queue, sb_sample_select<SUMS>, dim3(parts, rows), SB_SAMPLE_THREADS, 0,
                   c.in("logits", size_t(rows) * n),
                   c.in("p", const_cast<const float *>(e), size_t(rows) * n),
                   c.inout("row", zeros(size_t(rows) * SB_SAMPLE_ROW), rows * SB_SAMPLE_ROW),
                   c.inout("bins", zeros(bins), bins),
                   c.in("limit", const_cast<const uint64_t *>(limit), rows * SB_LIMIT_ROW),
                   c.out<uint64_t>("next limit", rows * SB_LIMIT_ROW), enough, 56u, 1u, n));
}

TEST_WITH(test_selections, NULL, test_release)
{
    for (const uint32_t rows : {1u, 4u})
        for (const uint32_t n : {1u, 300u, 1500u}) {
            check_select<false>(n, rows, 1 + n / 600);
            check_select<true>(n, rows, 1 + n / 600);
        }
}

TEST_WITH(test_choices, NULL, test_release)
{
    all_shapes([](const fused_shape &s, uint32_t rows) {
        if (s.E)
            check_choice(s, rows, 8, true);
        if (s.E)
            check_choice(s, rows, 2, false);
        check_token(4 * s.H + 3, rows, rows);
        check_apart(odd, rows);
    });
}

/* --- a step ----------------------------------------------------------------------------------- */
struct numbers {
    uint32_t position = 20, slot = 0, kept = 2, tokens[FUSED_ROWS] = {}, picked[FUSED_ROWS] = {};
};
sb_step_numbers numbers_of(counted &c, numbers *n)
{
    sb_step_numbers all = sb_step_numbers();
    all.position = c.inout("position", &n->position, 1);
    all.slot = c.inout("slot", &n->slot, 1);
    all.kept = c.inout("kept", &n->kept, 1);
    all.tokens = c.inout("tokens", n->tokens, FUSED_ROWS);
    all.picked = c.in("picked", n->picked, FUSED_ROWS);
    return all;
}

void check_numbers(uint32_t rows)
{
    sb_cost_shape shape = {};
    shape.rows = rows;
    numbers n;
    {
        counted c;
        c.is(SB_COST_step_begin, shape,
             SB_LAUNCH(&c.queue, sb_step_begin_kernel, 1, SB_STEP_THREADS, 0,
                       c.in("position", &n.position, 1), -1, 0, rows, c.out<uint32_t>("first", 1),
                       c.out<uint32_t>("positions", rows)));
    }
    {
        counted c;
        c.is(SB_COST_step_end, shape,
             SB_LAUNCH(&c.queue, sb_step_end_kernel, 1, 1, 0, numbers_of(c, &n), rows, rows % 2,
                       rows - 1));
    }
    {
        counted c;
        c.is(SB_COST_step_accept, shape,
             SB_LAUNCH(&c.queue, sb_step_accept_kernel, 1, 1, 0, numbers_of(c, &n), rows));
    }
    counted c;
    n.kept = rows;
    c.is(SB_COST_step_keep, shape,
         SB_LAUNCH(&c.queue, sb_step_keep_kernel, 1, 1, 0, numbers_of(c, &n), rows));
}

void check_copies(const fused_shape &s, uint32_t rows)
{
    const size_t n = size_t(rows) * s.H;
    const uint32_t kept = rows - 1;
    sb_cost_shape shape = {};
    shape.rows = rows;
    shape.outputs = s.H;
    {
        counted c;
        const auto before = c.inout("before", test_copy(test_normal("x", n, 0.0f, 1.0f), n), n);
        c.is(SB_COST_step_row, shape,
             SB_LAUNCH(&c.queue, sb_step_row_kernel, fused_blocks(s.H, SB_STEP_THREADS),
                       SB_STEP_THREADS, 0, before, c.in("kept", &kept, 1), s.H));
    }
    {
        counted c;
        c.is(SB_COST_step_copy, shape,
             SB_LAUNCH(&c.queue, sb_step_copy_kernel, fused_blocks(n, SB_STEP_THREADS),
                       SB_STEP_THREADS, 0, c.in("feature", n), c.out<float>("before", n), n));
    }
    counted c;
    c.is(SB_COST_step_join, shape,
         SB_LAUNCH(&c.queue, sb_step_join_kernel, fused_blocks(n, SB_STEP_THREADS), SB_STEP_THREADS,
                   0, c.in("embedding", n), c.in("hidden", n), c.out<float>("joined", 2 * n), s.H,
                   n));
}

TEST_WITH(test_steps, NULL, test_release)
{
    all_shapes([](const fused_shape &s, uint32_t rows) {
        check_numbers(rows);
        check_copies(s, rows);
    });
}

/* --- many rows -------------------------------------------------------------------------------- */
/* The ledger assigns the same kernels to a call as the host side of the ops. */
TEST(test_many)
{
    for (uint32_t rows = 1; rows < 1200; rows += 21)
        for (uint32_t n = 16; n < 9000; n += 112) {
            sb_linear_shape shape = sb_stage_shape(64);
            shape.rows = n;
            assert_true(sb_cost_is_wide(rows, n) == sb_wide_takes(shape, rows));
            assert_true(sb_cost_set(rows, n / 16) == sb_gpu_set_of(rows, n / 16, true));
        }
}

/* --- mistakes --------------------------------------------------------------------------------- */
/* A kernel that reads the gate of one row for all rows; a token that is not written; and wrong
 * expectations of bytes, of a buffer and of a kernel. */
TEST_WITH(test_mistakes, NULL, test_release)
{
    sb_cost_shape shape = shape_of_norm(odd, 3, 7), step = {};
    shape.pairs = 3 * odd.k;
    step.rows = 3;
    numbers n;
    {
        counted c;
        plant("fused_combine_row");
        assert_int_equal(run_combined(c, odd, 3, 7), SB_OK);
        plant("");
        cost_expect(c.compared(shape, {SB_COST_add_norm}), "bytes of shared_logit read: 4, not 12");
    }
    {
        counted c;
        plant("step_token");
        assert_int_equal(
            SB_LAUNCH(&c.queue, sb_step_end_kernel, 1, 1, 0, numbers_of(c, &n), 3, 0, 2), SB_OK);
        plant("");
        cost_expect(c.compared(step, {SB_COST_step_end}), "bytes of tokens written: 0, not 4");
    }
    counted c;
    assert_int_equal(run_combined(c, odd, 3, 7), SB_OK);
    assert_null(c.compared(shape, {SB_COST_add_norm}));
    shape.feeds = 0;
    cost_expect(c.compared(shape, {SB_COST_add_norm}),
                "bytes of staged for experts written: 1536, not 0");
    shape.feeds = 1;
    shape.width--;
    cost_expect(c.compared(shape, {SB_COST_add_norm}), "bytes of staged written: 4096, not 4080");
    cost_expect(c.compared(step, {SB_COST_step_accept}),
                "sb_step_accept_kernel, launches: 0, not 1");
}

TEST(test_all_seen)
{
    cost_all_seen(SB_COST_add_norm, SB_COST_act_fp8);
}

} // namespace
