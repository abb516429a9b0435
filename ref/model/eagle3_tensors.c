#include "ref/model/eagle3_tensors.h"

#include <stdio.h>

/* Dimensions, as symbols; states: n Ht. */
typedef enum dim { one, H, H2, Q, KV, hd, F, Ht, states, Vt, Vd } dim;

/* Where a tensor stands: at the root, or in the layer. */
typedef struct row {
    sb_eagle3_part part;
    sb_role role;
    int in_layer;
    const char *name;
    unsigned rank;
    dim shape[2];
} row;

/* M-12; in the order in which a step uses them. */
static const row rows[] = {
    {SB_EAGLE3_input_norm, SB_ROLE_COUNT, 0, "input_norm.weight", 1, {states, one}},
    {SB_EAGLE3_fc_norm, SB_ROLE_COUNT, 0, "fc_norm", 1, {Ht, one}},
    {SB_EAGLE3_fc, SB_ROLE_COUNT, 0, "fc.weight", 2, {H, states}},
    {SB_EAGLE3_embed_tokens, SB_ROLE_embed_tokens, 0, "embed_tokens.weight", 2, {Vt, H}},
    {SB_EAGLE3_layer, SB_ROLE_input_layernorm, 1, "input_layernorm.weight", 1, {H, one}},
    {SB_EAGLE3_hidden_norm, SB_ROLE_COUNT, 1, "hidden_norm.weight", 1, {H, one}},
    {SB_EAGLE3_layer, SB_ROLE_q_proj, 1, "self_attn.q_proj.weight", 2, {Q, H2}},
    {SB_EAGLE3_layer, SB_ROLE_k_proj, 1, "self_attn.k_proj.weight", 2, {KV, H2}},
    {SB_EAGLE3_layer, SB_ROLE_v_proj, 1, "self_attn.v_proj.weight", 2, {KV, H2}},
    {SB_EAGLE3_layer, SB_ROLE_q_norm, 1, "self_attn.q_norm.weight", 1, {hd, one}},
    {SB_EAGLE3_layer, SB_ROLE_k_norm, 1, "self_attn.k_norm.weight", 1, {hd, one}},
    {SB_EAGLE3_layer, SB_ROLE_o_proj, 1, "self_attn.o_proj.weight", 2, {H, Q}},
    {SB_EAGLE3_layer,
     SB_ROLE_post_attention_layernorm,
     1,
     "post_attention_layernorm.weight",
     1,
     {H, one}},
    {SB_EAGLE3_layer, SB_ROLE_gate_proj, 1, "mlp.gate_proj.weight", 2, {F, H}},
    {SB_EAGLE3_layer, SB_ROLE_up_proj, 1, "mlp.up_proj.weight", 2, {F, H}},
    {SB_EAGLE3_layer, SB_ROLE_down_proj, 1, "mlp.down_proj.weight", 2, {H, F}},
    {SB_EAGLE3_norm, SB_ROLE_final_norm, 0, "norm.weight", 1, {H, one}},
    {SB_EAGLE3_lm_head, SB_ROLE_lm_head, 0, "lm_head.weight", 2, {Vd, H}},
    {SB_EAGLE3_d2t, SB_ROLE_COUNT, 0, "d2t", 1, {Vd, one}},
    {SB_EAGLE3_t2d, SB_ROLE_COUNT, 0, "t2d", 1, {Vt, one}},
};

static uint64_t size_of(const sb_eagle3_config *c, dim d)
{
    switch (d) {
    case one:
        return 1;
    case H:
        return c->layer.hidden_size;
    case H2:
        return 2 * (uint64_t)c->layer.hidden_size;
    case Q:
        return sb_config_query_width(&c->layer);
    case KV:
        return sb_config_kv_width(&c->layer);
    case hd:
        return c->layer.head_dim;
    case F:
        return c->layer.intermediate;
    case Ht:
        return c->target_hidden;
    case states:
        return (uint64_t)c->states * c->target_hidden;
    case Vt:
        return c->layer.vocab_size;
    case Vd:
        return c->draft_vocab;
    }
    return 0;
}

/* How many tensors the row stands for. */
static uint32_t count_of(const sb_eagle3_config *c, const row *r)
{
    if (r->part == SB_EAGLE3_input_norm)
        return c->norm_before_fc != 0;
    if (r->part == SB_EAGLE3_fc_norm)
        return c->fc_norm ? c->states : 0;
    return r->role == SB_ROLE_q_norm || r->role == SB_ROLE_k_norm ? c->qk_norm != 0 : 1;
}

/* M-12: "Without an embedding of its own it reads the target's, and so its head where the
 * vocabularies are equal" */
static int is_optional(const sb_eagle3_config *c, sb_eagle3_part part)
{
    const int whole = c->draft_vocab == c->layer.vocab_size;
    return part == SB_EAGLE3_embed_tokens || part == SB_EAGLE3_t2d ||
           (whole && (part == SB_EAGLE3_lm_head || part == SB_EAGLE3_d2t));
}

sb_status sb_eagle3_each_tensor(const sb_eagle3_config *config, const char *layer,
                                sb_eagle3_tensor_fn visit, void *ctx, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !status; i++) {
        const row *r = &rows[i];
        for (uint32_t k = 0; k < count_of(config, r) && !status; k++) {
            sb_eagle3_tensor t = {.part = r->part,
                                  .role = r->role,
                                  .state = k,
                                  .optional = is_optional(config, r->part),
                                  .rank = r->rank};
            if (r->part == SB_EAGLE3_fc_norm)
                snprintf(t.name, sizeof t.name, "fc_norm.%u.weight", (unsigned)k);
            else
                snprintf(t.name, sizeof t.name, "%s%s", r->in_layer ? layer : "", r->name);
            for (unsigned d = 0; d < r->rank; d++)
                t.shape[d] = size_of(config, r->shape[d]);
            status = visit(ctx, &t, err);
        }
    }
    return status;
}

const char *sb_eagle3_layer_name(const sb_checkpoint *checkpoint)
{
    return sb_checkpoint_find(checkpoint, "midlayer.hidden_norm.weight") ? "midlayer."
                                                                         : "layers.0.";
}
