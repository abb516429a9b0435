/* test_gate_judge.c - judgement: right outputs pass in every type, outputs one step outside fail,
 * and the message says where. Also inference, power, and the comparison with an earlier
 * judgement. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "tests/gate/tiny_op.h"
#include "tools/report/result/judge_baseline.h"
#include "tools/judge/gate/case.h"
#include "tools/judge/gate/element.h"
#include "tools/judge/gate/judged.h"

/* Open choices: only in row 1, the second largest. */
static int open_in_row_one(const sb_gate_case *c, const sb_gate_arith *ar, size_t output, size_t i,
                           double got)
{
    (void)c, (void)ar;
    return output == 1 && i == 1 && got == 3.0;
}

static sb_gate_op with_ties(void)
{
    sb_gate_op op = *tiny_op();
    op.open = open_in_row_one;
    return op;
}

/* The bound of the op, widened a little: an interval of length 0 has no ends to test. */
static sb_status bound_with_room(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                                 sb_ball *const out[])
{
    sb_status status = tiny_op()->bound(c, in, ar, out);
    for (size_t i = 0; i < c->output[0].count; i++)
        out[0][i].rad += 0x1p-12;
    return status;
}

/* Gives the first value no bound if values are rounded to binary16. bound_by_much gives all values
 * useless bounds. */
static sb_status bound_by_nothing(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                                  sb_ball *const out[])
{
    sb_status status = bound_with_room(c, in, ar, out);
    if (ar->knobs.value[SB_KNOB_act] == SB_act_f16)
        out[0][0].rad = INFINITY;
    return status;
}

static sb_status bound_by_much(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                               sb_ball *const out[])
{
    sb_status status = tiny_op()->bound(c, in, ar, out);
    for (size_t i = 0; i < c->output[0].count; i++)
        out[0][i].rad = 1e30;
    return status;
}

static sb_gate_op with_room(void)
{
    sb_gate_op op = *tiny_op();
    op.bound = bound_with_room;
    return op;
}

static sb_gate_case *made(const sb_gate_op *op, const char *shape, const char *regime)
{
    sb_gate_request r = {.shape = shape, .regime = regime, .input = SB_DTYPE_F32, .seed = 42};
    sb_gate_case *c = NULL;
    sb_error err = {""};
    if (sb_gate_case_of(op, &r, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

static sb_gate_arith arith(const char *name)
{
    sb_gate_arith ar;
    sb_error err = {""};
    if (sb_gate_arith_of(name, &ar, &err))
        fail_msg("%s", err.text);
    return ar;
}

/* The bytes of an output of a kernel that computes profile exact, in a type. */
static unsigned char *encoded(const sb_gate_output *o, sb_dtype dtype)
{
    size_t width = sb_dtype_bits(dtype) / 8;
    unsigned char *bytes = calloc(o->count + 1, width);
    assert_non_null(bytes);
    for (size_t i = 0; i < o->count; i++) {
        uint64_t bits = o->kind == SB_GATE_VALUES ? sb_element_bits_of(dtype, o->exact[i])
                                                  : (uint64_t)o->exact[i];
        for (size_t b = 0; b < width; b++)
            bytes[i * width + b] = (unsigned char)(bits >> 8 * b);
    }
    return bytes;
}

static sb_gate_got got_of(const sb_gate_output *o, sb_dtype dtype)
{
    sb_gate_got g = {.dtype = dtype, .rank = o->rank, .data = encoded(o, dtype)};
    memcpy(g.shape, o->shape, sizeof g.shape);
    return g;
}

static void drop(const sb_gate_got *g)
{
    unsigned char *data;
    memcpy(&data, &g->data, sizeof data);
    free(data);
}

static unsigned char *at(const sb_gate_got *g, size_t byte)
{
    unsigned char *data;
    memcpy(&data, &g->data, sizeof data);
    return data + byte;
}

static sb_gate_result judged(const sb_gate_case *c, const char *name, const sb_gate_got *got)
{
    sb_gate_result r;
    sb_error err = {""};
    sb_gate_arith ar = arith(name);
    if (sb_gate_judge(c, &ar, got, &r, &err))
        fail_msg("%s", err.text);
    return r;
}

/* --- right outputs ---------------------------------------------------------------------------- */

TEST(a_right_output_passes_in_every_type)
{
    static const sb_dtype types[] = {SB_DTYPE_F32, SB_DTYPE_F64, SB_DTYPE_BF16, SB_DTYPE_F16};
    static const char *const ariths[] = {"exact", "fp32", "bf16_mma", "fp8_short"};
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    for (size_t t = 0; t < 4; t++)
        for (size_t a = 0; a < 4; a++) {
            sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], types[t]),
                                                got_of(&c->output[1], SB_DTYPE_I64)};
            sb_gate_result r = judged(c, ariths[a], got);
            assert_int_equal(r.verdict, SB_VERDICT_IDENTICAL);
            assert_int_equal(r.count, c->output[0].count + c->output[1].count);
            assert_int_equal(r.identical, r.count);
            assert_false(r.has_first);
            drop(&got[0]);
            drop(&got[1]);
        }
    sb_gate_case_free(c);
}

