/* test_gpu_experts.cc - rows sorted by expert, and layers of experts for them, in the emulator. */
#include "gpu/kernel/wide_lowbit.cuh"
#include "ref/formats/format.h"
#include "tests/gpu/lowbit_checks.h"
#include "tests/gpu/routing.h"
#include "tests/lib/suite.h"

namespace
{

TEST(test_routing)
{
    const uint32_t pairs[] = {1, 8, 18, 72, 255, 257, 700};
    const uint32_t experts[] = {8, 16, 256, 33, 512, 1, 31};
    for (unsigned i = 0; i < 7; i++)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            for (uint32_t most : {16u, 64u}) {
                const unsigned kind = static_cast<unsigned>((seed + i) % 4);
                routing r = draw_routing(pairs[i], experts[i], most, kind, seed);
                assert_true(route(&r, seed));
                assert_true(routed_as_said(&r));
                drop_routing(&r);
            }
    routing r = draw_routing(300, 8, 16, 0, 0);
    plant("experts_order");
    assert_true(route(&r, 0));
    plant("");
    assert_false(routed_as_said(&r));
    assert_true(route(&r, 0) && routed_as_said(&r));
    const uint32_t one = r.order[0]; /* of the same expert, but in the wrong order */
    r.order[0] = r.order[1];
    r.order[1] = one;
    assert_false(routed_as_said(&r));
    drop_routing(&r);
}

/* --- layers ----------------------------------------------------------------------------------- */

template <class LAYER>
sb_status launch_wide(emu_bench &b, const LAYER &layer, const sb_routed_rows &pairs, uint32_t sets,
                      sb_global<float> out)
{
    return SB_LAUNCH(&b.queue, (sb_wide_lowbit_kernel<LAYER, sb_routed_rows, float>),
                     sb_wide_grid(layer.rows, sets), SB_LINEAR_THREADS, sb_wide_unit_bytes<LAYER>(),
                     layer, pairs, out, 0u);
}

/* NT: tiles of 8 pairs in a set; 16: the sets of Y-90. */
template <int NT>
sb_status launch_pairs(emu_bench &b, const test_layer *l, const test_input *x,
                       const sb_routed_rows &pairs, uint32_t sets, sb_global<float> out)
{
    if constexpr (NT < 16)
        return launch<NT>(b, l, x, pairs, sets, out, 0);
    else if (l->shape.bits == 4)
        return launch_wide(b, w4a4_of(b, l, x), pairs, sets, out);
    else if (l->shape.grouped)
        return launch_wide(b, w8a8_of<true>(b, l, x), pairs, sets, out);
    else
        return launch_wide(b, w8a8_of<false>(b, l, x), pairs, sets, out);
}

/* out is (pairs, N): for each pair, the product of its row with the matrix of its expert. */
template <int NT>
bool multiply_pairs(const test_layer *l, const uint16_t *in, size_t rows, const routing *r,
                    uint32_t each, uint64_t seed, float *out)
{
    test_input x;
    quantize(l, in, rows, seed, &x);
    bool done;
    {
        emu_bench b(seed);
        const uint32_t most = sb_route_most(r->pairs, r->experts, r->most);
        const sb_routed_rows pairs = {b.in("order", r->order, r->pairs),
                                      b.in("begin", r->begin, r->experts + 1),
                                      b.in("sets", reinterpret_cast<const uint2 *>(r->sets), most),
                                      b.in("set count", &r->set_count, 1), each};
        const auto to = b.out("out", out, static_cast<size_t>(r->pairs) * l->kind->rows);
        const sb_status status = launch_pairs<NT>(b, l, &x, pairs, most, to);
        done = b.ran(status, l->kind->name) && b.complete();
    }
    drop_input(&x);
    return done;
}

/* Compares every pair with a plain chain of atoms. */
bool pairs_as_chain(const test_layer *l, const uint16_t *in, const routing *r, uint32_t each,
                    const float *out)
{
    static plain_input x;
    for (uint32_t p = 0; p < r->pairs; p++) {
        plain_quantize(l, in + static_cast<size_t>(p / each) * l->kind->cols, &x);
        for (uint32_t n = 0; n < l->kind->rows; n++)
            if (!same_or_nan(sb_round_to(SB_FORMAT_bf16, plain_output(l, r->ids[p], n, &x)),
                             out[static_cast<size_t>(p) * l->kind->rows + n]))
                return false;
    }
    return true;
}

const sb_factor none = {SB_NO_FACTOR, 0.0f};
const lowbit_kind kinds[] = {
    {"W8A8, blocks", SB_CONTAINER_fp8_block, 32, 320, 128, 128, none, none},
    {"W8A8, rows", SB_CONTAINER_fp8_channel, 20, 96, 1, 0, none, none},
    {"W4A4", SB_CONTAINER_nvfp4_ct, 32, 96, 1, 16, {SB_DIVISOR, 3100.0f}, {SB_DIVISOR, 620.0f}},
};

/* Some of the matrices have their own factors. */
test_layer draw_experts(const lowbit_kind *kind, uint32_t experts, uint64_t seed)
{
    test_layer l = make_layer(kind, experts, seed, false, false);
    if (kind->container == SB_CONTAINER_nvfp4_ct)
        for (uint32_t i = 0; i < experts; i++)
            l.factor[i].y *= static_cast<float>(1 + i);
    return l;
}

/* One shape of a call: gate and up, whose pairs share rows, and down, whose pairs do not. */
void check_pairs(const lowbit_kind *kind, size_t rows, uint32_t kept, unsigned draw, uint64_t seed)
{
    const uint32_t experts = 8, pairs = static_cast<uint32_t>(rows) * kept;
    test_layer l = draw_experts(kind, experts, seed);
    const size_t inputs = static_cast<size_t>(pairs) * kind->cols;
    const size_t outputs = static_cast<size_t>(pairs) * kind->rows;
    uint16_t *in = static_cast<uint16_t *>(room_for(inputs, 2));
    float *few = static_cast<float *>(room_for(outputs, 4));
    float *many = static_cast<float *>(room_for(outputs, 4));
    draw_input(seed, inputs, in);
    for (uint32_t each : {kept, 1u}) {
        routing small = draw_routing(pairs, experts, 16, draw, seed);
        routing large = draw_routing(pairs, experts, 64, draw, seed);
        assert_true(route(&small, seed) && route(&large, seed));
        assert_true(multiply_pairs<2>(&l, in, pairs / each, &small, each, seed, few));
        assert_true(pairs_as_chain(&l, in, &small, each, few));
        assert_true(multiply_pairs<8>(&l, in, pairs / each, &large, each, seed, many));
        assert_memory_equal(few, many, outputs * sizeof(float));
        routing most = draw_routing(pairs, experts, SB_WIDE_ROWS, draw, seed);
        assert_true(route(&most, seed));
        assert_true(multiply_pairs<16>(&l, in, pairs / each, &most, each, seed, many));
        assert_memory_equal(few, many, outputs * sizeof(float));
        drop_routing(&small);
        drop_routing(&large);
        drop_routing(&most);
    }
    free(in);
    free(few);
    free(many);
    drop_layer(&l);
}

TEST(test_layers)
{
    const struct {
        size_t rows;
        uint32_t kept;
        unsigned draw;
    } calls[] = {{1, 2, 0}, {9, 2, 0}, {3, 8, 3}, {17, 3, 1}, {40, 2, 2}};
    for (const lowbit_kind &kind : kinds)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++)
            check_pairs(&kind, calls[seed].rows, calls[seed].kept, calls[seed].draw, seed);
}

