/* ops_engines.c - the knobs of engines, with numbers worked out by hand: K-8, K-11, K-14, K-24,
 * K-46 to K-52. bfloat16 has 8 bits of significand: from 256 to 512 it holds only even numbers. */
#include "tests/unit/ops.h"

#include <math.h>

#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "ref/ops/kv_cache.h"

/* Scores 0 and -s, values 0 and v: f32 gives R(v p), act R(v R(p)), flash R(R(e) v / (1 + e)). */
OP_TEST(flash_divides_at_the_end)
{
    static const char *const forms[3] = {"act=bf16", "act=bf16 scores=act",
                                         "act=bf16 scores=flash"};
    static const float q[1] = {1};
    int differ[3] = {0};
    for (int n = 1; n < 40; n++) {
        float got[3], keys[2] = {0, -0.0625f * (float)n}, values[2] = {0, 1.6953125f};
        const float e = plain_exp(keys[1]), p = e / (1 + e), v = values[1];
        for (size_t i = 0; i < 3; i++) {
            sb_knobs k = test_knobs(forms[i]);
            const float flash = plain_dot(&v, 1, (float[1]){sb_act(&k, e)}, 1, 1) / (1 + e);
            const float of[3] = {v * p, v * sb_act(&k, p), flash}, want = sb_act(&k, of[i]);
            float *out = test_output(1);
            RUN(attention, &k, .q = q, .keys = keys, .values = values, .rows = 1, .first = 1,
                .heads = 1, .kv_heads = 1, .hd = 1, .out = out);
            test_same(forms[i], out, &want, 1);
            got[i] = *out;
        }
        for (size_t i = 0; i < 3; i++)
            differ[i] += got[i] != got[(i + 1) % 3];
    }
    assert_true(differ[0] > 0 && differ[1] > 0 && differ[2] > 0);
}

/* 1 + 2^-11 rounds to 1 in binary16, also in a query; a probability of 2^-25 rounds to 0. */
OP_TEST(scores_in_binary16)
{
    static const float q[1] = {1 + 0x1p-11f}, keys[2] = {0x1p11f, 0x1p11f - 0x1p-2f};
    static const float values[2] = {1, 3};
    const float gap = plain_exp(-0x1p-2f), p = sb_round_to(SB_FORMAT_f16, gap / (1 + gap));
    const float first = sb_round_to(SB_FORMAT_f16, 1 / (1 + gap)), want = first + 3 * p;
    sb_knobs k = test_knobs("scores=f16");
    float *out = test_output(1);
    RUN(attention, &k, .q = q, .keys = keys, .values = values, .rows = 1, .first = 1, .heads = 1,
        .kv_heads = 1, .hd = 1, .out = out);
    assert_true(fabsf(*out - want) <= 0x1p-23f);
    assert_true(fabsf(*out - (1 + 3 * gap) / (1 + gap)) > 0x1p-14f);
}

OP_TEST(cache_in_binary16)
{
    static const float in[] = {1 + 0x1p-11f, 1 + 0x3p-11f, -0.1f, 65519, 65520, 0x1p-25f, -0.0f};
    static const float want[] = {1, 1 + 0x1p-9f, -0x1.998p-4f, 65504, INFINITY, 0, -0.0f};
    float out[COUNT(in)];
    sb_knobs k = test_knobs("kv_cache=f16");
    sb_kv_store(&k, 0.5f, in, COUNT(in), out); /* only FP8 uses scales */
    test_same("cache", out, want, COUNT(in));
    assert_true(sb_kv_scale(&k, 0.5f) == 1.0f);
}

/* With theta = 2^12 and rd = 8 the step is 2^-3 and all angles are exact. With theta = 3 and rd = 8
 * the third angle is two rounded products. */
