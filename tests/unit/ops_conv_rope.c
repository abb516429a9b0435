/* ops_conv_rope.c - tests of the convolution and of the rotary embedding. */
#include "ref/ops/knob.h"
#include "tests/unit/ops.h"

#include <math.h>
#include <string.h>

/* R-4 over one long array of rows: first those of the state, then those of the call. */
static void plain_conv(const sb_knobs *k, sb_form form, const sb_matrix *weight, const float *in,
                       size_t T, float *carried, float *out)
{
    int products = SB_IS(k, conv_product, act) || (SB_IS(k, conv_product, act_steps) && form);
    size_t C = weight->rows, kw = weight->cols;
    float *u = test_copy(NULL, (kw - 1 + T) * C);
    if (kw > 1)
        memcpy(u, carried, (kw - 1) * C * sizeof *u);
    memcpy(u + (kw - 1) * C, in, T * C * sizeof *u);
    for (uint32_t ch = 0; ch < C; ch++) {
        const float *w = plain_param(k, weight, ch);
        for (size_t t = 0; t < T; t++) {
            float c = plain_dot(w, 1, u + t * C + ch, C, kw), terms[8];
            for (size_t j = 0; j < kw; j++)
                terms[j] = sb_act(k, w[j] * u[(t + j) * C + ch]);
            c = products ? plain_sum(terms, kw) : c;
            c = SB_IS(k, conv_sum, act) ? sb_act(k, c) : c;
            out[t * C + ch] = sb_act(k, plain_silu(c));
        }
    }
    if (kw > 1)
        memcpy(carried, u + T * C, (kw - 1) * C * sizeof *u);
}

OP_TEST(conv)
{
    static const char *const settings[] = {"",
                                           "act=bf16",
                                           "act=bf16 conv_sum=act",
                                           "act=f16 conv_sum=act params=act",
                                           "act=bf16 conv_product=act",
                                           "act=bf16 conv_product=act_steps conv_sum=act"};
    static const size_t kernels[] = {4, 1, 2, 5};
    enum { C = 11 };
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(kernels); i++)
            for (size_t T = 1; T <= 6; T++) {
                sb_knobs k = test_knobs(settings[s]);
                sb_form form = (sb_form)(T % 3); /* prompt, step, verify */
                size_t kw = kernels[i], back = (kw - 1) * C;
                const float *in = test_normal("u", T * C, 0, 2);
                const float *before = test_normal("conv state", back, 0, 2);
                sb_matrix w = test_matrix(SB_FORMAT_f32, test_normal("w", C * kw, 0, 1), C, kw);
                float *conv_state = test_copy(before, back), *want_state = test_copy(before, back);
                float *out = test_output(T * C), *want = test_copy(NULL, T * C);
                plain_conv(&k, form, &w, in, T, want_state, want);
                RUN(conv, &k, .in = in, .weight = &w, .rows = T, .state = conv_state, .form = form,
                    .out = out);
                test_written("conv", out, T * C);
                test_same(settings[s], out, want, T * C);
                test_same("conv state", conv_state, want_state, back);
            }
}

/* "w[ch, j] u_{t-(kw-1)+j}[ch]": with weight 1 at tap j only, the output is the input of kw-1-j
 * rows before. */
OP_TEST(conv_taps)
{
    enum { KW = 4, T = 5 };
    static const float in[T] = {1, 2, 3, 4, 5}, before[KW - 1] = {-3, -2, -1};
    static const float columns[KW - 1 + T] = {-3, -2, -1, 1, 2, 3, 4, 5};
    sb_knobs exact = test_knobs("");
    for (size_t tap = 0; tap < KW; tap++) {
        float one_hot[KW] = {0};
        one_hot[tap] = 1;
        sb_matrix w = test_matrix(SB_FORMAT_bf16, one_hot, 1, KW);
        float *conv_state = test_copy(before, KW - 1), *out = test_output(T);
        RUN(conv, &exact, .in = in, .weight = &w, .rows = T, .state = conv_state, .out = out);
        for (size_t t = 0; t < T; t++)
            assert_true(out[t] == plain_silu(columns[t + tap]));
        test_same("conv state", conv_state, in + T - (KW - 1), KW - 1);
    }
}

/* Slot t of the trail is the state after a call of the first t + 1 rows. The trail changes neither
 * outputs nor final state. */
OP_TEST(conv_trail)
{
    enum { KW = 4, C = 3, T = 6, BACK = (KW - 1) * C };
    sb_knobs exact = test_knobs("");
    const float *in = test_normal("u", T * C, 0, 1), *before = test_normal("s", BACK, 0, 1);
    sb_matrix w = test_matrix(SB_FORMAT_f32, test_normal("w", C * KW, 0, 1), C, KW);
    float *trail = test_output(T * BACK), *out = test_output(T * C);
    float *last = test_copy(before, BACK);
    RUN(conv, &exact, .in = in, .weight = &w, .rows = T, .state = last, .trail = trail, .out = out);
    test_written("trail", trail, T * BACK);
    for (size_t rows = 1; rows <= T; rows++) {
        float *want = test_copy(before, BACK), *head = test_output(rows * C);
        RUN(conv, &exact, .in = in, .weight = &w, .rows = rows, .state = want, .out = head);
        test_same("trail", trail + (rows - 1) * BACK, want, BACK);
        test_same("out", out, head, rows * C);
    }
    test_same("state", last, trail + (T - 1) * BACK, BACK);
}

