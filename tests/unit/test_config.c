/* test_config.c - config.json: the values that are read, every refusal, and odd files that must be
 * read. */
#include "tests/lib/suite.h"
#include "tests/unit/scratch.h"

#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/model/config.h"
#include "tests/unit/config_bases.h"

TEST(test_a_release_with_vision)
{
    sb_config c = read_good(vl, "", "");
    assert_int_equal(c.family, SB_QWEN3_5_MOE);
    assert_string_equal(c.architecture, "Qwen3_5MoeForConditionalGeneration");
    assert_true(c.vl && c.hidden_size == 2048 && c.layers == 8 && c.vocab_size == 248320);
    assert_int_equal(c.max_position_embeddings, 262144);
    assert_true(sb_bits_f64(c.eps) == sb_bits_f64(1e-6) && sb_bits_f32(c.eps_f32) == 0x358637bd);
    assert_true(c.heads == 16 && c.kv_heads == 2 && c.head_dim == 256 && c.rotary_dim == 64);
    assert_true(sb_bits_f64(c.rope_theta) == sb_bits_f64(1e7));
    assert_true(c.has_mrope && c.mrope_section[0] == 11 && c.mrope_section[2] == 10);
    assert_true(!c.attention_bias && c.attn_output_gate && c.conv_kernel == 4);
    assert_true(c.lin_k_heads == 16 && c.lin_v_heads == 32 && c.lin_k_dim == 128);
    assert_true(sb_config_key_width(&c) == 2048 && sb_config_value_width(&c) == 4096);
    assert_true(sb_config_conv_channels(&c) == 8192);
    assert_true(sb_config_query_width(&c) == 4096 && sb_config_kv_width(&c) == 512);
    assert_true(c.experts == 256 && c.experts_per_token == 8 && c.moe_intermediate == 512);
    assert_true(c.shared_intermediate == 384 && c.intermediate == 0);
    assert_true(c.norm_topk_prob && !c.tie_embeddings && c.mtp_declared && c.mtp_layers == 1);
    for (uint32_t i = 0; i < SB_MAX_LAYERS; i++)
        assert_int_equal(c.layer_is_full[i], i == 3 || i == 7);
    assert_false(c.has_bos);
    assert_true(c.eos_count == 1 && c.eos_ids[0] == 248044);
    assert_string_equal(c.dtype, "bfloat16");
    assert_string_equal(c.output_gate_type, "silu");
}

TEST(test_the_flat_forms)
{
    sb_config c = read_good(flat, "", "");
    assert_true(c.family == SB_QWEN3_5_MOE && !c.vl && c.experts == 256 && c.layer_is_full[3]);
    c = read_good(dense, "", "");
    assert_true(c.family == SB_QWEN3_5 && c.experts == 0 && c.intermediate == 3584);
    assert_true(c.moe_intermediate == 0 && c.experts_per_token == 0);
    c = read_good(next, "", "");
    assert_int_equal(c.family, SB_QWEN3_NEXT);
    assert_int_equal(c.layers, 12);
    assert_int_equal(c.rotary_dim, 64);
    assert_false(c.has_mrope);
    assert_true(c.has_bos && c.bos_id == 151643);
    assert_true(c.eos_count == 2 && c.eos_ids[1] == 151643);
    assert_string_equal(c.dtype, "bfloat16");
    assert_true(!c.mtp_declared && c.mtp_layers == 1);
    assert_int_equal(c.intermediate, 0);
    c = read_good(next, "'norm_topk_prob':true", "'norm_topk_prob':false");
    assert_false(c.norm_topk_prob);
}