OP_TEST(angles_in_a_chain)
{
    static const uint32_t position[1] = {5};
    const float step = plain_power(3, -0.25L), twice = 5.0f * step * step, thrice = twice * step;
    const float want[3] = {plain_cos(5), plain_cos(5.0f * step), plain_cos(thrice)};
    sb_knobs chain = test_knobs("rope_freq=chain"), exact = test_knobs("");
    float x[8] = {1, 1, 1, 1}, y[8] = {1, 1, 1, 1};
    RUN(rope, &chain, .x = x, .rows = 1, .heads = 1, .hd = 8, .rd = 8, .theta = 3,
        .position = {position, position, position});
    assert_true(x[0] == want[0] && x[1] == want[1] && x[3] == want[2]);
    RUN(rope, &exact, .x = y, .rows = 1, .heads = 1, .hd = 8, .rd = 8, .theta = 3,
        .position = {position, position, position});
    assert_true(y[3] == plain_cos(5.0f * plain_power(3, -0.75L)));
    for (size_t i = 0; i < 8; i++) {
        x[i] = y[i] = i < 4;
    }
    RUN(rope, &chain, .x = x, .rows = 1, .heads = 1, .hd = 8, .rd = 8, .theta = 0x1p12,
        .position = {position, position, position});
    RUN(rope, &exact, .x = y, .rows = 1, .heads = 1, .hd = 8, .rd = 8, .theta = 0x1p12,
        .position = {position, position, position});
    test_same("steps of a power of two", x, y, 8);
}

/* K-8: the inverse frequencies of transformers 5.14.1 and torch 2.15.0 for theta = 1e7 and rd = 24
 * (Qwen3_5TextRotaryEmbedding.inv_freq). Seven of twelve are not RN( 1 / RN( theta^(2f/rd) ) ). */
OP_TEST(frequencies_of_torch)
{
    static const uint32_t recorded[12] = {0x3f800000, 0x3e85a3da, 0x3d8b8753, 0x3c91ad39,
                                          0x3b981877, 0x3a9ecc21, 0x39a5cb60, 0x38ad1991,
                                          0x37b4ba1e, 0x36bcb0c1, 0x35c50137, 0x34cdaf6a};
    static const uint32_t positions[] = {1, 140, 1001, 262143, 16777215};
    int others = 0;
    sb_knobs torch = test_knobs("rope_freq=torch"), exact = test_knobs("");
    for (size_t p = 0; p < COUNT(positions); p++) {
        const uint32_t *at = &positions[p];
        float x[24], y[24], want[24];
        for (size_t i = 0; i < 24; i++) {
            float angle = sb_f32_from_bits(recorded[i % 12]) * (float)*at;
            x[i] = y[i] = i < 12;
            want[i] = i < 12 ? plain_cos(angle) : plain_sin(angle);
        }
        RUN(rope, &torch, .x = x, .rows = 1, .heads = 1, .hd = 24, .rd = 24, .theta = 1e7,
            .position = {at, at, at});
        RUN(rope, &exact, .x = y, .rows = 1, .heads = 1, .hd = 24, .rd = 24, .theta = 1e7,
            .position = {at, at, at});
        test_same("torch, rd = 24", x, want, 24);
        for (size_t i = 0; i < 24; i++)
            others += x[i] != y[i];
    }
    assert_true(others > 24);
}

/* 1 + 2^-9 rounds to 1 in bfloat16. With ss / n = 1 and eps = 0 the output is the factor itself. */
OP_TEST(norm_weight_is_rounded)
{
    static const float in[2] = {256, 256}, weight[2] = {0x1p-9f, 0x1p-7f};
    sb_knobs k = test_knobs("act=f16 norm_weight=act"), wide = test_knobs("norm_weight=act");
    sb_matrix w = test_matrix(SB_FORMAT_f32, weight, 1, 2);
    float *out = test_output(2);
    RUN(rmsnorm, &k, .in = in, .weight = &w, .eps = 0, .rows = 1, .n = 2, .out = out);
    assert_true(out[0] == 1 + 0x1p-9f && out[1] == 1 + 0x1p-7f);
    sb_knobs narrow = test_knobs("act=bf16 norm_weight=act");
    static const float three[2] = {1.5f, 0.5f}; /* ss / n = 1.25 */
    const float r = plain_rsqrt(1.25f);
    RUN(rmsnorm, &narrow, .in = three, .weight = &w, .eps = 0, .rows = 1, .n = 2, .out = out);
    assert_true(out[0] == sb_act(&narrow, 1.5f * r));
    assert_true(out[1] == sb_act(&narrow, 0.5f * r * (1 + 0x1p-7f)));
    RUN(rmsnorm, &wide, .in = three, .weight = &w, .eps = 0, .rows = 1, .n = 2, .out = out);
    assert_true(out[0] == 1.5f * r * (1 + 0x1p-9f));
}

