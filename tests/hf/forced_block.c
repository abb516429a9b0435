/* forced_block.c - the parts that all layers have (embedding, norms, residual sums), and the
 * head. */
#include "tests/hf/forced.h"

#include <stdio.h>

/* R-1, for the rows that enter layer 0. */
static void check_embed(forced *f, const forced_call *call)
{
    const sb_tensor *tokens = hf_find(f->fixture, "tokens");
    const float *want = forced_values(f, FORCED_embed, call->length, 0, "input");
    size_t width = f->fixture->model->config.hidden_size;
    if (!tokens || !want) {
        hf_forced_fail(f, FORCED_embed, "%s has no tokens or no input of layer 0",
                       f->fixture->name);
        return;
    }
    const float *all = hf_values(&f->arena, tokens);
    uint32_t *ids = hf_alloc(&f->arena, call->count, sizeof *ids);
    for (size_t i = 0; i < call->count; i++)
        ids[i] = (uint32_t)all[call->at[i]];
    forced_out out = forced_room(f, call->count * width);
    const sb_embed_args args = {.table = &f->fixture->model->weights->embed_tokens,
                                .tokens = ids,
                                .rows = call->count,
                                .out = out.got};
    FORCED_BOUND(f, embed, args, out, NULL);
    FORCED_RUN(f, embed, args);
    forced_compare(f, FORCED_embed, "embed", &out, want, width);
}

/* "A layer is x = x + mixer( rmsnorm(x, input_layernorm) ), then x = x + mlp( rmsnorm(x,
 * post_attention_layernorm) )" */
void forced_check_block(forced *f, const forced_call *call, unsigned layer)
{
    const sb_layer *w = forced_layer(f, layer);
    size_t n = call->length, count = call->count * f->fixture->model->config.hidden_size;
    int full = f->fixture->model->config.layer_is_full[layer];
    int dense = sb_config_layer_experts(&f->fixture->model->config, layer) == 0;
    const char *mixer = full ? "self_attn.o_proj" : "linear_attn.out_proj";
    const float *x = forced_values(f, FORCED_add, n, layer, "input");
    const float *mixed = forced_values(f, FORCED_add, n, layer, mixer);
    const float *middle = forced_values(f, FORCED_add, n, layer, "attn_residual");
    const float *mlp = forced_values(f, FORCED_add, n, layer, dense ? "mlp.down_proj" : "mlp.out");
    if (layer == 0)
        check_embed(f, call);
    forced_rmsnorm(f, "input_layernorm", &w->w[SB_ROLE_input_layernorm], x, call->count,
                   forced_values(f, FORCED_rmsnorm, n, layer, "input_layernorm"));
    forced_add(f, "attn_residual", x, mixed, count, middle);
    forced_rmsnorm(f, "post_attention_layernorm", &w->w[SB_ROLE_post_attention_layernorm], middle,
                   call->count,
                   forced_values(f, FORCED_rmsnorm, n, layer, "post_attention_layernorm"));
    forced_add(f, "output", middle, mlp, count, forced_values(f, FORCED_add, n, layer, "output"));
}

/* "the head is linear( rmsnorm(x, norm), lm_head )", for every recorded last hidden
 * vector. */
void forced_check_logits(forced *f)
{
    static const char *const calls[] = {"prefill.1",  "prefill.3",  "prefill.63",
                                        "prefill.64", "prefill.65", "prefill.129",
                                        "decode",     "warm4",      "step1"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const sb_tensor *hidden = hf_find(f->fixture, "%s.hidden", calls[i]);
        const sb_tensor *logits = hf_find(f->fixture, "%s.logits", calls[i]);
        char tap[64];
        snprintf(tap, sizeof tap, "%s.logits", calls[i]);
        if (hidden && logits)
            forced_linear(f, tap, &f->fixture->model->weights->lm_head,
                          hf_values(&f->arena, hidden), hf_rows(hidden),
                          hf_values(&f->arena, logits));
        else
            hf_forced_fail(f, FORCED_linear, "%s has no %s", f->fixture->name, tap);
    }
}