/* The defaults of the configuration classes. They would guess a rope_theta; the reader does not. */
TEST(test_defaults)
{
    sb_error err;
    sb_config c;
    static const char *const minimal[] = {"{'model_type':'qwen3_5_moe','rope_theta':1e7}",
                                          "{'model_type':'qwen3_5','rope_theta':1e7}",
                                          "{'model_type':'qwen3_next','rope_theta':1e7}"};
    static const uint32_t expected[3][9] = {{248320, 2048, 40, 16, 2, 256, 8, 512, 0},
                                            {248320, 4096, 32, 16, 4, 0, 0, 0, 12288},
                                            {151936, 2048, 48, 16, 2, 512, 10, 512, 0}};
    for (size_t i = 0; i < 3; i++) {
        c = read_good(minimal[i], "", "");
        const uint32_t got[9] = {c.vocab_size,
                                 c.hidden_size,
                                 c.layers,
                                 c.heads,
                                 c.kv_heads,
                                 c.experts,
                                 c.experts_per_token,
                                 c.shared_intermediate,
                                 c.intermediate};
        assert_memory_equal(got, expected[i], sizeof got);
        assert_true(c.rotary_dim == 64 && c.head_dim == 256 && c.conv_kernel == 4);
        assert_true(c.lin_k_heads == 16 && c.lin_v_heads == 32 && c.lin_v_dim == 128);
        assert_true(c.architecture[0] == '\0' && c.dtype[0] == '\0' && c.eos_count == 0);
        assert_int_equal(c.mtp_layers, i == 2);
        for (uint32_t k = 0; k < c.layers; k++)
            assert_int_equal(c.layer_is_full[k], (k + 1) % 4 == 0);
    }
    check_status("no theta", parse(minimal[0], ",'rope_theta':1e7", "", &c, &err), &err,
                 SB_ERR_INPUT, "rope_theta is 0 (absent)");
}

TEST(test_other_models_are_refused_by_name)
{
    static const change changes[] = {
        {flat, "qwen3_5_moe_text", "llama", SB_ERR_UNSUPPORTED, "model_type is \"llama\", which"},
        {flat, "qwen3_5_moe_text", "qwen2", SB_ERR_UNSUPPORTED, "\"qwen2\", which is not read"},
        {flat, "qwen3_5_moe_text", "qwen3_vl_moe_text", SB_ERR_UNSUPPORTED, "_text\", which"},
        {flat, "qwen3_5_moe_text", "qwen3_moe_text", SB_ERR_UNSUPPORTED, "qwen3_moe_text\", which"},
        {vl, "'qwen3_5_moe'", "'qwen3_moe'", SB_ERR_UNSUPPORTED, "\"qwen3_moe\", which"},
        {flat, "qwen3_5_moe_text", "qwen3_5_moe_vision", SB_ERR_UNSUPPORTED, "_vision\", which"},
        {flat, "qwen3_5_moe_text", "qwen3_next_text", SB_ERR_UNSUPPORTED, "qwen3_next_text"},
        {vl, "'qwen3_5_moe'", "'qwen4_exp_moe'", SB_ERR_UNSUPPORTED, "hyper-connections"},
        {vl, "'qwen3_5_moe'", "'qwen3_next'", SB_ERR_UNSUPPORTED, "\"qwen3_next\", which"},
        {vl, "'qwen3_5_moe_text'", "'qwen3_5_text'", SB_ERR_UNSUPPORTED,
         "text_config.model_type is \"qwen3_5_text\", which is not read"},
        {vl, "'qwen3_5_moe'", "'qwen3_5_moe_text'", SB_ERR_INPUT,
         "the file also has a text_config"},
        {vl, "'model_type':'qwen3_5_moe_text',", "", SB_OK, ""},
        {vl, "'model_type':'qwen3_5_moe',", "", SB_ERR_INPUT, "model_type is absent"},
        {vl, "'model_type':'qwen3_5_moe',", "'model_type':7,", SB_ERR_INPUT, "model_type is 7"},
        {flat, "qwen3_5_moe_text", "qwen3_5_moe", SB_OK, ""},
        {flat, "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForSequenceClassification", SB_ERR_UNSUPPORTED,
         "architectures is \"Qwen3_5MoeForSequenceClassification\", which is not read"},
        {flat, "Qwen3_5MoeForCausalLM", "LlamaForCausalLM", SB_ERR_UNSUPPORTED, "LlamaForCausalLM"},
        {flat, "Qwen3_5MoeForCausalLM", "Qwen3_5ForCausalLM", SB_ERR_UNSUPPORTED,
         "expects Qwen3_5Moe"},
        {dense, "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM", SB_ERR_UNSUPPORTED,
         "model_type qwen3_5 "},
        {dense, "Qwen3_5ForCausalLM", "Qwen3_5TextForCausalLM", SB_OK, ""},
        {flat, "['Qwen3_5MoeForCausalLM']", "[]", SB_ERR_INPUT, "architectures is an array of 0"},
        {flat, "['Qwen3_5MoeForCausalLM']", "null", SB_OK, ""},
        {flat, "'attention_bias':false", "'attention_bias':true", SB_ERR_UNSUPPORTED,
         "attention_bias is true, which is not read"},
        {flat, "'attention_bias':false", "'attention_bias':null", SB_OK, ""},
        {flat, "'attention_bias':false", "'qkv_bias':true", SB_ERR_UNSUPPORTED, "qkv_bias is true"},
        {flat, "'attn_output_gate':true", "'attn_output_gate':false", SB_ERR_UNSUPPORTED,
         "attn_output_gate is false"},
        {flat, "'attn_output_gate':true,", "", SB_OK, ""},
        {flat, "_embeddings':false", "_embeddings':true", SB_ERR_UNSUPPORTED,
         "mtp_use_dedicated_embeddings is true"},
        {vl, "'silu'", "'silu','layer_scale':true", SB_ERR_UNSUPPORTED,
         "text_config.layer_scale is true, which is not read"},
        {vl, "'silu'", "'silu','layer_scale':[1.0]", SB_ERR_UNSUPPORTED, "layer_scale is an array"},
        {vl, "'silu'", "'silu','layer_scale':false", SB_OK, ""},
        {flat, "'silu'", "'gelu'", SB_ERR_UNSUPPORTED, "hidden_act is the string \"gelu\""},
        {flat, "'silu'", "'silu','output_gate_type':'sigmoid'", SB_ERR_UNSUPPORTED,
         "output_gate_type is the string \"sigmoid\", which is not read"},
        {flat, "'silu'", "'silu','output_gate_type':'swish'", SB_OK, ""},
        {flat, "'silu'", "'silu','output_gate_type':'silu'", SB_OK, ""},
        {flat, "'silu'", "'silu','output_gate_type':null", SB_OK, ""},
        {next, "'mlp_only_layers':[]", "'mlp_only_layers':[0]", SB_ERR_UNSUPPORTED,
         "mlp_only_layers is not empty"},
        {next, "'decoder_sparse_step':1", "'decoder_sparse_step':2", SB_ERR_UNSUPPORTED,
         "decoder_sparse_step is 2, which is not read: expected 1"},
        {flat, "'silu'", "'silu','mlp_only_layers':[]", SB_OK, ""},
        {flat, "'silu'", "'silu','norm_topk_prob':true", SB_OK, ""},
        {flat, "'silu'", "'silu','norm_topk_prob':false", SB_ERR_UNSUPPORTED, "norm_topk_prob is"},
        /* part of sb_declared (declared.h), not of sb_config */
        {vl, "'vision_config'", "'quantization_config':{'quant_method':'fp8'},'vision_config'",
         SB_OK, ""},
        {vl, "'silu'", "'silu','quantization_config':{}", SB_OK, ""},
        {vl, "'vision_config'", "'quantization_config':null,'vision_config'", SB_OK, ""},
        {flat, "'mtp_num_hidden_layers':1", "'mtp_num_hidden_layers':2", SB_ERR_UNSUPPORTED,
         "mtp_num_hidden_layers is 2, which is not read"},
        {flat, "'mtp_num_hidden_layers':1", "'mtp_num_hidden_layers':0", SB_OK, ""},
    };
    CHECK_CHANGES(changes);
}