/* Any split into several calls gives the bits of one call. Calls of 1 to 5 rows are shorter than,
 * as long as and longer than the state. */
OP_TEST(conv_splits)
{
    enum { KW = 4, C = 3, MOST = 5, BACK = (KW - 1) * C };
    sb_knobs exact = test_knobs("");
    const float *in = test_normal("u", MOST * C, 0, 1);
    sb_matrix w = test_matrix(SB_FORMAT_f32, test_normal("w", C * KW, 0, 1), C, KW);
    for (size_t T = 1; T <= MOST; T++) {
        float *whole = test_output(T * C), *whole_state = test_copy(NULL, BACK);
        RUN(conv, &exact, .in = in, .weight = &w, .rows = T, .state = whole_state, .out = whole);
        for (size_t cut = 1; cut < T; cut++) {
            float *parts = test_output(T * C), *parts_state = test_copy(NULL, BACK);
            RUN(conv, &exact, .in = in, .weight = &w, .rows = cut, .state = parts_state,
                .out = parts);
            RUN(conv, &exact, .in = in + cut * C, .weight = &w, .rows = T - cut,
                .state = parts_state, .out = parts + cut * C);
            test_same("split convolution", parts, whole, T * C);
            test_same("split state", parts_state, whole_state, BACK);
        }
    }
}

OP_TEST(conv_of_nan)
{
    static const float in[5] = {1, NAN, 1, INFINITY, 1}, weight[2] = {0.5f, 0};
    sb_knobs exact = test_knobs("");
    sb_matrix w = test_matrix(SB_FORMAT_bf16, weight, 1, 2);
    float *conv_state = test_copy(NULL, 1), *out = test_output(5);
    RUN(conv, &exact, .in = in, .weight = &w, .rows = 5, .state = conv_state, .out = out);
    assert_true(out[0] == 0);
    for (size_t t = 1; t < 5; t++) /* a weight of 0 does not hide them */
        assert_int_equal(sb_bits_f32(out[t]), 0x7fc00000u);
}

/* The stream of frequency f, in the words of the clause: 0 time, 1 height, 2 width. */
static size_t plain_stream(const uint32_t *section, size_t f)
{
    size_t of = f % 3;
    return section && of != 0 && f < 3 * (size_t)section[of] ? of : 0;
}

/* for one element of one head. */
static float plain_rope(const sb_knobs *k, const sb_rope_args *a, const float *x, size_t t,
                        size_t i)
{
    size_t half = a->rd / 2, f = i % half;
    long double exponent = 2 * (long double)f / (long double)a->rd;
    if (i >= a->rd)
        return x[i];
    float frequency = plain_power(a->theta, -exponent);
    if (SB_IS(k, rope_freq, torch))
        frequency = 1.0f / plain_power((double)(float)a->theta, (long double)(float)exponent);
    float angle = (float)a->position[plain_stream(a->section, f)][t];
    if (!SB_IS(k, rope_freq, chain))
        angle = frequency * angle;
    for (size_t j = 0; j < f && SB_IS(k, rope_freq, chain); j++)
        angle *= plain_power(a->theta, -2.0L / (long double)a->rd);
    float turn[2] = {plain_cos(angle), plain_sin(angle)};
    float pair[2] = {x[i], i < half ? -x[i + half] : x[i - half]};
    for (size_t j = 0; j < 2 && SB_IS(k, rope_table, act); j++)
        turn[j] = sb_act(k, turn[j]);
    if (SB_IS(k, rope_pair, dot))
        return sb_act(k, plain_dot(pair, 1, turn, 1, 2));
    return sb_act(k, sb_act(k, pair[0] * turn[0]) + sb_act(k, pair[1] * turn[1]));
}

static void check_rope(const char *settings, sb_rope_args a, const float *in)
{
    size_t n = a.rows * a.heads * a.hd;
    sb_knobs k = test_knobs(settings);
    float *want = test_copy(NULL, n);
    a.x = test_copy(in, n);
    assert_int_equal(sb_backend_ref()->ops.rope(&k, &a), SB_OK);
    for (size_t e = 0; e < n; e++)
        want[e] = plain_rope(&k, &a, in + e / a.hd * a.hd, e / (a.heads * a.hd), e % a.hd);
    test_same(settings, a.x, want, n);
}

