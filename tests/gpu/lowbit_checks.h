/* lowbit_checks.h - checks for every layer with quantized inputs: its sums are chains of atoms, bit
 * for bit, and near the exact sums; a row has the same bits in every position; and faults are
 * detected. */
#ifndef SB_TESTS_GPU_LOWBIT_CHECKS_H
#define SB_TESTS_GPU_LOWBIT_CHECKS_H

#include <initializer_list>

#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "tests/gpu/lowbit_layer.h"
#include "tests/gpu/schedules.h"
#include "tools/judge/bound/bound.h"

namespace
{

/* --- a plain chain of atoms ------------------------------------------------------------------- */

/* An input of one row, quantized by the reference: the values of its codes, and scales by
 * column. */
struct plain_input {
    float code[4096], scale[4096];
};

inline void plain_quantize(const test_layer *l, const uint16_t *in, plain_input *out)
{
    static uint8_t codes[4096];
    static float x[4096];
    const bool fp4 = l->scheme == SB_SCHEME_nvfp4, group = l->scheme == SB_SCHEME_fp8_group;
    const uint32_t cols = l->kind->cols, each = fp4 ? 16 : group ? l->shape.unit : cols;
    for (uint32_t first = 0; first < cols; first += each) {
        sb_act_group g = sb_act_group();
        g.knobs = &l->knobs;
        g.x = x;
        g.n = cols - first < each ? cols - first : each;
        g.input = l->kind->input;
        g.format = fp4 ? SB_FORMAT_e2m1 : SB_FORMAT_e4m3;
        g.codes = codes;
        bool finite = true;
        for (size_t i = 0; i < g.n; i++) {
            x[i] = sb_bf16_to_f32(in[first + i]);
            finite = finite && isfinite(x[i]);
            g.amax = fabsf(x[i]) > g.amax ? fabsf(x[i]) : g.amax;
        }
        if (finite)
            (fp4                                ? sb_act_nvfp4
             : group                            ? sb_act_fp8_group
             : l->scheme == SB_SCHEME_fp8_token ? sb_act_fp8_token
                                                : sb_act_fp8_static)(&g);
        for (size_t i = 0; i < g.n; i++) {
            out->code[first + i] = finite ? sb_code_to_f32(g.format, codes[i]) : NAN;
            out->scale[first + i] = finite ? g.scale : NAN;
        }
    }
}

/* The terms of one step for the columns of a unit. Missing columns are zero. */
inline float plain_step(const test_layer *l, const float *w, const float *s, const plain_input *x,
                        uint32_t first, uint32_t count, float sum)
{
    sb_atom_term terms[32];
    if (l->scheme != SB_SCHEME_nvfp4) {
        for (uint32_t i = 0; i < 32; i++)
            terms[i] = sb_atom_product(SB_FORMAT_e4m3, i < count ? w[first + i] : 0.0f,
                                       i < count ? x->code[first + i] : 0.0f);
        return sb_atom_run(&sb_atoms[SB_ATOM_sm120_fp8], terms, sum);
    }
    for (uint32_t q = 0; q < 4; q++) {
        int8_t a[16] = {0}, b[16] = {0};
        const uint32_t at = 16 * q;
        for (uint32_t i = 0; i < 16 && at + i < count; i++) {
            a[i] = static_cast<int8_t>(2.0f * w[first + at + i]);
            b[i] = static_cast<int8_t>(2.0f * x->code[first + at + i]);
        }
        terms[q] =
            sb_atom_group(&sb_atoms[SB_ATOM_sm120_nvfp4], a, b, at < count ? s[first + at] : 0.0f,
                          at < count ? x->scale[first + at] : 0.0f);
    }
    return sb_atom_run(&sb_atoms[SB_ATOM_sm120_nvfp4], terms, sum);
}

/* Output n of matrix m: chains of atoms over the units of each of 8 parts. The parts are added in
 * order (Y-52 to Y-54). */
inline float plain_output(const test_layer *l, uint32_t m, uint32_t n, const plain_input *x)
{
    static float w[4096], s[4096];
    const sb_matrix *matrix = &l->matrix[m];
    const bool group = l->scheme == SB_SCHEME_fp8_group, fp4 = l->scheme == SB_SCHEME_nvfp4;
    const uint32_t cols = l->kind->cols, unit = l->shape.unit, step = fp4 ? 64 : 32;
    sb_matrix_codes(matrix, n, 0, cols, w);
    for (uint32_t k = 0; k < cols; k++) {
        s[k] = sb_matrix_scale(matrix, n, k);
        if (!isfinite(w[k]) || !isfinite(s[k]) || !isfinite(x->code[k]) || !isfinite(x->scale[k]))
            return NAN;
    }
    float y = 0.0f;
    for (uint32_t part = 0; part < 8; part++) {
        float sum = 0.0f;
        for (uint32_t u = l->shape.units * part / 8; u < l->shape.units * (part + 1) / 8; u++) {
            const uint32_t first = u * unit, end = first + unit < cols ? first + unit : cols;
            float chain = group ? 0.0f : sum;
            for (uint32_t k = first; k < end; k += step)
                chain = plain_step(l, w, s, x, k, end - k < step ? end - k : step, chain);
            sum = group ? fmaf(chain * x->scale[first], s[first], sum) : chain;
        }
        y = part ? y + sum : sum;
    }
    if (!group && !fp4)
        y = y * x->scale[0] * s[0];
    return y * l->factor[m].x / l->factor[m].y;
}

/* Whether the outputs of `rows` inputs equal plain_output. */
inline bool as_chain(const test_layer *l, const uint16_t *in, size_t rows, uint32_t wide,
                     const float *out)
{
    static plain_input x;
    for (size_t t = 0; t < rows; t++) {
        plain_quantize(l, in + t * l->kind->cols, &x);
        for (uint32_t n = 0; n < l->kind->rows; n++) {
            const float y = plain_output(l, 0, n, &x);
            if (!same_or_nan(wide ? y : sb_round_to(SB_FORMAT_bf16, y), out[t * l->kind->rows + n]))
                return false;
        }
    }
    return true;
}

inline void draw_input(uint64_t seed, size_t count, uint16_t *in)
{
    const uint64_t key = sb_rng_key(seed, "input");
    for (size_t i = 0; i < count; i++)
        in[i] = sb_f32_to_bf16(sb_rng_normal(key, i) * (i / 64 % 5 == 3 ? 30.0f : 1.0f));
}

/* --- near the exact sum ----------------------------------------------------------------------- */

/* The largest distance between the binary32 outputs and the reference, in units of the bound of
 * T-52. 0: all are equal, which would prove little. */
inline double worst_of_bound(const test_layer *l, const uint16_t *in, size_t rows, const float *out)
{
    const size_t n = l->kind->rows, k = l->kind->cols;
    float *wide = static_cast<float *>(room_for(rows * k, 4));
    float *want = static_cast<float *>(room_for(rows * n, 4));
    sb_ball *ball = static_cast<sb_ball *>(room_for(2 * rows * n, sizeof(sb_ball)));
    double worst = 0.0;
    for (size_t i = 0; i < rows * k; i++)
        wide[i] = sb_bf16_to_f32(in[i]);
    const sb_linear_args args = {l->matrix, SB_LINEAR_head, wide, rows, want};
    assert_int_equal(sb_linear_fast(&l->knobs, &args), SB_OK);
    const sb_bound_side sides[2] = {{&sb_arithmetic_reference, NULL, ball},
                                    {sb_arithmetic_of("sm120"), NULL, ball + rows * n}};
    assert_int_equal(sb_bound_linear_sides(&l->knobs, &args, sides, 2), SB_OK);
    for (size_t i = 0; i < rows * n; i++) {
        const double bound = sb_ball_distance(ball[i], ball[rows * n + i]);
        const double off = fabs(static_cast<double>(out[i]) - static_cast<double>(want[i]));
        if (off > 0.0)
            worst = fmax(worst, off / bound);
    }
    free(wide);
    free(want);
    free(ball);
    return worst;
}

/* --- checks of a layer ------------------------------------------------------------------------ */
enum { MOST_ROWS = 65 };

struct check_room {
    uint16_t *in;
    float *out, *other;
};

inline check_room open_room(const test_layer *l, uint64_t seed)
{
    const size_t inputs = static_cast<size_t>(MOST_ROWS) * l->kind->cols;
    const size_t outputs = static_cast<size_t>(MOST_ROWS) * l->kind->rows;
    const check_room r = {static_cast<uint16_t *>(room_for(inputs, 2)),
                          static_cast<float *>(room_for(outputs, 4)),
                          static_cast<float *>(room_for(outputs, 4))};
    draw_input(seed, inputs, r.in);
    return r;
}

inline void close_room(check_room *r)
{
    free(r->in);
    free(r->out);
    free(r->other);
}

/* Every kind of layer, with few and with many rows, with ordinary and with extreme values. */
inline void check_chain(const lowbit_kind *kinds, size_t count)
{
    const size_t rows[] = {1, 3, 9, 16, 17, 8, 2};
    for (size_t i = 0; i < count; i++)
        for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
            const size_t some = rows[(i + seed) % (sizeof rows / sizeof *rows)];
            test_layer l = make_layer(&kinds[i], 1, seed, seed % 2, seed % 3 == 1);
            check_room r = open_room(&l, seed);
            const uint32_t wide = seed % 2;
            assert_true(multiply(&l, r.in, some, tiles_for(some), seed, wide, r.out));
            if (!as_chain(&l, r.in, some, wide, r.out))
                fail_msg("%s, seed %d: not the chain of atoms", kinds[i].name,
                         static_cast<int>(seed));
            close_room(&r);
            drop_layer(&l);
        }
}

