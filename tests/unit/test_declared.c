/* test_declared.c - declarations of the smaller dialects, and the choice of the object that
 * declares. */
#include "tests/lib/suite.h"
#include "tests/unit/declared_cases.h"

TEST(test_block_fp8)
{
    sb_declared *d = declared_good(
        QUANT("'quant_method':'fp8','fmt':'e4m3','activation_scheme':'dynamic',"
              "'weight_block_size':[128,128],'modules_to_not_convert':['lm_head','" LAYER(
                  0) "mlp.gate','" LAYER(0) "linear_attn.in_proj_a','model.visual',"
                                            "'" LAYER(0) "mlp.shared_expert_gate','mtp."
                                                         "fc','" LM "layers.1.*attn']"),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.5.gate_proj", FP8_BLOCKS, "\"fp8\""},
        {LAYER(0) "mlp.experts.gate_up_proj", FP8_BLOCKS, "\"fp8\""},
        {LAYER(0) "mlp.gate", NO, "modules_to_not_convert[1]"},
        {LAYER(0) "mlp.gate_proj", FP8_BLOCKS, "\"fp8\""}, /* "mlp.gate" ends at a dot */
        {LAYER(3) "mlp.gate", NO, "not a linear layer"},
        {LAYER(0) "mlp.shared_expert_gate", NO, "modules_to_not_convert[4]"},
        {LAYER(0) "linear_attn.in_proj_a", NO, "modules_to_not_convert[2]"},
        {LAYER(0) "linear_attn.in_proj_b", FP8_BLOCKS, "\"fp8\""},
        {"model.visual.blocks.0.attn.qkv", NO, "modules_to_not_convert[3]"},
        {LAYER(1) "linear_attn.out_proj", NO, "modules_to_not_convert[6]"}, /* a pattern */
        {LAYER(1) "mlp.experts.0.up_proj", FP8_BLOCKS, "\"fp8\""},
        {LAYER(10) "linear_attn.out_proj", NO, "modules_to_not_convert[6]"}, /* also layers.10 */
        {"mtp.fc", NO, "modules_to_not_convert[5]"},
        {"mtp.layers.0.self_attn.q_proj", FP8_BLOCKS, "\"fp8\""},
        {LM "embed_tokens", NO, "not a linear layer"},
    };
    DECLARED_CHECK(d, cases);
    sb_declaration w = declared_ask(d, "mtp.layers.0.self_attn.q_proj");
    assert_true(w.packing == SB_PACKED_FP8_INVERSE && w.activation_group == 128 && !w.ue8m0);
    sb_declared_free(d);
    d = declared_good(QUANT("'quant_method':'fp8','activation_scheme':'static','ignored_layers':["
                            "'k_proj'],'scale_fmt':'ue8m0','weight_block_size':null"),
                      NULL, NULL);
    static const declared_case tensor[] = {{LAYER(3) "self_attn.q_proj", FP8_TENSOR, "\"fp8\""},
                                           {LAYER(3) "self_attn.k_proj", NO, "ignored_layers[0]"},
                                           {LAYER(3) "self_attn.xk_proj", FP8_TENSOR, "\"fp8\""}};
    DECLARED_CHECK(d, tensor);
    assert_true(declared_ask(d, LAYER(3) "self_attn.q_proj").ue8m0);
    sb_declared_free(d);
}

