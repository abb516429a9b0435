/* test_gpu_experts_bf16.cc - experts with inputs in bfloat16: a pair has the bits of a linear layer
 * with the expert's weight for this row. */
#include "tests/lib/suite.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "gpu/emu/count.h"
#include "gpu/kernel/experts_linear.cuh"
#include "gpu/kernel/pack.h"
#include "gpu/kernel/wide_launch.cuh"
#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "tests/gpu/linear_layers.h"
#include "tests/gpu/linear_model.h"
#include "tests/gpu/plant.h"
#include "tests/gpu/routing.h"

namespace
{

enum { EXPERTS = 8 };

struct experts {
    layer of[EXPERTS];
    sb_linear_shape shape;
    unsigned char *tiles;
    float factor[EXPERTS];
};

void open_experts(experts *e, layer_kind kind, uint32_t n, uint32_t k)
{
    memset(e, 0, sizeof *e);
    size_t bytes = 0;
    for (unsigned i = 0; i < EXPERTS; i++) {
        sb_linear_shape shape;
        assert_true(layer_draw(&e->of[i], kind, n, k, n * 1000 + k + i));
        assert_int_equal(sb_pack_shape(&e->of[i].matrix, &shape), SB_OK);
        e->factor[i] = shape.factor;
        e->shape = shape;
        bytes = sb_pack_tiles(shape) * shape.tile_bytes;
        if (i == 0)
            e->tiles = static_cast<unsigned char *>(room_for(EXPERTS, bytes));
        assert_int_equal(sb_pack_linear(&e->of[i].matrix, 0, bytes, e->tiles + i * bytes), SB_OK);
    }
}

void close_experts(experts *e)
{
    for (unsigned i = 0; i < EXPERTS; i++)
        layer_free(&e->of[i]);
    free(e->tiles);
}

uint64_t read_of_tiles; /* bytes of all experts' weights read by the last call */

/* NT: tiles of 8 pairs in a set; 16: the sets of sb_wide_kernel. */
template <int CODES, bool GROUPED, int NT>
bool multiply(const experts *e, const uint16_t *in, size_t rows, const routing *r, uint32_t each,
              uint64_t seed, float *out)
{
    emu_bench b(seed);
    const size_t places = rows * e->shape.chunks * SB_CHUNK, inputs = rows * e->shape.cols;
    float *wide = static_cast<float *>(room_for(inputs, 4));
    uint32_t *staged = static_cast<uint32_t *>(room_for(places / 2, 4));
    for (size_t i = 0; i < inputs; i++)
        wide[i] = sb_bf16_to_f32(in[i]);
    const uint32_t most = sb_route_most(r->pairs, r->experts, r->most);
    const size_t bytes = EXPERTS * sb_pack_tiles(e->shape) * e->shape.tile_bytes;
    const sb_routed_rows pairs = {b.in("order", r->order, r->pairs),
                                  b.in("begin", r->begin, r->experts + 1),
                                  b.in("sets", reinterpret_cast<const uint2 *>(r->sets), most),
                                  b.in("set count", &r->set_count, 1), each};
    sb_wide_layer<CODES, GROUPED, false> layer;
    layer.rows = e->shape.rows;
    layer.units = e->shape.chunks;
    layer.shape = e->shape;
    sb_emu_counts counts = {};
    sb_emu_region tiles;
    assert_int_equal(sb_emu_region_counted(&tiles, "tiles", e->tiles, bytes, SB_EMU_INPUT, &b.err),
                     SB_OK);
    layer.weight = sb_cast<const uint4>(sb_global<const unsigned char>(&tiles));
    const auto x = b.out("staged", staged, places / 2);
    layer.inputs = x;
    layer.factor = b.in("factor", e->factor, EXPERTS);
    const auto to = b.out("out", out, static_cast<size_t>(r->pairs) * e->shape.rows);
    EMU_RUN(b, sb_expert_stage<float>, static_cast<unsigned>((places / 2 + 255) / 256), 256, 0,
            b.in("in", wide, inputs), sb_global<const uint32_t>(nullptr), x, e->shape,
            static_cast<uint32_t>(rows));
    const dim3 grid(static_cast<unsigned>(sb_pack_tiles(e->shape)), most);
    sb_emu_count(b.queue.emu, &counts);
    sb_status status;
    if constexpr (NT * SB_TILE_INPUTS == SB_WIDE_ROWS)
        status = SB_LAUNCH(&b.queue, (sb_wide_kernel<decltype(layer), sb_routed_rows, float>),
                           sb_wide_grid(e->shape.rows, most), SB_LINEAR_THREADS,
                           sb_wide_bytes(CODES, GROUPED), layer, pairs, to, 0u);
    else
        status = SB_LAUNCH(
            &b.queue, (sb_tile_kernel<sb_expert_linear<CODES, GROUPED>, NT, sb_routed_rows, float>),
            grid, SB_TILE_THREADS, sb_tile_bytes(NT),
            sb_tile_alone(static_cast<sb_expert_linear<CODES, GROUPED> &>(layer), to), pairs, 0u);
    sb_emu_count(b.queue.emu, nullptr);
    sb_emu_region_close(&tiles);
    read_of_tiles = sb_emu_counted(&counts, nullptr, "tiles").read;
    const bool done = b.ran(status) && b.complete();
    free(wide);
    free(staged);
    return done;
}

/* Compares every pair with docs/gpu-linear.md. */
bool pairs_as_model(const experts *e, const uint16_t *in, const routing *r, uint32_t each,
                    const float *out)
{
    const uint32_t n = e->shape.rows, k = e->shape.cols;
    float x[1024], want[256];
    for (uint32_t p = 0; p < r->pairs; p++) {
        for (uint32_t i = 0; i < k; i++)
            x[i] = sb_bf16_to_f32(in[static_cast<size_t>(p / each) * k + i]);
        assert_true(linear_model(&e->of[r->ids[p]].matrix, x, 1, 0, want));
        if (memcmp(want, out + static_cast<size_t>(p) * n, n * sizeof *want) != 0)
            return false;
    }
    return true;
}

template <int CODES, bool GROUPED>
void check_kind(layer_kind kind, uint32_t rows, uint32_t kept, uint64_t seed, const char *fault)
{
    static experts e;
    const uint32_t n = 24, k = 320, pairs = rows * kept;
    open_experts(&e, kind, n, k);
    assert_int_equal(e.shape.codes, CODES);
    assert_int_equal(e.shape.parts != 0, GROUPED);
    uint16_t *in = static_cast<uint16_t *>(room_for(static_cast<size_t>(pairs) * k, 2));
    float *few = static_cast<float *>(room_for(static_cast<size_t>(pairs) * n, 4));
    float *many = static_cast<float *>(room_for(static_cast<size_t>(pairs) * n, 4));
    for (size_t i = 0; i < static_cast<size_t>(pairs) * k; i++)
        in[i] = sb_f32_to_bf16(sb_rng_normal(seed + 5, i));
    for (uint32_t each : {kept, 1u}) {
        routing small = draw_routing(pairs, EXPERTS, 16, seed % 4, seed);
        routing large = draw_routing(pairs, EXPERTS, 64, seed % 4, seed);
        assert_true(route(&small, seed) && route(&large, seed));
        plant(fault);
        const bool done =
            multiply<CODES, GROUPED, 2>(&e, in, pairs / each, &small, each, seed, few);
        plant("");
        assert_int_equal(done && pairs_as_model(&e, in, &small, each, few), !*fault);
        if (!*fault) {
            const size_t bytes = static_cast<size_t>(pairs) * n * sizeof *few;
            assert_true(
                (multiply<CODES, GROUPED, 8>(&e, in, pairs / each, &large, each, seed, many)));
            assert_memory_equal(few, many, bytes);
            routing most = draw_routing(pairs, EXPERTS, SB_WIDE_ROWS, seed % 4, seed);
            assert_true(route(&most, seed));
            assert_true(
                (multiply<CODES, GROUPED, 16>(&e, in, pairs / each, &most, each, seed, many)));
            assert_memory_equal(few, many, bytes);
            drop_routing(&most);
        }
        drop_routing(&small);
        drop_routing(&large);
    }
    free(in);
    free(few);
    free(many);
    close_experts(&e);
}

TEST(test_kinds)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        const uint32_t rows[] = {1, 9, 3, 17, 40};
        check_kind<SB_CODES_bf16, false>(LAYER_bf16, rows[seed], 2, seed, "");
        check_kind<SB_CODES_nvfp4, false>(LAYER_nvfp4_ct, rows[seed], 2, seed, "");
        check_kind<SB_CODES_e4m3, true>(LAYER_fp8_block, rows[seed], 2, seed, "");
        check_kind<SB_CODES_u4, true>(LAYER_awq, rows[seed], 2, seed, "");
    }
}