/* Prints the largest fraction of the bound. For E2M1 with scales of similar size, no sum has more
 * bits than the unit keeps, so that all sums are exact. Therefore the scales are drawn from all
 * values. */
inline void check_bound(const lowbit_kind *kinds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool fp4 = !kinds[i].block_rows || kinds[i].block_cols == SB_LOWBIT_GROUP;
        test_layer l = make_layer(&kinds[i], 1, 7 + i, fp4, false);
        check_room r = open_room(&l, 3);
        assert_true(multiply(&l, r.in, 9, 2, i, 1, r.out));
        const double worst = worst_of_bound(&l, r.in, 9, r.out);
        plant("tile_tail");
        const bool done = multiply(&l, r.in, 9, 2, i, 1, r.out);
        plant("");
        const double wrong = done ? worst_of_bound(&l, r.in, 9, r.out) : 0.0;
        print_message("%s: %.4f of the bound; without the last unit %.3g\n", kinds[i].name, worst,
                      wrong);
        if (fp4 && kinds[i].cols == SB_LOWBIT_GROUP) /* Y-55: "the sum of one group is exact" */
            assert_true(worst == 0.0);
        else
            assert_true(worst > 0x1p-13 && worst <= SB_BOUND_SLACK);
        assert_true(!done || wrong > SB_BOUND_SLACK);
        close_room(&r);
        drop_layer(&l);
    }
}

