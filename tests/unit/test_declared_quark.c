/* test_declared_quark.c - what AMD Quark declares: the order of its rules, and what is refused. */
#include "tests/lib/suite.h"
#include "tests/unit/declared_cases.h"

#define FP4(dynamic)                                                                               \
    "{'dtype':'fp4','qscheme':'per_group','group_size':32,'ch_axis':-1,'scale_format':'e8m0',"     \
    "'scale_calculation_mode':'even','round_method':'half_even','symmetric':null,"                 \
    "'is_dynamic':" dynamic "}"
#define FP8(scheme, more)                                                                          \
    "{'dtype':'fp8_e4m3','qscheme':'" scheme "','is_dynamic':false,'symmetric':true" more "}"
#define MXFP4 "{'weight':" FP4("false") ",'input_tensors':" FP4("true") "}"
#define QUARK(more) "'quant_method':'quark','global_quant_config':" MXFP4 more
#define EXPORT ",'export':{'pack_method':'reorder','weight_format':'real_quantized'}"

static const char fp4_text[] = "MXFP4 in groups of 32, inputs 4-bit floats per token and group";

/* A list of exclusions as AMD publishes it: the head's experts are quantized, the rest of the head
 * is not. */
TEST(test_exclude)
{
    sb_declared *d = declared_good(
        QUANT(QUARK(
            ",'layer_quant_config':{},'exclude':['lm_head','mtp.fc','mtp.layers.0.self_attn.*',"
            "'mtp.layers.0.mlp.shared_expert.*','re:.*in_proj_[ab]$','*.mlp.gate']" EXPORT)),
        NULL, NULL);
    static const declared_case cases[] = {
        {"lm_head", NO, "exclude[0]"},
        {"mtp.fc", NO, "exclude[1]"},
        {"mtp.layers.0.self_attn.q_proj", NO, "exclude[2]"},
        {"mtp.layers.0.mlp.shared_expert.up_proj", NO, "exclude[3]"},
        {"mtp.layers.0.mlp.experts.3.up_proj", fp4_text, "global_quant_config"},
        {LAYER(0) "mlp.experts.5.gate_proj", fp4_text, "global_quant_config"},
        {LAYER(0) "mlp.experts.gate_up_proj", NO, "not a linear layer"},
        {LAYER(0) "linear_attn.in_proj_a", NO, "exclude[4]"},
        {LAYER(0) "linear_attn.in_proj_qkv", fp4_text, "global_quant_config"},
        {LAYER(0) "linear_attn.conv1d", NO, "not a linear layer"},
        {LAYER(0) "mlp.gate", NO, "exclude[5]"},
        {LAYER(0) "input_layernorm", NO, "not a linear layer"},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(sb_declared_dialect(d), SB_DIALECT_quark);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_NONE);
    assert_int_equal(declared_ask(d, LAYER(0) "mlp.experts.5.gate_proj").packing, SB_PACKED_QUARK);
    sb_declared_free(d);
}

/* A name goes before a class, and a class before the global scheme; an exclusion goes before all.
 */
TEST(test_order)
{
    sb_declared *d = declared_good(
        QUANT(QUARK(",'layer_quant_config':{'*self_attn*':{'weight':" FP8(
            "per_channel",
            "") ",'input_tensors':null},"
                "'" LAYER(0) "mlp.experts':{'weight':" FP8(
                    "per_block",
                    ",'block_size':[128,128]") "},"
                                               "'" LAYER(2) "mlp.experts':{'weight':null}},"
                                                            "'layer_type_quant_config':{'Linear':{'"
                                                            "weight':" FP8(
                                                                "per_tensor",
                                                                "") ",'input_tensors'"
                                                                    ":" FP8("per_tensor",
                                                                            "") "}},"
                                                                                "'kv_"
                                                                                "cache_"
                                                                                "quant_"
                                                                                "config':{"
                                                                                "'*k_proj'"
                                                                                ":{'"
                                                                                "output_"
                                                                                "tensors'"
                                                                                ":" FP8("per_"
                                                                                        "tenso"
                                                                                        "r",
                                                                                        "") "}"
                                                                                            "}"
                                                                                            ","
                                                                                            "'"
                                                                                            "e"
                                                                                            "x"
                                                                                            "c"
                                                                                            "l"
                                                                                            "u"
                                                                                            "d"
                                                                                            "e"
                                                                                            "'"
                                                                                            ":"
                                                                                            "["
                                                                                            "'"
                                                                                            "*"
                                                                                            "."
                                                                                            "v"
                                                                                            "_"
                                                                                            "p"
                                                                                            "r"
                                                                                            "o"
                                                                                            "j"
                                                                                            "'"
                                                                                            "]")),
        NULL, NULL);
    static const declared_case cases[] = {
        {LAYER(3) "self_attn.q_proj", "FP8 with a scale per row, inputs as they are", "self_attn"},
        {LAYER(3) "self_attn.v_proj", NO, "exclude[0]"},
        {LAYER(0) "mlp.experts.5.up_proj", "FP8 in blocks of 128 x 128, inputs as they are",
         "mlp.experts"},
        {LAYER(2) "mlp.experts.5.up_proj", NO, "mlp.experts"},
        {LAYER(1) "mlp.experts.5.up_proj", FP8_TENSOR, "Linear"},
    };
    DECLARED_CHECK(d, cases);
    assert_int_equal(sb_declared_kv_cache(d), SB_KV_FP8);
    sb_declared_free(d);
}

/* What this program would compute otherwise than Quark's engines is refused by name. */
TEST(test_refused)
{
    static const struct {
        const char *text, *fragment;
    } cases[] = {
        {"'quant_method':'quark'", "global_quant_config"},
        {QUARK(",'algo_config':[{'name':'rotation'}]"), "rotated weights"},
        {QUARK(",'softmax_quant_spec':" FP8("per_tensor", "")), "quantized softmax"},
        {QUARK(",'export':{'weight_format':'fake_quantized'}"), "not packed"},
        {QUARK(",'layer_quant_config':{'a':{'weight':{'dtype':'int4','qscheme':'per_group','group_"
               "size':128}}}"),
         "static int4 per_group"},
        {QUARK(",'layer_quant_config':{'a':{'weight':{'dtype':'fp4','qscheme':'per_group','group_"
               "size':16,'scale_format':'e8m0'}}}"),
         "in groups of 16"},
        {QUARK(",'layer_quant_config':{'a':{'weight':{'dtype':'fp4','qscheme':'per_group','group_"
               "size':32}}}"),
         "is \"float32\" in groups of 32"},
        {QUARK(",'layer_quant_config':{'a':{'weight':[" FP4("false") "]}}"), "several steps"},
        {QUARK(",'layer_quant_config':{'a':{'weight':{'dtype':'int8','qscheme':'per_channel','"
               "symmetric':false}}}"),
         "static int8 per_channel"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[2048];
        sb_declared *d = NULL;
        sb_error err = {{0}};
        snprintf(config, sizeof config, "{'quantization_config':{%s}}", cases[i].text);
        const declared_texts texts = {config, NULL, NULL};
        assert_int_not_equal(declared_read(&texts, &d, &err), SB_OK);
        if (!strstr(err.text, cases[i].fragment))
            fail_msg("\"%s\", expected \"%s\"", err.text, cases[i].fragment);
    }
    sb_declared *d = declared_good(QUANT(QUARK(",'algo_config':[{'name':'awq'}]")), NULL, NULL);
    sb_declared_free(d);
}
