/* test_declared_ct.c - what configurations of compressed-tensors declare, and for which modules. */
#include "tests/lib/suite.h"
#include "tests/unit/declared_cases.h"

#define NVFP4_ARGS(dynamic)                                                                        \
    "{'actorder':null,'block_structure':null,'dynamic':" dynamic ",'group_size':16,'num_bits':4,"  \
    "'observer':'memoryless_minmax','observer_kwargs':{},'scale_dtype':'torch.float8_e4m3fn',"     \
    "'strategy':'tensor_group','symmetric':true,'type':'float','zp_dtype':null}"
#define NVFP4_GROUP(targets)                                                                       \
    "{'format':null,'input_activations':" NVFP4_ARGS(                                              \
        "'local'") ",'output_activations':null,"                                                   \
                   "'targets':[" targets "],'weights':" NVFP4_ARGS("false") "}"
#define CT(format, groups, more)                                                                   \
    QUANT("'quant_method':'compressed-tensors','format':'" format "','config_groups':{" groups     \
          "}" more)
#define SIMPLE(format, targets, weights, more)                                                     \
    CT(format, "'group_0':{'targets':[" targets "],'weights':{" weights "}" more "}", "")

/* As llm-compressor writes it: the ignore list names every module of any class. */
TEST(test_an_expanded_list)
{
    sb_declared *d = declared_good(
        CT("nvfp4-pack-quantized", "'group_0':" NVFP4_GROUP("'Linear'"),
           ",'global_compression_ratio':null,'ignore':['" LAYER(0) "linear_attn.norm','" LAYER(0) "linear_attn.in_proj_qkv','" LAYER(
               0) "linear_attn.conv1d','" LAYER(0) "mlp.gate','" LAYER(0) "mlp.shared_expert_gate',"
                                                                          "'lm_head','re:^mtp.*'],"
                                                                          "'kv_cache_scheme':null,'"
                                                                          "quantization_status':'"
                                                                          "compressed','sparsity_"
                                                                          "config':{},"
                                                                          "'transform_config':{},'"
                                                                          "version':'0.12.0','some_"
                                                                          "later_key':[1]"),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.5.gate_proj", W4A4, "config_groups.group_0.targets[0] \"Linear\""},
        {LAYER(0) "mlp.shared_expert.gate_proj", W4A4, "\"Linear\""},
        {LAYER(3) "self_attn.q_proj", W4A4, "\"Linear\""},
        {LAYER(0) "linear_attn.in_proj_qkv", NO, "quantization_config.ignore[1]"},
        {LAYER(1) "linear_attn.in_proj_qkv", W4A4, "\"Linear\""},
        {LAYER(0) "mlp.gate", NO, "ignore[3]"},
        {LAYER(1) "mlp.gate", NO, "no target of"}, /* the router is not an nn.Linear */
        {LAYER(0) "mlp.shared_expert_gate", NO, "ignore[4]"},
        {LAYER(1) "mlp.shared_expert_gate", W4A4, "\"Linear\""},
        {LAYER(0) "mlp.experts.gate_up_proj", NO, "no target of"}, /* nor are fused experts */
        {LAYER(0) "mlp.experts", NO, "no target of"},
        {LAYER(0) "linear_attn.conv1d", NO, "ignore[2]"},
        {LAYER(1) "linear_attn.conv1d", NO, "no target of"},
        {LAYER(1) "input_layernorm", NO, "no target of"},
        {LM "embed_tokens", NO, "no target of"},
        {"lm_head", NO, "ignore[5]"},
        {"mtp.layers.0.mlp.experts.5.gate_proj", NO, "ignore[6] \"re:^mtp.*\""},
        {"mtp.fc", NO, "ignore[6]"},
    };
    DECLARED_CHECK(d, cases);
    sb_declaration w = declared_ask(d, LAYER(0) "mlp.experts.5.gate_proj");
    assert_true(w.family == SB_FAMILY_NVFP4 && w.packing == SB_PACKED_CT_NVFP4);
    assert_true(w.bits == 4 && w.group_size == 16 && w.symmetric && !w.act_order && !w.vllm_rule);
    assert_true(w.activation == SB_ACTIVATION_NVFP4_LOCAL && w.activation_bits == 4);
    assert_int_equal(sb_declared_dialect(d), SB_DIALECT_ct);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_NONE);
    assert_int_equal(sb_declared_notes(d), 0);
    sb_declared_free(d);
}

