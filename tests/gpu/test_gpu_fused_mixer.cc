/* test_gpu_fused_mixer.cc - Y-82 and Y-83: the fused kernels between the projections of attention
 * and its scores, and between the projections of linear attention, have the bits of the separate
 * kernels: outputs, cache and states. */
#include "gpu/kernel/fused_delta.cuh"
#include "gpu/kernel/fused_heads.cuh"
#include "gpu/kernel/rope.cuh"
#include "ref/ops/knob.h"
#include "ref/ops/kv_cache.h"
#include "tests/gpu/fused.h"
#include "tests/lib/suite.h"

/* --- heads ------------------------------------------------------------------------------------ */
enum { FIRST = 5, BEHIND = 2 };
static const float k_scale = 0.0371f, v_scale = 0.25f, eps = 1e-6f;

struct heads_in {
    const float *packed, *key, *value, *q_weight, *k_weight, *frequency;
    uint32_t position[FUSED_ROWS];
};
template <class KV> struct heads_out {
    float *query;
    KV *keys, *values;
};

static heads_in draw_heads(const fused_shape &s, uint32_t rows)
{
    heads_in h = {};
    h.packed = bf16_values("packed", size_t(2) * rows * s.nQ * s.hd, 0.0f, 2.0f);
    h.key = bf16_values("key", rows * s.nKV * s.hd, 0.0f, 2.0f);
    h.value = bf16_values("value", rows * s.nKV * s.hd, 0.0f, 2.0f);
    h.q_weight = bf16_values("q_weight", s.hd, 0.0f, 0.3f);
    h.k_weight = bf16_values("k_weight", s.hd, 0.0f, 0.3f);
    float *f = test_output(s.hd / 8);
    for (uint32_t i = 0; i < s.hd / 8; i++)
        f[i] = 1.0f / static_cast<float>(1 + i * i);
    h.frequency = f;
    for (uint32_t row = 0; row < rows; row++)
        h.position[row] = FIRST + row;
    return h;
}

static void turn_table(const fused_shape &s, const heads_in &h, uint32_t rows, float2 *table)
{
    emu_bench b(0);
    const uint32_t half = s.hd / 8;
    sb_rope_positions positions = {};
    positions.stream[0] = b.in("position", h.position, rows);
    EMU_RUN(b, sb_rope_table_kernel, fused_blocks(rows * half, SB_ROPE_THREADS), SB_ROPE_THREADS, 0,
            positions, b.in("frequency", h.frequency, half), b.out("table", table, rows * half),
            rows, half);
}

/* Norm and rotation of (rows, heads, hd). */
static void norm_and_turn(const fused_shape &s, const float *in, const float *weight, float2 *turns,
                          uint32_t rows, uint32_t heads, float *out)
{
    emu_bench b(0);
    const uint32_t n = rows * heads * s.hd, half = s.hd / 8;
    const auto to = b.out("out", out, n);
    EMU_RUN(b, (sb_rmsnorm_kernel<float, float>), rows * heads, sb_sum_threads(s.hd), 0,
            b.in("in", in, n), b.in("weight", weight, s.hd), eps, s.hd, to);
    EMU_RUN(b, sb_rope_kernel<float>, fused_blocks(rows * heads * half, SB_ROPE_THREADS),
            SB_ROPE_THREADS, 0, to, b.in("table", turns, rows * half), rows, heads, s.hd, half);
}

/* Stores values like a session, and converts them to the type that the op of attention takes. */
template <class KV> static void store(float *x, size_t n, float scale, KV *to)
{
    emu_bench b(0);
    sb_knobs knobs = sm121();
    if (sizeof(KV) == 1)
        knobs.value[SB_KNOB_kv_cache] = SB_kv_cache_fp8;
    sb_kv_store(&knobs, scale, x, n, x);
    EMU_RUN(b, sb_kv_kernel<KV>, fused_blocks(n, SB_ATTENTION_THREADS), SB_ATTENTION_THREADS, 0,
            b.in("values", x, n), b.out("codes", to, n), n);
}

/* A cache that already has values. */
template <class KV> static KV *old_cache(size_t n)
{
    KV *cache = fused_room<KV>(n);
    for (size_t i = 0; i < n; i++)
        cache[i] = static_cast<KV>(i * 37);
    return cache;
}

