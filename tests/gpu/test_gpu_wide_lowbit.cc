/* test_gpu_wide_lowbit.cc - linear layers of many rows with quantized inputs: the bits of the
 * kernel for few rows, for sizes that no tile divides, and of a plain chain of atoms; counts of the
 * bytes read; planted faults. */
#include "gpu/emu/count.h"
#include "gpu/kernel/wide_lowbit.cuh"
#include "ref/formats/format.h"
#include "tests/gpu/lowbit_checks.h"
#include "tests/lib/suite.h"

namespace
{

const sb_factor none = {SB_NO_FACTOR, 0.0f}, static_input = {SB_MULTIPLIER, 0.043f};
const sb_factor by = {SB_DIVISOR, 3100.0f}, of_input = {SB_DIVISOR, 620.0f};

enum {
    BLOCKS_40,
    BLOCKS_136,
    BLOCKS_BY_100,
    BLOCKS_ONE,
    ROWS_24,
    ROWS_264,
    TENSOR,
    STATIC_INPUT,
    FP4_40,
    FP4_136,
    FP4_MULTIPLIERS,
    FP4_K16,
    KINDS
};
/* Fewer units than parts, more, as many, a single one, and more than shared memory holds; N below a
 * tile of 16, next to a block of 128, and beyond two. */
const lowbit_kind kinds[KINDS] = {
    {"blocks of 128, N 40", SB_CONTAINER_fp8_block, 40, 1280, 128, 128, none, none},
    {"blocks of 128, N 136", SB_CONTAINER_fp8_block, 136, 320, 128, 128, none, none},
    {"blocks of 16 by 100", SB_CONTAINER_fp8_block_ct, 33, 730, 16, 100, none, none},
    {"one block", SB_CONTAINER_fp8_block, 8, 112, 128, 128, none, none},
    {"a scale for each row, N 24", SB_CONTAINER_fp8_channel, 24, 1300, 1, 0, none, none},
    {"a scale for each row, N 264", SB_CONTAINER_fp8_channel, 264, 320, 1, 0, none, none},
    {"one scale", SB_CONTAINER_fp8_tensor, 16, 1024, 0, 0, none, none},
    {"one scale, an input scale", SB_CONTAINER_fp8_tensor, 40, 96, 0, 0, none, static_input},
    {"K 1104", SB_CONTAINER_nvfp4_ct, 40, 1104, 1, 16, by, of_input},
    {"N 136", SB_CONTAINER_nvfp4_ct, 136, 320, 1, 16, by, of_input},
    {"multipliers",
     SB_CONTAINER_nvfp4_modelopt,
     24,
     1024,
     1,
     16,
     {SB_MULTIPLIER, 0.0002f},
     {SB_MULTIPLIER, 0.0017f}},
    {"K 16", SB_CONTAINER_nvfp4_ct, 9, 16, 1, 16, by, of_input},
};

/* --- the kernel ------------------------------------------------------------------------------- */
/* The counts of a launch. */
struct reads {
    sb_emu_counts counts;
    sb_emu_region weights, inputs, weight_scales, input_scales;
};

template <bool GROUPED> void count_scales(sb_w8a8<GROUPED> *k, reads *r)
{
    k->scale = sb_global<const float>(&r->weight_scales);
    k->y = sb_global<const float>(&r->input_scales);
}
void count_scales(sb_w4a4 *k, reads *r)
{
    k->scale = sb_global<const uint32_t>(&r->weight_scales);
    k->in_scale = sb_global<const uint32_t>(&r->input_scales);
}

template <class LAYER>
sb_status start(emu_bench *e, const test_layer *l, const test_input *x, LAYER layer,
                sb_global<float> out, uint32_t wide, uint32_t most, reads *r)
{
    const uint32_t rows = static_cast<uint32_t>(x->rows);
    if (most == 1)
        return sb_wide_lowbit_launch<1>(&e->queue, layer, out, rows, wide);
    if (!r)
        return sb_wide_lowbit_launch(&e->queue, layer, out, rows, wide);
    const bool fp4 = l->shape.bits == 4;
    const struct {
        sb_emu_region *region;
        const char *name;
        void *at;
        size_t words;
    } all[] = {
        {&r->weights, "weights", l->codes, 4 * sb_lowbit_fragments(l->shape)},
        {&r->inputs, "inputs", x->codes, x->rows * sb_lowbit_words(l->shape)},
        {&r->weight_scales, "weight scales", l->packed_scales, sb_lowbit_weight_scales(l->shape)},
        {&r->input_scales, "input scales", fp4 ? static_cast<void *>(x->scales) : x->y,
         x->rows * (fp4 ? sb_lowbit_scale_words(l->shape) : sb_lowbit_scales(l->shape))}};
    for (const auto &one : all)
        assert_int_equal(sb_emu_region_counted(one.region, one.name, one.at, 4 * one.words,
                                               SB_EMU_INPUT, &e->err),
                         SB_OK);
    layer.weight = sb_global<const uint4>(&r->weights);
    layer.codes = sb_global<const uint32_t>(&r->inputs);
    count_scales(&layer, r);
    sb_emu_count(e->queue.emu, &r->counts);
    const sb_status status = sb_wide_lowbit_launch(&e->queue, layer, out, rows, wide);
    sb_emu_count(e->queue.emu, nullptr);
    for (const auto &one : all)
        sb_emu_region_close(one.region);
    return status;
}

/* out (rows, N) by blocks of many rows, even if sb_wide_takes would not choose them for so few
 * rows; false if the launch failed. most: 1 as for targets without the instruction. */
bool multiply_wide(const test_layer *l, const uint16_t *in, size_t rows, uint64_t seed,
                   uint32_t wide, float *out, uint32_t most = 2, reads *r = nullptr)
{
    test_input x;
    quantize(l, in, rows, seed, &x);
    bool done;
    {
        emu_bench e(seed);
        e.queue.dependent = true;
        const auto to = e.out("out", out, rows * l->kind->rows);
        const sb_status status =
            l->shape.bits == 4      ? start(&e, l, &x, w4a4_of(e, l, &x), to, wide, most, r)
            : l->shape.grouped != 0 ? start(&e, l, &x, w8a8_of<true>(e, l, &x), to, wide, most, r)
                                    : start(&e, l, &x, w8a8_of<false>(e, l, &x), to, wide, most, r);
        done = e.ran(status, l->kind->name) && e.complete();
    }
    drop_input(&x);
    return done;
}

/* --- the bits --------------------------------------------------------------------------------- */
struct pair_of_outputs {
    test_layer l;
    size_t rows, count;
    uint16_t *in;
    float *few, *many;
};

pair_of_outputs open_pair(const lowbit_kind *kind, size_t rows, uint64_t seed, bool any)
{
    pair_of_outputs p;
    const size_t k = kind->cols;
    p.l = make_layer(kind, 1, seed, any, seed % 3 == 1);
    p.rows = rows;
    p.count = rows * kind->rows;
    p.in = static_cast<uint16_t *>(room_for(rows * k, 2));
    p.few = static_cast<float *>(room_for(p.count, 4));
    p.many = static_cast<float *>(room_for(p.count, 4));
    draw_input(seed, rows * k, p.in);
    return p;
}

void close_pair(pair_of_outputs *p)
{
    drop_layer(&p->l);
    free(p->in);
    free(p->few);
    free(p->many);
}

/* The number of outputs that differ from those of the kernel for few rows. */
size_t differing(const pair_of_outputs *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        n += !same_or_nan(p->few[i], p->many[i]);
    return n;
}

void compare(const lowbit_kind *kind, size_t rows, uint64_t seed, uint32_t most = 2)
{
    pair_of_outputs p = open_pair(kind, rows, seed, seed % 2);
    const uint32_t wide = seed / 2 % 2;
    assert_true(multiply(&p.l, p.in, rows, 8, seed, wide, p.few));
    assert_true(multiply_wide(&p.l, p.in, rows, seed, wide, p.many, most));
    if (differing(&p))
        fail_msg("%s, %zu rows: %zu outputs of %zu differ", kind->name, rows, differing(&p),
                 p.count);
    close_pair(&p);
}

TEST(test_bits)
{
    static const size_t rows[] = {65, 128, 1, 129, 127, 66, 264};
    for (size_t i = 0; i < KINDS; i++) {
        compare(&kinds[i], rows[i % 7], i);
        compare(&kinds[i], rows[(i + 3) % 7], i + 1, 1);
    }
    compare(&kinds[FP4_40], 264, 3);
    compare(&kinds[TENSOR], 300, 2);
}

/* Compares both kernels with a plain program of Y-52 to Y-54, and with the bound of T-52. */
TEST(test_chain)
{
    for (size_t i = 0; i < KINDS; i++) {
        const bool fp4 = i >= FP4_40;
        pair_of_outputs p = open_pair(&kinds[i], 9, 40 + i, fp4);
        assert_true(multiply_wide(&p.l, p.in, 9, i, 1, p.many));
        assert_true(as_chain(&p.l, p.in, 9, 1, p.many));
        const double worst = worst_of_bound(&p.l, p.in, 9, p.many);
        assert_true(worst <= SB_BOUND_SLACK && (worst > 0.0 || i == FP4_K16));
        close_pair(&p);
    }
}

/* Zeros of both signs, infinities and NaN, in inputs and in scales of weights. */
TEST(test_hostile)
{
    for (const size_t kind : {BLOCKS_40, ROWS_24, FP4_40, STATIC_INPUT}) {
        pair_of_outputs p = open_pair(&kinds[kind], 70, 5, false);
        const size_t k = kinds[kind].cols, n = kinds[kind].rows;
        p.in[k + k / 2] = 0x7f80;
        p.in[2 * k + k - 1] = 0x7fc0;
        for (size_t i = 0; i < k; i++) {
            p.in[3 * k + i] = static_cast<uint16_t>(i % 2 << 15);
            p.in[66 * k + i] = 0x8000;
        }
        if (kind == FP4_40) {
            p.l.scales[4 * (k / 16) + 2] = 0x7f; /* a NaN in row 4 */
            repack(&p.l);
        }
        assert_true(multiply(&p.l, p.in, 70, 8, 1, 1, p.few));
        assert_true(multiply_wide(&p.l, p.in, 70, 1, 1, p.many));
        assert_int_equal(differing(&p), 0);
        assert_true(isnan(p.many[n]) && isnan(p.many[2 * n]) && !isnan(p.many[3 * n]));
        assert_int_equal(isnan(p.many[4]) != 0, kind == FP4_40);
        close_pair(&p);
    }
}

TEST(test_schedules)
{
    for (const size_t kind : {BLOCKS_40, FP4_40}) {
        pair_of_outputs p = open_pair(&kinds[kind], 70, 9, false);
        assert_true(multiply(&p.l, p.in, 70, 8, 0, 0, p.few));
        for (uint64_t seed = 1; seed <= SCHEDULES; seed++) {
            assert_true(multiply_wide(&p.l, p.in, 70, seed, 0, p.many));
            assert_int_equal(differing(&p), 0);
        }
        close_pair(&p);
    }
}

/* --- bytes read ------------------------------------------------------------------------------- */
/* Y-91: codes and scales of weights are read once for each 128 inputs, and those of inputs once for
 * each 128 rows of weights. If a row has one scale, it is looked up for each output. */
void expect_read(const lowbit_kind *kind, size_t rows)
{
    pair_of_outputs p = open_pair(kind, rows, 1, false);
    reads r = {};
    assert_true(multiply_wide(&p.l, p.in, rows, 0, 0, p.many, 2, &r));
    const sb_lowbit_shape &shape = p.l.shape;
    const uint64_t down = (kind->rows + 127) / 128, across = (rows + 127) / 128;
    const bool of_units = shape.bits == 4 || shape.grouped;
    const uint64_t weight_scales =
        of_units ? across * 4 * sb_lowbit_weight_scales(shape) : 4 * p.count;
    const uint64_t each = shape.bits == 4 ? sb_lowbit_scale_words(shape) : shape.units;
    const uint64_t input_scales = of_units ? down * rows * 4 * each : 4 * p.count;
    const auto counted = [&r](const char *name) {
        return sb_emu_counted(&r.counts, nullptr, name).read;
    };
    assert_int_equal(counted("weights"), across * 16 * sb_lowbit_fragments(shape));
    assert_int_equal(counted("inputs"), down * rows * 4 * sb_lowbit_words(shape));
    assert_int_equal(counted("weight scales"), weight_scales);
    assert_int_equal(counted("input scales"), input_scales);
    close_pair(&p);
}

TEST(test_read)
{
    expect_read(&kinds[BLOCKS_136], 140);
    expect_read(&kinds[ROWS_24], 130);
    expect_read(&kinds[FP4_136], 140);
    expect_read(&kinds[FP4_K16], 128);
}

/* --- the choice of the kernel ----------------------------------------------------------------- */
TEST(test_choice)
{
    for (const uint32_t bits : {4u, 8u}) {
        for (const uint32_t unit : {0u, 128u, 97u}) {
            const sb_lowbit_shape shape = sb_lowbit_shape_of(2048, 512, bits, bits == 8 ? unit : 0);
            assert_false(sb_wide_takes(shape, 64));
            assert_false(sb_wide_takes(shape, 384));
            assert_true(sb_wide_takes(shape, 385));
        }
    }
    for (const uint32_t unit : {96u, 129u, 16u, 256u}) /* the unit is no chunk of shared memory */
        assert_false(sb_wide_takes(sb_lowbit_shape_of(2048, 512, 8, unit), 4096));
    const sb_lowbit_shape shape = sb_lowbit_shape_of(2048, 1 << 14, 8, 0); /* 2^10 places per row */
    assert_true(sb_wide_takes(shape, (1 << 22) - 1));
    assert_false(sb_wide_takes(shape, 1 << 22));
    assert_true(sb_wide_fits(shape, 1, (1 << 11) - 1));
    assert_false(sb_wide_fits(shape, 1, 1 << 11));
}

/* Calls the op with 65 sets of inputs for one block of weights. */
void call_op(const test_layer *l, const float *in, size_t rows, float *out)
{
    const sb_linear_args args = {l->matrix, SB_LINEAR_head, in, rows, out};
    if (sb_backend_emu()->ops.linear(&l->knobs, &args) != SB_OK)
        fail_msg("%s", sb_backend_emu()->why());
}

void check_op(const lowbit_kind *kind)
{
    const size_t rows = 64 * SB_WIDE_ROWS + 9, k = kind->cols, n = kind->rows;
    test_layer l = make_layer(kind, 1, 3, true, false);
    float *in = static_cast<float *>(room_for(rows * k, 4));
    float *out = static_cast<float *>(room_for(rows * n, 4));
    float few[9 * 64];
    for (size_t i = 0; i < rows * k; i++)
        in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(8, i));
    for (const char *what : {"", "wide_rows"}) {
        bool same = true;
        plant(what);
        call_op(&l, in, rows, out);
        plant("");
        for (const size_t first : {size_t(0), size_t(4000), rows - 9}) {
            call_op(&l, in + first * k, 9, few);
            same = same && memcmp(few, out + first * n, 9 * n * sizeof *few) == 0;
        }
        assert_int_equal(same, !*what);
    }
    sb_gpu_forget(sb_backend_emu());
    free(in);
    free(out);
    drop_layer(&l);
}

