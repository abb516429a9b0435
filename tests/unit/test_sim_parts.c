/* test_sim_parts.c - the parts of simulated engines: functions, fused operations, reductions
 * against the bounds of T-2 and T-50 on difficult data, and the table of known knobs. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/ball.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/sim/arith.h"
#include "tools/judge/sim/sim.h"

enum { CASES = 200000 };

/* --- functions, in units of u of the result * ------------------------------------------------- */

static long double units(float got, long double want)
{
    return fabsl((long double)got - want) / (fabsl(want) * 0x1p-24L + 0x1p-126L);
}

static const sb_sim_arith wide = {.lanes = 1, .atom = NO_ATOM};

static const struct {
    const char *name;
    float (*f)(const sb_sim_arith *s, float x);
    long double (*want)(long double x);
    float low, high;
    long double most; /* in u */
} functions[] = {
    {"exp", sb_sim_exp, expl, -103.0f, 88.0f, 1.001L},
    {"log", sb_sim_log, logl, 1.001f, 4e30f, 1.001L},
    {"log1p", sb_sim_log1p, log1pl, -0.99f, 50.0f, 1.001L},
    {"sqrt", sb_sim_sqrt, sqrtl, 0.0f, 1e6f, 1.001L},
};

/* T-88: division by a ball that may contain 0. A radius below 0 would reject even the right
 * value. */
TEST(test_division_by_nearly_nothing)
{
    static const double radii[] = {0.5, 1, 2, 0x1p60};
    sb_knobs knobs;
    sb_error err = {""};
    assert_int_equal(sb_knobs_profile(&knobs, "sm121", &err), SB_OK);
    for (size_t i = 0; i < sizeof radii / sizeof *radii; i++) {
        sb_ball by = {1, radii[i]};
        sb_ball ball = sb_ball_div(&sb_arithmetic_library, sb_ball_of(3), by);
        double least = radii[i] < 1 ? 3 : 0x1p900; /* 3 / (1 - 0.5) is at a distance of 3 */
        assert_true(ball.rad >= least && (radii[i] >= 1 || ball.rad < 4));
        ball = sb_ball_act(&knobs, ball); /* rounded, too */
        assert_true(ball.rad >= least && ball.mid == ball.mid);
        assert_true(sb_ball_distance(ball, sb_ball_of(-1e30f)) >= least);
    }
}

TEST(test_functions)
{
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        uint64_t key = sb_rng_key(42, functions[f].name);
        for (uint64_t i = 0; i < CASES; i++) {
            float share = (float)sb_rng_below(key, i, 1u << 24) * 0x1p-24f;
            float x = functions[f].low + share * (functions[f].high - functions[f].low);
            if (i % 3 == 1) /* near x = 0, if the range contains it */
                x *= ldexpf(1.0f, -(int)(i % 40));
            if (x < functions[f].low)
                continue;
            long double error = units(functions[f].f(&wide, x), functions[f].want((long double)x));
            if (!(error <= functions[f].most))
                fail_msg("%s(%a) is off by %.3Lf u", functions[f].name, (double)x, error);
        }
    }
}

/* Functions composed in binary32 from correctly rounded polynomials: their errors are some units of
 * 2^-24, but not 0. */
TEST(test_composed)
{
    uint64_t key = sb_rng_key(42, "composed");
    long double worst[5] = {0};
    for (uint64_t i = 0; i < CASES; i++) {
        float x = 12.0f * sb_rng_normal(key, i);
        long double w = (long double)x, e = expl(-w), y = fabsl(w) + 0x1p-60L;
        float angle = ldexpf(x, (int)(i % 20));
        const long double error[5] = {
            units(sb_sim_sigmoid(&wide, x), 1 / (1 + e)), units(sb_sim_silu(&wide, x), w / (1 + e)),
            units(sb_sim_softplus(&wide, x), x > 0 ? w + log1pl(e) : log1pl(expl(w))),
            units(sb_sim_rsqrt(&wide, (float)y), 1 / sqrtl((long double)(float)y)),
            fabsl((long double)sb_sim_sin(&wide, angle) - sinl((long double)angle)) / 0x1p-24L};
        for (int f = 0; f < 5; f++)
            worst[f] = fmaxl(worst[f], error[f]);
        long double cosine = (long double)sb_sim_cos(&wide, angle) - cosl((long double)angle);
        assert_true(fabsl(cosine) <= 0x1p-23L);
    }
    for (int f = 0; f < 5; f++) {
        printf("  composed function %d: %.2Lf u\n", f, worst[f]);
        assert_true(worst[f] <= 3 && worst[f] >= 0.4L);
    }
    assert_true(isnan(sb_sim_sin(&wide, HUGE_VALF)) && isnan(sb_sim_exp(&wide, NAN)));
    assert_true(sb_sim_exp(&wide, -200.0f) == 0.0f && isinf(sb_sim_exp(&wide, 200.0f)));
}

