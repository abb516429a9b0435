/* test_gpu_chunk.cc - the delta rule in chunks: outputs and states within the bound of R-22, and
 * with the bits of a model in every variant. The bits of a row do not depend on later rows or other
 * heads. Also continues from the state. */
#include <stdio.h>

#include "ref/formats/format.h"
#include "tests/gpu/chunk_model.h"
#include "tests/lib/suite.h"

static const shape small = {1, 2, 32, 33}, pair = {2, 4, 32, 8}, odd = {1, 3, 24, 7};
static const shape shapes[] = {{1, 1, 64, 40}, {1, 1, 128, 16}, {1, 1, 72, 32}, odd};

/* rounded: queries and keys are in bfloat16, as in engines. */
static sb_knobs chunk_knobs(bool rounded)
{
    sb_knobs knobs = sm121();
    assert_int_equal(sb_knobs_set(&knobs, "delta_rule=prompt_fla", nullptr), SB_OK);
    if (rounded)
        assert_int_equal(sb_knobs_set(&knobs, "l2norm_round=act_prompt", nullptr), SB_OK);
    return knobs;
}

static const float *rounded_to_bf16(const float *x, size_t count)
{
    float *y = test_copy(x, count);
    for (size_t i = 0; i < count; i++)
        y[i] = sb_round_to(SB_FORMAT_bf16, y[i]);
    return y;
}

static sb_delta_rule_args chunk_call(const shape &s, size_t rows, bool rounded)
{
    sb_delta_rule_args a = call_of(s, rows, false, 1.0);
    const size_t keys = CALL_ROWS * s.k_heads * s.dk;
    if (rounded) {
        a.q = rounded_to_bf16(a.q, keys);
        a.k = rounded_to_bf16(a.k, keys);
    }
    return a;
}

TEST_WITH(test_values, NULL, test_release)
{
    uint64_t seed = 0;
    for (const size_t rows :
         {size_t(1), size_t(2), size_t(63), size_t(64), size_t(65), size_t(128), size_t(130)})
        for (const bool rounded : {false, true})
            is_within(SB_OP_delta_rule_chunk, chunk_call(small, rows, rounded), seed++ % SCHEDULES,
                      chunk_knobs(rounded));
    for (const shape &s : shapes)
        for (const size_t rows : {size_t(2), size_t(65)})
            is_within(SB_OP_delta_rule_chunk, chunk_call(s, rows, rows > 2), seed++,
                      chunk_knobs(rows > 2));
}

static void goes(uint64_t seed, const sb_knobs &knobs, const sb_delta_rule_args &a)
{
    runs(SB_OP_delta_rule_chunk, a, seed, knobs);
}

/* Compares with the bits of the model, which has no threads. */
static void has_bits_of_model(const shape &s, size_t rows, bool rounded, uint64_t seed)
{
    const size_t values = rows * s.v_heads * s.dv, state = s.v_heads * s.dk * s.dv;
    const sb_delta_rule_args a = chunk_call(s, rows, rounded);
    float *const out = test_output(values), *const last = test_output(state);
    chunk_model_run(a, rounded ? 1 : 3, out, last);
    goes(seed, chunk_knobs(rounded), a);
    assert_true(same_bits(a.out, out, values));
    assert_true(same_bits(a.state, last, state));
}

TEST_WITH(test_model, NULL, test_release)
{
    uint64_t seed = 1;
    for (const bool rounded : {false, true}) {
        for (const size_t rows : {size_t(1), size_t(17), size_t(130)})
            has_bits_of_model(odd, rows, rounded, seed++);
        has_bits_of_model({1, 2, 64, 64}, 65, rounded, seed++);
        has_bits_of_model({2, 2, 72, 40}, 130, rounded, seed++);
        has_bits_of_model({1, 2, 128, 128}, 129, rounded, seed++);
    }
}

/* The same values at an odd offset of floats. */
static const float *moved(const float *x, size_t count)
{
    float *y = test_output(count + 1);
    memcpy(y + 1, x, count * sizeof *y);
    return y + 1;
}

/* Y-98, Y-99: a bfloat16 key may be one operand, passed on by the first kernel, or three, made by
 * both kernels; two elements may be read in one access or in two. */
