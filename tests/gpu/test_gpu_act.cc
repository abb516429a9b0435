/* test_gpu_act.cc - inputs in E4M3 and E2M1: the kernels give the codes and scales of the
 * reference, bit for bit. */
#include "tests/gpu/emu_bench.h"
#include "tests/gpu/plant.h"
#include "tests/gpu/schedules.h"

#include <initializer_list>
#include <stdlib.h>
#include <string.h>

#include "gpu/kernel/act_quant.cuh"
#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"
#include "ref/ops/act_group.h"
#include "tests/lib/suite.h"

namespace
{

struct room {
    uint16_t *in;
    uint32_t *codes;
    float *y;
    uint8_t *scales;
    size_t rows;
    sb_lowbit_shape shape;
    sb_knobs knobs;
    sb_factor factor;
};

room make(size_t rows, uint32_t cols, uint32_t bits, uint32_t unit, const char *profile)
{
    room r = room();
    r.rows = rows;
    r.shape = sb_lowbit_shape_of(1, cols, bits, unit);
    r.in = static_cast<uint16_t *>(calloc(rows * cols, 2));
    r.codes = static_cast<uint32_t *>(calloc(rows * sb_lowbit_words(r.shape), 4));
    r.y = static_cast<float *>(calloc(rows * sb_lowbit_scales(r.shape), 4));
    r.scales = static_cast<uint8_t *>(calloc(rows * sb_lowbit_scale_words(r.shape), 4));
    assert_true(r.in && r.codes && r.y && r.scales);
    assert_int_equal(sb_knobs_profile(&r.knobs, profile, NULL), SB_OK);
    return r;
}

void drop(room *r)
{
    free(r->in);
    free(r->codes);
    free(r->y);
    free(r->scales);
}

float value_of(uint16_t bits)
{
    return sb_f32_from_bits(static_cast<uint32_t>(bits) << 16);
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* A bfloat16 of one kind: ordinary, with any finite bits, tiny, huge, few digits (ties), or zero.
 * In kind 6, one in a thousand is not finite. */
uint16_t drawn(uint64_t key, uint64_t i, unsigned kind)
{
    const uint64_t bits = sb_rng_u64(key, i);
    const uint16_t sign = static_cast<uint16_t>(bits >> 63 << 15);
    const uint16_t tail = bits >> 8 & 0x7f;
    switch (kind) {
    case 0:
        return sb_f32_to_bf16(sb_rng_normal(key, i));
    case 1:
        return static_cast<uint16_t>(sign | bits % 0x7f80);
    case 2:
        return static_cast<uint16_t>(sign | bits % 0x200);
    case 3:
        return static_cast<uint16_t>(sign | (0x7f00 + tail));
    case 4:
        return sb_f32_to_bf16(static_cast<float>(static_cast<int>(bits % 25) - 12) * 0.25f);
    case 5:
        return bits % 3 ? sign : static_cast<uint16_t>(sign | 0x3f80);
    default:
        return bits % 1000 == 7 ? static_cast<uint16_t>(sign | 0x7f80 | tail % 2)
                                : sb_f32_to_bf16(sb_rng_normal(key, i) * 3.0f);
    }
}

void draw(room *r, uint64_t seed)
{
    const size_t cols = r->shape.cols;
    for (size_t i = 0; i < r->rows * cols; i++)
        r->in[i] = drawn(sb_rng_key(seed, "act"), i, static_cast<unsigned>((i / cols + seed) % 7));
}

/* --- the kernels ------------------------------------------------------------------------------ */
template <sb_act_form FORM> void run_fp8(room *r, uint64_t seed)
{
    emu_bench b(seed);
    const uint32_t groups = static_cast<uint32_t>(r->rows) * sb_lowbit_scales(r->shape);
    const float inverse = 1.0f / sb_factor_multiplier(r->factor);
    EMU_RUN(b, (sb_act_fp8_kernel<FORM, uint16_t>), (groups + 7) / 8, SB_ACT_THREADS, 0,
            b.in("in", r->in, r->rows * r->shape.cols),
            b.out("codes", r->codes, r->rows * sb_lowbit_words(r->shape)), b.out("y", r->y, groups),
            r->shape, static_cast<uint32_t>(r->rows), inverse);
    assert_true(b.complete());
}

void run_fp4(room *r, uint64_t seed)
{
    emu_bench b(seed);
    const size_t groups = r->rows * sb_lowbit_scale_words(r->shape) * 4;
    EMU_RUN(b, sb_act_fp4_kernel<uint16_t>,
            static_cast<unsigned>((groups + SB_ACT_THREADS - 1) / SB_ACT_THREADS), SB_ACT_THREADS,
            0, b.in("in", r->in, r->rows * r->shape.cols),
            b.out("codes", r->codes, r->rows * sb_lowbit_words(r->shape)),
            b.out("scales", r->scales, groups), r->shape, static_cast<uint32_t>(r->rows),
            sb_factor_divisor(r->factor));
    assert_true(b.complete());
}

/* --- comparison with the reference ------------------------------------------------------------ */
struct wanted {
    uint8_t codes[70000];
    float x[70000];
    float scale;
    bool finite;
};

void want(const room *r, sb_format format, void (*quantize)(sb_act_group *), size_t first, size_t n,
          wanted *out)
{
    sb_act_group g = sb_act_group();
    g.knobs = &r->knobs;
    g.x = out->x;
    g.n = n;
    g.input = r->factor;
    g.format = format;
    g.codes = out->codes;
    out->finite = true;
    for (size_t i = 0; i < n; i++) {
        out->x[i] = value_of(r->in[first + i]);
        const float size = sb_f32_from_bits(sb_bits_f32(out->x[i]) & 0x7fffffff);
        out->finite = out->finite && sb_is_finite_f32(size);
        g.amax = size > g.amax ? size : g.amax;
    }
    if (out->finite)
        quantize(&g);
    out->scale = g.scale;
}

/* Also compares the words of a row beyond its columns, and groups that are not finite. */
bool fp8_as_reference(const room *r, void (*quantize)(sb_act_group *))
{
    static wanted w;
    const size_t cols = r->shape.cols, groups = sb_lowbit_scales(r->shape);
    const size_t bytes = 4 * sb_lowbit_words(r->shape) / groups;
    for (size_t i = 0; i < r->rows * groups; i++) {
        const size_t first = i % groups * r->shape.unit, left = cols - first;
        const size_t n = r->shape.grouped && r->shape.unit < left ? r->shape.unit : left;
        want(r, SB_FORMAT_e4m3, quantize, i / groups * cols + first, n, &w);
        const uint8_t *codes = reinterpret_cast<const uint8_t *>(r->codes) + i * bytes;
        for (size_t k = 0; k < bytes; k++)
            if (codes[k] != (k >= n ? 0 : w.finite ? w.codes[k] : 0x7f))
                return false;
        if (sb_bits_f32(r->y[i]) != sb_bits_f32(w.finite ? w.scale : 1.0f))
            return false;
    }
    return true;
}

bool fp4_as_reference(const room *r)
{
    static wanted w;
    const size_t cols = r->shape.cols, groups = 4 * sb_lowbit_scale_words(r->shape);
    for (size_t i = 0; i < r->rows * groups; i++) {
        const size_t first = i % groups * 16, left = first < cols ? cols - first : 0;
        const size_t n = left < 16 ? left : 16;
        const uint8_t *codes = reinterpret_cast<const uint8_t *>(r->codes) + 8 * i;
        want(r, SB_FORMAT_e2m1, sb_act_nvfp4, i / groups * cols + first, n, &w);
        if (r->scales[i] != (n == 0 ? 0 : w.finite ? sb_f32_to_e4m3(w.scale) : 0x7f))
            return false;
        for (size_t k = 0; k < 16; k++)
            if ((codes[k / 2] >> 4 * (k % 2) & 15) != (k < n && w.finite ? w.codes[k] : 0))
                return false;
    }
    return true;
}

/* --- tests ------------------------------------------------------------------------------------ */
TEST(test_fp8_group)
{
    const struct {
        size_t rows;
        uint32_t cols, unit;
    } shapes[] = {{7, 256, 128}, {9, 320, 128}, {3, 96, 128}, {16, 320, 96}, {1, 130, 100}};
    for (const auto &s : shapes)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
            room r = make(s.rows, s.cols, 8, s.unit, "sm121-w8a8");
            draw(&r, seed);
            run_fp8<SB_ACT_group>(&r, seed);
            assert_true(fp8_as_reference(&r, sb_act_fp8_group));
            drop(&r);
        }
}

TEST(test_fp8_token)
{
    for (uint32_t cols : {96u, 320u, 1000u})
        for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
            room r = make(9, cols, 8, 0, "sm121-w8a8");
            draw(&r, seed);
            run_fp8<SB_ACT_token>(&r, seed);
            assert_true(fp8_as_reference(&r, sb_act_fp8_token));
            drop(&r);
        }
}