template <class KV>
static heads_out<KV> heads_apart(const fused_shape &s, uint32_t rows, const heads_in &h,
                                 float2 *turns)
{
    emu_bench b(0);
    const uint32_t n = rows * s.nQ * s.hd, kv = s.nKV * s.hd;
    const size_t cache = size_t(FIRST + rows + BEHIND) * kv;
    const heads_out<KV> o = {test_output(n), old_cache<KV>(cache), old_cache<KV>(cache)};
    float *query = test_output(n), *gate = test_output(n), *key = test_output(rows * kv);
    EMU_RUN(b, sb_split_gate_kernel<float>, fused_blocks(2 * n, SB_EACH_THREADS), SB_EACH_THREADS,
            0, b.in("packed", h.packed, 2 * n), s.hd, 2 * n, b.out("query", query, n),
            b.out("gate", gate, n));
    norm_and_turn(s, query, h.q_weight, turns, rows, s.nQ, o.query);
    norm_and_turn(s, h.key, h.k_weight, turns, rows, s.nKV, key);
    store(key, rows * kv, k_scale, o.keys + FIRST * kv);
    store(test_copy(h.value, rows * kv), rows * kv, v_scale, o.values + FIRST * kv);
    return o;
}

template <class KV>
static bool heads_together(const fused_shape &s, uint32_t rows, const heads_in &h,
                           const float2 *turns, uint64_t seed, const heads_out<KV> &o)
{
    emu_bench b(seed);
    const uint32_t n = rows * s.nQ * s.hd, kv = s.nKV * s.hd, first = FIRST;
    const size_t cache = size_t(FIRST + rows + BEHIND) * kv;
    sb_heads_job<float, KV> job = {};
    job.packed = b.in("packed", h.packed, 2 * n);
    job.key = b.in("key", h.key, rows * kv);
    job.value = b.in("value", h.value, rows * kv);
    job.q_weight = b.in("q_weight", h.q_weight, s.hd);
    job.k_weight = b.in("k_weight", h.k_weight, s.hd);
    job.table = b.in("table", turns, rows * s.hd / 8);
    job.query = b.out("query", o.query, n);
    job.keys = b.inout("keys", o.keys, cache);
    job.values = b.inout("values", o.values, cache);
    job.first = b.in("first", &first, 1);
    job.rows = rows;
    job.heads = s.nQ;
    job.kv_heads = s.nKV;
    job.hd = s.hd;
    job.half = s.hd / 8;
    job.eps = eps;
    job.key_scale = k_scale;
    job.value_scale = v_scale;
    return b.ran(sb_heads_launch(&b.queue, job)) && b.complete();
}

template <class KV> static bool same_heads(const fused_shape &s, uint32_t rows, uint64_t seed)
{
    const size_t n = size_t(rows) * s.nQ * s.hd, kv = s.nKV * s.hd;
    const size_t cache = (FIRST + rows + BEHIND) * kv;
    const heads_in h = draw_heads(s, rows);
    float2 *turns = fused_room<float2>(rows * s.hd / 8);
    const char *fault = planted;
    plant("");
    turn_table(s, h, rows, turns);
    const heads_out<KV> a = heads_apart<KV>(s, rows, h, turns);
    plant(fault);
    const heads_out<KV> o = {test_output(n), old_cache<KV>(cache), old_cache<KV>(cache)};
    return heads_together(s, rows, h, turns, seed, o) && fused_same(a.query, o.query, n) &&
           fused_same(a.keys, o.keys, cache) && fused_same(a.values, o.values, cache);
}

TEST_WITH(test_heads, NULL, test_release)
{
    fused_all([](const fused_shape &s, uint32_t rows, uint64_t seed) {
        const bool same = same_heads<uint16_t>(s, rows, seed) && same_heads<uint8_t>(s, rows, seed);
        test_release(nullptr);
        return same;
    });
}

/* --- the delta rule --------------------------------------------------------------------------- */
/* Where the states are: a single one, changed in place; a trail, which keeps the states of all
 * rows; or slots: one is read, and they keep the states of all rows or of the last row. */
enum states { IN_PLACE, TRAIL, SLOT, STATES };
enum { COUNTS = 2, TAPS = SB_GDN_TAPS };

struct gdn_in {
    const float *qkv, *z, *a, *b, *conv, *weight, *a_log, *dt_bias, *norm;
    const float *conv_state, *state;
    uint32_t channels;
    size_t conv_size, size, slots;
};
struct gdn_out {
    float *conv_state, *state, *core, *out;
    uint2 *staged;
};

static gdn_in draw_gdn(const fused_shape &s, uint32_t rows, states how)
{
    gdn_in g = {};
    g.channels = 2 * s.nK * s.dk + s.nV * s.dv;
    g.conv_size = size_t(TAPS - 1) * g.channels;
    g.size = size_t(s.nV) * s.dk * s.dv;
    g.slots = how == IN_PLACE ? 1 : how == TRAIL && rows > COUNTS ? rows : COUNTS + 1;
    g.qkv = bf16_values("qkv", rows * g.channels, 0.0f, 2.0f);
    g.z = bf16_values("z", rows * s.nV * s.dv, 0.0f, 2.0f);
    g.a = bf16_values("a", rows * s.nV, 0.0f, 1.0f);
    g.b = bf16_values("b", rows * s.nV, 0.0f, 2.0f);
    g.weight = bf16_values("conv", g.channels * TAPS, 0.0f, 1.0f);
    g.a_log = test_normal("a_log", s.nV, 0.0f, 0.5f);
    g.dt_bias = bf16_values("dt_bias", s.nV, 0.0f, 1.0f);
    g.norm = bf16_values("norm", s.dv, 1.0f, 0.2f);
    g.conv_state = bf16_values("conv state", g.slots * g.conv_size, 0.0f, 2.0f);
    g.state = test_normal("state", g.slots * g.size, 0.0f, 0.1f);
    return g;
}