/* --- libraries of functions ------------------------------------------------------------------- */

/* T-81: "`any` has the largest figure of each column" */
TEST(test_any_functions)
{
    const size_t columns = (sizeof(sb_functions) - offsetof(sb_functions, exp)) / sizeof(double);
    for (size_t c = 0; c < columns; c++) {
        double largest = 0;
        for (size_t i = SB_FUNCTIONS_any + 1; i < SB_FUNCTIONS_COUNT; i++)
            largest = fmax(largest, (&sb_functions_table[i].exp)[c]);
        assert_true((&sb_functions_table[SB_FUNCTIONS_any].exp)[c] == largest);
    }
}

enum { LIBRARY_FUNCTIONS = 9 };

/* The error of function f of a library at x, as a share of its ball. */
static double off_by(const sb_sim_arith *s, const sb_arithmetic *ar, int f, float x)
{
    const float size = fabsf(x) + 0x1p-20f, angle = 100.0f * x;
    const sb_ball at = sb_ball_of(x), above = sb_ball_of(size), turned = sb_ball_of(angle);
    const float is[LIBRARY_FUNCTIONS] = {
        sb_sim_exp(s, x),      sb_sim_log(s, size),  sb_sim_sqrt(s, size),
        sb_sim_rsqrt(s, size), sb_sim_sin(s, angle), sb_sim_divide(s, x, 3.0f),
        sb_sim_sigmoid(s, x),  sb_sim_silu(s, x),    sb_sim_softplus(s, x)};
    const sb_ball in[LIBRARY_FUNCTIONS] = {
        sb_ball_exp(ar, at),      sb_ball_log(ar, above),  sb_ball_sqrt(ar, above),
        sb_ball_rsqrt(ar, above), sb_ball_sin(ar, turned), sb_ball_div(ar, at, sb_ball_of(3.0f)),
        sb_ball_sigmoid(ar, at),  sb_ball_silu(ar, at),    sb_ball_softplus(ar, at)};
    double error = fabs((double)is[f] - in[f].mid);
    return error == 0.0 ? 0.0 : error / (SB_BOUND_SLACK * in[f].rad);
}

/* Each library with its largest errors is inside its own balls, and comes near their ends. Compared
 * with the balls of the correctly rounded functions, every other library is detected. The unit ex2
 * rounds, and is within the balls of the libraries with the same instruction. */
TEST(test_libraries)
{
    const uint64_t key = sb_rng_key(42, "libraries");
    for (size_t i = 0; i <= SB_FUNCTIONS_COUNT; i++) {
        const int ex2 = i == SB_FUNCTIONS_COUNT;
        const sb_functions *row = &sb_functions_table[ex2 ? SB_FUNCTIONS_triton : (int)i];
        const sb_sim_arith s = {
            .lanes = 1, .atom = NO_ATOM, .fn = ex2 ? FN_ex2 : FN_published + (unsigned)i};
        const int composed = row != &sb_functions_table[SB_FUNCTIONS_exact];
        sb_arithmetic own, exact = sb_arithmetic_library;
        assert_int_equal(sb_arithmetic_with(&sb_arithmetic_library, row->name, 0, &own, NULL),
                         SB_OK);
        exact.functions = &sb_functions_table[SB_FUNCTIONS_exact];
        double most = 0, seen = 0;
        printf("  %-10s", ex2 ? "ex2" : row->name);
        for (int f = 0; f < (composed ? LIBRARY_FUNCTIONS : 6); f++) {
            double worst = 0;
            for (uint64_t n = 0; n < CASES / 40; n++) {
                float x = 8.0f * sb_rng_normal(key, n);
                worst = fmax(worst, off_by(&s, &own, f, x));
                seen = fmax(seen, off_by(&s, &exact, f, x));
            }
            printf(" %.2f", worst);
            if (worst > 1)
                fail_msg("%s: function %d is at %.3f of its bound", row->name, f, worst);
            most = fmax(most, worst);
        }
        printf("\n");
        assert_true(most > 0.5 && (seen > 1) == composed);
    }
    sb_arithmetic none;
    sb_error err;
    assert_int_equal(sb_arithmetic_with(&sb_arithmetic_library, "nobody", 0, &none, &err),
                     SB_ERR_USAGE);
}