TEST(test_numbers_are_in_range_and_fit_each_other)
{
    static const change changes[] = {
        {vl, "'hidden_size':2048", "'hidden_size':0", SB_ERR_INPUT,
         "config.json: text_config.hidden_size is 0, expected 1 to 16777216"},
        {flat, "'hidden_size':2048", "'hidden_size':16777217", SB_ERR_INPUT, "expected 1 to"},
        {flat, "'hidden_size':2048", "'hidden_size':-1", SB_ERR_INPUT, "hidden_size is -1"},
        {flat, "'hidden_size':2048", "'hidden_size':2048.0", SB_ERR_INPUT, "the real number 2048"},
        {flat, "'hidden_size':2048", "'hidden_size':null", SB_ERR_INPUT, "hidden_size is null"},
        {flat, "'hidden_size':2048", "'hidden_size':'2048'", SB_ERR_INPUT, "the string \"2048\""},
        {flat, "'hidden_size':2048", "'hidden_size':4294969344", SB_ERR_INPUT, "is 4294969344"},
        {flat, "_hidden_layers':8", "_hidden_layers':1025", SB_ERR_INPUT, "expected 1 to 1024"},
        {flat, "'num_experts':256", "'num_experts':4097", SB_ERR_INPUT, "expected 1 to 4096"},
        {flat, "_conv_kernel_dim':4", "_conv_kernel_dim':65", SB_ERR_INPUT, "expected 1 to 64"},
        {flat, "'num_experts_per_tok':8", "'num_experts_per_tok':257", SB_ERR_INPUT,
         "num_experts_per_tok is 257, expected at most num_experts, which is 256"},
        {flat, "'num_experts_per_tok':8", "'num_experts_per_tok':256", SB_OK, ""},
        {dense, "'hidden_size'", "'num_experts':8,'hidden_size'", SB_ERR_INPUT,
         "num_experts is 8, but model_type qwen3_5 is dense"},
        {dense, "'hidden_size'", "'num_experts':0,'hidden_size'", SB_OK, ""},
        {flat, "_key_value_heads':2", "_key_value_heads':3", SB_ERR_INPUT,
         "num_attention_heads is 16, expected a multiple of num_key_value_heads, which is 3"},
        {flat, "_num_key_heads':16", "_num_key_heads':24", SB_ERR_INPUT,
         "linear_num_value_heads is 32, expected a multiple of linear_num_key_heads, which is 24"},
        {flat, "'num_attention_heads':16", "'num_attention_heads':65538", SB_ERR_INPUT,
         "num_attention_heads * head_dim is 16777728, expected at most 16777216"},
        {flat, "16,'num_key_value_heads':2,'head_dim':256", /* 2^32, which is 0 in 32 bits */
         "65536,'num_key_value_heads':2,'head_dim':65536", SB_ERR_INPUT, "is 4294967296, expected"},
        {flat, "_value_head_dim':128", "_value_head_dim':16777216", SB_ERR_INPUT,
         "linear_num_value_heads * linear_value_head_dim is 536870912"},
        {flat, "_key_head_dim':128", "_key_head_dim':16777216", SB_ERR_INPUT,
         "linear_num_key_heads * linear_key_head_dim is 268435456"},
        {flat, "1e-06", "0", SB_ERR_INPUT, "rms_norm_eps is 0, expected a normal binary32"},
        {flat, "1e-06", "-1e-6", SB_ERR_INPUT, "rms_norm_eps is -9.99"},
        {flat, "1e-06", "1e-40", SB_ERR_INPUT, "rms_norm_eps is"},
        {flat, "1e-06", "1e-5", SB_OK, ""},
        {flat, "1e-06", "true", SB_ERR_INPUT, "rms_norm_eps is true, expected a number"},
        {flat, "'eos_token_id':248044", "'eos_token_id':-1", SB_ERR_INPUT, "eos_token_id is -1"},
        {flat, "'eos_token_id':248044", "'eos_token_id':16777216", SB_ERR_INPUT, "holds 16777216"},
        {flat, "'eos_token_id':248044", "'eos_token_id':[]", SB_ERR_INPUT, "has 0 elements"},
        {flat, "'eos_token_id':248044", "'eos_token_id':null,'bos_token_id':null", SB_OK, ""},
        {flat, "'eos_token_id':248044", "'eos_token_id':999999", SB_OK, ""},
        {flat, "'bfloat16'", "'float64'", SB_ERR_INPUT, "dtype is the string \"float64\""},
        {flat, "'bfloat16'", "'float16','torch_dtype':'bfloat16'", SB_OK, ""},
        {vl, "'tie_word_embeddings':false", "'tie_word_embeddings':true", SB_ERR_INPUT,
         "tie_word_embeddings is true, but text_config.tie_word_embeddings is false"},
        {flat, "'tie_word_embeddings':false", "'tie_word_embeddings':0", SB_ERR_INPUT,
         "tie_word_embeddings is 0, expected true or false"},
        {vl, "'text_config':{", "'text_config':[{", SB_ERR_INPUT, "not strict JSON"},
        {flat, "'hidden_size'", "'text_config':7,'hidden_size'", SB_ERR_INPUT,
         "text_config is 7, expected an object"},
        {flat, "'hidden_size'", "'text_config':null,'hidden_size'", SB_OK, ""},
        {flat, "'hidden_size'", "'hidden_size':1,'hidden_size'", SB_ERR_INPUT, "duplicate"},
    };
    CHECK_CHANGES(changes);
}