static gdn_out room_for_gdn(const fused_shape &s, uint32_t rows, const gdn_in &g)
{
    const size_t n = size_t(rows) * s.nV * s.dv;
    return {test_copy(g.conv_state, g.slots * g.conv_size), test_copy(g.state, g.slots * g.size),
            test_output(n), test_output(n),
            fused_room<uint2>(fused_staged(sb_stage_shape(s.nV * s.dv), rows))};
}

/* The jobs of convolution and rule, as far as both variants share them. */
static sb_conv_job<float> conv_job(emu_bench &b, const gdn_in &g, uint32_t rows, states how,
                                   sb_global<float> state, sb_global<const uint32_t> slot)
{
    sb_conv_job<float> job = {};
    job.in = b.in("qkv", g.qkv, rows * g.channels);
    job.weight = b.in("conv", g.weight, g.channels * TAPS);
    job.state = state;
    if (how == TRAIL)
        job.trail = state;
    else
        job.next = state;
    job.slot = slot;
    job.rows = rows;
    job.channels = g.channels;
    return job;
}
static sb_delta_job<float> delta_job(const fused_shape &s, uint32_t rows, states how,
                                     sb_global<float> state, sb_global<const uint32_t> slot)
{
    sb_delta_job<float> job = {};
    job.from = state;
    if (how == TRAIL)
        job.trail = state;
    else
        job.to = state;
    job.slot = slot;
    job.rows = rows;
    job.k_heads = s.nK;
    job.v_heads = s.nV;
    job.dk = s.dk;
    job.dv = s.dv;
    return job;
}

static const uint32_t counts = COUNTS;
static sb_global<const uint32_t> slot_of(emu_bench &b, states how)
{
    return how == IN_PLACE ? sb_global<const uint32_t>(nullptr) : b.in("slot", &counts, 1);
}

template <int DK>
static void run_rule(emu_bench &b, const fused_shape &s, const sb_delta_job<float> &job)
{
    const dim3 grid(fused_blocks(s.dv, SB_DELTA_COLUMNS), s.nV);
    EMU_RUN(b, (sb_delta_rule_kernel<float, DK>), grid, SB_DELTA_THREADS, 0, job);
}

static gdn_out gdn_apart(const fused_shape &s, uint32_t rows, const gdn_in &g, states how,
                         bool rounds, float scale)
{
    emu_bench b(0);
    const gdn_out o = room_for_gdn(s, rows, g);
    const uint32_t keys = rows * s.nK * s.dk, gates = rows * s.nV, n = gates * s.dv;
    const auto slot = slot_of(b, how);
    sb_conv_job<float> conv =
        conv_job(b, g, rows, how, b.inout("conv state", o.conv_state, g.slots * g.conv_size), slot);
    conv.out = b.out("convolved", test_output(rows * g.channels), rows * g.channels);
    EMU_RUN(b, (sb_conv_kernel<float, TAPS>), fused_blocks(g.channels, SB_CONV_THREADS),
            SB_CONV_THREADS, 0, conv);
    sb_delta_job<float> job =
        delta_job(s, rows, how, b.inout("state", o.state, g.slots * g.size), slot);
    const auto q = b.out("q", test_output(keys), keys), k = b.out("k", test_output(keys), keys);
    const auto decay = b.out("g", test_output(gates), gates);
    const auto beta = b.out("beta", test_output(gates), gates);
    EMU_RUN(b, sb_gates_kernel<float>, fused_blocks(gates, SB_EACH_THREADS), SB_EACH_THREADS, 0,
            b.in("a", g.a, gates), b.in("b", g.b, gates), b.in("a_log", g.a_log, s.nV),
            b.in("dt_bias", g.dt_bias, s.nV), s.nV, gates, decay, beta);
    EMU_RUN(b, sb_l2norm_kernel<float>, rows * 2 * s.nK, sb_sum_threads(s.dk), 0, conv.out,
            g.channels, s.nK, s.dk, eps, unsigned(rounds), scale, q, k);
    job.q = q;
    job.k = k;
    job.v = conv.out + 2 * s.nK * s.dk;
    job.v_stride = g.channels;
    job.g = decay;
    job.beta = beta;
    job.out = b.out("core", o.core, n);
    s.dk <= 32   ? run_rule<32>(b, s, job)
    : s.dk <= 64 ? run_rule<64>(b, s, job)
                 : run_rule<128>(b, s, job);
    EMU_RUN(b, sb_gated_rmsnorm_kernel<float>, gates, sb_sum_threads(s.dv), 0, job.out,
            b.in("z", g.z, n), b.in("norm", g.norm, s.dv), eps, s.dv, b.out("out", o.out, n));
    gdn_out whole = o;
    whole.staged = fused_stage(o.out, sb_stage_shape(s.nV * s.dv), rows).staged;
    return whole;
}