/* T-81: if a frequency of 1 is divided without correct rounding, the result is another frequency.
 * Even at the end of a table that is rounded to bfloat16, no element of any library leaves its
 * ball. */
TEST(test_turns)
{
    enum { ROWS = 128, HEADS = 16, WIDTH = 4, COUNT = ROWS * HEADS * WIDTH };
    uint64_t key = sb_rng_key(42, "turns");
    for (size_t i = 0; i < SB_FUNCTIONS_COUNT; i++) {
        sb_sim_arith s = {.lanes = 1, .atom = NO_ATOM, .fn = FN_published + (unsigned)i};
        float x[COUNT], turned[COUNT];
        uint32_t position[ROWS];
        sb_ball ball[COUNT];
        sb_arithmetic ar;
        sb_knobs knobs;
        sb_error err;
        for (uint64_t e = 0; e < COUNT; e++)
            turned[e] = x[e] = (float)(int)(sb_rng_below(key, e, 513)) / 256.0f - 1.0f;
        for (uint32_t t = 0; t < ROWS; t++)
            position[t] = t;
        sb_rope_args a = {.x = x,
                          .rows = ROWS,
                          .heads = HEADS,
                          .hd = WIDTH,
                          .rd = WIDTH,
                          .theta = 1e7,
                          .position = {position, position, position}};
        assert_int_equal(sb_knobs_profile(&knobs, "hf", &err), SB_OK);
        assert_int_equal(
            sb_arithmetic_with(&sb_arithmetic_library, sb_functions_table[i].name, 0, &ar, &err),
            SB_OK);
        assert_int_equal(sb_bound_rope(&ar, &knobs, &a, ball, NULL), SB_OK);
        a.x = turned;
        assert_int_equal(sb_sim_rope(&s, &knobs, &a), SB_OK);
        for (size_t e = 0; e < COUNT; e++)
            if (!(fabs((double)turned[e] - ball[e].mid) <= SB_BOUND_SLACK * ball[e].rad))
                fail_msg("%s: row %zu, element %zu is %a, expected %a within %a",
                         sb_functions_table[i].name, e / (HEADS * WIDTH), e % (HEADS * WIDTH),
                         (double)turned[e], ball[e].mid, ball[e].rad);
    }
}

/* A probability is divided by the sum before it is rounded to binary16 (K-11), and the output is
 * not divided again: with one position the output is the value, with any library. */
TEST(test_one_position)
{
    enum { WIDTH = 64 };
    uint64_t key = sb_rng_key(42, "one position");
    for (size_t i = 0; i < SB_FUNCTIONS_COUNT; i++) {
        sb_sim_arith s = {.lanes = 1, .atom = NO_ATOM, .fn = FN_published + (unsigned)i};
        float q[WIDTH], v[WIDTH], out[WIDTH];
        sb_knobs knobs;
        sb_error err;
        for (uint64_t e = 0; e < WIDTH; e++) {
            q[e] = sb_rng_normal(key, 2 * e);
            v[e] = sb_rng_normal(key, 2 * e + 1);
        }
        sb_attention_args a = {.q = q,
                               .keys = q,
                               .values = v,
                               .rows = 1,
                               .heads = 1,
                               .kv_heads = 1,
                               .hd = WIDTH,
                               .out = out};
        assert_int_equal(sb_knobs_profile(&knobs, "llamacpp", &err), SB_OK);
        assert_int_equal(sb_sim_attention(&s, &knobs, &a), SB_OK);
        assert_memory_equal(out, v, sizeof v);
    }
}