TEST(test_op)
{
    check_op(&kinds[BLOCKS_ONE]);
    check_op(&kinds[FP4_K16]);
}

/* --- faults ----------------------------------------------------------------------------------- */
/* For E2M1 with scales of similar size, all sums are exact, so that a wrong order does not show. */
bool caught(size_t kind, const char *what)
{
    pair_of_outputs p = open_pair(&kinds[kind], 70, 2, kind >= FP4_40);
    assert_true(multiply(&p.l, p.in, 70, 8, 0, 1, p.few));
    bool seen = false;
    plant(what);
    for (uint64_t seed = 0; seed < 3 && !seen; seed++)
        seen = !multiply_wide(&p.l, p.in, 70, seed, 1, p.many) || differing(&p) != 0;
    plant("");
    close_pair(&p);
    return seen;
}

TEST(test_planted)
{
    for (const size_t kind : {BLOCKS_40, ROWS_24, FP4_40}) {
        assert_false(caught(kind, ""));
        for (const char *what : {"wide_wait", "wide_barrier", "wide_parts", "wide_rows",
                                 "wide_piece", "wide_cut", "lowbit_lanes"})
            if (!caught(kind, what))
                fail_msg("%s: %s is not seen", kinds[kind].name, what);
    }
    assert_true(caught(BLOCKS_40, "wide_scales"));
    assert_true(caught(BLOCKS_40, "wide_fold"));
    assert_true(caught(FP4_40, "wide_scales"));
    assert_true(caught(FP4_40, "w4a4_scales"));
    assert_false(caught(ROWS_24, "wide_scales")); /* without scales in shared memory */
    assert_false(caught(FP4_40, "wide_fold"));    /* its scales are multiplied inside the
                                                   * instruction */
}

} // namespace