TEST(choices_are_read_in_every_type_of_whole_numbers)
{
    static const sb_dtype types[] = {SB_DTYPE_U8,  SB_DTYPE_I8,  SB_DTYPE_I16,
                                     SB_DTYPE_U16, SB_DTYPE_I32, SB_DTYPE_U32,
                                     SB_DTYPE_I64, SB_DTYPE_U64, SB_DTYPE_F8_E4M3};
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32),
                                            got_of(&c->output[1], types[t])};
        assert_int_equal(judged(c, "fp32", got).verdict, SB_VERDICT_IDENTICAL);
        *at(&got[1], 0) ^= 1;
        sb_gate_result r = judged(c, "fp32", got);
        assert_int_equal(r.verdict, SB_VERDICT_FAIL);
        assert_int_equal(r.output, 1);
        assert_non_null(strstr(r.words, "out.largest: row 0 is "));
        drop(&got[0]);
        drop(&got[1]);
    }
    sb_gate_case_free(c);
}

/* --- one step outside ------------------------------------------------------------------------- */

/* The first number of the type above real + bound fails, and the last one inside passes. */
TEST(the_ends_of_the_interval_decide)
{
    static const sb_dtype types[] = {SB_DTYPE_F32, SB_DTYPE_F64, SB_DTYPE_BF16, SB_DTYPE_F16};
    sb_gate_op op = with_room();
    sb_gate_case *c = made(&op, "rows=4,k=18", NULL);
    sb_gate_arith ar = arith("fp32");
    double *bound = calloc(c->output[0].count, sizeof *bound);
    assert_non_null(bound);
    assert_int_equal(sb_gate_bound(c, &ar, 0, bound, NULL), SB_OK);
    size_t i = 3 * 18 + 17;
    double real = c->output[0].real[i].hi, high = real + bound[i];
    assert_true(bound[i] > 0.0);
    for (size_t t = 0; t < 4; t++) {
        size_t width = sb_dtype_bits(types[t]) / 8;
        sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], types[t])};
        double inside = sb_element_round(types[t], high);
        if (types[t] == SB_DTYPE_F32 && inside > high)
            inside = (double)nextafterf((float)inside, -INFINITY);
        if (types[t] == SB_DTYPE_F64)
            inside = high - 0x1p-20 * bound[i];
        for (int outside = 0; outside < 2; outside++) {
            double x = inside;
            uint64_t bits =
                types[t] == SB_DTYPE_F64 ? sb_bits_f64(x) : sb_element_bits_of(types[t], (float)x);
            if (outside && types[t] == SB_DTYPE_F64)
                bits = sb_bits_f64(high + 0x1p-20 * bound[i]);
            else if (outside)
                bits = x < 0 ? bits - 1 : bits + 1;
            for (size_t b = 0; b < width; b++)
                *at(&got[0], i * width + b) = (unsigned char)(bits >> 8 * b);
            sb_gate_result r = judged(c, "fp32", got);
            assert_int_equal(r.verdict == SB_VERDICT_FAIL, outside);
            assert_int_equal(r.outside, outside);
            if (!outside)
                continue;
            assert_int_equal(r.first, i);
            assert_int_equal(r.index[0], 3);
            assert_int_equal(r.index[1], 17);
            assert_true(r.worst > 1.0 && r.expected == real && r.bound == bound[i]);
            assert_non_null(strstr(r.words, "first out: row 3, column 17 is "));
        }
        drop(&got[0]);
    }
    free(bound);
    sb_gate_case_free(c);
}