/* Every finite bfloat16, with scales of all sizes, and as the largest value of its row. */
TEST(test_fp8_exhaustive)
{
    const uint16_t largest[] = {0x7f7f, 0x43e0, 0x3f80, 0x2edc, 0x0001, 0x0000};
    for (uint16_t most : largest) {
        room r = make(1, 2 * (most + 1u), 8, 0, "sm121-w8a8");
        for (uint32_t i = 0; i < r.shape.cols; i++)
            r.in[i] = static_cast<uint16_t>(i % 2 << 15 | i / 2);
        run_fp8<SB_ACT_token>(&r, 1);
        assert_true(fp8_as_reference(&r, sb_act_fp8_token));
        const float scales[] = {1.0f, 0x1p-9f, 0.003f, 1e-30f, 1e30f, 0x1p-140f, 0.0f};
        for (float scale : scales) {
            r.factor = {SB_MULTIPLIER, scale};
            run_fp8<SB_ACT_static>(&r, 2);
            assert_true(fp8_as_reference(&r, sb_act_fp8_static));
        }
        drop(&r);
    }
}

TEST(test_fp4)
{
    const sb_factor factors[] = {{SB_DIVISOR, 448.0f * 6.0f / 5.0f},
                                 {SB_MULTIPLIER, 0.0007f},
                                 {SB_DIVISOR, 1e20f},
                                 {SB_MULTIPLIER, 3e38f},
                                 {SB_DIVISOR, 1e-39f},
                                 {SB_MULTIPLIER, 0.0f}};
    for (uint32_t cols : {320u, 96u, 256u})
        for (uint64_t seed = 0; seed < SCHEDULES + 1; seed++) {
            room r = make(9, cols, 4, 0, "sm121-w4a4");
            r.factor = factors[seed];
            draw(&r, seed);
            run_fp4(&r, seed);
            assert_true(fp4_as_reference(&r));
            drop(&r);
        }
}