OP_TEST(rope)
{
    static const char *const settings[] = {
        "",
        "act=bf16",
        "rope_freq=torch",
        "rope_freq=chain",
        "act=bf16 rope_table=act",
        "act=bf16 rope_pair=products",
        "act=f16 rope_table=act rope_pair=products rope_freq=torch",
        "rope_pair=products"};
    static const size_t widths[][2] = {{2, 2},    {5, 4}, {64, 16}, {128, 32},
                                       {256, 64}, {9, 6}, {32, 24}};
    /* Beyond the sections of real models: a section that ends long before the others. */
    static const uint32_t sections[][3] = {{1, 0, 0},    {1, 1, 0}, {4, 3, 1}, {9, 3, 4},
                                           {11, 11, 10}, {1, 1, 1}, {4, 4, 4}};
    static const uint32_t position[3][4] = {
        {0, 1, 262143, 77}, {5, 0, 3, 1000}, {9, 2, 0, 16777215}};
    enum { T = 4, HEADS = 3 };
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(widths); i++) {
            sb_rope_args a = {.rows = T,
                              .heads = HEADS,
                              .hd = widths[i][0],
                              .rd = widths[i][1],
                              .theta = 1e7,
                              .position = {position[0], position[1], position[2]}};
            check_rope(settings[s], a, test_normal("x", T * HEADS * a.hd, 0, 1));
            a.section = sections[i];
            check_rope(settings[s], a, test_normal("y", T * HEADS * a.hd, 0, 1));
            check_rope(settings[s], a, test_hostile("z", T * HEADS * a.hd));
        }
}

OP_TEST(rope_at_position_0)
{
    enum { HD = 64 };
    static const uint32_t zero = 0;
    sb_knobs exact = test_knobs("");
    const float *in = test_normal("x", 2 * HD, 0, 1);
    float *x = test_copy(in, 2 * HD);
    RUN(rope, &exact, .x = x, .rows = 1, .heads = 2, .hd = HD, .rd = 16, .theta = 1e7,
        .position = {&zero, &zero, &zero});
    test_same("position 0", x, in, 2 * HD);
}

/* Frequency 0 turns by one radian per position: dimension 0 pairs with rd/2, and not with 1. */
OP_TEST(rope_pairs)
{
    enum { HD = 12, RD = 8 };
    static const uint32_t one = 1;
    sb_knobs exact = test_knobs("");
    float c = plain_cos(1), s = plain_sin(1);
    for (size_t i = 0; i < HD; i++) {
        float x[HD] = {0};
        x[i] = 1;
        RUN(rope, &exact, .x = x, .rows = 1, .heads = 1, .hd = HD, .rd = RD, .theta = 1e7,
            .position = {&one, &one, &one});
        for (size_t j = 0; j < HD; j++) {
            int pair = i < RD && j < RD && i % (RD / 2) == j % (RD / 2);
            assert_true((x[j] != 0) == (pair || i == j));
        }
        if (i == 0)
            assert_true(x[0] == c && x[RD / 2] == s);
        if (i == RD / 2)
            assert_true(x[0] == -s && x[RD / 2] == c);
        if (i >= RD)
            assert_true(x[i] == 1);
    }
}

/* R-8 with [11, 11, 10]: T, H, W in turn, and the last two frequencies are T and H. */
OP_TEST(rope_streams)
{
    enum { RD = 64, HALF = RD / 2 };
    static const char streams[] = "THWTHWTHWTHWTHWTHWTHWTHWTHWTHWTH";
    static const uint32_t section[3] = {11, 11, 10}, positions[3] = {1000003, 77, 40009};
    float x[RD] = {0};
    assert_int_equal(strlen(streams), HALF);
    sb_knobs exact = test_knobs("");
    for (size_t f = 0; f < HALF; f++)
        x[f] = 1;
    RUN(rope, &exact, .x = x, .rows = 1, .heads = 1, .hd = RD, .rd = RD, .theta = 1e7,
        .position = {&positions[0], &positions[1], &positions[2]}, .section = section);
    for (size_t f = 0; f < HALF; f++) {
        float frequency = plain_power(1e7, -(long double)f / HALF);
        size_t expected = (size_t)(strchr("THW", streams[f]) - "THW");
        for (size_t stream = 0; stream < 3; stream++) {
            float sine = plain_sin(frequency * (float)positions[stream]);
            if ((x[f + HALF] == sine) != (stream == expected))
                fail_msg("frequency %zu does not follow stream %c alone", f, streams[f]);
        }
    }
}

/* The last exact position, with the fastest frequency: the argument is reduced exactly. */
OP_TEST(rope_far_out)
{
    static const uint32_t last = (1u << 24) - 1;
    float x[2] = {1, 0};
    sb_knobs exact = test_knobs("");
    RUN(rope, &exact, .x = x, .rows = 1, .heads = 1, .hd = 2, .rd = 2, .theta = 1e7,
        .position = {&last, &last, &last});
    assert_true(x[0] == (float)cosl(16777215.0L) && x[1] == (float)sinl(16777215.0L));
    float y[2] = {NAN, 1};
    RUN(rope, &exact, .x = y, .rows = 1, .heads = 1, .hd = 2, .rd = 2, .theta = 1e7,
        .position = {&last, &last, &last});
    assert_int_equal(sb_bits_f32(y[0]), 0x7fc00000u);
    assert_int_equal(sb_bits_f32(y[1]), 0x7fc00000u);
}