/* Y-66: "A set reads each code of its expert's weights once." So does a call of up to 8 rows, in
 * which the pairs of an expert form one set. Experts that no row chose are not read. */
TEST(test_passes)
{
    static experts e;
    const uint32_t n = 24, k = 320, kept = 3;
    open_experts(&e, LAYER_bf16, n, k);
    static uint16_t in[8 * k];
    static float out[8 * kept * n];
    const uint64_t one = sb_pack_tiles(e.shape) * e.shape.tile_bytes;
    for (uint32_t rows = 1; rows <= 8; rows++) {
        routing r = draw_routing(rows * kept, EXPERTS, SB_TILE_INPUTS, 0, rows);
        uint32_t used = 0;
        for (uint32_t p = 0; p < rows * kept; p++) /* the experts of a row differ */
            r.ids[p] = (p / kept * (rows % 2 ? 0 : 1) + p % kept) % (EXPERTS - 1);
        for (uint32_t x = 0; x < EXPERTS; x++) {
            bool here = false;
            for (uint32_t p = 0; p < rows * kept; p++)
                here = here || r.ids[p] == x;
            used += here;
        }
        assert_true(route(&r, rows));
        assert_true((multiply<SB_CODES_bf16, false, 1>(&e, in, rows, &r, kept, rows, out)));
        assert_int_equal(read_of_tiles, used * one);
        drop_routing(&r);
    }
    close_experts(&e);
}