/* One expert with 260 pairs, one with a set and one more pair, one that fills a set, one with one
 * pair, and four without pairs. */
void check_uneven(const lowbit_kind *kind, const char *fault)
{
    static const uint32_t of[8] = {0, 260, 1, 0, 129, 0, 128, 0};
    const uint32_t experts = 8, pairs = 518;
    test_layer l = draw_experts(kind, experts, 2);
    const size_t outputs = static_cast<size_t>(pairs) * kind->rows;
    uint16_t *in = static_cast<uint16_t *>(room_for(static_cast<size_t>(pairs) * kind->cols, 2));
    float *few = static_cast<float *>(room_for(outputs, 4));
    float *many = static_cast<float *>(room_for(outputs, 4));
    draw_input(6, static_cast<size_t>(pairs) * kind->cols, in);
    routing small = draw_routing(pairs, experts, 64, 0, 1);
    routing large = draw_routing(pairs, experts, SB_WIDE_ROWS, 0, 1);
    uint32_t left[8];
    memcpy(left, of, sizeof left);
    for (uint32_t p = 0, next = 0; p < pairs; p++, next++) {
        while (!left[next % experts])
            next++;
        left[next % experts]--;
        small.ids[p] = large.ids[p] = next % experts;
    }
    assert_true(route(&small, 1) && route(&large, 2));
    assert_int_equal(large.set_count, 3 + 1 + 2 + 1);
    assert_true(multiply_pairs<8>(&l, in, pairs, &small, 1, 1, few));
    plant(fault);
    const bool done = multiply_pairs<16>(&l, in, pairs, &large, 1, 2, many);
    plant("");
    assert_int_equal(done && memcmp(few, many, outputs * sizeof *few) == 0, !*fault);
    drop_routing(&small);
    drop_routing(&large);
    free(in);
    free(few);
    free(many);
    drop_layer(&l);
}

TEST(test_uneven)
{
    for (const lowbit_kind &kind : kinds)
        for (const char *fault : {"", "experts_tile", "wide_rows"})
            check_uneven(&kind, fault);
    check_uneven(&kinds[0], "wide_scales");
    check_uneven(&kinds[2], "wide_scales");
}

TEST(test_faults)
{
    for (const char *fault : {"experts_tile", "tile_tail", "tile_barrier", "lowbit_lanes"})
        for (const lowbit_kind &kind : kinds) {
            test_layer l = draw_experts(&kind, 8, 3);
            const size_t inputs = static_cast<size_t>(5) * kind.cols;
            uint16_t *in = static_cast<uint16_t *>(room_for(inputs, 2));
            float *out = static_cast<float *>(room_for(static_cast<size_t>(10) * kind.rows, 4));
            draw_input(4, inputs, in);
            routing r = draw_routing(10, 8, 16, 0, 5);
            assert_true(route(&r, 0));
            plant(fault);
            const bool done = multiply_pairs<2>(&l, in, 5, &r, 2, 1, out);
            plant("");
            if (done && pairs_as_chain(&l, in, &r, 2, out))
                fail_msg("%s: %s is not seen", kind.name, fault);
            drop_routing(&r);
            free(in);
            free(out);
            drop_layer(&l);
        }
}

} // namespace
