/* test_declared_modelopt.c - what the two files of ModelOpt declare, and where they contradict each
 * other. */
#include "tests/lib/suite.h"
#include "tests/unit/declared_cases.h"

#define LAYERS                                                                                     \
    "'quantized_layers':{'lm_head':{'quant_algo':'W4A16_NVFP4','group_size':16},"                  \
    "'" LAYER(0) "mlp.experts':{'quant_algo':'W4A16_NVFP4','group_size':16},"                      \
                 "'" LAYER(0) "mlp.shared_expert.up_proj':{'quant_algo':'NVFP4','group_size':16}," \
                              "'" LAYER(0) "linear_attn.in_proj_qkv':{'quant_algo':'FP8'}}"
#define MIXED(more) "'quant_method':'modelopt','quant_algo':'MIXED_PRECISION'" more
#define HF(more) "{'producer':{'name':'modelopt','version':'0.44.0'},'quantization':{" more "}}"

/* Layers of three kinds, as in the releases with quantized attention. Layers that are not listed
 * are not quantized, and one entry covers the experts of a layer. */
TEST(test_mixed_precision)
{
    sb_declared *d =
        declared_good(QUANT(MIXED(",'ignore':['mtp*','model.visual*']," LAYERS)), NULL, NULL);
    static const declared_case cases[] = {
        {"lm_head", W4A16, "quantized_layers \"lm_head\""},
        {LAYER(0) "mlp.experts.5.gate_proj", W4A16, "mlp.experts\""},
        {LAYER(0) "mlp.experts.gate_up_proj", W4A16, "mlp.experts\""},
        {LAYER(0) "mlp.experts", W4A16, "mlp.experts\""},
        {LAYER(0) "mlp.shared_expert.up_proj", W4A4, "shared_expert.up_proj"},
        {LAYER(0) "mlp.shared_expert.down_proj", NO, "not in the list of layers"},
        {LAYER(0) "linear_attn.in_proj_qkv", FP8_TENSOR, "in_proj_qkv"},
        {LAYER(0) "linear_attn.in_proj_a", NO, "not in the list of layers"},
        {LAYER(1) "mlp.experts.5.gate_proj", NO, "not in the list of layers"},
        {LAYER(0) "mlp.gate", NO, "not a linear layer"},
        {"mtp.fc", NO, "quantization_config.ignore[0] \"mtp*\""},
        {"mtp.layers.0.mlp.experts.3.up_proj", NO, "ignore[0]"},
        {"model.visual.blocks.0.attn.qkv", NO, "ignore[1]"},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(declared_ask(d, "lm_head").packing, SB_PACKED_MODELOPT);
    assert_int_equal(sb_declared_dialect(d), SB_DIALECT_modelopt);
    sb_declared_free(d);
}

/* One quant_algo and globs. Names match as a whole; the answer notes where vLLM matches a part. */
TEST(test_one_algorithm)
{
    sb_declared *d = declared_good(
        QUANT("'quant_method':'modelopt','quant_algo':'NVFP4','producer':{'version':'0.37.0'},"
              "'config_groups':{'group_0':{'targets':['Linear'],'weights':{'num_bits':4},"
              "'has_zero_point':false}},'kv_cache_scheme':{'dynamic':false,'num_bits':8,'type':"
              "'float'},'ignore':['lm_head','*.mlp.shared_expert.*','mtp.layers.0*','" LAYER(
                  0) "linear_attn.in_proj_qk?','layers.1','" LAYER(2) "mlp.experts']"),
        NULL, NULL);
    static const declared_case cases[] = {
        {"lm_head", NO, "ignore[0]"},
        {LAYER(0) "mlp.experts.5.gate_proj", W4A4, "quant_algo"},
        {LAYER(0) "mlp.experts.gate_up_proj", W4A4, "quant_algo"},
        {LAYER(2) "mlp.experts.5.gate_proj", NO, "ignore[5]"},
        {LAYER(0) "mlp.shared_expert.gate_proj", NO, "ignore[1]"},
        {LAYER(0) "mlp.shared_expert_gate", W4A4, "quant_algo"},
        {LAYER(0) "mlp.gate", NO, "not a linear layer"}, /* in no list */
        {LAYER(0) "linear_attn.in_proj_qkv", NO, "ignore[3]"},
        {LAYER(0) "linear_attn.in_proj_qkvz", W4A4, "quant_algo"},
        {LAYER(1) "self_attn.q_proj", W4A4, "quant_algo"},
        {"mtp.layers.0.self_attn.q_proj", NO, "ignore[2]"},
        {"mtp.fc", W4A4, "quant_algo"}, /* not excluded, although its tensor is not quantized */
        {LM "embed_tokens", NO, "not a linear layer"},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_FP8);
    assert_null(declared_ask(d, LAYER(0) "self_attn.q_proj").vllm_rule);
    assert_non_null(strstr(declared_ask(d, LAYER(1) "self_attn.q_proj").vllm_rule, "ignore[4]"));
    assert_non_null(strstr(declared_ask(d, LAYER(10) "self_attn.q_proj").vllm_rule, "ignore[4]"));
    assert_null(declared_ask(d, "lm_head").vllm_rule); /* we and vLLM agree: not quantized */
    assert_int_equal(sb_declared_notes(d), 0);
    sb_declared_free(d);
}

TEST(test_algorithms)
{
    static const struct {
        const char *algo;
        const char *answer;
        int pre_scaled;
    } cases[] = {
        {"'NVFP4','group_size':16", W4A4, 0},
        {"'W4A16_NVFP4'", W4A16, 0},
        {"'NVFP4_AWQ'", W4A4, 1},
        {"'NVFP4_SVD'", W4A4, 1},
        {"'W4A8_NVFP4_FP8','group_size':32",
         "NVFP4 in groups of 32, inputs 8-bit floats with a stored scale", 0},
        {"'FP8','group_size':16", FP8_TENSOR, 0}, /* a group size for a format without groups */
        {"'FP8_PC_PT'", FP8_ROWS, 0},
        {"'FP8_PER_CHANNEL_PER_TOKEN'", FP8_ROWS, 0},
        {"'fp8_pb_wo'", "FP8 in blocks of 128 x 128, inputs as they are", 0},
        {"'W4A16_AWQ'", INT4_128, 1},
        {"'INT4_AWQ','group_size':64", "INT4 in groups of 64, inputs as they are", 1},
        {"'MXFP8'", "MXFP8 in groups of 32, inputs 8-bit floats per token and group", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        sb_declared_text room;
        snprintf(text, sizeof text, HF("'quant_algo':%s,'exclude_modules':['lm_head']"),
                 cases[i].algo);
        sb_declared *d = declared_good(NULL, text, NULL);
        sb_declaration answer = declared_ask(d, LAYER(0) "mlp.shared_expert.up_proj");
        assert_string_equal(sb_declaration_text(&answer, &room), cases[i].answer);
        assert_int_equal(answer.pre_scaled, cases[i].pre_scaled);
        answer = declared_ask(d, "lm_head");
        assert_non_null(strstr(answer.rule, "quantization.exclude_modules[0]"));
        sb_declared_free(d);
    }
}

/* config.json decides; differences in hf_quant_config.json are noted. */
TEST(test_two_files_that_differ)
{
#define CONFIG                                                                                     \
    QUANT(MIXED(",'producer':{'name':'modelopt','version':'0.37.0'},'ignore':['mtp*']," LAYERS))
    sb_declared *d = declared_good(
        CONFIG,
        HF("'quant_algo':'MIXED_PRECISION','kv_cache_quant_algo':'FP8','exclude_modules':['mtp*',"
           "'lm_head'],'quantized_layers':{'lm_head':{'quant_algo':'NVFP4'},"
           "'" LAYER(0) "linear_attn.in_proj_qkv':{'quant_algo':'FP8'},"
                        "'" LAYER(9) "mlp.experts':{'quant_algo':'NVFP4'}}"),
        NULL);
    static const declared_case cases[] = {
        {"lm_head", W4A16, "quantized_layers"},
        {LAYER(9) "mlp.experts.0.up_proj", NO, "not in the list"}};
    DECLARED_CHECK(d, cases);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_NONE);
    assert_true(declared_has_note(
        d, "hf_quant_config.json says kv_cache_quant_algo fp8, but config.json none"));
    assert_true(declared_has_note(d, "says producer.version 0.44.0, but config.json 0.37.0"));
    assert_true(declared_has_note(
        d,
        "hf_quant_config.json excludes \"lm_head\" from quantization, but config.json does not"));
    assert_true(declared_has_note(d, "for 2 of its 3 quantized_layers: \"lm_head\" is " W4A4));
    assert_true(declared_has_note(d, "lacks 2 quantized_layers of config.json"));
    assert_int_equal(sb_declared_notes(d), 5);
    sb_declared_free(d);
    /* and no note where they agree */
    d = declared_good(QUANT(MIXED(",'producer':{'version':'0.44.0'},'ignore':['mtp*']," LAYERS)),
                      HF("'quant_algo':'MIXED_PRECISION','exclude_modules':['mtp*']," LAYERS),
                      NULL);
    assert_int_equal(sb_declared_notes(d), 0);
    sb_declared_free(d);
#undef CONFIG
}

/* The list of layers can be in three places. */
TEST(test_where_the_layers_are_listed)
{
    static const char in_hf[] = HF("'quant_algo':'MIXED_PRECISION'," LAYERS);
    sb_declared *d = declared_good(QUANT(MIXED("")), in_hf, NULL);
    static const declared_case listed[] = {{"lm_head", W4A16, "quantization.quantized_layers"},
                                           {"mtp.fc", NO, "not in the list"}};
    DECLARED_CHECK(d, listed);
    sb_declared_free(d);
    d = declared_good(
        QUANT(
            MIXED(",'config_groups':{'group_0':{'targets':['lm_head'],'weights':{'num_bits':4,"
                  "'type':'float','group_size':16}},'group_1':{'targets':['x.q_proj'],"
                  "'input_activations':{'num_bits':8},'weights':{'num_bits':8,'type':'float'}}}")),
        NULL, NULL);
    static const declared_case groups[] = {{"lm_head", W4A16, "config_groups.group_0.targets[0]"},
                                           {"x.q_proj", FP8_TENSOR, "group_1"},
                                           {"x.k_proj", NO, "not in the list"}};
    DECLARED_CHECK(d, groups);
    sb_declared_free(d);
    d = declared_good(QUANT(MIXED(",'ignore':['lm_head']")), NULL, NULL);
    static const declared_case nowhere[] = {
        {LAYER(0) "mlp.experts.0.up_proj", UNKNOWN, "without a list of layers"},
        {LAYER(0) "mlp.gate", NO, "not a linear layer"},
        {"lm_head", NO, "ignore[0]"}};
    DECLARED_CHECK(d, nowhere);
    sb_declared_free(d);
}
