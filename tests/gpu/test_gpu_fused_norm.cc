/* test_gpu_fused_norm.cc - Y-80 and Y-81: sums of the stream with the norm after them, and layer
 * inputs that are staged in the same kernel, have the bits of the separate kernels. */
#include "gpu/kernel/fused_norm.cuh"
#include "tests/gpu/fused.h"
#include "tests/lib/suite.h"

/* --- the stream ------------------------------------------------------------------------------- */
enum kind { NOTHING, VALUES, COMBINED, KINDS };

struct stream {
    const float *x, *y, *weight, *expert_out, *expert_weights, *shared_out, *logits;
};
static stream draw_stream(const fused_shape &s, uint32_t rows)
{
    const size_t n = static_cast<size_t>(rows) * s.H;
    stream d = {};
    d.x = test_normal("x", n, 0.0f, 3.0f);
    d.y = bf16_values("y", n, 0.0f, 2.0f);
    d.weight = bf16_values("weight", s.H, 0.0f, 0.3f);
    d.expert_out = bf16_values("experts", n * s.k, 0.0f, 1.0f);
    d.expert_weights = test_normal("shares", rows * s.k, 0.2f, 0.05f);
    d.shared_out = bf16_values("shared", n, 0.0f, 1.0f);
    d.logits = test_normal("gates", rows, 0.0f, 2.0f);
    return d;
}

struct left {
    float *sum, *out;
    fused_input in;
};

/* With separate kernels. */
static left one_by_one(const fused_shape &s, uint32_t rows, kind what, const stream &d)
{
    emu_bench b(0);
    const uint32_t n = rows * s.H, blocks = fused_blocks(n, SB_EACH_THREADS);
    left l = {test_output(n), test_output(n), {}};
    float *added = test_output(n);
    const auto x = b.in("x", d.x, n), weight = b.in("weight", d.weight, s.H);
    const auto to = b.out("added", added, n), sum = b.out("sum", l.sum, n);
    sb_global<const float> y = b.in("y", d.y, n);
    if (what == COMBINED) {
        const auto experts = b.in("experts", d.expert_out, size_t(n) * s.k);
        EMU_RUN(b, sb_moe_combine_kernel<float>, blocks, SB_COMBINE_THREADS, 0, experts,
                b.in("shares", d.expert_weights, rows * s.k), b.in("shared", d.shared_out, n),
                b.in("gates", d.logits, rows), s.k, s.H, n, to);
        y = to;
    }
    if (what != NOTHING)
        EMU_RUN(b, sb_add_kernel<float>, blocks, SB_EACH_THREADS, 0, x, y, sum, n);
    EMU_RUN(b, (sb_rmsnorm_kernel<float, float>), rows, sb_sum_threads(s.H), 0,
            what == NOTHING ? x : sb_global<const float>(sum), weight, 1e-6f, s.H,
            b.out("out", l.out, n));
    l.in = fused_stage(l.out, sb_stage_shape(s.H), rows);
    return l;
}

template <class ADDED>
static bool runs_fused(emu_bench &b, const fused_shape &s, uint32_t rows, const stream &d,
                       const ADDED &added, bool in_place, const left &l)
{
    const uint32_t n = rows * s.H;
    sb_add_norm_job<ADDED, float> job = {};
    job.shape = sb_stage_shape(s.H);
    job.added = added;
    if (in_place) {
        memcpy(l.sum, d.x, n * sizeof(float));
        job.sum = b.inout("x", l.sum, n);
        job.x = job.sum;
    } else {
        job.x = b.in("x", d.x, n);
        if (ADDED::ADDS)
            job.sum = b.out("sum", l.sum, n);
    }
    job.weight = b.in("weight", d.weight, s.H);
    job.out = b.out("out", l.out, n);
    job.staged = b.out("staged", l.in.staged, fused_staged(job.shape, rows));
    job.pairs = b.out("pairs", l.in.pairs, fused_pairs(job.shape, rows));
    job.rows = rows;
    job.n = s.H;
    job.eps = 1e-6f;
    return b.ran(sb_add_norm_launch(&b.queue, job)) && b.complete();
}

static bool same_norm(const fused_shape &s, uint32_t rows, kind what, bool in_place, uint64_t seed)
{
    const stream d = draw_stream(s, rows);
    const char *fault = planted;
    plant("");
    const left a = one_by_one(s, rows, what, d);
    plant(fault);
    const sb_linear_shape shape = sb_stage_shape(s.H);
    const size_t n = static_cast<size_t>(rows) * s.H, words = fused_staged(shape, rows);
    const left l = {test_output(n),
                    test_output(n),
                    {fused_room<uint2>(words), fused_room<uint32_t>(fused_pairs(shape, rows))}};
    emu_bench b(seed);
    bool ran;
    if (what == NOTHING)
        ran = runs_fused(b, s, rows, d, sb_add_nothing(), false, l);
    else if (what == VALUES)
        ran = runs_fused(b, s, rows, d, sb_add_values<float>{b.in("y", d.y, n)}, in_place, l);
    else
        ran = runs_fused(b, s, rows, d,
                         sb_add_combined<float>{b.in("experts", d.expert_out, n * s.k),
                                                b.in("shares", d.expert_weights, rows * s.k),
                                                b.in("shared", d.shared_out, n),
                                                b.in("gates", d.logits, rows), s.k, 0, 0.0f},
                         in_place, l);
    return ran && (what == NOTHING || fused_same(a.sum, l.sum, n)) && fused_same(a.out, l.out, n) &&
           fused_same(a.in.staged, l.in.staged, words) &&
           fused_same(a.in.pairs, l.in.pairs, fused_pairs(shape, rows));
}