#define ROPE "'rope_theta':10000000,'rope_type':'default','partial_rotary_factor':0.25"

TEST(test_rope)
{
    static const change changes[] = {
        {flat, "'rope_type':'default'", "'rope_type':'yarn'", SB_ERR_UNSUPPORTED,
         "rope_parameters.rope_type is \"yarn\", which is not read: expected \"default\""},
        {next, "'rope_scaling':null", "'rope_scaling':{'type':'linear','factor':2}",
         SB_ERR_UNSUPPORTED, "rope_scaling.type is \"linear\""},
        {next, "'rope_scaling':null", "'rope_scaling':{'rope_type':'default'}", SB_OK, ""},
        {next, "'rope_scaling':null", "'rope_scaling':'default'", SB_ERR_INPUT,
         "rope_scaling is the string \"default\", expected an object"},
        {flat, ROPE, "'rope_theta':10000000", SB_OK, ""},
        {flat, ROPE, "'partial_rotary_factor':0.25", SB_ERR_INPUT, "rope_theta is 0 (absent)"},
        {flat, "10000000", "1", SB_ERR_INPUT, "rope_theta is 1, expected above 1"},
        {flat, "10000000", "-5", SB_ERR_INPUT, "rope_theta is -5, expected a number above 0"},
        {flat, "10000000", "1e16", SB_ERR_INPUT, "rope_theta is 10000000000000000, expected"},
        {flat, "10000000", "'1e7'", SB_ERR_INPUT, "rope_theta is the string \"1e7\""},
        {flat, "0.25}", "0.3}", SB_OK, ""},
        {flat, "'head_dim':256", "'head_dim':2056", SB_ERR_INPUT,
         "514 rotary dimensions, expected an even number up to head_dim and 512"},
        {flat, "0.25}", "1.5}", SB_ERR_INPUT,
         "partial_rotary_factor is 1.5, which gives, with head_dim"},
        {flat, "0.25}", "0.001}", SB_ERR_INPUT, "partial_rotary_factor"},
        {flat, "0.25}", "0.255}", SB_ERR_INPUT, "65.2"},
        {flat, "[11,11,10]", "[16,16,0]", SB_OK, ""},
        {flat, "[11,11,10]", "[11,11,11]", SB_OK, ""},
        {flat, "[11,11,10]", "[11,21]", SB_ERR_INPUT, "has 2 elements, expected 3 to 3"},
        {flat, "[11,11,10]", "[18446744073709551615,33,1]", SB_ERR_INPUT, "too big integer"},
        {flat, "[11,11,10]", "[9223372036854775807,9223372036854775807,34]", SB_ERR_INPUT,
         "expected numbers up to 16777216"},
        {flat, "[11,11,10]", "null", SB_OK, ""},
    };
    CHECK_CHANGES(changes);
    sb_config c = read_good(next, "0.25", "1");
    assert_int_equal(c.rotary_dim, 256);
    /* a saved class default next to the value that counts (M-10) */
    c = read_good(flat, "'hidden_size'", "'rope_theta':10000.0,'hidden_size'");
    assert_true(sb_bits_f64(c.rope_theta) == sb_bits_f64(1e7));
    c = read_good(flat, "'hidden_size'", "'rope_scaling':{'rope_theta':500.0},'hidden_size'");
    assert_true(sb_bits_f64(c.rope_theta) == sb_bits_f64(1e7));
    c = read_good(next, "'rope_scaling':null", "'rope_scaling':{'rope_theta':500.0}");
    assert_true(sb_bits_f64(c.rope_theta) == sb_bits_f64(500));
}