/* Against fmaf(), on sums close to zero and near ties. */
TEST(test_fused)
{
    const sb_sim_arith fused = {.fused = 1, .lanes = 1, .atom = NO_ATOM},
                       plain = {.lanes = 1, .atom = NO_ATOM};
    uint64_t key = sb_rng_key(42, "fused");
    size_t differ = 0;
    for (uint64_t i = 0; i < CASES; i++) {
        float a = sb_rng_normal(key, 4 * i), b = sb_rng_normal(key, 4 * i + 1);
        float c = sb_rng_normal(key, 4 * i + 2) * ldexpf(1.0f, (int)(i % 90) - 60);
        if (i % 4 == 0)
            c = -(a * b);
        if (i % 4 == 1) /* a tie of the sum, except for the last digits of the product */
            c = ldexpf(1.0f, (int)(i % 50)) + a;
        float got = sb_sim_multiply_add(&fused, a, b, c), want = fmaf(a, b, c);
        if (sb_bits_f32(got) != sb_bits_f32(want))
            fail_msg("%a * %a + %a is %a, expected %a", (double)a, (double)b, (double)c,
                     (double)got, (double)want);
        differ += sb_bits_f32(sb_sim_multiply_add(&plain, a, b, c)) != sb_bits_f32(want);
    }
    assert_true(differ > CASES / 20);
}

/* --- reductions * ----------------------------------------------------------------------------- */

enum { TERMS = 2100, SETS = 6 };

/* Ordinary terms, terms of one sign, pairs that cancel, very different sizes, rising sizes, one
 * huge term. */
static void draw(int set, uint64_t key, size_t n, float *a, float *b)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = sb_rng_normal(key, 2 * i);
        b[i] = sb_rng_normal(key, 2 * i + 1);
        if (set == 1)
            a[i] = fabsf(a[i]), b[i] = fabsf(b[i]);
        if (set == 2 && i % 2)
            a[i] = -a[i - 1], b[i] = b[i - 1] * (1.0f + 0x1p-20f * (float)(i % 7));
        if (set == 3)
            a[i] = ldexpf(a[i], (int)sb_rng_below(key, 5000 + i, 40) - 20);
        if (set == 4)
            a[i] = ldexpf(a[i], (int)(i / 100));
    }
    if (set == 5)
        a[n / 2] = 1e6f;
}

/* The largest error over radius in this set; counts the errors above the radius in *outside. */
static double hold(const sb_sim_arith *s, const sb_arithmetic *ar, int set, size_t *outside)
{
    static float a[TERMS], b[TERMS];
    double worst = 0;
    for (uint64_t i = 0; i < 60; i++) {
        size_t n = i < 10 ? 1 + i : 1 + sb_rng_below(42, i, i % 3 ? 300 : TERMS);
        sb_reduction r = {0};
        draw(set, sb_rng_key(i + 1, "terms"), n, a, b);
        for (size_t k = 0; k < n; k++)
            sb_reduce(&r, sb_ball_of(a[k]), sb_ball_of(b[k]));
        sb_ball in = sb_ball_reduced(ar, &r);
        if (ar->atom) /* without the further allowance of T-51 */
            in.rad = sb_atom_error(ar, &r) + 0x1p-50 * r.magnitude;
        double error = fabs((double)sb_sim_product(s, a, 1, b, 1, n) - in.mid);
        worst = fmax(worst, error / in.rad);
        *outside += !(error <= SB_BOUND_SLACK * in.rad);
    }
    return worst;
}