/* 1 + 1 + 256 is 258 in bfloat16 in this order, 256 in the opposite one. */
OP_TEST(experts_in_eager_order)
{
    static const float f[3] = {256, 1, 1}, w[3] = {1, 1, 1}, zero = 0;
    static const struct {
        uint32_t ids[3];
        const char *form;
        float want;
    } cases[] = {
        {{9, 2, 5}, "act=bf16 moe_sum=eager", 258}, {{0, 2, 5}, "act=bf16 moe_sum=eager", 256},
        {{3, 2, 5}, "act=bf16 moe_sum=eager", 256}, {{0, 2, 5}, "act=bf16 moe_sum=after", 258},
        {{0, 2, 5}, "act=bf16 moe_sum=slots", 258}, {{0, 2, 5}, "moe_sum=eager", 258},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        sb_knobs k = test_knobs(cases[i].form);
        float *out = test_output(1);
        RUN(moe_combine, &k, .expert_out = f, .weights = w, .ids = cases[i].ids,
            .shared_out = &zero, .kept = 3, .n = 1, .out = out);
        if (*out != cases[i].want)
            fail_msg("%s: %g, expected %g", cases[i].form, (double)*out, (double)cases[i].want);
    }
}

/* f = 257 is not a bfloat16 value. Half of it is 128.5 and rounds to 128 (to even); half of R(f) =
 * 256 is 128 as well, but 2 f is 514, and 2 R(f) is 512. */
OP_TEST(weights_inside_down_proj)
{
    static const float in[2] = {256, 1}, ones[2] = {1, 1}, two[1] = {2}, zero = 0;
    static const struct {
        const char *form;
        float f, want;
    } cases[] = {
        {"act=bf16 moe_sum=after", 256, 512},
        {"act=bf16 moe_sum=epilogue", 257, 514 - 2}, /* 514 is half-way: to even */
        {"act=f16 moe_sum=epilogue", 257, 514},
        {"act=bf16 moe_sum=slots", 256, 512},
        {"act=bf16", 256, 512},
        {"act=bf16 moe_sum=wide", 257, 514 - 2},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        sb_knobs k = test_knobs(cases[i].form);
        sb_matrix w = test_matrix(SB_FORMAT_f32, ones, 1, 2);
        float *f = test_output(1), *out = test_output(1);
        RUN(linear, &k, .weight = &w, .kind = SB_LINEAR_expert_down, .in = in, .rows = 1, .out = f);
        assert_true(*f == cases[i].f);
        RUN(moe_combine, &k, .expert_out = f, .weights = two, .shared_out = &zero, .kept = 1,
            .n = 1, .out = out);
        assert_true(*out == cases[i].want);
    }
}

/* K-14: "wide leaves gate, up, silu(gate) and f_e of routed experts in binary32, and rounds no
 * t_i", where the shared expert rounds its silu(gate). A t_e of 257 / 2 = 128.5 is not 128. */
OP_TEST(routed_experts_that_stay_wide)
{
    static const float gate = 1, zero = 0, f[2] = {257, 1}, halves[2] = {0.5f, 0.5f};
    sb_knobs wide = test_knobs("act=bf16 swiglu=act router_weight=act moe_sum=wide");
    sb_knobs slots = test_knobs("act=bf16 swiglu=act router_weight=act moe_sum=slots");
    int differ = 0;
    for (int n = 128; n < 256; n++) {
        const float up = (float)n, silu = plain_sigmoid(1);
        float got[2];
        for (int mlp = 0; mlp < 2; mlp++)
            RUN(swiglu, &wide, .gate = &gate, .up = &up, .count = 1,
                .kind = mlp ? SB_MLP_shared : SB_MLP_expert, .out = got + mlp);
        assert_true(got[0] == sb_act(&wide, silu * up));
        assert_true(got[1] == sb_act(&wide, sb_act(&wide, silu) * up));
        differ += got[0] != got[1];
    }
    assert_true(differ > 0);
    float *out = test_output(1), *other = test_output(1);
    RUN(moe_combine, &wide, .expert_out = f, .weights = halves, .shared_out = &zero, .kept = 2,
        .n = 1, .out = out);
    RUN(moe_combine, &slots, .expert_out = f, .weights = halves, .shared_out = &zero, .kept = 2,
        .n = 1, .out = other);
    assert_true(*out == 129 && *other == 128); /* 128.5 + 0.5, and 128 + 0.5 to even */
}