TEST(test_layer_kinds)
{
    static const change changes[] = {
        {vl, "'full_attention']", "'full_attention','full_attention']", SB_ERR_INPUT,
         "layer_types is an array of 9, expected an array of num_hidden_layers = 8"},
        {vl, "'layer_types':[", "'layer_types':['full_attention',", SB_ERR_INPUT, "array of 9"},
        {vl, "'full_attention']", "'linear_attention']", SB_OK, ""},
        {vl, "'full_attention']", "'sliding_attention']", SB_ERR_UNSUPPORTED,
         "declares layer 7 as the string \"sliding_attention\", expected"},
        {vl, "'full_attention']", "7]", SB_ERR_INPUT, "declares layer 7 as 7, expected"},
        {vl, "'full_attention_interval':4,", "", SB_OK, ""},
        {vl, "_interval':4", "_interval':3", SB_OK, ""},
        {vl, "_interval':4", "_interval':0", SB_ERR_INPUT, "full_attention_interval is 0"},
        {vl, "_interval':4", "_interval':null", SB_ERR_INPUT, "full_attention_interval is null"},
        {flat, "_interval':4", "_interval':99999999999", SB_OK, ""},
    };
    CHECK_CHANGES(changes);
    sb_config c = read_good(flat, "_interval':4", "_interval':1");
    for (uint32_t i = 0; i < 8; i++)
        assert_true(c.layer_is_full[i]);
    assert_false(c.layer_is_full[8]);
    assert_int_equal(c.other_interval, 0);
    /* the list decides; a different interval is kept for a check */
    c = read_good(vl, "_interval':4", "_interval':3");
    assert_true(c.layer_is_full[3] && !c.layer_is_full[2]);
    assert_true(c.other_interval == 3 && c.other_layer == 2);
    c = read_good(vl, "'full_attention']", "'linear_attention']");
    assert_true(!c.layer_is_full[7] && c.other_interval == 4 && c.other_layer == 7);
    c = read_good(flat, "_interval':4", "_interval':5,'layer_types':null");
    assert_true(c.layer_is_full[4] && !c.layer_is_full[3] && !c.layer_is_full[7]);
}