static void has_same_bits(const shape &s, size_t rows, uint64_t seed)
{
    const size_t values = rows * s.v_heads * s.dv, state = s.v_heads * s.dk * s.dv;
    const size_t keys = CALL_ROWS * s.k_heads * s.dk;
    const sb_delta_rule_args first = chunk_call(s, rows, true);
    goes(0, chunk_knobs(true), first);
    for (const bool one : {true, false})
        for (const bool pairs : {true, false}) {
            sb_delta_rule_args a = chunk_call(s, rows, true);
            a.q = pairs ? a.q : moved(a.q, keys);
            a.k = pairs ? a.k : moved(a.k, keys);
            goes(seed++, chunk_knobs(one), a);
            assert_true(same_bits(a.out, first.out, values));
            assert_true(same_bits(a.state, first.state, state));
        }
}

/* The heads of T1 to T6, among them those of 35B-A3B (T2: 128 by 128, two heads per key), and odd
 * ones; lengths around the ends of tiles and chunks. */
TEST_WITH(test_variants, NULL, test_release)
{
    static const shape heads[] = {{1, 2, 64, 64}, {1, 3, 64, 64}, {2, 4, 32, 32}, odd};
    uint64_t seed = 1;
    for (const shape &s : heads)
        for (const size_t rows : {size_t(15), size_t(64), size_t(130)})
            has_same_bits(s, rows, seed++);
    for (const size_t rows : {size_t(47), size_t(129)})
        has_same_bits({1, 2, 128, 128}, rows, seed++);
    has_same_bits({2, 2, 72, 40}, 130, seed);
}

/* S-3: "holds only for splits that change neither the cut into chunks of R-10, nor the choice of
 * form": rows do not depend on later rows, and a call may end at the end of a chunk. */
TEST_WITH(test_rows, NULL, test_release)
{
    const sb_knobs knobs = chunk_knobs(false);
    const size_t values = odd.v_heads * odd.dv, state = odd.v_heads * odd.dk * odd.dv;
    const sb_delta_rule_args whole = chunk_call(odd, CALL_ROWS, false);
    goes(0, knobs, whole);
    for (const size_t rows : {size_t(1), size_t(15), size_t(63), size_t(65), size_t(129)}) {
        const sb_delta_rule_args a = chunk_call(odd, rows, false);
        goes(rows, knobs, a);
        assert_true(same_bits(a.out, whole.out, rows * values));
    }
    for (const size_t cut : {size_t(64), size_t(128), size_t(40)}) {
        const sb_delta_rule_args all = chunk_call(odd, CALL_ROWS, false);
        sb_delta_rule_args first = all;
        first.rows = cut;
        goes(cut, knobs, first);
        goes(cut + 1, knobs, rest_of(all, cut));
        const bool same = same_bits(all.out, whole.out, CALL_ROWS * values) &&
                          same_bits(all.state, whole.state, state);
        assert_int_equal(same, cut % 64 == 0); /* docs/profiles.md: the cost of chunks */
    }
}

/* The first head beside heads with other values, also of another key head. */
TEST_WITH(test_heads, NULL, test_release)
{
    const sb_knobs knobs = chunk_knobs(false);
    const size_t rows = 66, state = pair.dk * pair.dv, per_key = pair.v_heads / pair.k_heads;
    const sb_delta_rule_args a = chunk_call(pair, rows, false);
    sb_delta_rule_args b = chunk_call(pair, rows, false);
    const float other = NAN;
    float *g = const_cast<float *>(b.g), *v = const_cast<float *>(b.v);
    float *k = const_cast<float *>(b.k), *q = const_cast<float *>(b.q);
    for (size_t row = 0; row < rows; row++)
        for (size_t head = 1; head < pair.v_heads; head++) {
            g[row * pair.v_heads + head] = head == 1 ? -3.0f : other;
            for (size_t i = 0; i < pair.dv; i++)
                v[row * b.v_stride + head * pair.dv + i] = head == 1 ? 5.0f : other;
            for (size_t i = 0; i < pair.dk; i++) {
                const size_t at = (row * pair.k_heads + head / per_key) * pair.dk + i;
                k[at] = head < per_key ? k[at] : other;
                q[at] = head < per_key ? q[at] : other;
            }
        }
    for (size_t i = state; i < pair.v_heads * state; i++)
        b.state[i] = other;
    goes(2, knobs, a);
    goes(3, knobs, b);
    for (size_t row = 0; row < rows; row++)
        assert_true(same_bits(a.out + row * pair.v_heads * pair.dv,
                              b.out + row * pair.v_heads * pair.dv, pair.dv));
    assert_true(same_bits(a.state, b.state, state));
}