/* Y-55: "its sum is what the model of the atom gives, instruction after instruction" */
inline void check_single(const lowbit_kind *kind)
{
    static plain_input x;
    static float w[4096], s[4096];
    test_layer l = make_layer(kind, 1, 61, true, false);
    check_room r = open_room(&l, 62);
    const uint32_t cols = kind->cols, step = l.shape.bits == 4 ? 64 : 32;
    assert_int_equal(l.shape.units, 1);
    assert_int_equal(l.shape.grouped, 0);
    assert_true(multiply(&l, r.in, 9, 2, 1, 1, r.out));
    for (uint32_t i = 0; i < 9 * kind->rows; i++) {
        float y = 0.0f;
        plain_quantize(&l, r.in + i / kind->rows * cols, &x);
        sb_matrix_codes(&l.matrix[0], i % kind->rows, 0, cols, w);
        for (uint32_t k = 0; k < cols; k++)
            s[k] = sb_matrix_scale(&l.matrix[0], i % kind->rows, k);
        for (uint32_t k = 0; k < cols; k += step)
            y = plain_step(&l, w, s, &x, k, cols - k < step ? cols - k : step, y);
        y = l.shape.bits == 4 ? y : y * x.scale[0] * s[0];
        assert_true(same_or_nan(y * l.factor[0].x / l.factor[0].y, r.out[i]));
    }
    close_room(&r);
    drop_layer(&l);
}