static bool gdn_together(const fused_shape &s, uint32_t rows, const gdn_in &g, states how,
                         bool rounds, float scale, uint64_t seed, const gdn_out &o)
{
    emu_bench b(seed);
    const uint32_t gates = rows * s.nV, n = gates * s.dv;
    const auto slot = slot_of(b, how);
    sb_gdn_job<float> job = {};
    job.conv =
        conv_job(b, g, rows, how, b.inout("conv state", o.conv_state, g.slots * g.conv_size), slot);
    job.delta = delta_job(s, rows, how, b.inout("state", o.state, g.slots * g.size), slot);
    job.delta.out = b.out("core", o.core, n);
    job.a = b.in("a", g.a, gates);
    job.b = b.in("b", g.b, gates);
    job.a_log = b.in("a_log", g.a_log, s.nV);
    job.dt_bias = b.in("dt_bias", g.dt_bias, s.nV);
    job.eps = eps;
    job.scale = scale;
    job.rounds = rounds;
    sb_gdn_end_job<float> end = {};
    end.conv = job.conv;
    end.in = job.delta.out;
    end.z = b.in("z", g.z, n);
    end.weight = b.in("norm", g.norm, s.dv);
    end.out = b.out("out", o.out, n);
    end.shape = sb_stage_shape(s.nV * s.dv);
    end.staged = b.out("staged", o.staged, fused_staged(end.shape, rows));
    end.rows = rows;
    end.heads = s.nV;
    end.n = s.dv;
    end.eps = eps;
    return b.ran(sb_gdn_launch(&b.queue, job)) && b.ran(sb_gdn_end_launch(&b.queue, end)) &&
           b.complete();
}

static bool same_gdn(const fused_shape &s, uint32_t rows, states how, bool rounds, uint64_t seed)
{
    const size_t n = size_t(rows) * s.nV * s.dv;
    const float scale = rounds ? 1.0f : 0.125f;
    const gdn_in g = draw_gdn(s, rows, how);
    const char *fault = planted;
    plant("");
    const gdn_out a = gdn_apart(s, rows, g, how, rounds, scale);
    plant(fault);
    const gdn_out o = room_for_gdn(s, rows, g);
    return gdn_together(s, rows, g, how, rounds, scale, seed, o) && fused_same(a.core, o.core, n) &&
           fused_same(a.out, o.out, n) &&
           fused_same(a.staged, o.staged, fused_staged(sb_stage_shape(s.nV * s.dv), rows)) &&
           fused_same(a.conv_state, o.conv_state, g.slots * g.conv_size) &&
           fused_same(a.state, o.state, g.slots * g.size);
}

TEST_WITH(test_gdn, NULL, test_release)
{
    fused_all([](const fused_shape &s, uint32_t rows, uint64_t seed) {
        bool same = true;
        for (int how = 0; how < STATES && same; how++) {
            if (s.large && how != (rows == 1 ? SLOT : TRAIL) && !check_all())
                continue;
            same = same_gdn(s, rows, static_cast<states>(how), rows % 2 == 0, seed);
            test_release(nullptr);
        }
        return same;
    });
}

TEST_WITH(test_faults, NULL, test_release)
{
    const fused_shape &t1 = fused_shapes[0], &t2 = fused_shapes[1];
    fused_catches("fused_heads_barrier",
                  [&](uint64_t seed) { return same_heads<uint16_t>(t2, 2, seed); });
    fused_catches("kv_first", [&](uint64_t seed) { return same_heads<uint8_t>(t1, 2, seed); });
    fused_shape narrow = t1; /* keys that do not fill their tiles */
    narrow.dk = 48;
    fused_catches("fused_gdn_padding",
                  [&](uint64_t seed) { return same_gdn(narrow, 2, TRAIL, false, seed); });
    for (const char *fault : {"fused_gdn_head", "fused_gdn_barrier", "fused_gdn_barrier2"})
        fused_catches(fault, [&](uint64_t seed) { return same_gdn(t1, 2, TRAIL, false, seed); });
}