TEST(the_first_of_many_is_named)
{
    sb_gate_case *c = made(tiny_op(), "rows=4,k=18", NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    for (size_t i = 25; i < 30; i++)
        sb_store_u32(at(&got[0], 4 * i), sb_bits_f32(c->output[0].exact[i] + (float)i));
    sb_gate_result r = judged(c, "bf16_mma", got);
    assert_int_equal(r.outside, 5);
    assert_int_equal(r.first, 25);
    assert_non_null(strstr(
        r.words, "5 of 72 elements are outside of their bound; first out: row 1, column 7 is "));
    drop(&got[0]);
    sb_gate_case_free(c);
}

TEST(what_is_no_number_is_counted)
{
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_BF16)};
    sb_store_u16(at(&got[0], 2 * 5), 0x7fc0);
    sb_store_u16(at(&got[0], 2 * 6), 0x7f80);
    sb_store_u16(at(&got[0], 2 * 7), 0);
    *at(&got[0], 2 * 8 + 1) ^= 0x80;
    sb_gate_result r = judged(c, "fp32", got);
    assert_int_equal(r.verdict, SB_VERDICT_FAIL);
    assert_int_equal(r.outside, 4);
    assert_int_equal(r.of[0].nan, 1);
    assert_int_equal(r.of[0].infinite, 1);
    assert_int_equal(r.of[0].zero, 1);
    assert_int_equal(r.of[0].sign, 1);
    assert_true(isinf(r.worst));
    assert_non_null(strstr(r.words, "1 NaN, 1 infinite, 1 zero, 1 with the other sign"));
    drop(&got[0]);
    sb_gate_case_free(c);
}

/* -0 equals 0 within a bound, but has other bits. */
TEST(a_negative_zero_is_a_zero_but_to_the_bit)
{
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    c->output[0].exact[4] = 0.0f;
    c->output[0].real[4] = (sb_dd){0.0, 0.0};
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    sb_store_u32(at(&got[0], 16), 0x80000000u);
    sb_gate_result r = judged(c, "exact", got);
    assert_int_equal(r.verdict, SB_VERDICT_FAIL);
    assert_int_equal(r.first, 4);
    r = judged(c, "fp32", got);
    assert_int_equal(r.verdict, SB_VERDICT_WITHIN);
    assert_int_equal(r.identical, r.count - 1);
    drop(&got[0]);
    sb_gate_case_free(c);
}

/* --- shapes and types ------------------------------------------------------------------------- */

static void refused(const sb_gate_case *c, const sb_gate_got *got, const char *words)
{
    sb_gate_result r;
    sb_error err = {""};
    sb_gate_arith ar = arith("fp32");
    assert_int_equal(sb_gate_judge(c, &ar, got, &r, &err), SB_ERR_INPUT);
    if (!strstr(err.text, words))
        fail_msg("'%s' lacks '%s'", err.text, words);
}

TEST(other_shapes_and_types_are_refused)
{
    sb_gate_case *c = made(tiny_op(), "rows=4,k=6", NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    got[0].shape[0] = 6, got[0].shape[1] = 4;
    refused(c, got, "out: found the shape [6, 4], expected [4, 6] (row,column)");
    got[0].shape[0] = 2, got[0].shape[1] = 12;
    refused(c, got, "found the shape [2, 12]");
    got[0].shape[0] = 4, got[0].shape[1] = 7;
    refused(c, got, "found the shape [4, 7]");
    got[0].shape[1] = 6;
    got[0].dtype = SB_DTYPE_I32;
    refused(c, got, "out: found I32, expected F32, BF16, F16 or F64");
    got[0].dtype = SB_DTYPE_F32;
    got[1] = got_of(&c->output[1], SB_DTYPE_I32);
    got[1].dtype = SB_DTYPE_F32;
    refused(c, got, "out.largest: found F32, expected whole numbers");
    drop(&got[1]);
    got[1].data = NULL;
    drop(&got[0]);
    got[0].data = NULL;
    refused(c, got, "out: not found");
    sb_gate_case_free(c);
}

TEST(merged_and_split_axes_are_read_and_said)
{
    static const struct {
        unsigned rank;
        uint64_t shape[3];
    } shapes[] = {{1, {24}}, {3, {4, 2, 3}}, {3, {2, 2, 6}}, {3, {4, 1, 6}}, {3, {1, 4, 6}}};
    sb_gate_case *c = made(tiny_op(), "rows=4,k=6", NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        got[0].rank = shapes[i].rank;
        memcpy(got[0].shape, shapes[i].shape, sizeof shapes[i].shape);
        sb_gate_result r = judged(c, "fp32", got);
        assert_int_equal(r.verdict, SB_VERDICT_IDENTICAL);
        assert_non_null(strstr(r.note, "is read as [4, 6] (row,column)"));
    }
    drop(&got[0]);
    sb_gate_case_free(c);
}

TEST(an_open_choice_is_a_near_tie)
{
    sb_gate_op op = with_ties();
    sb_gate_case *c = made(&op, NULL, NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32),
                                        got_of(&c->output[1], SB_DTYPE_I32)};
    c->output[1].exact[1] = 2.0f;
    sb_store_u32(at(&got[1], 4), 3);
    sb_gate_result r = judged(c, "fp32", got);
    assert_int_equal(r.verdict, SB_VERDICT_NEAR_TIE);
    assert_int_equal(r.near_ties, 1);
    assert_int_equal(judged(c, "exact", got).verdict, SB_VERDICT_FAIL);
    sb_store_u32(at(&got[1], 4), 4);
    assert_int_equal(judged(c, "fp32", got).verdict, SB_VERDICT_FAIL);
    drop(&got[0]);
    drop(&got[1]);
    sb_gate_case_free(c);
}