/* Each target has a group with its own format: experts in NVFP4, attention in FP8 by rows. */
TEST(test_mixed_precision)
{
    sb_declared *d = declared_good(
        CT("mixed-precision",
           "'group_0':{'format':'nvfp4-pack-quantized','targets':['re:.*mlp\\\\.(experts|"
           "shared_expert)\\\\..*'],'weights':{'num_bits':4,'type':'float','strategy':"
           "'tensor_group','group_size':16}},"
           "'group_1':{'format':'float-quantized','targets':['re:.*self_attn.*','re:.*linear_attn."
           "(in_proj_qkv|in_proj_z|out_proj)$','lm_head'],'weights':{'num_bits':8,'type':'float',"
           "'strategy':'channel'},'input_activations':{'num_bits':8,'type':'float','dynamic':true,"
           "'strategy':'token'}}",
           ",'ignore':[],'kv_cache_scheme':{'num_bits':8,'type':'float','strategy':'tensor',"
           "'dynamic':false,'symmetric':true}"),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(0) "mlp.experts.5.gate_proj", W4A16, "group_0.targets[0] \"re:.*mlp"},
        {LAYER(0) "mlp.shared_expert.up_proj", W4A16, "group_0"},
        {LAYER(0) "mlp.shared_expert_gate", NO, "no target of"},
        {LAYER(3) "self_attn.k_proj", FP8_ROWS, "group_1.targets[0]"},
        {LAYER(3) "self_attn.k_norm", FP8_ROWS, "group_1.targets[0]"}, /* the pattern matches it */
        {LAYER(0) "linear_attn.in_proj_z", FP8_ROWS, "group_1.targets[1]"},
        {LAYER(0) "linear_attn.in_proj_a", NO, "no target of"},
        {"lm_head", FP8_ROWS, "group_1.targets[2] \"lm_head\""},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(declared_ask(d, "lm_head").packing, SB_PACKED_CT_FLOAT);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_FP8);
    sb_declared_free(d);
}

/* re.match: anchored at the first character, not at the last. */
TEST(test_regular_expressions_of_the_ignore_list)
{
    static const struct {
        const char *entry;
        const char *module;
        int ignored;
    } cases[] = {
        {"re:.*mtp.*", "mtp.fc", 1},
        {"re:mtp", "mtp.layers.0.self_attn.q_proj", 1},
        {"re:mtp$", "mtp.layers.0.self_attn.q_proj", 0},
        {"re:layers.3", LAYER(3) "self_attn.q_proj", 0},         /* anchored at the start */
        {"re:.*layers.3", LAYER(30) "self_attn.q_proj", 1},      /* not anchored at the end */
        {"re:.*layers.3\\\\.", LAYER(30) "self_attn.q_proj", 0}, /* the pattern sets its own end */
        {"re:.*mlp.gate", LAYER(0) "mlp.gate_proj", 1},          /* also matches gate_proj */
        {"re:.*mlp.gate$", LAYER(0) "mlp.gate_proj", 0},
        {"re:.*gate", LAYER(0) "mlp.experts.1.gate_proj", 1},
        {"gate", LAYER(0) "mlp.experts.1.gate_proj", 0}, /* names do not match in part */
        {"mlp.gate_proj", LAYER(0) "mlp.gate_proj", 0},
        {LAYER(0) "mlp", LAYER(0) "mlp.gate_proj", 0},
        {LAYER(0) "mlp.gate_proj", LAYER(0) "mlp.gate_proj", 1},
        {"Linear", LAYER(0) "mlp.gate_proj", 1}, /* ignore accepts classes, too */
        {"linear", LAYER(0) "mlp.gate_proj", 0},
        {"re:Linear", LAYER(0) "mlp.gate_proj", 0}, /* patterns match names only */
        {"re:(?i).*GATE_PROJ", LAYER(0) "mlp.gate_proj", 1},
        {"re:.*(?<!shared_expert\\\\.)gate_proj", LAYER(0) "mlp.shared_expert.gate_proj", 0},
        {"re:.*(?<!shared_expert\\\\.)gate_proj", LAYER(0) "mlp.experts.0.gate_proj", 1},
        {"re:", LAYER(0) "mlp.gate_proj", 1}, /* an empty pattern matches */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%.*s,'ignore':['%s']}}",
                 (int)(sizeof(CT("nvfp4-pack-quantized", "'g':" NVFP4_GROUP("'Linear'"), "")) - 3),
                 CT("nvfp4-pack-quantized", "'g':" NVFP4_GROUP("'Linear'"), ""), cases[i].entry);
        sb_declared *d = declared_good(text, NULL, NULL);
        sb_declaration answer = declared_ask(d, cases[i].module);
        if ((answer.answer == SB_DECLARED_NO) != cases[i].ignored)
            fail_msg("%s of %s: %s", cases[i].entry, cases[i].module, answer.rule);
        sb_declared_free(d);
    }
}

/* Names come before regular expressions (in the order of their texts), and regular expressions
 * before classes. */
