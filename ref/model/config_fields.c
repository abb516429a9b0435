/* config_fields.c - counts and widths, layer kinds, and fields without effect on the
 * mathematics. */
#include "ref/model/config_source.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ABSENT = 0 }; /* the family does not have this field, so the field is not read and stays 0 */

/* All counts and widths. The defaults are those of the five configuration classes (mixture of
 * experts, dense, Next, Qwen3 mixture of experts, Qwen3 dense) that wrote the published files. All
 * values are at least 1. */
static const struct {
    const char *key;
    size_t at;
    uint32_t most;
    uint32_t otherwise[5];
} counts[] = {
#define COUNT(key, member, most, ...)                                                              \
    {                                                                                              \
        key, offsetof(sb_config, member), most,                                                    \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
    COUNT("hidden_size", hidden_size, SB_MAX_WIDTH, 2048, 4096, 2048, 2048, 4096),
    COUNT("num_hidden_layers", layers, SB_MAX_LAYERS, 40, 32, 48, 24, 32),
    COUNT("vocab_size", vocab_size, SB_MAX_WIDTH, 248320, 248320, 151936, 151936, 151936),
    COUNT("max_position_embeddings", max_position_embeddings, INT32_MAX, 32768, 32768, 32768, 32768,
          32768),
    COUNT("num_attention_heads", heads, SB_MAX_WIDTH, 16, 16, 16, 32, 32),
    COUNT("num_key_value_heads", kv_heads, SB_MAX_WIDTH, 2, 4, 2, 4, 32),
    COUNT("head_dim", head_dim, SB_MAX_WIDTH, 256, 256, 256, ABSENT, 128),
    COUNT("linear_conv_kernel_dim", conv_kernel, SB_MAX_CONV_KERNEL, 4, 4, 4, ABSENT, ABSENT),
    COUNT("linear_num_key_heads", lin_k_heads, SB_MAX_WIDTH, 16, 16, 16, ABSENT, ABSENT),
    COUNT("linear_num_value_heads", lin_v_heads, SB_MAX_WIDTH, 32, 32, 32, ABSENT, ABSENT),
    COUNT("linear_key_head_dim", lin_k_dim, SB_MAX_WIDTH, 128, 128, 128, ABSENT, ABSENT),
    COUNT("linear_value_head_dim", lin_v_dim, SB_MAX_WIDTH, 128, 128, 128, ABSENT, ABSENT),
    COUNT("num_experts", experts, SB_MAX_EXPERTS, 256, ABSENT, 512, 128, ABSENT),
    COUNT("num_experts_per_tok", experts_per_token, SB_MAX_EXPERTS, 8, ABSENT, 10, 8, ABSENT),
    COUNT("moe_intermediate_size", moe_intermediate, SB_MAX_WIDTH, 512, ABSENT, 512, 768, ABSENT),
    COUNT("shared_expert_intermediate_size", shared_intermediate, SB_MAX_WIDTH, 512, ABSENT, 512,
          ABSENT, ABSENT),
    COUNT("intermediate_size", intermediate, SB_MAX_WIDTH, ABSENT, 12288, ABSENT, 6144, 22016),
#undef COUNT
};

/* M-11: "num_local_experts is another name of num_experts" in qwen3_moe: the value of a file that
 * has only this name. */
static sb_status read_other_name(const sb_config_source *s, sb_config *out, sb_error *err)
{
    static const char key[] = "num_local_experts";
    uint64_t value;
    int both = sb_json_get(&s->text, "num_experts") != NULL;
    if (out->family != SB_QWEN3_MOE || !sb_json_get(&s->text, key))
        return SB_OK;
    sb_status status = sb_json_u64(&s->text, key, &value, err);
    if (status == SB_OK && both && value != out->experts)
        return sb_json_fail(&s->text, key, SB_ERR_INPUT, err,
                            "is %" PRIu64 ", but num_experts is %" PRIu32, value, out->experts);
    if (status == SB_OK && (value < 1 || value > SB_MAX_EXPERTS))
        return sb_json_fail(&s->text, key, SB_ERR_INPUT, err, "is %" PRIu64 ", expected 1 to %d",
                            value, SB_MAX_EXPERTS);
    if (status == SB_OK)
        out->experts = (uint32_t)value;
    return status;
}

/* M-11: "Layer i of qwen3_moe has a dense MLP where mlp_only_layers names it or (i+1) mod
 * decoder_sparse_step is not 0". Engines disagree about an absent norm_topk_prob. */
static sb_status read_dense_layers(const sb_config_source *s, uint64_t step, sb_config *out,
                                   sb_error *err)
{
    uint64_t named[SB_MAX_LAYERS], shared;
    size_t count = 0;
    int any = 0;
    if (!sb_json_get(&s->text, "norm_topk_prob"))
        return sb_json_fail(&s->text, "norm_topk_prob", SB_ERR_UNSUPPORTED, err,
                            "is absent, which is not read: transformers takes false then, and "
                            "SGLang true");
    sb_status status = sb_json_u64_or(&s->text, "shared_expert_intermediate_size", 0, &shared, err);
    if (status == SB_OK && shared > 0)
        return sb_json_fail(&s->text, "shared_expert_intermediate_size", SB_ERR_UNSUPPORTED, err,
                            "is %" PRIu64
                            ", which is not read: no release of qwen3_moe has a shared expert",
                            shared);
    if (status == SB_OK && step == 0)
        return sb_json_fail(&s->text, "decoder_sparse_step", SB_ERR_INPUT, err,
                            "is 0, expected at least 1");
    if (status == SB_OK && sb_json_get(&s->text, "mlp_only_layers"))
        status =
            sb_json_u64_array(&s->text, "mlp_only_layers", 0, SB_MAX_LAYERS, named, &count, err);
    for (uint32_t i = 0; i < out->layers && status == SB_OK; i++)
        out->layer_is_dense[i] = (i + 1) % step != 0;
    for (size_t i = 0; i < count && status == SB_OK; i++) {
        if (named[i] >= out->layers)
            return sb_json_fail(&s->text, "mlp_only_layers", SB_ERR_INPUT, err,
                                "names layer %" PRIu64 ", expected layers below %" PRIu32, named[i],
                                out->layers);
        out->layer_is_dense[named[i]] = 1;
    }
    for (uint32_t i = 0; i < out->layers; i++)
        any |= out->layer_is_dense[i];
    if (!any)
        out->intermediate = 0;
    return status;
}

/* Refuses a mixture of experts with some dense layers, except in qwen3_moe, and a dense model with
 * experts: these are other models. */
static sb_status read_mixture(const sb_config_source *s, sb_config *out, sb_error *err)
{
    uint64_t step;
    uint64_t stray;
    int norm;
    json_t *dense_layers = sb_json_get(&s->text, "mlp_only_layers");
    sb_status status = sb_json_u64_or(&s->text, "decoder_sparse_step", 1, &step, err);
    if (status == SB_OK)
        status = sb_json_u64_or(&s->text, "num_experts", 0, &stray, err);
    if (status == SB_OK)
        status = sb_json_bool_or(&s->text, "norm_topk_prob", 1, &norm, err);
    if (status == SB_OK)
        status = read_other_name(s, out, err);
    if (status != SB_OK)
        return status;
    out->norm_topk_prob = (uint8_t)norm;
    if (out->family == SB_QWEN3_MOE)
        return read_dense_layers(s, step, out, err);
    if (dense_layers && (!json_is_array(dense_layers) || json_array_size(dense_layers) > 0))
        return sb_json_fail(&s->text, "mlp_only_layers", SB_ERR_UNSUPPORTED, err,
                            "is not empty, which is not read: no release mixes dense layers and "
                            "experts");
    if (step != 1)
        return sb_json_fail(&s->text, "decoder_sparse_step", SB_ERR_UNSUPPORTED, err,
                            "is %" PRIu64 ", which is not read: expected 1", step);
    if ((out->family == SB_QWEN3_5 || out->family == SB_QWEN3) && stray > 0)
        return sb_json_fail(&s->text, "num_experts", SB_ERR_INPUT, err,
                            "is %" PRIu64 ", but model_type %s is dense", stray,
                            sb_family_name(out->family));
    if (out->family == SB_QWEN3_5_MOE && !norm)
        return sb_json_fail(&s->text, "norm_topk_prob", SB_ERR_UNSUPPORTED, err,
                            "is false, which is not read: no release of qwen3_5_moe uses false, "
                            "and engines disagree about it");
    return SB_OK;
}

static sb_status read_counts(const sb_config_source *s, sb_config *out, sb_error *err)
{
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t otherwise = counts[i].otherwise[out->family];
        uint64_t value;
        if (otherwise == ABSENT)
            continue;
        sb_status status = sb_json_u64_or(&s->text, counts[i].key, otherwise, &value, err);
        if (status != SB_OK)
            return status;
        if (value < 1 || value > counts[i].most)
            return sb_json_fail(&s->text, counts[i].key, SB_ERR_INPUT, err,
                                "is %" PRIu64 ", expected 1 to %" PRIu32, value, counts[i].most);
        uint32_t small = (uint32_t)value;
        memcpy((unsigned char *)out + counts[i].at, &small, sizeof small);
    }
    return SB_OK;
}