/* V-110: "An element that the arithmetic does not bound is right only with the bits" */
TEST(what_has_no_bound_is_not_judged)
{
    static const sb_dtype types[] = {SB_DTYPE_F32, SB_DTYPE_BF16, SB_DTYPE_F16};
    static const float others[] = {99.0f, -1.0f, 0.0f, INFINITY};
    sb_gate_op op = with_room();
    op.bound = bound_by_nothing;
    sb_gate_case *c = made(&op, NULL, NULL);
    for (size_t t = 0; t < 3; t++) {
        sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], types[t])};
        size_t width = sb_dtype_bits(types[t]) / 8;
        assert_int_equal(judged(c, "fp32+f16", got).verdict, SB_VERDICT_IDENTICAL);
        for (size_t k = 0; k < 4; k++) {
            uint64_t bits = sb_element_bits_of(types[t], others[k]);
            for (size_t b = 0; b < width; b++)
                *at(&got[0], b) = (unsigned char)(bits >> 8 * b);
            sb_gate_result r = judged(c, "fp32+f16", got);
            assert_int_equal(r.verdict, SB_VERDICT_MISTRUSTED);
            assert_int_equal(r.unbounded, 1);
            assert_int_equal(r.of[0].unbounded, 1);
            assert_int_equal(r.outside, 0);
            assert_non_null(strstr(r.words, "1 of 60 elements have no bound under fp32+f16"));
            assert_int_equal(judged(c, "fp32+bf16", got).verdict, SB_VERDICT_FAIL);
        }
        uint64_t wrong = sb_element_bits_of(types[t], 99.0f);
        for (size_t b = 0; b < width; b++)
            *at(&got[0], width + b) = (unsigned char)(wrong >> 8 * b);
        assert_int_equal(judged(c, "fp32+f16", got).verdict, SB_VERDICT_FAIL);
        drop(&got[0]);
    }
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    sb_store_u32(at(&got[0], 0), sb_bits_f32(NAN));
    assert_int_equal(judged(c, "fp32+f16", got).verdict, SB_VERDICT_FAIL);
    drop(&got[0]);
    sb_gate_case_free(c);
}

/* --- inference and power ---------------------------------------------------------------------- */

static const char *inferred(const sb_gate_case *c, const sb_gate_got *got, sb_gate_arith *ar)
{
    sb_gate_result r;
    size_t row;
    sb_error err = {""};
    if (sb_gate_infer(c, got, &row, &r, &err))
        fail_msg("%s", err.text);
    assert_int_equal(row < sb_gate_arith_count(), r.verdict != SB_VERDICT_FAIL);
    if (row == sb_gate_arith_count())
        return NULL;
    assert_int_equal(sb_gate_arith_at(row, ar), SB_OK);
    return ar->name;
}