/* One expert with 260 pairs, one with a set and one more pair, one that fills a set, one with one
 * pair, and four without pairs. */
template <int CODES, bool GROUPED> void check_uneven(layer_kind kind, const char *fault)
{
    static const uint32_t of[EXPERTS] = {0, 260, 1, 0, 129, 0, 128, 0};
    static experts e;
    const uint32_t n = 136, k = 160, pairs = 518;
    open_experts(&e, kind, n, k);
    assert_int_equal(e.shape.parts != 0, GROUPED);
    uint16_t *in = static_cast<uint16_t *>(room_for(static_cast<size_t>(pairs) * k, 2));
    float *few = static_cast<float *>(room_for(static_cast<size_t>(pairs) * n, 4));
    float *many = static_cast<float *>(room_for(static_cast<size_t>(pairs) * n, 4));
    for (size_t i = 0; i < static_cast<size_t>(pairs) * k; i++)
        in[i] = sb_f32_to_bf16(sb_rng_normal(7, i));
    routing small = draw_routing(pairs, EXPERTS, 64, 0, 1);
    routing large = draw_routing(pairs, EXPERTS, SB_WIDE_ROWS, 0, 1);
    uint32_t left[EXPERTS];
    memcpy(left, of, sizeof left);
    for (uint32_t p = 0, next = 0; p < pairs; p++, next++) {
        while (!left[next % EXPERTS])
            next++;
        left[next % EXPERTS]--;
        small.ids[p] = large.ids[p] = next % EXPERTS;
    }
    assert_true(route(&small, 1) && route(&large, 2));
    assert_int_equal(large.set_count, 3 + 1 + 2 + 1);
    assert_true((multiply<CODES, GROUPED, 8>(&e, in, pairs, &small, 1, 1, few)));
    plant(fault);
    const bool done = multiply<CODES, GROUPED, 16>(&e, in, pairs, &large, 1, 2, many);
    plant("");
    assert_int_equal(done && memcmp(few, many, static_cast<size_t>(pairs) * n * 4) == 0, !*fault);
    drop_routing(&small);
    drop_routing(&large);
    free(in);
    free(few);
    free(many);
    close_experts(&e);
}

TEST(test_uneven)
{
    check_uneven<SB_CODES_nvfp4, false>(LAYER_nvfp4_ct, "");
    check_uneven<SB_CODES_e4m3, true>(LAYER_fp8_block, "");
    check_uneven<SB_CODES_e4m3, false>(LAYER_fp8_channel, "");
    check_uneven<SB_CODES_u8, false>(LAYER_int8_channel, "");
    check_uneven<SB_CODES_u4, true>(LAYER_awq, "");
    check_uneven<SB_CODES_nvfp4, false>(LAYER_nvfp4_ct, "wide_wait");
    check_uneven<SB_CODES_nvfp4, false>(LAYER_nvfp4_ct, "wide_rows");
    check_uneven<SB_CODES_nvfp4, false>(LAYER_nvfp4_ct, "experts_tile");
}

TEST(test_faults)
{
    for (const char *fault : {"experts_tile", "tile_tail", "tile_barrier", "linear_lanes"})
        check_kind<SB_CODES_bf16, false>(LAYER_bf16, 5, 2, 0, fault);
    check_kind<SB_CODES_nvfp4, false>(LAYER_nvfp4_ct, 5, 2, 0, "linear_scales");
}

} // namespace