/* M-11 */
TEST(test_qwen3)
{
    sb_config c = read_good(qwen3_moe, "", "");
    assert_true(c.family == SB_QWEN3_MOE && !c.vl && c.plain_norms && !c.attn_output_gate);
    assert_true(c.experts == 128 && c.experts_per_token == 8 && c.moe_intermediate == 768);
    assert_true(c.shared_intermediate == 0 && c.intermediate == 0 && c.norm_topk_prob);
    assert_true(c.head_dim == 128 && c.rotary_dim == 128 &&
                sb_bits_f64(c.rope_theta) == sb_bits_f64(1e6));
    assert_true(c.conv_kernel == 0 && sb_config_conv_channels(&c) == 0 && c.lin_k_heads == 0);
    assert_true(sb_config_query_width(&c) == 4096 && sb_config_query_rows(&c) == 128);
    assert_true(!c.mtp_declared && c.mtp_layers == 0 && !c.has_mrope);
    for (uint32_t i = 0; i < SB_MAX_LAYERS; i++)
        assert_true(c.layer_is_full[i] == (i < 48) && !c.layer_is_dense[i]);
    c = read_good(qwen3, "", "");
    assert_true(c.family == SB_QWEN3 && c.plain_norms && c.tie_embeddings && c.experts == 0);
    assert_true(c.intermediate == 3072 && c.rotary_dim == 128 && c.layer_is_full[1]);
    assert_true(sb_bits_f64(c.rope_theta) == sb_bits_f64(1e6));

    /* dense layers, by each of the two keys and by both */
    c = read_good(qwen3_moe, "'mlp_only_layers':[]", "'mlp_only_layers':[1,47]");
    for (uint32_t i = 0; i < 48; i++)
        assert_int_equal(sb_config_layer_experts(&c, i), i == 1 || i == 47 ? 0 : 128);
    assert_int_equal(c.intermediate, 6144);
    c = read_good(qwen3_moe, "'decoder_sparse_step':1", "'decoder_sparse_step':2");
    for (uint32_t i = 0; i < 48; i++)
        assert_int_equal(c.layer_is_dense[i], i % 2 == 0);
    c = read_good(qwen3_moe, "'decoder_sparse_step':1", "'decoder_sparse_step':99");
    assert_true(c.layer_is_dense[0] && c.layer_is_dense[47]);

    /* other spellings and absent keys */
    c = read_good(qwen3_moe, "'num_experts'", "'num_local_experts'");
    assert_int_equal(c.experts, 128);
    c = read_good(qwen3_moe, "'num_experts':128,", "");
    assert_int_equal(c.experts, 128);
    c = read_good(qwen3_moe, "'head_dim':128,", "");
    assert_true(c.head_dim == 64 && c.rotary_dim == 64);
    c = read_good(qwen3, "'head_dim':128,", "");
    assert_int_equal(c.head_dim, 128);
    c = read_good(qwen3_moe, "'rope_theta':1000000.0", "'rope_parameters':{'rope_theta':10000000}");
    assert_true(sb_bits_f64(c.rope_theta) == sb_bits_f64(1e7));
    c = read_good(qwen3_moe, "'norm_topk_prob':true", "'norm_topk_prob':false");
    assert_false(c.norm_topk_prob);
}

#define YARN(more)                                                                                 \
    "'rope_scaling':{'rope_type':'yarn','original_max_position_embeddings':32768" more "}"