static sb_status check_width(const sb_config_source *s, const char *what, uint32_t a, uint32_t b,
                             sb_error *err)
{
    if ((uint64_t)a * b <= SB_MAX_WIDTH)
        return SB_OK;
    return sb_json_fail(&s->text, what, SB_ERR_INPUT, err, "is %" PRIu64 ", expected at most %d",
                        (uint64_t)a * b, SB_MAX_WIDTH);
}

static sb_status check_multiple(const sb_config_source *s, const char *key, uint32_t value,
                                const char *of_key, uint32_t of, sb_error *err)
{
    if (value % of == 0)
        return SB_OK;
    return sb_json_fail(&s->text, key, SB_ERR_INPUT, err,
                        "is %" PRIu32 ", expected a multiple of %s, which is %" PRIu32, value,
                        of_key, of);
}

/* M-11: "An absent head_dim of qwen3_moe is hidden_size / num_attention_heads" */
static sb_status read_head_dim(const sb_config_source *s, sb_config *out, sb_error *err)
{
    uint64_t value;
    if (out->family != SB_QWEN3_MOE)
        return SB_OK;
    sb_status status =
        sb_json_u64_or(&s->text, "head_dim", out->hidden_size / out->heads, &value, err);
    if (status == SB_OK && (value < 1 || value > SB_MAX_WIDTH))
        return sb_json_fail(&s->text, "head_dim", SB_ERR_INPUT, err,
                            "is %" PRIu64 ", expected 1 to %d", value, SB_MAX_WIDTH);
    if (status == SB_OK && !sb_json_get(&s->text, "head_dim"))
        status = check_multiple(s, "hidden_size", out->hidden_size, "num_attention_heads",
                                out->heads, err);
    out->head_dim = status == SB_OK ? (uint32_t)value : 0;
    return status;
}

