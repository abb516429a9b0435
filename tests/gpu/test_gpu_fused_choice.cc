/* test_gpu_fused_choice.cc - Y-84: one kernel chooses the experts and sorts the pairs, and another
 * chooses the greedy token. Both have the bits of the separate kernels. */
#include "gpu/kernel/fused_argmax.cuh"
#include "gpu/kernel/experts.cuh"
#include "gpu/kernel/fused_route.cuh"
#include "tests/gpu/fused.h"
#include "tests/lib/suite.h"

/* --- experts ---------------------------------------------------------------------------------- */
struct chosen {
    uint32_t *ids, *order, *begin, *sets, count;
    float *weights;
};
static chosen room_for_choice(const fused_shape &s, uint32_t rows, uint32_t sets)
{
    const uint32_t pairs = rows * s.k;
    return {fused_room<uint32_t>(pairs),
            fused_room<uint32_t>(pairs),
            fused_room<uint32_t>(s.E + 1),
            fused_room<uint32_t>(2 * sets),
            0,
            test_output(pairs)};
}

/* Logits with many equal values. */
static const float *draw_logits(size_t n)
{
    float *x = bf16_values("logits", n, 0.0f, 2.0f);
    for (size_t i = 0; i < n; i++)
        x[i] = static_cast<float>(static_cast<int>(x[i] * 8.0f)) / 8.0f;
    return x;
}

static bool choice_apart(const fused_shape &s, uint32_t rows, const float *logits, bool renormalise,
                         uint32_t most, uint32_t sets, chosen *c)
{
    emu_bench b(0);
    const uint32_t pairs = rows * s.k, threads = sb_route_threads(s.E);
    const auto ids = b.out("ids", c->ids, pairs);
    const auto counts = b.out("counts", fused_room<uint32_t>(s.E), s.E);
    EMU_RUN(b, sb_router_kernel, rows, SB_WARP, (2 * s.E + s.k) * sizeof(float),
            b.in("logits", logits, rows * s.E), s.E, s.k, renormalise, ids,
            b.out("weights", c->weights, pairs));
    EMU_RUN(b, sb_route_count, 1, threads, 0, ids, counts, pairs, s.E);
    EMU_RUN(b, sb_route_place, 1, threads, 0, counts, b.out("begin", c->begin, s.E + 1),
            b.out("sets", reinterpret_cast<uint2 *>(c->sets), sets), b.out("count", &c->count, 1),
            1, s.E, most);
    EMU_RUN(b, sb_route_order, 1, threads, 0, ids, counts, b.out("order", c->order, pairs), pairs,
            s.E);
    return true;
}

/* The input of a down, staged by a launch of its own and beside a choice. */
struct staged_beside {
    uint2 *apart, *together;
    size_t words;
};
static staged_beside stage_beside(const fused_shape &s, uint32_t rows, emu_bench *b,
                                  sb_choice_job *job)
{
    const size_t n = size_t(rows) * s.I;
    const float *gate = bf16_values("gate", n, 0.0f, 2.0f), *up = bf16_values("up", n, 0.0f, 2.0f);
    job->shape = sb_stage_shape(s.I);
    job->beside = {b->in("gate", gate, n), b->in("up", up, n), s.I};
    const size_t words = fused_staged(job->shape, rows);
    const staged_beside x = {fused_room<uint2>(words), fused_room<uint2>(words), words};
    emu_bench alone(0);
    const sb_swiglu_input<float> in = {alone.in("gate", gate, n), alone.in("up", up, n), s.I};
    assert_int_equal(sb_stage_launch(&alone.queue, in, nullptr, alone.out("staged", x.apart, words),
                                     job->shape, rows),
                     SB_OK);
    job->staged = b->out("staged", x.together, words);
    return x;
}