/* sigmoid(1) = 0.73105860 rounds to 187/256 in bfloat16. Step by step the result is R(187/256) -
 * 1/2 = 59/256. In one sum the result is 0.2310586, which rounds to the bfloat16 value 237/1024. */
OP_TEST(shared_gate_in_one_sum)
{
    static const float one = 1, three = 3;
    static const struct {
        float routed, steps, fused;
    } cases[] = {{-0.5f, 59.0f / 256, 237.0f / 1024}, {-4, -1.8125f, -1.8046875f}};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int fused = 0; fused < 2; fused++) {
            sb_knobs k = test_knobs(fused ? "act=bf16 moe_sum=slots shared_gate=fused"
                                          : "act=bf16 moe_sum=slots");
            float *out = test_output(1);
            RUN(moe_combine, &k, .expert_out = &cases[i].routed, .weights = &one,
                .shared_out = i ? &three : &one, .shared_logit = 1, .kept = 1, .n = 1, .out = out);
            assert_true(*out == (fused ? cases[i].fused : cases[i].steps));
        }
}

/* 257 under each knob, in each kind of layer: rounded by R of R-2, or not. */
OP_TEST(outputs_that_stay_wide)
{
    static const float in[2] = {256, 1}, ones[2] = {1, 1};
    static const struct {
        const char *knob;
        sb_linear_kind kind; /* the kind that stays wide */
    } cases[] = {
        {"router_logits=f32", SB_LINEAR_router},      {"logits=f32", SB_LINEAR_head},
        {"shared_gate=fused", SB_LINEAR_shared_gate}, {"moe_sum=epilogue", SB_LINEAR_expert_down},
        {"moe_sum=wide", SB_LINEAR_expert_down},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int kind = 0; kind <= SB_LINEAR_expert_in; kind++)
            for (int format = 0; format < 2; format++) { /* read in place, or cast first (K-2) */
                sb_knobs k = test_knobs(cases[i].knob), bf16 = test_knobs("act=bf16 params=act");
                k.value[SB_KNOB_act] = bf16.value[SB_KNOB_act];
                k.value[SB_KNOB_params] = bf16.value[SB_KNOB_params];
                sb_matrix w = test_matrix(format ? SB_FORMAT_bf16 : SB_FORMAT_f32, ones, 1, 2);
                float *out = test_output(1);
                RUN(linear, &k, .weight = &w, .kind = (sb_linear_kind)kind, .in = in, .rows = 1,
                    .out = out);
                const int also = kind == SB_LINEAR_expert_in && SB_IS(&k, moe_sum, wide);
                const int stays = also || (sb_linear_kind)kind == cases[i].kind;
                assert_true(*out == (stays ? 257.0f : 256.0f));
            }
}

/* Which kind of MLP rounds silu(gate). Rows: expert, shared, dense. */
OP_TEST(silu_of_each_mlp)
{
    static const float gate = 0.1875f, up = 1.5f;
    static const struct {
        const char *knobs;
        int rounds[3];
    } cases[] = {
        {"act=bf16", {0, 0, 0}},
        {"act=bf16 swiglu=act", {1, 1, 1}},
        {"act=bf16 swiglu=act swiglu_dense=dense_f32", {1, 1, 0}},
        {"act=bf16 swiglu=act swiglu_dense=shared_f32", {1, 0, 0}},
        {"act=bf16 swiglu_dense=shared_f32", {0, 0, 0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int kind = 0; kind <= SB_MLP_dense; kind++) {
            sb_knobs k = test_knobs(cases[i].knobs);
            float silu = plain_silu(gate), *out = test_output(1);
            float rounded = sb_act(&k, sb_act(&k, silu) * up), whole = sb_act(&k, silu * up);
            RUN(swiglu, &k, .gate = &gate, .up = &up, .count = 1, .kind = (sb_mlp_kind)kind,
                .out = out);
            assert_true(rounded != whole);
            assert_true(*out == (cases[i].rounds[kind] ? rounded : whole));
        }
}
