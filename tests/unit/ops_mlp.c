/* ops_mlp.c - tests of the operations that are neither mixing nor normalising: R-1, R-2, R-14 to
 * R-18. */
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "tests/unit/ops.h"

#include <math.h>
#include <string.h>

static const char *const settings[] = {
    "", "act=bf16", "act=f16", "act=bf16 params=act", "act=f16 params=act", "params=act"};

OP_TEST(embed)
{
    enum { V = 7, H = 13, T = 5 };
    static const uint32_t tokens[T] = {6, 0, 3, 3, 5};
    for (size_t s = 0; s < COUNT(settings); s++)
        for (int format = 0; format < SB_FORMAT_COUNT; format++) {
            if (!sb_format_is_plain((sb_format)format))
                continue;
            sb_knobs knobs = test_knobs(settings[s]);
            sb_matrix table =
                test_matrix((sb_format)format, test_normal("table", V * H, 0, 1), V, H);
            float *out = test_output(T * H), want[T * H];
            for (size_t t = T; t-- > 0;)
                for (size_t i = 0; i < H; i++)
                    want[t * H + i] = sb_act(&knobs, plain_param(&knobs, &table, tokens[t])[i]);
            RUN(embed, &knobs, .table = &table, .tokens = tokens, .rows = T, .out = out);
            test_same(settings[s], out, want, T * H);
        }
}

/* R-2, column by column. */
static void check_linear(const sb_knobs *knobs, const sb_matrix *w, const float *in, size_t T)
{
    size_t N = w->rows, K = w->cols;
    float *out = test_output(T * N), *want = test_copy(NULL, T * N);
    for (uint32_t n = 0; n < N; n++) {
        const float *row = plain_param(knobs, w, n);
        for (size_t t = 0; t < T; t++)
            want[t * N + n] = sb_act(knobs, plain_dot(row, 1, in + t * K, 1, K));
    }
    RUN(linear, knobs, .weight = w, .in = in, .rows = T, .out = out);
    test_written("linear", out, T * N);
    test_same("linear", out, want, T * N);
}

/* K-45 for every kind of layer: the same as a plain layer on an input rounded beforehand. */
static void check_narrowed(const sb_matrix *w, const float *in, size_t T)
{
    sb_knobs exact = test_knobs(""), narrow = test_knobs("linear_input=weight");
    size_t N = w->rows, K = w->cols;
    float *rounded = test_copy(in, T * K);
    for (size_t i = 0; i < T * K; i++)
        rounded[i] = sb_round_to(w->format, in[i]);
    for (int kind = 0; kind <= SB_LINEAR_expert_in; kind++) {
        int kept = kind == SB_LINEAR_router || kind == SB_LINEAR_shared_gate;
        float *out = test_output(T * N), *want = test_output(T * N);
        RUN(linear, &narrow, .weight = w, .kind = (sb_linear_kind)kind, .in = in, .rows = T,
            .out = out);
        RUN(linear, &exact, .weight = w, .in = kept ? in : rounded, .rows = T, .out = want);
        test_same("linear_input=weight", out, want, T * N);
    }
}

OP_TEST(linear)
{
    static const size_t shapes[][3] = {
        {1, 1, 1}, {3, 5, 17}, {2, 33, 64}, {1, 9, 301}, {7, 31, 97}};
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(shapes); i++) {
            size_t T = shapes[i][0], N = shapes[i][1], K = shapes[i][2];
            sb_knobs knobs = test_knobs(settings[s]);
            for (int format = 0; format < SB_FORMAT_COUNT; format++) {
                if (!sb_format_is_plain((sb_format)format))
                    continue;
                sb_matrix w =
                    test_matrix((sb_format)format, test_normal("w", N * K, 0, 0.5f), N, K);
                check_linear(&knobs, &w, test_normal("x", T * K, 0.1f, 2), T);
                check_narrowed(&w, test_normal("x", T * K, 0.1f, 2), T);
            }
        }
    sb_knobs exact = test_knobs(""); /* large enough for several threads */
    sb_matrix w = test_matrix(SB_FORMAT_bf16, test_normal("big", 250 * 101, 0, 1), 250, 101);
    check_linear(&exact, &w, test_normal("big x", 5 * 101, 0, 1), 5);
}