TEST(test_qwen3_refusals)
{
    static const change changes[] = {
        {qwen3_moe, "'norm_topk_prob':true,", "", SB_ERR_UNSUPPORTED, "norm_topk_prob is absent"},
        {qwen3_moe, "'num_experts':128", "'num_experts':128,'num_local_experts':64", SB_ERR_INPUT,
         "num_local_experts is 64, but num_experts is 128"},
        {qwen3_moe, "'num_experts':128", "'num_experts':128,'num_local_experts':128", SB_OK, ""},
        {qwen3_moe, "'num_experts':128", "'num_local_experts':0", SB_ERR_INPUT,
         "num_local_experts is 0, expected 1 to 4096"},
        {qwen3_moe, "'num_experts':128", "'num_local_experts':4", SB_ERR_INPUT,
         "num_experts_per_tok is 8, expected at most"},
        {qwen3_moe, "'mlp_only_layers':[]", "'mlp_only_layers':[48]", SB_ERR_INPUT,
         "mlp_only_layers names layer 48, expected layers below 48"},
        {qwen3_moe, "'mlp_only_layers':[]", "'mlp_only_layers':7", SB_ERR_INPUT, "mlp_only_layers"},
        {qwen3_moe, "'mlp_only_layers':[]", "'mlp_only_layers':null", SB_OK, ""},
        {qwen3_moe, "'decoder_sparse_step':1", "'decoder_sparse_step':0", SB_ERR_INPUT,
         "decoder_sparse_step is 0, expected at least 1"},
        {qwen3_moe, "'head_dim':128,", "'head_dim':0,", SB_ERR_INPUT, "head_dim is 0"},
        {qwen3_moe, "'head_dim':128,'hidden_act':'silu','hidden_size':2048", "'hidden_size':2050",
         SB_ERR_INPUT,
         "hidden_size is 2050, expected a multiple of num_attention_heads, which is 32"},
        {qwen3_moe, "'use_sliding_window':false", "'use_sliding_window':true", SB_ERR_UNSUPPORTED,
         "use_sliding_window is true, which is not read: sliding windows"},
        {qwen3, "'full_attention'],", "'sliding_attention'],", SB_ERR_UNSUPPORTED,
         "sliding_attention"},
        {qwen3, "'full_attention'],", "'linear_attention'],", SB_ERR_INPUT,
         "declares layer 1 as \"linear_attention\", but model_type qwen3 has none"},
        {qwen3, "'attention_bias':false", "'attention_bias':true", SB_ERR_UNSUPPORTED,
         "attention_bias is true"},
        {qwen3, "'attention_bias':false", "'attn_output_gate':true", SB_ERR_UNSUPPORTED,
         "attn_output_gate is true"},
        {qwen3_moe, "'attention_bias':false",
         "'attention_bias':false,'qkv_bias':false,'use_qk_norm':true,"
         "'shared_expert_intermediate_size':0",
         SB_OK, ""},
        {qwen3_moe, "'attention_bias':false", "'use_qk_norm':false", SB_ERR_UNSUPPORTED,
         "use_qk_norm is false"},
        {qwen3_moe, "'attention_bias':false", "'shared_expert_intermediate_size':512",
         SB_ERR_UNSUPPORTED, "shared_expert_intermediate_size is 512"},
        {qwen3_moe, "'attention_bias':false", "'dual_chunk_attention_config':{}",
         SB_ERR_UNSUPPORTED, "dual_chunk_attention_config is an object"},
        {qwen3_moe, "'attention_bias':false", "'mtp_num_hidden_layers':1", SB_ERR_UNSUPPORTED,
         "no release of qwen3_moe has an MTP head"},
        {qwen3_moe, "'attention_bias':false", "'partial_rotary_factor':0.5", SB_ERR_UNSUPPORTED,
         "partial_rotary_factor is 0.5, which is not read: every release"},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':4.0"), SB_OK, ""},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':4,'truncate':true,'mscale':null"), SB_OK,
         ""},
        {qwen3_moe, "'rope_scaling':null", YARN(""), SB_ERR_INPUT,
         "rope_scaling.rope_type is \"yarn\", which needs a factor from 1 on"},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':0.5"), SB_ERR_INPUT,
         "found 0.5 and 32768"},
        {qwen3_moe, "'rope_scaling':null", "'rope_scaling':{'type':'yarn','factor':4}",
         SB_ERR_INPUT, "which needs a factor from 1 on and a whole number"},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':'4'"), SB_ERR_INPUT,
         "rope_scaling.factor is the string \"4\""},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':4,'attention_factor':0"), SB_ERR_INPUT,
         "rope_scaling.attention_factor is 0"},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':4,'mscale':1"), SB_ERR_UNSUPPORTED,
         "rope_scaling.mscale is not read"},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':4,'truncate':false"), SB_ERR_UNSUPPORTED,
         "rope_scaling.truncate is not true"},
        {qwen3_moe, "'rope_scaling':null", YARN(",'factor':4,'beta_slow':100"), SB_ERR_INPUT,
         "yarn then has no frequencies between"},
        {qwen3_moe, "'rope_scaling':null", "'rope_scaling':{'rope_type':'dynamic','factor':4}",
         SB_ERR_UNSUPPORTED, "is \"dynamic\", which is not read: expected \"default\" or \"yarn\""},
        {qwen3, "'rope_type':'default'}", "'rope_type':'default'}," YARN(",'factor':4"),
         SB_ERR_INPUT, "rope_scaling.rope_type is \"yarn\", and another place says \"default\""},
        {qwen3_moe, "'rope_theta':1000000.0,", "", SB_ERR_INPUT, "rope_theta is 0 (absent)"},
        {qwen3, "'hidden_size'", "'num_experts':8,'hidden_size'", SB_ERR_INPUT,
         "num_experts is 8, but model_type qwen3 is dense"},
        {qwen3, "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", SB_ERR_UNSUPPORTED,
         "model_type qwen3 expects Qwen3ForCausalLM"},
        {qwen3, "Qwen3ForCausalLM", "Qwen3ForSequenceClassification", SB_ERR_UNSUPPORTED,
         "Qwen3ForSequenceClassification"},
        {qwen3, "Qwen3ForCausalLM", "Qwen3NextForCausalLM", SB_ERR_UNSUPPORTED, "Qwen3Next"},
        {qwen3_moe, "Qwen3MoeForCausalLM", "Qwen3ForCausalLM", SB_ERR_UNSUPPORTED,
         "expects Qwen3Moe"},
    };
    CHECK_CHANGES(changes);
}