TEST_WITH(test_norms, NULL, test_release)
{
    fused_all([](const fused_shape &s, uint32_t rows, uint64_t seed) {
        bool same = same_norm(s, rows, NOTHING, false, seed) &&
                    same_norm(s, rows, VALUES, rows % 2 == 0, seed);
        if (same && s.E)
            same = same_norm(s, rows, COMBINED, rows % 2 == 1, seed);
        test_release(nullptr);
        return same;
    });
}

/* --- computed inputs -------------------------------------------------------------------------- */
static bool same_swiglu(const fused_shape &s, uint32_t rows, uint64_t seed)
{
    const uint32_t n = rows * s.I;
    const sb_linear_shape shape = sb_stage_shape(s.I);
    const size_t words = fused_staged(shape, rows), pairs = fused_pairs(shape, rows);
    const float *gate = bf16_values("gate", n, 0.0f, 2.0f), *up = bf16_values("up", n, 0.0f, 1.0f);
    float *out = test_output(n);
    const fused_input mine = {fused_room<uint2>(words), fused_room<uint32_t>(pairs)};
    emu_bench b(seed);
    const auto g = b.in("gate", gate, n), u = b.in("up", up, n);
    EMU_RUN(b, sb_swiglu_kernel<float>, fused_blocks(n, SB_EACH_THREADS), SB_EACH_THREADS, 0, g, u,
            n, b.out("out", out, n));
    const fused_input x = fused_stage(out, shape, rows);
    const sb_swiglu_input<float> in = {g, u, s.I};
    const sb_status staged =
        sb_stage_launch(&b.queue, in, nullptr, b.out("staged", mine.staged, words), shape, rows);
    return b.ran(staged) &&
           b.ran(sb_stage_pairs_launch(&b.queue, in, nullptr, b.out("pairs", mine.pairs, pairs),
                                       shape, rows)) &&
           b.complete() && fused_same(x.staged, mine.staged, words) &&
           fused_same(x.pairs, mine.pairs, pairs);
}

static bool same_attn_gate(const fused_shape &s, uint32_t rows, uint64_t seed)
{
    const uint32_t width = s.nQ * s.hd, n = rows * width;
    const sb_linear_shape shape = sb_stage_shape(width);
    const size_t words = fused_staged(shape, rows);
    const float *o = bf16_values("o", n, 0.0f, 1.0f);
    const float *packed = bf16_values("packed", 2 * n, 0.0f, 2.0f);
    float *query = test_output(n), *gate = test_output(n), *out = test_output(n);
    uint2 *mine = fused_room<uint2>(words);
    emu_bench b(seed);
    const auto in = b.in("o", o, n), both = b.in("packed", packed, 2 * n);
    const auto gates = b.out("gate", gate, n);
    EMU_RUN(b, sb_split_gate_kernel<float>, fused_blocks(2 * n, SB_EACH_THREADS), SB_EACH_THREADS,
            0, both, s.hd, 2 * n, b.out("query", query, n), gates);
    EMU_RUN(b, sb_attn_gate_kernel<float>, fused_blocks(n, SB_EACH_THREADS), SB_EACH_THREADS, 0, in,
            gates, n, b.out("out", out, n));
    const fused_input x = fused_stage(out, shape, rows);
    return b.ran(sb_stage_launch(&b.queue, sb_attn_gate_input<float>{in, both, width, s.hd},
                                 nullptr, b.out("staged", mine, words), shape, rows)) &&
           b.complete() && fused_same(x.staged, mine, words);
}

TEST_WITH(test_inputs, NULL, test_release)
{
    fused_all([](const fused_shape &s, uint32_t rows, uint64_t seed) {
        const bool same = same_swiglu(s, rows, seed) && same_attn_gate(s, rows, seed);
        test_release(nullptr);
        return same;
    });
}

TEST_WITH(test_faults, NULL, test_release)
{
    const fused_shape &s = fused_shapes[1];
    fused_catches("fused_norm_barrier",
                  [&](uint64_t seed) { return same_norm(s, 2, VALUES, false, seed); });
    fused_catches("fused_combine_row",
                  [&](uint64_t seed) { return same_norm(s, 2, COMBINED, false, seed); });
    fused_catches("fused_stage_row",
                  [&](uint64_t seed) { return same_norm(s, 3, NOTHING, false, seed); });
    fused_catches("fused_gate_half", [&](uint64_t seed) { return same_attn_gate(s, 3, seed); });
}