OP_TEST(linear_of_hostile_values)
{
    enum { T = 9, N = 23, K = 19 };
    sb_knobs exact = test_knobs("");
    const float *in = test_hostile("x", T * K);
    sb_matrix w = test_matrix(SB_FORMAT_f32, test_hostile("w", N * K), N, K);
    check_linear(&exact, &w, in, T);
    sb_matrix narrow = test_matrix(SB_FORMAT_bf16, test_hostile("v", N * K), N, K);
    check_linear(&exact, &narrow, in, T); /* overflows of bfloat16 become infinities */
    /* A-5: a zero sum is +0, also one of negative zeros; A-6: NaN and infinity give 0x7fc00000 */
    static const float operands[][2] = {
        {-0.0f, 1.0f}, {NAN, 0.0f}, {INFINITY, 0.0f}, {-INFINITY, 1.0f}};
    static const uint32_t results[] = {0, 0x7fc00000u, 0x7fc00000u, 0x7fc00000u};
    for (size_t i = 0; i < COUNT(operands); i++) {
        float *out = test_output(1);
        sb_matrix one = test_matrix(SB_FORMAT_f32, &operands[i][1], 1, 1);
        RUN(linear, &exact, .weight = &one, .in = operands[i], .rows = 1, .out = out);
        assert_int_equal(sb_bits_f32(*out), results[i]);
    }
}

OP_TEST(linear_with_row_map)
{
    enum { N = 6, K = 3, STORED = 8 };
    static const uint32_t map[N] = {7, 0, 3, 3, 1, 6};
    static const float in[K] = {1.0f, 0.0f, 0.0f};
    static const char *const sets[] = {"", "act=bf16 params=act"};
    float values[STORED * K] = {0};
    for (size_t i = 0; i < STORED; i++)
        values[i * K] = (float)i;
    for (size_t s = 0; s < COUNT(sets); s++) {
        sb_knobs knobs = test_knobs(sets[s]);
        sb_matrix w = test_matrix(SB_FORMAT_f32, values, STORED, K);
        float *out = test_output(N);
        w.rows = N;
        w.row_map = map;
        RUN(linear, &knobs, .weight = &w, .in = in, .rows = 1, .out = out);
        for (size_t i = 0; i < N; i++)
            assert_true(out[i] == (float)map[i]);
    }
}

OP_TEST(split_gate)
{
    enum { T = 3, HEADS = 5, HD = 7 };
    sb_knobs knobs = test_knobs("act=bf16"); /* nothing is rounded: copies */
    const float *in = test_normal("packed", T * HEADS * 2 * HD, 0, 1);
    float *query = test_output(T * HEADS * HD), *gate = test_output(T * HEADS * HD);
    RUN(split_gate, &knobs, .in = in, .rows = T, .heads = HEADS, .hd = HD, .query = query,
        .gate = gate);
    for (size_t h = 0; h < HEADS; h++)
        for (size_t t = 0; t < T; t++)
            for (size_t half = 0; half < 2; half++)
                test_same("split_gate", (half ? gate : query) + (t * HEADS + h) * HD,
                          in + t * (HEADS * 2 * HD) + h * (2 * HD) + half * HD, HD);
}

/* "hd query rows, then hd gate rows" per head, not all queries before all gates. */
OP_TEST(split_gate_order)
{
    static const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}; /* two heads of width 2 */
    static const float queries[4] = {1, 2, 5, 6}, gates[4] = {3, 4, 7, 8};
    sb_knobs exact = test_knobs("");
    float *query = test_output(4), *gate = test_output(4);
    RUN(split_gate, &exact, .in = in, .rows = 1, .heads = 2, .hd = 2, .query = query, .gate = gate);
    test_same("queries", query, queries, 4);
    test_same("gates", gate, gates, 4);
}

enum { MANY = 611 };
static const char *const gate_settings[] = {"",
                                            "act=bf16",
                                            "act=f16",
                                            "attn_gate=act",
                                            "act=bf16 attn_gate=act",
                                            "act=f16 attn_gate=act",
                                            "act=bf16 swiglu=act",
                                            "act=f16 swiglu=act",
                                            "act=bf16 swiglu=act swiglu_dense=dense_f32",
                                            "act=bf16 swiglu=act swiglu_dense=shared_f32",
                                            "act=bf16 swiglu_dense=shared_f32"};