static sb_status check_relations(const sb_config_source *s, const sb_config *c, sb_error *err)
{
    sb_status status =
        check_multiple(s, "num_attention_heads", c->heads, "num_key_value_heads", c->kv_heads, err);
    if (status == SB_OK && c->lin_k_heads)
        status = check_multiple(s, "linear_num_value_heads", c->lin_v_heads, "linear_num_key_heads",
                                c->lin_k_heads, err);
    if (status == SB_OK)
        status = check_width(s, "num_attention_heads * head_dim", c->heads, c->head_dim, err);
    if (status == SB_OK)
        status = check_width(s, "linear_num_key_heads * linear_key_head_dim", c->lin_k_heads,
                             c->lin_k_dim, err);
    if (status == SB_OK)
        status = check_width(s, "linear_num_value_heads * linear_value_head_dim", c->lin_v_heads,
                             c->lin_v_dim, err);
    if (status == SB_OK && c->experts_per_token > c->experts)
        status = sb_json_fail(&s->text, "num_experts_per_tok", SB_ERR_INPUT, err,
                              "is %" PRIu32 ", expected at most num_experts, which is %" PRIu32,
                              c->experts_per_token, c->experts);
    return status;
}

sb_status sb_config_read_counts(const sb_config_source *s, sb_config *out, sb_error *err)
{
    sb_status status = read_counts(s, out, err);
    if (status == SB_OK)
        status = read_head_dim(s, out, err);
    if (status == SB_OK)
        status = read_mixture(s, out, err);
    if (status == SB_OK)
        status = check_relations(s, out, err);
    if (status == SB_OK)
        status = sb_json_f64_or(&s->text, "rms_norm_eps", 1e-6, &out->eps, err);
    if (status != SB_OK)
        return status;
    out->eps_f32 = (float)out->eps;
    if (!(out->eps < 1 && out->eps_f32 >= FLT_MIN))
        return sb_json_fail(&s->text, "rms_norm_eps", SB_ERR_INPUT, err,
                            "is %.17g, expected a normal binary32 number below 1", out->eps);
    out->plain_norms = (uint8_t)sb_family_is_qwen3(out->family);
    out->attn_output_gate = !out->plain_norms; /* other values were refused before */
    memcpy(out->output_gate_type, "silu", 5);
    return SB_OK;
}