TEST(the_tightest_arithmetic_is_inferred)
{
    sb_gate_arith ar;
    sb_gate_point point[SB_KNOB_COUNT];
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    assert_string_equal(inferred(c, got, &ar), "exact");
    assert_int_equal(sb_gate_points(&ar, point), 0);
    for (size_t i = 0; i < c->output[0].count; i++)
        sb_store_u32(at(&got[0], 4 * i),
                     sb_bits_f32(sb_round_to(SB_FORMAT_bf16, c->output[0].exact[i])));
    const char *name = inferred(c, got, &ar);
    assert_non_null(name);
    assert_non_null(strstr(name, "+bf16"));
    size_t count = sb_gate_points(&ar, point), act = 0;
    for (size_t i = 0; i < count; i++)
        act += strcmp(point[i].knob, "act") == 0 && strcmp(point[i].value, "bf16") == 0;
    assert_int_equal(act, 1);
    assert_true(count > 1);
    sb_gate_result reduced;
    assert_int_equal(sb_gate_reduce(c, got, &ar, &reduced, NULL), SB_OK);
    assert_int_equal(sb_gate_points(&ar, point), 1); /* an addition has no other rounding points */
    assert_string_equal(point[0].knob, "act");
    sb_store_u32(at(&got[0], 0), sb_bits_f32(99.0f));
    assert_null(inferred(c, got, &ar));
    drop(&got[0]);
    sb_gate_case_free(c);
}