static void check_elementwise(const sb_knobs *k, const float *a, const float *b)
{
    float *gated = test_output(MANY), *activated = test_output(MANY), *sum = test_output(MANY);
    float want[3][MANY], *whole = test_output(MANY), wide[MANY];
    for (size_t i = 0; i < MANY; i++) {
        float open = plain_sigmoid(b[i]), silu = plain_silu(a[i]);
        open = SB_IS(k, attn_gate, act) ? sb_act(k, open) : open;
        silu = SB_IS(k, swiglu, act) ? sb_act(k, silu) : silu;
        want[0][i] = sb_act(k, a[i] * open);
        want[1][i] = sb_act(k, silu * b[i]);
        want[2][i] = sb_act(k, a[i] + b[i]);
        wide[i] = a[i] + b[i];
    }
    RUN(attn_gate, k, .in = a, .gate = b, .count = MANY, .out = gated);
    RUN(swiglu, k, .gate = a, .up = b, .count = MANY, .out = activated);
    RUN(add, k, .a = a, .b = b, .count = MANY, .out = sum, .sum = whole);
    test_same("add before R", whole, wide, MANY);
    test_written("attn_gate", gated, MANY);
    test_written("swiglu", activated, MANY);
    test_written("add", sum, MANY);
    test_same("attn_gate", gated, want[0], MANY);
    test_same("swiglu", activated, want[1], MANY);
    test_same("add", sum, want[2], MANY);
}

OP_TEST(attn_gate)
{
    for (size_t s = 0; s < COUNT(gate_settings); s++) {
        sb_knobs knobs = test_knobs(gate_settings[s]);
        check_elementwise(&knobs, test_normal("a", MANY, 0, 3), test_normal("b", MANY, 0, 4));
    }
}

OP_TEST(swiglu)
{
    for (size_t s = 0; s < COUNT(gate_settings); s++) {
        sb_knobs knobs = test_knobs(gate_settings[s]);
        check_elementwise(&knobs, test_normal("gate", MANY, -1, 9), test_normal("up", MANY, 0, 1));
    }
}

OP_TEST(add)
{
    for (size_t s = 0; s < COUNT(settings); s++) {
        sb_knobs knobs = test_knobs(settings[s]);
        check_elementwise(&knobs, test_normal("x", MANY, 0, 1), test_normal("y", MANY, 0, 1e-3f));
    }
}

OP_TEST(elementwise_of_hostile_values)
{
    for (size_t s = 0; s < COUNT(gate_settings); s++) {
        sb_knobs knobs = test_knobs(gate_settings[s]);
        check_elementwise(&knobs, test_hostile("a", MANY), test_hostile("b", MANY));
    }
    float strange[MANY];
    for (size_t i = 0; i < MANY; i++)
        strange[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    sb_knobs exact = test_knobs("");
    check_elementwise(&exact, strange, test_normal("b", MANY, 0, 1));
    check_elementwise(&exact, test_normal("a", MANY, 0, 1), strange);
}

OP_TEST(outputs_may_be_inputs)
{
    sb_knobs knobs = test_knobs("act=bf16");
    const float *a = test_normal("a", MANY, 0, 3), *b = test_normal("b", MANY, 0, 3);
    float *apart = test_output(MANY), *in_place = test_copy(a, MANY);
    RUN(attn_gate, &knobs, .in = a, .gate = b, .count = MANY, .out = apart);
    RUN(attn_gate, &knobs, .in = in_place, .gate = b, .count = MANY, .out = in_place);
    test_same("attn_gate in place", in_place, apart, MANY);
    memcpy(in_place, a, MANY * sizeof *a);
    RUN(swiglu, &knobs, .gate = a, .up = b, .count = MANY, .out = apart);
    RUN(swiglu, &knobs, .gate = in_place, .up = b, .count = MANY, .out = in_place);
    test_same("swiglu in place", in_place, apart, MANY);
    memcpy(in_place, a, MANY * sizeof *a);
    RUN(add, &knobs, .a = a, .b = b, .count = MANY, .out = apart);
    RUN(add, &knobs, .a = in_place, .b = b, .count = MANY, .out = in_place);
    test_same("add in place", in_place, apart, MANY);
}