/* Every finite bfloat16 as the largest value of a group. The others are drawn below it, many of
 * them near the midpoint of two E2M1 values. */
TEST(test_fp4_exhaustive)
{
    const sb_factor factors[] = {
        {SB_DIVISOR, 611.0f}, {SB_MULTIPLIER, 0.0123f}, {SB_DIVISOR, 1.0f}};
    for (const sb_factor &factor : factors) {
        room r = make(255, 128 * 16, 4, 0, "sm121-w4a4");
        r.factor = factor;
        for (uint32_t i = 0; i < 255 * 128; i++)
            for (uint32_t k = 0; k < 16; k++) {
                const uint64_t bits = sb_rng_u64(5, i * 16 + k);
                const float tie = static_cast<float>(bits % 25) / 24.0f;
                const float size = value_of(static_cast<uint16_t>(i)) * (k ? tie : 1.0f);
                r.in[i * 16 + k] =
                    static_cast<uint16_t>(sb_f32_to_bf16(size) ^ (bits >> 40 & 1) << 15);
            }
        run_fp4(&r, 0);
        assert_true(fp4_as_reference(&r));
        drop(&r);
    }
}

/* The comparisons detect a wrong code, a wrong scale and a wrong byte of the padding. */
TEST(test_faults)
{
    room r = make(2, 320, 8, 128, "sm121-w8a8");
    draw(&r, 0);
    plant("act_padding");
    run_fp8<SB_ACT_group>(&r, 0);
    plant("");
    assert_false(fp8_as_reference(&r, sb_act_fp8_group));
    run_fp8<SB_ACT_group>(&r, 0);
    assert_true(fp8_as_reference(&r, sb_act_fp8_group));
    r.y[1] = sb_f32_from_bits(sb_bits_f32(r.y[1]) + 1);
    assert_false(fp8_as_reference(&r, sb_act_fp8_group));
    drop(&r);
    r = make(1, 64, 4, 0, "sm121-w4a4");
    r.factor = {SB_DIVISOR, 600.0f};
    draw(&r, 0);
    run_fp4(&r, 0);
    assert_true(fp4_as_reference(&r));
    r.codes[3] ^= 0x80000000u;
    assert_false(fp4_as_reference(&r));
    drop(&r);
}

} // namespace