TEST(test_gptq)
{
    sb_declared *d = declared_good(
        QUANT("'quant_method':'gptq','bits':4,'group_size':128,'sym':true,'desc_act':false,"
              "'lm_head':false,'checkpoint_format':'gptq','meta':{'quantizer':['gptqmodel:5.0']},"
              "'dynamic':{'lm_head':{},'-:.*attn.*':{},'-:.*shared_expert.*':{},"
              "'+:.*layers\\\\.3\\\\..*down':{'bits':8,'group_size':32,'sym':false},"
              "'.*layers\\\\.3\\\\.':{'desc_act':true},'-:.*layers\\\\.3\\\\.':{},'-:mtp':{}}"),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.5.gate_proj", INT4_128, "quantization_config.bits"},
        {LAYER(0) "linear_attn.in_proj_a", NO, "dynamic \"-:.*attn.*\""},
        {LAYER(0) "mlp.shared_expert_gate", NO, "-:.*shared_expert.*"},
        {LAYER(3) "mlp.experts.0.down_proj",
         "INT8 in groups of 32 with zero points, inputs as they are", "+:.*layers"},
        {LAYER(3) "mlp.experts.0.up_proj", INT4_128, "dynamic \".*layers"}, /* the first match */
        {LAYER(0) "mlp.gate", NO, "not a linear layer"},
        {LM "embed_tokens", NO, "not a linear layer"},
        {"lm_head", NO, "lm_head is not true"},
        {"mtp.layers.0.mlp.experts.0.up_proj", NO, "-:mtp"},
        {"model.visual.blocks.0.mlp.linear_fc1", UNKNOWN, "outside the decoder"},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(declared_ask(d, LAYER(0) "mlp.experts.5.gate_proj").packing, SB_PACKED_GPTQ);
    assert_true(declared_ask(d, LAYER(3) "mlp.experts.0.up_proj").act_order);
    assert_false(declared_ask(d, LAYER(3) "mlp.experts.0.down_proj").act_order);
    sb_declared_free(d);
    d = declared_good(QUANT("'quant_method':'gptq','bits':8,'group_size':-1,'lm_head':true,"
                            "'format':'gptq_v2','checkpoint_format':'gptq_v2','dynamic':null"),
                      NULL, NULL);
    static const declared_case rows[] = {
        {"lm_head", "INT8 with a scale per row, inputs as they are", "bits"},
        {LAYER(0) "mlp.shared_expert_gate", NO, "one row"},
        {"mtp.fc", UNKNOWN, "outside the decoder"},
    };
    DECLARED_CHECK(d, rows);
    assert_int_equal(declared_ask(d, "lm_head").packing, SB_PACKED_GPTQ_V2);
    sb_declared_free(d);
}

/* AWQ matches parts of names: "gate" excludes more than the router. */
TEST(test_awq)
{
    sb_declared *d = declared_good(
        QUANT("'quant_method':'awq','bits':4,'group_size':128,'zero_point':true,'version':'GEMM',"
              "'modules_to_not_convert':['mlp.gate','linear_attn']"),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.5.gate_proj",
         "INT4 in groups of 128 with zero points, inputs as they are", "bits"},
        {LAYER(0) "mlp.gate", NO, "modules_to_not_convert[0]"},
        {LAYER(0) "mlp.gate_proj", NO, "modules_to_not_convert[0]"},
        {LAYER(0) "linear_attn.out_proj", NO, "modules_to_not_convert[1]"},
        {LAYER(0) "mlp.shared_expert_gate", NO, "one row"},
        {"lm_head", NO, "head"},
        {"mtp.fc", UNKNOWN, "outside"},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(declared_ask(d, LAYER(3) "mlp.up_proj").packing, SB_PACKED_AWQ);
    sb_declared_free(d);
}

#define AUTO_ROUND(more)                                                                           \
    QUANT("'quant_method':'auto-round','bits':4,'group_size':128,'sym':true,'data_type':'int',"    \
          "'iters':200,'autoround_version':'0.9.0'" more)

TEST(test_auto_round)
{
    sb_declared *d = declared_good(
        AUTO_ROUND(
            ",'packing_format':'auto_round:auto_gptq','block_name_to_quantize':["
            "'" LM "layers','mtp.layers'],'extra_config':{"
            "'" LAYER(0) "mlp.shared_expert.up_proj':{'bits':16,'data_type':'float'},"
                         "'.*shared_expert.*':{'bits':16},'shared_expert.up_proj$':{'bits':8},"
                         "'expert.u?p':{'bits':2},"
                         "'" LAYER(
                             0) "self_attn.q_proj':{'group_size':64,'sym':false},"
                                "'mtp.fc':{'bits':16,'data_type':'fp'},'lm_head':{'bits':8}}"),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.5.gate_proj", INT4_128, "block_name_to_quantize[0]"},
        {LAYER(0) "linear_attn.in_proj_a", INT4_128, "block_name_to_quantize[0]"},
        {LAYER(0) "mlp.shared_expert.up_proj", NO, "up_proj\""},
        {LAYER(1) "mlp.shared_expert.up_proj", "INT8 in groups of 128, inputs as they are",
         "extra_config \"shared_expert.up_proj$\""}, /* the longest pattern, not the first */
        {LAYER(1) "mlp.shared_expert.down_proj", NO, "extra_config \".*shared_expert.*\""},
        {LAYER(0) "self_attn.q_proj", "INT4 in groups of 64 with zero points, inputs as they are",
         "self_attn.q_proj"},
        {LAYER(0) "mlp.gate", NO, "not a linear layer"},
        {"lm_head", "INT8 in groups of 128, inputs as they are", "extra_config \"lm_head\""},
        {"mtp.fc", NO, "extra_config \"mtp.fc\""},
        {"mtp.layers.0.mlp.experts.0.up_proj", INT4_128, "block_name_to_quantize[1]"},
        {"model.visual.blocks.0.attn.qkv", NO, "outside the blocks"},
        {LM "layersx.0.self_attn.q_proj", NO, "outside the blocks"},
    };
    DECLARED_CHECK(d, cases);
    assert_non_null(strstr(declared_ask(d, LAYER(1) "mlp.shared_expert.up_proj").vllm_rule,
                           ".*shared_expert.*"));
    assert_null(declared_ask(d, LAYER(1) "mlp.shared_expert.down_proj").vllm_rule);
    assert_null(declared_ask(d, LAYER(0) "mlp.shared_expert.up_proj").vllm_rule); /* exact */
    assert_int_equal(declared_ask(d, "lm_head").packing, SB_PACKED_GPTQ);
    sb_declared_free(d);
}

TEST(test_packings_of_auto_round)
{
    static const struct {
        const char *text;
        const char *answer;
        sb_declared_packing packing;
    } cases[] = {
        {AUTO_ROUND(""), INT4_128, SB_PACKED_GPTQ},
        {AUTO_ROUND(",'packing_format':'auto_round:gptqmodel'"), INT4_128, SB_PACKED_GPTQ_V2},
        {AUTO_ROUND(",'packing_format':'auto_round'"), INT4_128, SB_PACKED_GPTQ_V2},
        {AUTO_ROUND(",'packing_format':'auto_round:auto_awq'"), INT4_128, SB_PACKED_AWQ},
        {QUANT("'quant_method':'auto-round','bits':4,'group_size':32,'data_type':'mx_fp',"
               "'act_bits':4,'packing_format':'auto_round:llm_compressor'"),
         "MXFP4 in groups of 32, inputs 4-bit floats per token and group", SB_PACKED_CT_MXFP4},
        {QUANT("'quant_method':'auto-round','bits':4,'group_size':16,'data_type':'nv_fp',"
               "'act_bits':4,'packing_format':'auto_round:llm_compressor'"),
         W4A4, SB_PACKED_CT_NVFP4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sb_declared_text room;
        sb_declared *d = declared_good(cases[i].text, NULL, NULL);
        sb_declaration answer = declared_ask(d, LAYER(0) "mlp.experts.0.up_proj");
        assert_string_equal(sb_declaration_text(&answer, &room), cases[i].answer);
        assert_int_equal(answer.packing, cases[i].packing);
        /* without a list of blocks, the head is outside the blocks and modules outside of the text
         * model stay open */
        assert_int_equal(declared_ask(d, "lm_head").answer, SB_DECLARED_NO);
        assert_int_equal(declared_ask(d, "mtp.fc").answer, SB_DECLARED_UNKNOWN);
        sb_declared_free(d);
    }
    /* one string with commas */
    sb_declared *d = declared_good(
        AUTO_ROUND(",'block_name_to_quantize':'" LM "layers.0 , mtp.layers,'"), NULL, NULL);
    assert_int_equal(declared_ask(d, LAYER(0) "mlp.up_proj").answer, SB_DECLARED_YES);
    assert_int_equal(declared_ask(d, LAYER(1) "mlp.up_proj").answer, SB_DECLARED_NO);
    assert_int_equal(declared_ask(d, "mtp.layers.0.mlp.up_proj").answer, SB_DECLARED_YES);
    sb_declared_free(d);
}

TEST(test_mxfp4)
{
    sb_declared *d = declared_good(
        QUANT("'quant_method':'mxfp4','modules_to_not_convert':['" LAYER(1) "mlp.experts']"), NULL,
        NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.gate_up_proj", "MXFP4 in groups of 32, inputs as they are", "mxfp4"},
        {LAYER(1) "mlp.experts.gate_up_proj", NO, "modules_to_not_convert[0]"},
        {LAYER(0) "mlp.shared_expert.up_proj", NO, "experts only"},
    };
    DECLARED_CHECK(d, cases);
    sb_declared_free(d);
}

#define FP8 "'quant_method':'fp8'"
#define AWQ "'quant_method':'awq','bits':4"

TEST(test_which_object_declares)
{
    static const struct {
        declared_texts texts;
        sb_dialect dialect;
    } cases[] = {
        {{QUANT(FP8), NULL, NULL}, SB_DIALECT_fp8},
        {{"{'text_config':{'quantization_config':{" FP8 "}}}", NULL, NULL}, SB_DIALECT_fp8},
        {{"{'quantization_config':null,'compression_config':{'config_groups':{}}}", NULL, NULL},
         SB_DIALECT_ct},
        {{"{'quantization_config':{" AWQ "},'text_config':{'quantization_config':{" FP8 "}}}", NULL,
          NULL},
         SB_DIALECT_awq},
        {{"{'compression_config':{'config_groups':{}},'text_config':{'quantization_config':{" FP8
          "}}}",
          NULL, NULL},
         SB_DIALECT_fp8},
        {{"{}", NULL, "{" AWQ "}"}, SB_DIALECT_awq},
        {{"{}", "{'quantization':{'quant_algo':'FP8'}}", "{" AWQ "}"}, SB_DIALECT_awq},
        {{"{}", "{'quantization':{'quant_algo':'FP8'}}", NULL}, SB_DIALECT_modelopt},
        {{QUANT("'quant_algo':'FP8'"), NULL, NULL}, SB_DIALECT_modelopt},
        {{QUANT("'quant_method':'modelopt_fp4','quant_algo':'NVFP4'"), NULL, NULL},
         SB_DIALECT_modelopt},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const declared_texts *t = &cases[i].texts;
        sb_declared *d = declared_good(t->config, t->hf_quant, t->quantization);
        assert_int_equal(sb_declared_dialect(d), cases[i].dialect);
        sb_declared_free(d);
    }
    for (size_t i = 0; i < 3; i++) { /* no declaration */
        static const char *const none[3] = {"{}", "{'quantization_config':null}",
                                            "{'text_config':{'a':1}}"};
        sb_error err;
        sb_declared *d = (sb_declared *)&err;
        check_status("none", declared_read(&(declared_texts){none[i], NULL, NULL}, &d, &err), &err,
                     SB_OK, "");
        assert_null(d);
        assert_int_equal(declared_ask(NULL, "lm_head").answer, SB_DECLARED_NO);
    }
}

TEST(test_notes_about_other_files)
{
    sb_declared *d =
        declared_good(QUANT(AWQ ",'group_size':128"), "{'quantization':{'quant_algo':'FP8'}}",
                      "{" AWQ ",'group_size':64,'other':1}");
    assert_int_equal(sb_declared_notes(d), 2);
    assert_true(
        declared_has_note(d, "quantization_config.json has group_size 64, but config.json 128"));
    assert_true(declared_has_note(
        d, "hf_quant_config.json is ignored: the declaration with quant_method awq"));
    sb_declared_free(d);
    d = declared_good(QUANT(AWQ ",'group_size':128"), NULL, "{" AWQ ",'group_size':128}");
    assert_int_equal(sb_declared_notes(d), 0);
    sb_declared_free(d);
}

TEST(test_caches)
{
    static const struct {
        const char *value;
        sb_declared_kv kv;
    } cases[] = {{"null", SB_KV_NONE},
                 {"'FP8'", SB_KV_FP8},
                 {"'fp8'", SB_KV_FP8},
                 {"'NVFP4'", SB_KV_NVFP4},
                 {"'INT8'", SB_KV_INT8},
                 {"'none'", SB_KV_NONE},
                 {"{'num_bits':4,'type':'float'}", SB_KV_NVFP4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "{'quantization':{'quant_algo':'FP8','kv_cache_quant_algo':%s}}", cases[i].value);
        sb_declared *d = declared_good("{}", text, NULL);
        assert_int_equal(sb_declared_kv_cache(d), cases[i].kv);
        sb_declared_free(d);
    }
}