TEST(test_the_order_of_targets)
{
#define GROUP(name, size, targets)                                                                 \
    "'" name "':{'targets':[" targets                                                              \
    "],'weights':{'num_bits':4,'type':'int','strategy':'group','group_size':" size "}}"
    sb_declared *d = declared_good(
        CT("pack-quantized",
           GROUP("a", "16", "'Linear'") "," GROUP("b", "32", "'re:mtp.*up'") "," GROUP(
               "c", "64",
               "'re:mtp','re:mtp.*fc'") "," GROUP("d", "128",
                                                  "'mtp.fc','re:mtp'") "," GROUP("e", "256",
                                                                                 "'re:mtp.layers'"),
           ""),
        NULL, NULL);
#undef GROUP
    static const declared_case cases[] = {
        {LAYER(0) "mlp.up_proj", "INT4 in groups of 16, inputs as they are", "a.targets[0]"},
        {"mtp.fc", INT4_128, "d.targets[0] \"mtp.fc\""},
        /* "mtp" < "mtp.*up"; of the two groups with "re:mtp" the last one decides */
        {"mtp.layers.0.mlp.up_proj", INT4_128, "d.targets[1] \"re:mtp\""},
    };
    DECLARED_CHECK(d, cases);
    sb_declared_free(d);
}

TEST(test_schemes)
{
    static const struct {
        const char *text;
        const char *answer;
        sb_declared_packing packing;
    } cases[] = {
        {SIMPLE("float-quantized", "'Linear'",
                "'num_bits':8,'type':'float','strategy':'block','block_structure':[128,128]",
                ",'input_activations':{'num_bits':8,'type':'float','strategy':'group',"
                "'group_size':128,'dynamic':true}"),
         FP8_BLOCKS, SB_PACKED_CT_FLOAT},
        {SIMPLE("naive-quantized", "'Linear'",
                "'num_bits':8,'type':'float','strategy':'block','block_structure':'64x32'", ""),
         "FP8 in blocks of 64 x 32, inputs as they are", SB_PACKED_CT_FLOAT},
        {SIMPLE("float-quantized", "'Linear'", "'num_bits':8,'type':'float'",
                ",'input_activations':{'num_bits':8,'type':'float','dynamic':false}"),
         FP8_TENSOR, SB_PACKED_CT_FLOAT},
        {SIMPLE("mxfp4-pack-quantized", "'Linear'",
                "'num_bits':4,'type':'float','strategy':'group','group_size':32", ""),
         "MXFP4 in groups of 32, inputs as they are", SB_PACKED_CT_MXFP4},
        {SIMPLE("mxfp8-quantized", "'Linear'",
                "'num_bits':8,'type':'float','group_size':32,'scale_dtype':'torch.uint8'",
                ",'input_activations':{'num_bits':8,'type':'float','dynamic':true,"
                "'group_size':32}"),
         "MXFP8 in groups of 32, inputs 8-bit floats per token and group", SB_PACKED_CT_MXFP8},
        {SIMPLE("pack-quantized", "'Linear'",
                "'num_bits':4,'type':'int','symmetric':false,'group_size':128,'strategy':'group',"
                "'actorder':'group'",
                ""),
         "INT4 in groups of 128 with zero points, inputs as they are", SB_PACKED_CT_PACKED},
        {SIMPLE("pack-quantized", "'Linear'",
                "'num_bits':8,'type':'INT','group_size':-1,'actorder':'static'", ""),
         "INT8 with a scale per row, inputs as they are", SB_PACKED_CT_PACKED},
        {SIMPLE("int-quantized", "'Linear'", "'num_bits':8,'type':'int','strategy':'channel'",
                ",'input_activations':{'num_bits':8,'dynamic':true,'strategy':'token'}"),
         "INT8 with a scale per row, inputs 8-bit integers per token", SB_PACKED_CT_INT},
        {SIMPLE("naive-quantized", "'Linear'", "'num_bits':8,'strategy':'tensor'", ""),
         "INT8 with one scale, inputs as they are", SB_PACKED_CT_INT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sb_declared *d = declared_good(cases[i].text, NULL, NULL);
        sb_declared_text room;
        sb_declaration answer = declared_ask(d, LAYER(0) "mlp.up_proj");
        assert_string_equal(sb_declaration_text(&answer, &room), cases[i].answer);
        assert_int_equal(answer.packing, cases[i].packing);
        assert_int_equal(answer.act_order, i == 5);
        assert_int_equal(answer.ue8m0, i == 3 || i == 4);
        sb_declared_free(d);
    }
}

/* Files that quantize only the cache have groups without weights. */
TEST(test_nothing_but_the_cache)
{
    sb_declared *d = declared_good(
        QUANT("'quant_method':'compressed-tensors','config_groups':{'g':{'targets':['Linear'],"
              "'weights':null}},'kv_cache_scheme':{'num_bits':8,'type':'int'}"),
        NULL, NULL);
    static const declared_case cases[] = {{LAYER(0) "mlp.up_proj", NO, "g.targets[0]"}};
    DECLARED_CHECK(d, cases);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_INT8);
    assert_string_equal(sb_declared_kv_name(SB_KV_INT8), "int8");
    sb_declared_free(d);
}