static sb_status read_kind(const sb_config_source *s, const json_t *types, uint32_t layer,
                           sb_config *out, sb_error *err)
{
    json_t *value = json_array_get(types, layer);
    const char *name = json_string_value(value);
    sb_json_text found;
    if (name && strcmp(name, "full_attention") == 0)
        out->layer_is_full[layer] = 1;
    else if (!name || strcmp(name, "linear_attention") != 0)
        return sb_json_fail(&s->text, "layer_types", name ? SB_ERR_UNSUPPORTED : SB_ERR_INPUT, err,
                            "declares layer %" PRIu32
                            " as %s, expected \"linear_attention\" or \"full_attention\"",
                            layer, sb_json_found(value, &found));
    if (sb_family_is_qwen3(out->family) && !out->layer_is_full[layer])
        return sb_json_fail(&s->text, "layer_types", SB_ERR_INPUT, err,
                            "declares layer %" PRIu32
                            " as \"linear_attention\", but model_type %s has none",
                            layer, sb_family_name(out->family));
    return SB_OK;
}

/* M-2: "layer i is full attention exactly when (i+1) mod full_attention_interval is 0" - if the
 * file has a list of layer types, the list decides instead. Some engines read only the interval;
 * check 9 reports a difference. */
sb_status sb_config_read_layers(const sb_config_source *s, sb_config *out, sb_error *err)
{
    uint64_t interval;
    int has_interval = json_object_get(s->text.json, "full_attention_interval") != NULL;
    json_t *types = sb_json_get(&s->text, "layer_types");
    sb_status status = sb_json_u64_or(&s->text, "full_attention_interval", 4, &interval, err);
    if (status != SB_OK)
        return status;
    if (sb_family_is_qwen3(out->family)) {
        interval = 1; /* M-11: "Every layer is full attention" */
        has_interval = 0;
    }
    if (interval == 0)
        return sb_json_fail(&s->text, "full_attention_interval", SB_ERR_INPUT, err,
                            "is 0, expected at least 1");
    if (types && (!json_is_array(types) || json_array_size(types) != out->layers)) {
        char expected[64];
        snprintf(expected, sizeof expected, "an array of num_hidden_layers = %" PRIu32,
                 out->layers);
        return sb_json_wrong(&s->text, "layer_types", types, expected, err);
    }
    for (uint32_t i = 0; i < out->layers; i++) {
        int by_interval = (i + 1) % interval == 0;
        if (types)
            status = read_kind(s, types, i, out, err);
        else
            out->layer_is_full[i] = (uint8_t)by_interval;
        if (status != SB_OK)
            return status;
        if (has_interval && out->layer_is_full[i] != by_interval && !out->other_interval) {
            out->other_interval = interval;
            out->other_layer = i;
        }
    }
    return SB_OK;
}
