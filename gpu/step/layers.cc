/* layers.cc - the layer loop and the MTP head: ref/run/schedule.c and mtp.c over resident arrays.
 */
#include "gpu/op/draw.h"
#include "gpu/step/call.h"

void sb_step_call::did(const char *name, sb_status what)
{
    const char *said = sb_gpu_said(gpu)->text;
    status = what;
    if (what == SB_OK)
        return;
    if (layer == SB_NO_LAYER)
        sb_fail(err, what, "step: %s failed%s%s", name, *said ? ": " : "", said);
    else
        sb_fail(err, what, "step: layer %u: %s failed%s%s", layer, name, *said ? ": " : "", said);
}

void sb_step_call::linear_of(const char *name, sb_linear_kind of, const sb_matrix &weight,
                             const float *in, size_t n, float *out)
{
    const sb_linear_args args = {&weight, of, in, n, out};
    SB_STEP(*this, name, sb_gpu_linear(gpu, knobs, &args));
}

void sb_step_call::norm(const char *name, const sb_matrix &weight, const float *in, size_t n,
                        size_t width, float *out)
{
    const sb_rmsnorm_args args = {in, &weight, config->eps_f32, n, width, out};
    SB_STEP(*this, name, sb_gpu_rmsnorm(gpu, knobs, &args));
}

/* x = x + out */
static void residual(sb_step_call &c, const char *name)
{
    const sb_scratch *s = c.s;
    const sb_add_args args = {s->x, s->out, c.rows * c.config->hidden_size, s->x, nullptr};
    SB_STEP(c, name, sb_gpu_add(c.gpu, c.knobs, &args));
}

void sb_step_layer(sb_step_call &c, const sb_layer *layer, bool is_full)
{
    const sb_scratch *s = c.s;
    const sb_matrix *w = layer->w;
    const size_t H = c.config->hidden_size;
    c.norm("input_layernorm", w[SB_ROLE_input_layernorm], s->x, c.rows, H, s->y);
    if (is_full)
        sb_step_attention(c, layer);
    else
        sb_step_gdn(c, layer);
    residual(c, "attn_residual");
    c.norm("post_attention_layernorm", w[SB_ROLE_post_attention_layernorm], s->x, c.rows, H, s->y);
    sb_step_mlp(c, layer);
    residual(c, "output");
}

static void embed(sb_step_call &c, const uint32_t *tokens)
{
    const sb_embed_args args = {&c.step->model->weights->embed_tokens, tokens, c.rows, c.s->x};
    SB_STEP(c, "embed", sb_gpu_embed(c.gpu, c.knobs, &args));
}

/* The last `logits` rows have some, and a token behind them. */
void sb_step_trunk(sb_step_call &c, size_t logits)
{
    const sb_weights *w = c.step->model->weights;
    const sb_scratch *s = c.s;
    const size_t H = c.config->hidden_size;
    const uint32_t V = c.config->vocab_size;
    SB_STEP(c, "positions", sb_step_begin(c, 0, 0));
    embed(c, c.step->tokens);
    for (uint32_t i = 0; i < c.config->layers; i++) {
        c.layer = i;
        sb_step_layer(c, &w->layers[i], c.config->layer_is_full[i] != 0);
    }
    c.layer = SB_NO_LAYER;
    c.norm("norm", w->final_norm, s->x, c.rows, H, s->hidden);
    c.linear_of("logits", SB_LINEAR_head, w->lm_head, s->hidden + (c.rows - logits) * H, logits,
                c.step->logits);
    SB_STEP(c, "tokens", sb_gpu_greedy(c.gpu, c.step->logits, logits, V, c.step->picked));
}

/* R-21; `hidden` may be s->x, which the embedding overwrites. */
void sb_step_head(sb_step_call &c, const float *hidden, const uint32_t *tokens, int ahead)
{
    const sb_weights *w = c.step->model->weights;
    const sb_scratch *s = c.s;
    const size_t H = c.config->hidden_size;
    SB_STEP(c, "positions", sb_step_begin(c, ahead, sb_mtp_position_shift(c.knobs)));
    c.norm("mtp.pre_fc_norm_hidden", w->mtp[SB_ROLE_mtp_norm_hidden], hidden, c.rows, H, s->out);
    embed(c, tokens);
    c.norm("mtp.pre_fc_norm_embedding", w->mtp[SB_ROLE_mtp_norm_embedding], s->x, c.rows, H, s->y);
    SB_STEP(c, "mtp.joined", sb_step_join(c));
    c.matrix("mtp.fc", w->mtp[SB_ROLE_mtp_fc], s->joined, s->x);
    c.layer = c.config->layers;
    sb_step_layer(c, &w->layers[c.layer], true);
    c.layer = SB_NO_LAYER;
    c.norm("mtp.norm", w->mtp[SB_ROLE_mtp_norm], s->x, c.rows, H, c.step->head_hidden);
}