/* beside: the launch also stages the input of the shared expert's down. */
static bool same_choice(const fused_shape &s, uint32_t rows, bool renormalise, uint32_t most,
                        uint64_t seed, bool beside)
{
    const uint32_t pairs = rows * s.k, sets = sb_route_most(pairs, s.E, most);
    const float *logits = draw_logits(size_t(rows) * s.E);
    chosen a = room_for_choice(s, rows, sets), c = room_for_choice(s, rows, sets);
    const char *fault = planted;
    plant("");
    choice_apart(s, rows, logits, renormalise, most, sets, &a);
    plant(fault);
    emu_bench b(seed);
    sb_choice_job job = {b.in("logits", logits, rows * s.E),
                         b.out("ids", c.ids, pairs),
                         b.out("weights", c.weights, pairs),
                         b.out("order", c.order, pairs),
                         b.out("begin", c.begin, s.E + 1),
                         b.out("sets", reinterpret_cast<uint2 *>(c.sets), sets),
                         b.out("count", &c.count, 1),
                         rows,
                         s.E,
                         s.k,
                         most,
                         renormalise,
                         nullptr,
                         {},
                         {}};
    const staged_beside x = beside ? stage_beside(s, rows, &b, &job) : staged_beside();
    return b.ran(sb_choice_launch(&b.queue, job)) && a.count == c.count &&
           fused_same(a.ids, c.ids, pairs) && fused_same(a.weights, c.weights, pairs) &&
           fused_same(a.order, c.order, pairs) && fused_same(a.begin, c.begin, s.E + 1) &&
           fused_same(a.sets, c.sets, 2 * size_t(a.count)) &&
           fused_same(x.apart, x.together, x.words);
}

TEST_WITH(test_choice, NULL, test_release)
{
    fused_all([](const fused_shape &s, uint32_t rows, uint64_t seed) {
        const bool same = s.E == 0 || (same_choice(s, rows, rows % 3 != 0, 8, seed, true) &&
                                       same_choice(s, rows, true, 64, seed + 1, false));
        test_release(nullptr);
        return same;
    });
    fused_shape s = fused_shapes[7]; /* the sizes of the largest model */
    s.E = 512;
    s.k = 10;
    assert_true(same_choice(s, 9, true, 8, 1, true));
    emu_bench b(0); /* more rows are not supported */
    sb_choice_job job = {};
    job.rows = 10;
    job.experts = 8;
    job.kept = 2;
    assert_int_equal(sb_choice_launch(&b.queue, job), SB_ERR_UNSUPPORTED);
}

/* --- the greedy token ------------------------------------------------------------------------- */
/* Repeated calls with one pair of counters, which each call must restore. */
static bool same_token(uint32_t n, uint32_t rows, uint32_t parts, uint64_t seed)
{
    static uint64_t best[FUSED_ROWS];
    static uint32_t done[FUSED_ROWS];
    uint32_t apart[FUSED_ROWS], together[FUSED_ROWS];
    const float *logits = draw_logits(size_t(rows) * n);
    emu_bench b(seed);
    memset(best, 0, sizeof best);
    memset(done, 0, sizeof done);
    const auto in = b.in("logits", logits, size_t(rows) * n);
    const auto partial = b.out("parts", fused_room<uint64_t>(rows * parts), rows * parts);
    const auto largest = b.inout("best", best, rows);
    const auto finished = b.inout("done", done, rows);
    const auto tokens = b.out("tokens", together, rows);
    EMU_RUN(b, sb_argmax_part, dim3(parts, rows), SB_ARGMAX_THREADS, 0, in, partial, n);
    EMU_RUN(b, sb_argmax_end, rows, SB_ARGMAX_THREADS, 0, partial, b.out("tokens", apart, rows),
            parts);
    bool same = true;
    for (int round = 0; round < 2 && same; round++) {
        memset(together, 0xff, sizeof together);
        same = b.ran(sb_argmax_launch(&b.queue, in, largest, finished, tokens, n, rows, parts)) &&
               fused_same(apart, together, rows);
        for (uint32_t row = 0; row < rows; row++)
            same = same && best[row] == 0 && done[row] == 0;
    }
    return same;
}

TEST_WITH(test_tokens, NULL, test_release)
{
    for (const uint32_t n : {1u, 997u, 5000u})
        for (uint32_t rows = 1; rows <= FUSED_ROWS; rows++)
            for (const uint32_t parts : {1u, 3u, 16u})
                if (check_some(n + rows + parts, 3) &&
                    !same_token(n, rows, parts, (n + rows + parts) % SCHEDULES))
                    fail_msg("%u logits, %u rows, %u parts: another token", n, rows, parts);
}

TEST_WITH(test_faults, NULL, test_release)
{
    for (const char *fault : {"fused_choice_barrier", "fused_choice_block"})
        fused_catches(fault, [](uint64_t seed) {
            return same_choice(fused_shapes[1], 4, true, 8, seed, true);
        });
    fused_catches("fused_argmax_early",
                  [](uint64_t seed) { return same_token(4000, 3, 16, seed); });
}