static double largest(const float *x, const float *y, size_t count)
{
    double most = 0.0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs(static_cast<double>(x[i]) - static_cast<double>(y ? y[i] : 0.0f)));
    return most;
}

/* A prompt of 70 rows in chunks, then three steps row by row. The state is close to that of 73 rows
 * computed row by row. */
TEST_WITH(test_steps, NULL, test_release)
{
    const sb_knobs knobs = chunk_knobs(false);
    const size_t state = small.v_heads * small.dk * small.dv, values = small.v_heads * small.dv;
    const sb_delta_rule_args a = chunk_call(small, 73, false), plain = chunk_call(small, 73, false);
    sb_delta_rule_args prompt = a;
    prompt.rows = 70;
    assert_int_equal(sb_delta_rule_fast(&knobs, &plain), SB_OK);
    goes(4, knobs, prompt);
    for (size_t row = 70; row < 73; row++) {
        sb_delta_rule_args step = rest_of(a, row);
        step.rows = 1;
        runs(SB_OP_delta_rule, step, row, knobs);
    }
    const double apart_by =
        largest(a.state, plain.state, state) / largest(plain.state, nullptr, state);
    const double steps = largest(a.out + 70 * values, plain.out + 70 * values, 3 * values) /
                         largest(plain.out + 70 * values, nullptr, 3 * values);
    printf("  after 70 rows and 3 steps: the state within %.1e, outputs within %.1e\n", apart_by,
           steps);
    assert_true(apart_by > 0.0 && apart_by < 0x1p-6);
    assert_true(steps < 0x1p-6);
}

/* K-16: "R-22 always does as output does": queries come unscaled, and rounded if K-33 demands it.
 * For the rule row by row they come scaled. */
TEST_WITH(test_l2norm, NULL, test_release)
{
    const size_t rows = 3, heads = 2, dk = 48, width = 2 * heads * dk + 5;
    sb_l2norm_args a = {};
    a.qkv = bf16_values("qkv", rows * width, 0.0f, 1.0f);
    a.rows = rows;
    a.stride = width;
    a.heads = heads;
    a.dk = dk;
    a.eps = 1e-6f;
    a.q = test_output(rows * heads * dk);
    a.k = test_output(rows * heads * dk);
    for (const bool rounded : {false, true})
        for (const sb_form form : {SB_FORM_prompt, SB_FORM_decode, SB_FORM_verify}) {
            a.form = form;
            a.recurrent = form != SB_FORM_prompt;
            is_within(SB_OP_l2norm, a, 0, chunk_knobs(rounded));
            const double length = sqrt(squares_of(a.q, dk));
            assert_true(fabs(length - (a.recurrent ? 1.0 / sqrt(48.0) : 1.0)) < 0.01);
        }
}

/* Y-12: the chunks of R-10 are computed by the reference. */
TEST_WITH(test_forms, NULL, test_release)
{
    sb_knobs knobs = chunk_knobs(false);
    for (const char *form : {"delta_rule=chunk64", "delta_rule=by_call", "delta_rule=by_rows"}) {
        assert_int_equal(sb_knobs_set(&knobs, form, nullptr), SB_OK);
        assert_false(sb_gpu_computes(SB_OP_delta_rule_chunk, &knobs));
    }
    assert_int_equal(sb_knobs_set(&knobs, "delta_rule=chunk_fla", nullptr), SB_OK);
    assert_true(sb_gpu_computes(SB_OP_delta_rule_chunk, &knobs));
}

TEST_WITH(test_faults, NULL, test_release)
{
    for (const char *fault : {"chunk_padding", "chunk_diagonal", "chunk_substitute", "chunk_lanes",
                              "chunk_decay", "chunk_carry", "chunk_barrier", "chunk_barrier2",
                              "chunk_barrier3", "chunk_barrier4", "chunk_barrier5", "chunk_ahead"})
        catches(fault, SB_OP_delta_rule_chunk, chunk_call(odd, 66, false), false, 1,
                chunk_knobs(false));
    for (const char *fault : {"chunk_ahead", "chunk_kept"})
        catches(fault, SB_OP_delta_rule_chunk, chunk_call(odd, 66, true), false, 1,
                chunk_knobs(true));
}