/* Every order of summation. */
TEST(test_orders)
{
    static const sb_sim_arith orders[] = {{SUM_lanes, 1, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                          {SUM_backward, 1, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                          {SUM_pairwise, 1, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                          {SUM_lanes, 16, 0, NO_ATOM, FORM_plain, FN_wide, 64},
                                          {SUM_lanes, 1, 1, NO_ATOM, FORM_plain, FN_wide, 64},
                                          {SUM_lanes, 32, 1, NO_ATOM, FORM_plain, FN_wide, 64}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (int set = 0; set < SETS; set++) {
            size_t outside = 0;
            double worst = hold(&orders[i], &sb_arithmetic_library, set, &outside);
            assert_int_equal(outside, 0);
            assert_true(worst > 0x1p-13);
        }
}

TEST(test_accumulators)
{
    for (size_t i = 0; i < sb_arithmetic_count(); i++) {
        const sb_arithmetic *ar = sb_arithmetic_at(i);
        double worst = 0;
        if (!ar->atom)
            continue;
        sb_sim_arith s = {.lanes = 1, .form = FORM_any, .atom = (unsigned)(ar->atom - sb_atoms)};
        printf("  %-24s", ar->name);
        for (int set = 0; set < SETS; set++) {
            size_t outside = 0;
            double ratio = hold(&s, ar, set, &outside);
            printf(" %.4f", ratio);
            worst = fmax(worst, ratio);
            if (outside)
                fail_msg("%s, set %d: %zu sums outside", ar->name, set, outside);
        }
        printf("\n");
        assert_true(worst > 0x1p-7); /* each accumulator reaches this in one sum */
    }
}

/* A description that promises more than the unit does is detected: fewer terms truncated, more bits
 * kept. */
TEST(test_wrong_accumulators)
{
    for (size_t i = 0; i < sb_arithmetic_count(); i++) {
        sb_arithmetic ar = *sb_arithmetic_at(i);
        size_t outside = 0;
        if (!ar.atom || !ar.in_order)
            continue;
        sb_sim_arith s = {.lanes = 1, .form = FORM_any, .atom = (unsigned)(ar.atom - sb_atoms)};
        sb_atom better = *ar.atom;
        better.fraction += 8;
        better.kept += 8;
        better.addend = SB_ATOM_FIRST;
        ar.atom = &better;
        for (int set = 0; set < SETS; set++)
            (void)hold(&s, &ar, set, &outside);
        if (outside == 0)
            fail_msg("%s with 8 bits more is not seen", ar.name);
    }
}

TEST(test_arithmetics)
{
    for (size_t i = 0; i < sb_arithmetic_count(); i++)
        assert_ptr_equal(sb_arithmetic_of(sb_arithmetic_at(i)->name), sb_arithmetic_at(i));
    assert_null(sb_arithmetic_of("sm120_nvfp4"));
    assert_ptr_equal(sb_arithmetic_of("library"), &sb_arithmetic_library);
    sb_arithmetic fast;
    assert_int_equal(
        sb_arithmetic_with(sb_arithmetic_of("hopper_f16"), "cuda_fast", 0, &fast, NULL), SB_OK);
    assert_string_equal(sb_arithmetic_vector(&fast)->name, "library");
    assert_ptr_equal(sb_arithmetic_vector(&fast)->functions, fast.functions);
    assert_ptr_equal(sb_arithmetic_vector(&sb_arithmetic_reference), &sb_arithmetic_reference);
    for (size_t i = 0; i < sb_sim_count(); i++)
        assert_non_null(sb_arithmetic_of(sb_sim_at(i)->arithmetic));
}

/* --- knobs * ---------------------------------------------------------------------------------- */

/* known.def has a row for every knob and knows all its values. A value that no sim implements makes
 * the ops that read it those of the reference. */
TEST(test_known)
{
    const sb_sim *sim = sb_sim_at(0);
    sb_knobs first, knobs;
    sb_knobs_exact(&first);
    for (size_t op = 0; op < SB_OP_COUNT; op++)
        assert_false(sb_sim_inherits(sim, (sb_op)op, &first));
    for (unsigned v = 0; v < SB_VALUE_COUNT; v++) {
        sb_knob knob = sb_knob_of_value((sb_knob_value)v);
        size_t inherits = 0;
        knobs = first;
        knobs.value[knob] = (sb_knob_value)v;
        for (size_t op = 0; op < SB_OP_COUNT; op++)
            inherits += sb_sim_inherits(sim, (sb_op)op, &knobs) != 0;
        if (inherits == SB_OP_COUNT)
            fail_msg("known.def has no row for knob %s, or not that it has %s", sb_knob_name(knob),
                     sb_knob_value_name((sb_knob_value)v));
    }
    knobs = first;
    knobs.value[SB_KNOB_delta_rule] = SB_delta_rule_chunk_fla;
    assert_true(sb_sim_inherits(sim, SB_OP_delta_rule_chunk, &knobs));
    assert_false(sb_sim_inherits(sim, SB_OP_linear, &knobs));
}
