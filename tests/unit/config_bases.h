/* config_bases.h - six good configurations, and how test_config.c makes others from them. */
#ifndef SB_TESTS_CONFIG_BASES_H
#define SB_TESTS_CONFIG_BASES_H

#include "ref/model/config.h"
#include "tests/unit/scratch.h"

/* ' stands for " */
#define TEXT                                                                                       \
    "'hidden_size':2048,'num_hidden_layers':8,'vocab_size':248320,'num_attention_heads':16,"       \
    "'num_key_value_heads':2,'head_dim':256,'hidden_act':'silu','rms_norm_eps':1e-06,"             \
    "'attention_bias':false,'full_attention_interval':4,'linear_conv_kernel_dim':4,"               \
    "'linear_key_head_dim':128,'linear_num_key_heads':16,'linear_num_value_heads':32,"             \
    "'linear_value_head_dim':128,'max_position_embeddings':262144,'eos_token_id':248044,"          \
    "'mtp_num_hidden_layers':1,'mtp_use_dedicated_embeddings':false,'attn_output_gate':true,"      \
    "'mamba_ssm_dtype':'float32','dtype':'bfloat16','tie_word_embeddings':false,"                  \
    "'rope_parameters':{'mrope_interleaved':true,'mrope_section':[11,11,10],"                      \
    "'rope_theta':10000000,'rope_type':'default','partial_rotary_factor':0.25}"
#define EXPERTS                                                                                    \
    "'num_experts':256,'num_experts_per_tok':8,'moe_intermediate_size':512,"                       \
    "'shared_expert_intermediate_size':384"
#define LAYERS                                                                                     \
    "'layer_types':['linear_attention','linear_attention','linear_attention','full_attention',"    \
    "'linear_attention','linear_attention','linear_attention','full_attention']"

static const char vl[] =
    "{'architectures':['Qwen3_5MoeForConditionalGeneration'],'model_type':'qwen3_5_moe',"
    "'image_token_id':248056,'tie_word_embeddings':false,'vision_config':{'depth':27},"
    "'text_config':{'model_type':'qwen3_5_moe_text'," TEXT "," EXPERTS "," LAYERS "}}";
static const char flat[] = "{'architectures':['Qwen3_5MoeForCausalLM'],'model_type':'qwen3_5_moe_"
                           "text'," TEXT "," EXPERTS "}";
static const char dense[] = "{'architectures':['Qwen3_5ForCausalLM'],'model_type':'qwen3_5_text',"
                            "'intermediate_size':3584," TEXT "}";
static const char next[] =
    "{'architectures':['Qwen3NextForCausalLM'],'model_type':'qwen3_next','decoder_sparse_step':1,"
    "'mlp_only_layers':[],'norm_topk_prob':true,'rope_theta':10000000,'rope_scaling':null,"
    "'partial_rotary_factor':0.25,'torch_dtype':'bfloat16','bos_token_id':151643,"
    "'eos_token_id':[151645,151643],'intermediate_size':5120,'num_hidden_layers':12}";
/* as transformers 4 wrote them: rope_theta and rope_scaling at the root */
static const char qwen3_moe[] =
    "{'architectures':['Qwen3MoeForCausalLM'],'attention_bias':false,'bos_token_id':151643,"
    "'decoder_sparse_step':1,'eos_token_id':151645,'head_dim':128,'hidden_act':'silu',"
    "'hidden_size':2048,'intermediate_size':6144,'max_position_embeddings':40960,"
    "'max_window_layers':48,'mlp_only_layers':[],'model_type':'qwen3_moe',"
    "'moe_intermediate_size':768,'norm_topk_prob':true,'num_attention_heads':32,'num_experts':128,"
    "'num_experts_per_tok':8,'num_hidden_layers':48,'num_key_value_heads':4,'rms_norm_eps':1e-06,"
    "'rope_scaling':null,'rope_theta':1000000.0,'sliding_window':null,"
    "'tie_word_embeddings':false,'torch_dtype':'bfloat16','use_sliding_window':false,"
    "'vocab_size':151936}";
/* as transformers 5 writes them */
static const char qwen3[] =
    "{'architectures':['Qwen3ForCausalLM'],'attention_bias':false,'dtype':'bfloat16',"
    "'head_dim':128,'hidden_size':1024,'intermediate_size':3072,'layer_types':['full_attention',"
    "'full_attention'],'max_position_embeddings':40960,'max_window_layers':28,"
    "'model_type':'qwen3','num_attention_heads':16,'num_hidden_layers':2,"
    "'num_key_value_heads':8,'rope_parameters':{'rope_theta':1000000,'rope_type':'default'},"
    "'sliding_window':null,'tie_word_embeddings':true,'use_sliding_window':false,"
    "'vocab_size':151936}";

/* base with the first `from` replaced by `to`, and each ' replaced by ". */
static char *patched(const char *base, const char *from, const char *to)
{
    const char *at = strstr(base, from);
    if (!at)
        fail_msg("the base has no %s", from);
    char *text = malloc(strlen(base) + strlen(to) + 1);
    assert_non_null(text);
    sprintf(text, "%.*s%s%s", (int)(at - base), base, to, at + strlen(from));
    char *json = scratch_json(text);
    free(text);
    return json;
}

static sb_status parse(const char *base, const char *from, const char *to, sb_config *out,
                       sb_error *err)
{
    char *text = patched(base, from, to);
    sb_status status = sb_config_parse(text, strlen(text), "config.json", out, err);
    free(text);
    return status;
}

static sb_config read_good(const char *base, const char *from, const char *to)
{
    sb_error err;
    sb_config c;
    check_status(to, parse(base, from, to, &c, &err), &err, SB_OK, "");
    return c;
}

typedef struct change {
    const char *base;
    const char *from;
    const char *to;
    sb_status status;
    const char *fragment;
} change;

static void check_changes(const change *changes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sb_error err;
        sb_config c = {.layers = 4711};
        sb_status status = parse(changes[i].base, changes[i].from, changes[i].to, &c, &err);
        check_status(changes[i].to, status, &err, changes[i].status, changes[i].fragment);
        assert_true((c.layers == 4711) == (status != SB_OK)); /* set on success only */
    }
}

#define CHECK_CHANGES(changes) check_changes(changes, sizeof(changes) / sizeof((changes)[0]))

#endif
