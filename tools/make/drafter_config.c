/* drafter_config.c - config.json of a drafter, in each dialect of M-12 as its program writes it. */
#include "tools/make/drafter.h"

#include <stdio.h>

#include "tools/make/json_text.h"

static void put_flag(sb_json_out *out, const sb_drafter *d, const char *name, sb_drafter_flag flag)
{
    sb_put_text(out, name, d->flag[flag] ? "true" : "false");
}

/* M-13: "Numbers in eagle_config count from the output of layer 0, so one is added to each." */
static void put_states(sb_json_out *out, const sb_drafter *d)
{
    const uint32_t less = d->speculators ? 0 : 1;
    sb_put_key(out, "eagle_aux_hidden_state_layer_ids");
    for (unsigned i = 0; i < SB_DRAFTER_STATES; i++)
        fprintf(out->file, "%s%u", i ? ", " : "[", (unsigned)(d->after[i] - less));
    fputc(']', out->file);
}

/* The keys of transformers for the layer. Published drafters have their own theta and eps. */
static void put_layer(sb_json_out *out, const sb_drafter *d)
{
    const char *theta = sb_family_is_qwen3(d->target->family) ? "1000000" : "10000000";
    sb_put_text(out, "attention_bias", "false");
    sb_put_text(out, "attention_dropout", "0.0");
    sb_put_count(out, "head_dim", d->size[SB_DRAFTER_head]);
    sb_put_string(out, "hidden_act", "silu");
    sb_put_count(out, "hidden_size", d->size[SB_DRAFTER_hidden]);
    sb_put_text(out, "initializer_range", "0.02");
    sb_put_count(out, "intermediate_size", d->size[SB_DRAFTER_mlp]);
    sb_put_text(out, "max_position_embeddings", "2048");
    if (!d->flag[SB_DRAFTER_qwen3])
        sb_put_text(out, "mlp_bias", "false");
    sb_put_string(out, "model_type", d->flag[SB_DRAFTER_qwen3] ? "qwen3" : "llama");
    sb_put_count(out, "num_attention_heads", d->heads);
    sb_put_text(out, "num_hidden_layers", "1");
    sb_put_count(out, "num_key_value_heads", d->kv_heads);
    sb_put_text(out, "rms_norm_eps", "1e-06");
    if (d->speculators) {
        sb_put_key(out, "rope_parameters");
        sb_put_open(out, '{');
        sb_put_text(out, "rope_theta", theta);
        sb_put_string(out, "rope_type", "default");
        sb_put_close(out, '}');
    } else {
        sb_put_text(out, "rope_scaling", "null");
        sb_put_text(out, "rope_theta", theta);
    }
    sb_put_text(out, "tie_word_embeddings", "false");
    sb_put_text(out, "use_cache", "true");
    sb_put_count(out, "vocab_size", d->size[SB_DRAFTER_vocabulary]);
}

static void put_speculators(sb_json_out *out, const sb_drafter *d)
{
    sb_put_key(out, "speculators_config");
    sb_put_open(out, '{');
    sb_put_string(out, "algorithm", "eagle3");
    sb_put_string(out, "default_proposal_method", "greedy");
    sb_put_key(out, "proposal_methods");
    sb_put_open(out, '[');
    sb_put_element(out);
    sb_put_open(out, '{');
    sb_put_text(out, "accept_tolerance", "0.0");
    sb_put_string(out, "proposal_type", "greedy");
    sb_put_text(out, "speculative_tokens", "3");
    sb_put_text(out, "verifier_accept_k", "1");
    sb_put_close(out, '}');
    sb_put_close(out, ']');
    sb_put_key(out, "verifier");
    sb_put_open(out, '{');
    sb_put_key(out, "architectures");
    fprintf(out->file, "[\"%sForCausalLM\"]", sb_family_classes(d->target->family));
    sb_put_text(out, "name_or_path", "null");
    sb_put_close(out, '}');
    sb_put_close(out, '}');
    sb_put_string(out, "speculators_model_type", "eagle3");
    sb_put_string(out, "speculators_version", "0.9.0");
}

static void put_root(sb_json_out *out, const sb_drafter *d)
{
    sb_put_open(out, '{');
    sb_put_key(out, "architectures");
    fprintf(out->file, "[\"%s\"]", d->speculators ? "Eagle3DraftModel" : "LlamaForCausalLMEagle3");
    sb_put_count(out, "draft_vocab_size", d->size[SB_DRAFTER_drafted]);
    sb_put_string(out, "dtype", "bfloat16");
    if (d->speculators)
        put_states(out, d);
    else {
        sb_put_key(out, "eagle_config");
        sb_put_open(out, '{');
        put_states(out, d);
        put_flag(out, d, "norm_before_fc", SB_DRAFTER_norm_before_fc);
        sb_put_text(out, "use_aux_hidden_state", "true");
        sb_put_close(out, '}');
    }
    put_flag(out, d, "fc_norm", SB_DRAFTER_fc_norm);
    if (d->speculators)
        put_flag(out, d, "norm_before_fc", SB_DRAFTER_norm_before_fc);
    put_flag(out, d, "norm_before_residual", SB_DRAFTER_norm_before_residual);
    put_flag(out, d, "norm_output", SB_DRAFTER_norm_output);
    if (d->speculators)
        put_speculators(out, d);
    sb_put_count(out, "target_hidden_size", d->size[SB_DRAFTER_target]);
    if (d->speculators) {
        sb_put_text(out, "tie_word_embeddings", "false");
        sb_put_key(out, "transformer_layer_config");
        sb_put_open(out, '{');
        put_layer(out, d);
        sb_put_close(out, '}');
    } else
        put_layer(out, d);
    sb_put_close(out, '}');
}

char *sb_drafter_config_text(const sb_drafter *d)
{
    char *text = NULL;
    size_t size = 0;
    sb_json_out out = {open_memstream(&text, &size), 0, 0};
    if (!out.file)
        return NULL;
    put_root(&out, d);
    return sb_put_finish(&out, &text);
}
