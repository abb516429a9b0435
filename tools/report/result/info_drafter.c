#include "tools/report/result/info_drafter.h"

#include <inttypes.h>
#include <stdio.h>

#include "ref/container/show.h"
#include "ref/model/probe.h"
#include "tools/report/part/document.h"

static const char *dialect_of(const sb_eagle3_config *c)
{
    return c->dialect == SB_EAGLE3_speculators ? "speculators" : "specforge";
}

/* The number of weights, without the maps of the vocabulary. */
static uint64_t parameters_of(const sb_checkpoint *checkpoint)
{
    uint64_t sum = 0;
    sb_format format;
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint); i++) {
        const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
        if (sb_plain_format(t->dtype, &format))
            sum += t->bytes / (sb_dtype_bits(t->dtype) / 8);
    }
    return sum;
}

/* Whose embedding or head it reads (M-12). */
static const char *owner_of(const sb_checkpoint *checkpoint, const char *name)
{
    return sb_checkpoint_find(checkpoint, name) ? "own" : "target";
}

json_t *sb_info_drafter_json(const sb_eagle3_config *c, const sb_checkpoint *checkpoint)
{
    const sb_config *l = &c->layer;
    json_t *layer = json_object(), *drafter = json_object(), *document = sb_document("info");
    SB_PUT(layer, "type", c->qk_norm ? "qwen3" : "llama");
    SB_PUT(layer, "hidden_size", l->hidden_size);
    SB_PUT(layer, "num_attention_heads", l->heads);
    SB_PUT(layer, "num_key_value_heads", l->kv_heads);
    SB_PUT(layer, "head_dim", l->head_dim);
    SB_PUT(layer, "intermediate", l->intermediate);
    SB_PUT(layer, "rope_theta", l->rope_theta);
    SB_PUT(drafter, "dialect", dialect_of(c));
    SB_PUT(drafter, "layer", layer);
    SB_PUT(drafter, "states", c->states);
    SB_PUT(drafter, "after_layers", c->has_after ? sb_ids_json(c->after, c->states) : json_null());
    SB_PUT(drafter, "target_hidden_size", c->target_hidden);
    SB_PUT(drafter, "vocab_size", l->vocab_size);
    SB_PUT(drafter, "draft_vocab_size", c->draft_vocab);
    SB_PUT(drafter, "norm_before_residual", json_boolean(c->norm_before_residual));
    SB_PUT(drafter, "norm_before_fc", json_boolean(c->norm_before_fc));
    SB_PUT(drafter, "fc_norm", json_boolean(c->fc_norm));
    SB_PUT(drafter, "norm_output", json_boolean(c->norm_output));
    SB_PUT(drafter, "embedding", owner_of(checkpoint, "embed_tokens.weight"));
    SB_PUT(drafter, "head", owner_of(checkpoint, "lm_head.weight"));
    SB_PUT(drafter, "parameters", parameters_of(checkpoint));
    SB_PUT(drafter, "tensors", sb_checkpoint_count(checkpoint));
    SB_PUT(drafter, "bytes", sb_checkpoint_bytes(checkpoint));
    SB_PUT(document, "drafter", drafter);
    return document;
}

void sb_info_drafter_print(const sb_eagle3_config *c, const sb_checkpoint *checkpoint)
{
    const sb_config *l = &c->layer;
    printf("EAGLE-3 drafter in the dialect of %s\n", dialect_of(c));
    printf(
        "one layer of type %s: hidden %u, attention %u/%u heads of %u (theta %.17g), MLP of width "
        "%u\n",
        c->qk_norm ? "qwen3" : "llama", (unsigned)l->hidden_size, (unsigned)l->heads,
        (unsigned)l->kv_heads, (unsigned)l->head_dim, l->rope_theta, (unsigned)l->intermediate);
    printf("reads %u states of %u, after ", (unsigned)c->states, (unsigned)c->target_hidden);
    for (uint32_t i = 0; c->has_after && i < c->states; i++)
        printf("%s%u", i ? ", " : "", (unsigned)c->after[i]);
    printf("%s layers of its target%s\n", c->has_after ? "" : "2, L/2 and L - 3",
           c->counts_outputs ? " (the file counts from the output of layer 0)" : "");
    printf("drafts %u of %u tokens, with the embedding of %s and the head of %s\n",
           (unsigned)c->draft_vocab, (unsigned)l->vocab_size,
           sb_checkpoint_find(checkpoint, "embed_tokens.weight") ? "its own" : "its target",
           sb_checkpoint_find(checkpoint, "lm_head.weight") ? "its own" : "its target");
    printf("norm_before_residual %s, norm_before_fc %s, fc_norm %s, norm_output %s\n",
           c->norm_before_residual ? "true" : "false", c->norm_before_fc ? "true" : "false",
           c->fc_norm ? "true" : "false", c->norm_output ? "true" : "false");
    printf("tensors: %zu, %" PRIu64 " weights, %" PRIu64 " bytes\n",
           sb_checkpoint_count(checkpoint), parameters_of(checkpoint),
           sb_checkpoint_bytes(checkpoint));
}