/* An arithmetic without a bound is never inferred. */
TEST(what_has_no_bound_is_not_inferred)
{
    sb_gate_arith ar;
    sb_gate_op op = with_room();
    op.bound = bound_by_nothing;
    sb_gate_case *c = made(&op, NULL, NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    sb_store_u32(at(&got[0], 0), sb_bits_f32(99.0f));
    assert_null(inferred(c, got, &ar));
    for (size_t i = 0; i < c->output[0].count; i++)
        sb_store_u32(at(&got[0], 4 * i),
                     sb_bits_f32(sb_round_to(SB_FORMAT_bf16, c->output[0].exact[i])));
    const char *name = inferred(c, got, &ar);
    assert_non_null(name);
    assert_non_null(strstr(name, "+bf16"));
    drop(&got[0]);
    sb_gate_case_free(c);
}

/* A mistake that shows only in an output which is not given does not count as detected. */
TEST(only_what_is_given_shows_mistakes)
{
    sb_gate_power all, some;
    sb_gate_arith ar = arith("fp32");
    sb_gate_op op = *tiny_op();
    op.bound = bound_by_much;
    sb_gate_case *c = made(&op, NULL, NULL);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    assert_int_equal(sb_gate_power_of(c, &ar, &all, NULL), SB_OK);
    assert_int_equal(sb_gate_power_in(c, &ar, got, &some, NULL), SB_OK);
    assert_true(all.of_ops_caught > 0);
    assert_false(all.zeros_pass);
    assert_int_equal(some.of_ops, all.of_ops);
    assert_int_equal(some.caught, 0);
    assert_true(some.zeros_pass);
    got[1] = got_of(&c->output[1], SB_DTYPE_U8);
    assert_int_equal(sb_gate_power_in(c, &ar, got, &some, NULL), SB_OK);
    assert_int_equal(some.of_ops_caught, all.of_ops_caught);
    drop(&got[0]);
    drop(&got[1]);
    sb_gate_case_free(c);
}

/* In binary16 the rows are zeros, so that the zeros of a kernel that wrote nothing pass, too. */
TEST(zeros_that_pass_are_mistrusted)
{
    sb_gate_request r = {.op = "l2norm", .regime = "least", .input = SB_DTYPE_BF16, .seed = 42};
    sb_gate_case *c = NULL;
    sb_gate_power p;
    assert_int_equal(sb_gate_case_make(&r, &c, NULL), SB_OK);
    sb_gate_got got[SB_GATE_OUTPUTS] = {got_of(&c->output[0], SB_DTYPE_F32)};
    memset(at(&got[0], 0), 0, 4 * c->output[0].count);
    sb_gate_arith ar = arith("fp32+f16");
    sb_gate_result result = judged(c, "fp32+f16", got);
    assert_int_equal(result.verdict, SB_VERDICT_WITHIN);
    assert_int_equal(sb_gate_power_in(c, &ar, got, &p, NULL), SB_OK);
    assert_true(p.of_ops_caught > 0);
    sb_gate_trust(c, &p, &result);
    assert_int_equal(result.verdict, SB_VERDICT_MISTRUSTED);
    assert_non_null(strstr(result.words, "zeros would pass"));
    drop(&got[0]);
    sb_gate_case_free(c);
}

TEST(planted_mistakes_are_shown_by_name)
{
    sb_gate_arith ar = arith("fp32");
    sb_gate_power p;
    sb_gate_result r = {.verdict = SB_VERDICT_WITHIN};
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    assert_int_equal(sb_gate_power_of(c, &ar, &p, NULL), SB_OK);
    assert_int_equal(p.of_ops, 6); /* residual_lost, and the faults of add */
    assert_int_equal(p.of_ops_caught, 6);
    assert_non_null(strstr(p.shown, "add.plus"));
    assert_non_null(strstr(p.shown, "residual_lost"));
    assert_non_null(strstr(p.shown, "one_percent_more"));
    assert_int_equal(p.caught, p.planted);
    assert_string_equal(p.missed, "");
    sb_gate_trust(c, &p, &r);
    assert_int_equal(r.verdict, SB_VERDICT_WITHIN);
    sb_gate_case_free(c);
}

/* Inputs of zeros detect no mistake, so that a pass with them is not trusted. */
TEST(inputs_that_show_nothing_are_mistrusted)
{
    sb_gate_arith ar = arith("fp32");
    sb_gate_power p;
    sb_gate_case *c = made(tiny_op(), NULL, NULL);
    for (size_t i = 0; i < c->arrays; i++)
        memset(c->array[i].data, 0, (size_t)c->array[i].bytes);
    assert_int_equal(sb_gate_case_expected(c, NULL), SB_OK);
    assert_int_equal(sb_gate_power_of(c, &ar, &p, NULL), SB_OK);
    assert_int_equal(p.of_ops_caught, 0);
    assert_non_null(strstr(p.missed, "residual_lost"));
    sb_gate_result r = {.verdict = SB_VERDICT_IDENTICAL}, failed = {.verdict = SB_VERDICT_FAIL};
    sb_gate_trust(c, &p, &r);
    assert_int_equal(r.verdict, SB_VERDICT_MISTRUSTED);
    sb_gate_trust(c, &p, &failed);
    assert_int_equal(failed.verdict, SB_VERDICT_FAIL);
    c->regime = SB_GATE_REGIME_zeros;
    r.verdict = SB_VERDICT_IDENTICAL;
    sb_gate_trust(c, &p, &r);
    assert_int_equal(r.verdict, SB_VERDICT_IDENTICAL);
    sb_gate_case_free(c);
}

/* --- rounding --------------------------------------------------------------------------------- */

/* Compares with the roundings of the formats. The cell of a number contains exactly the values that
 * are rounded to it. */
TEST(elements_are_rounded_as_their_formats_are)
{
    for (uint32_t i = 0; i < 0x10000; i += 3) {
        uint16_t code = (uint16_t)i;
        for (int half = 0; half < 2; half++) {
            sb_dtype dtype = half ? SB_DTYPE_F16 : SB_DTYPE_BF16;
            double x = half ? (double)sb_f16_to_f32(code) : (double)sb_bf16_to_f32(code);
            if (x != x)
                continue;
            assert_true(sb_element_round(dtype, x) == x);
            sb_cell cell = sb_element_cell(dtype, x);
            if (!isinf(x)) {
                double low = nextafter(cell.low, INFINITY), high = nextafter(cell.high, -INFINITY);
                assert_true(sb_element_round(dtype, low) == x);
                assert_true(sb_element_round(dtype, high) == x);
                assert_true(sb_element_round(dtype, nextafter(cell.low, -INFINITY)) < x);
                assert_true(sb_element_round(dtype, nextafter(cell.high, INFINITY)) > x);
            }
            float between = (float)x * 1.0007f;
            float rounded = sb_round_to(half ? SB_FORMAT_f16 : SB_FORMAT_bf16, between);
            assert_true(sb_element_round(dtype, (double)between) == (double)rounded);
        }
    }
    assert_true(isinf(sb_element_round(SB_DTYPE_F16, 65520.0)));
    assert_true(sb_element_round(SB_DTYPE_F16, 65519.0) == 65504.0);
    assert_true(isinf(sb_element_round(SB_DTYPE_F32, 0x1p300)));
    assert_true(sb_element_round(SB_DTYPE_F32, 0.1) == (double)0.1f);
}

/* --- since an earlier judgement --------------------------------------------------------------- */

static json_t *document(const char *text)
{
    json_t *d = NULL;
    sb_error err = {""};
    if (sb_judge_baseline_parse(text, strlen(text), "main.json", &d, &err))
        fail_msg("%s", err.text);
    return d;
}

#define CASE(verdict, inputs, digest, rows, worst)                                                 \
    "{\"command\":\"judge\",\"cases\":[{\"name\":\"a\",\"verdict\":\"" verdict                     \
    "\",\"inputs\":\"" inputs "\",\"outputs\":[{\"name\":\"out\",\"digest\":\"" digest             \
    "\",\"rows\":[" rows "],\"worst\":" worst "}]}]}"

static sb_judge_change change(const char *before, const char *now)
{
    json_t *a = document(before), *b = document(now);
    sb_judge_change c;
    sb_error err = {""};
    if (sb_judge_baseline_compare(a, b, "main.json", &c, &err))
        fail_msg("%s", err.text);
    json_decref(a);
    json_decref(b);
    return c;
}

static const char *words_of(const sb_judge_change *c, size_t i)
{
    return json_string_value(json_object_get(json_array_get(c->rows, i), "what"));
}

TEST(what_changed_since_a_baseline_is_said)
{
    static const char good[] = CASE("WITHIN", "i", "d0", "\"0\",\"1\",\"2\"", "0.25");
    static const char other[] = CASE("WITHIN", "i", "d1", "\"0\",\"x\",\"y\"", "0.5");
    static const char bad[] = CASE("FAIL", "i", "d2", "\"x\",\"1\",\"2\"", "null");
    static const char empty[] = "{\"command\":\"judge\",\"cases\":[]}";
    sb_judge_change c = change(good, good);
    assert_int_equal(c.worse + c.better + c.changed + json_array_size(c.rows), 0);
    sb_judge_change_free(&c);
    c = change(good, other);
    assert_int_equal(c.worse, 0);
    assert_int_equal(c.changed, 1);
    assert_string_equal(words_of(&c, 0), "out: bits changed, at 2 of 3 indices of the first axis, "
                                         "first at 1; worst error / bound 0.5, was 0.25");
    sb_judge_change_free(&c);
    c = change(good, bad);
    assert_int_equal(c.worse, 1);
    assert_string_equal(words_of(&c, 0), "verdict FAIL, was WITHIN");
    assert_non_null(strstr(words_of(&c, 1), "worst error / bound infinite, was 0.25"));
    sb_judge_change_free(&c);
    c = change(bad, good);
    assert_int_equal(c.worse, 0);
    assert_int_equal(c.better, 1);
    sb_judge_change_free(&c);
    c = change(bad, bad);
    assert_int_equal(c.worse, 0);
    sb_judge_change_free(&c);
    c = change(good, empty);
    assert_int_equal(c.worse, 1);
    sb_judge_change_free(&c);
    c = change(empty, bad);
    assert_int_equal(c.worse, 0);
    assert_string_equal(words_of(&c, 0), "is new");
    sb_judge_change_free(&c);
}

TEST(a_baseline_of_other_inputs_or_of_anything_else_is_refused)
{
    static const char no_name_of_output[] = "{\"command\":\"judge\",\"cases\":[{\"name\":\"a\","
                                            "\"verdict\":\"FAIL\",\"outputs\":[{}],"
                                            "\"inputs\":\"\"}]}";
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "{\"command\":\"judge\",\"cases\":{}}",
                                      "{\"command\":\"check\",\"cases\":[]}",
                                      "{\"command\":\"judge\",\"cases\":[{\"name\":\"a\"}]}",
                                      "{\"command\":\"judge\",\"cases\":[1]}",
                                      no_name_of_output};
    sb_error err = {""};
    json_t *d = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sb_judge_baseline_parse(bad[i], strlen(bad[i]), "b.json", &d, &err),
                         SB_ERR_INPUT);
        assert_non_null(strstr(err.text, "b.json: "));
    }
    json_t *a = document(CASE("WITHIN", "i", "d", "", "1")),
           *b = document(CASE("WITHIN", "j", "d", "", "1"));
    sb_judge_change c;
    assert_int_equal(sb_judge_baseline_compare(a, b, "b.json", &c, &err), SB_ERR_INPUT);
    assert_non_null(strstr(err.text, "case a has different inputs in this run"));
    json_decref(a);
    json_decref(b);
}