/* R-24 for the values that Qwen recommends. d(32) = 23.6, d(1) = 39.6 */
TEST(test_yarn)
{
    sb_error err = {""};
    sb_config c;
    assert_int_equal(parse(qwen3_moe, "'rope_scaling':null", YARN(",'factor':4.0"), &c, &err),
                     SB_OK);
    assert_true(c.yarn.factor == 4.0f && c.yarn.original == 32768);
    assert_int_equal(sb_bits_f32(c.yarn.attention), 0x3f91be9c); /* 1 + ln(4) / 10 = 1.1386294 */
    assert_int_equal(c.yarn.low, 23);
    assert_int_equal(c.yarn.high, 40);
    assert_int_equal(parse(qwen3_moe, "'rope_scaling':null",
                           YARN(",'factor':4,'attention_factor':0.75,'beta_fast':16"), &c, &err),
                     SB_OK);
    assert_true(c.yarn.attention == 0.75f && c.yarn.low == 26);
    assert_int_equal(parse(qwen3_moe, "'rope_scaling':null", YARN(",'factor':1"), &c, &err), SB_OK);
    assert_true(c.yarn.attention == 1.0f);
}

static void *counted_malloc(size_t bytes)
{
    return sb_alloc(bytes, 1);
}

TEST(test_files_and_memory_that_ends)
{
    sb_error err;
    sb_config c;
    scratch_path dir = scratch_new();
    scratch_path path = scratch_join(dir.text, "config.json");
    check_status("absent", sb_config_load(path.text, &c, &err), &err, SB_ERR_IO,
                 "config.json: cannot open");
    scratch_write_json(dir.text, "config.json", vl);
    json_set_alloc_funcs(counted_malloc, free);
    unsigned long n = 1;
    for (sb_status status = SB_ERR_MEMORY; status != SB_OK; n++) {
        sb_alloc_fail_at(n);
        status = sb_config_load(path.text, &c, &err);
        sb_alloc_fail_at(0);
        if (status != SB_OK)
            check_status("memory", status, &err, SB_ERR_MEMORY, "config.json: out of memory");
        assert_true(n < 10000);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 100);
    scratch_write_json(dir.text, "config.json", "");
    check_status("empty", sb_config_load(path.text, &c, &err), &err, SB_ERR_INPUT,
                 "config.json:1:1");
    scratch_remove(dir.text);
}