/* The bits of a row: alone and among others, in every position, in blocks of every size. */
inline void check_places(const lowbit_kind *kind)
{
    test_layer l = make_layer(kind, 1, 21, false, false);
    check_room r = open_room(&l, 22);
    const size_t k = kind->cols, n = kind->rows;
    uint16_t *some = static_cast<uint16_t *>(room_for(9 * k, 2));
    assert_true(multiply(&l, r.in, MOST_ROWS, 8, 1, 0, r.out));
    for (size_t rows : {16u, 17u, 64u}) {
        assert_true(multiply(&l, r.in, rows, tiles_for(rows), rows, 0, r.other));
        assert_memory_equal(r.out, r.other, rows * n * sizeof(float));
    }
    for (size_t width = 1; width <= 9; width++)
        for (size_t place = 0; place < width; place++) {
            for (size_t t = 0; t < width; t++)
                memcpy(some + t * k, r.in + (t == place ? 40 : (7 * t + width) % 40) * k, 2 * k);
            assert_true(multiply(&l, some, width, tiles_for(width), width, 0, r.other));
            assert_memory_equal(r.out + 40 * n, r.other + place * n, n * sizeof(float));
        }
    free(some);
    close_room(&r);
    drop_layer(&l);
}

/* With a fault in the kernel, the launch fails or the results differ from the chain. */
inline void check_fault(const lowbit_kind *kind, const char *fault)
{
    test_layer l = make_layer(kind, 1, 31, false, false);
    check_room r = open_room(&l, 32);
    for (uint64_t seed = 0; seed < SCHEDULES; seed++) {
        plant(fault);
        const bool done = multiply(&l, r.in, 3, 1, seed, 1, r.out);
        plant("");
        if (done && as_chain(&l, r.in, 3, 1, r.out))
            fail_msg("%s: %s is not seen", kind->name, fault);
        assert_true(multiply(&l, r.in, 3, 1, seed, 1, r.out));
        assert_true(as_chain(&l, r.in, 3, 1, r.out));
    }
    close_room(&r);
    drop_layer(&l);
}

/* An input that is not finite makes its row NaN, or one of the row's units, and changes no other
 * row. */
inline void check_poison(const lowbit_kind *kind)
{
    test_layer l = make_layer(kind, 1, 41, false, false);
    check_room r = open_room(&l, 42);
    r.in[2 * kind->cols + kind->cols / 2] = 0x7f80;
    r.in[4 * kind->cols] = 0xffc1;
    assert_true(multiply(&l, r.in, 6, 1, 0, 0, r.out));
    for (size_t i = 0; i < 6 * kind->rows; i++)
        assert_int_equal(isnan(r.out[i]) != 0, i / kind->rows == 2 || i / kind->rows == 4);
    assert_true(as_chain(&l, r.in, 6, 0, r.out));
    close_room(&r);
    drop_layer(&l);
}

} // namespace

#endif
