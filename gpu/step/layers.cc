/* layers.cc - a layer, the trunk, the MTP head: ref/run/layer.c and trunk.c over resident arrays.
 */
#include "gpu/op/draw.h"
#include "gpu/op/linears.h"
#include "gpu/step/call.h"

void sb_step_call::did(const char *name, sb_status what)
{
    const char *said = sb_gpu_said(gpu)->text;
    status = what;
    sb_gpu_named(gpu, name);
    if (what == SB_OK)
        return;
    if (layer == SB_NO_LAYER)
        sb_fail(err, what, "step: %s failed%s%s", name, *said ? ": " : "", said);
    else
        sb_fail(err, what, "step: layer %u: %s failed%s%s", layer, name, *said ? ": " : "", said);
}

void sb_step_call::linear_of(const char *name, sb_linear_kind of, const sb_matrix &weight,
                             sb_step_input in, size_t n, float *out)
{
    const sb_linear_args args = {&weight, of, in.values, n, out};
    if (in.staged && sb_gpu_takes_staged(gpu, knobs, &weight, of))
        SB_STEP(*this, name, sb_gpu_linear_staged(gpu, knobs, &args, in.staged));
    else
        SB_STEP(*this, name, sb_gpu_linear(gpu, knobs, &args));
}

/* With fused kernels several layers become one launch where Y-65 allows it. Messages name the first
 * layer. */
void sb_step_call::matrices(const sb_step_matrix *all, size_t count)
{
    sb_linear_args args[4];
    const sb_step_input in = normed();
    if (!fused) {
        for (size_t i = 0; i < count; i++)
            linear_of(all[i].name, all[i].kind, *all[i].weight, in, rows, all[i].out);
        return;
    }
    for (size_t i = 0; i < count; i++)
        args[i] = {all[i].weight, all[i].kind, in.values, rows, all[i].out};
    SB_STEP(*this, all[0].name, sb_gpu_linears(gpu, knobs, args, count, in.staged));
}

void sb_step_call::norm(const char *name, const sb_matrix &weight, const float *in, size_t n,
                        size_t width, float *out)
{
    const sb_rmsnorm_args args = {in, &weight, config->eps_f32, n, width, out, config->plain_norms};
    SB_STEP(*this, name, sb_gpu_rmsnorm(gpu, knobs, &args));
}

/* Computes a norm of the residual stream. If a sum is still outstanding, fused kernels add it
 * first. */
static void norm_of_stream(sb_step_call &c, const char *name, const sb_matrix &weight, float *out)
{
    const sb_scratch *s = c.s;
    const size_t H = c.config->hidden_size;
    const sb_moe_combine_args sum = {
        s->expert_out, s->weights, s->ids, s->shared_out, 0, c.config->experts_per_token, H,
        nullptr};
    const sb_gpu_staged *staged = &c.step->fused.norm;
    const sb_gpu_add_norm_args args = {s->x,    c.added,           s->out, &sum, s->shared_logit,
                                       &weight, c.config->eps_f32, c.rows, H,    out,
                                       *staged};
    if (c.fused)
        SB_STEP(c, name, sb_gpu_add_norm(c.gpu, &args));
    else
        c.norm(name, weight, s->x, c.rows, H, out);
    c.added = SB_ADDED_nothing;
}

/* x = x + out: now, or with fused kernels as part of the next norm. */
static void residual(sb_step_call &c, const char *name)
{
    const sb_scratch *s = c.s;
    if (c.fused) {
        c.added = c.added == SB_ADDED_combined ? c.added : SB_ADDED_values;
        return;
    }
    const sb_add_args args = {s->x, s->out, c.rows * c.config->hidden_size, s->x, nullptr};
    SB_STEP(c, name, sb_gpu_add(c.gpu, c.knobs, &args));
}

void sb_step_layer(sb_step_call &c, const sb_layer *layer, bool is_full)
{
    const sb_scratch *s = c.s;
    const sb_matrix *w = layer->w;
    norm_of_stream(c, "input_layernorm", w[SB_ROLE_input_layernorm], s->y);
    if (is_full)
        sb_step_attention(c, layer);
    else
        sb_step_gdn(c, layer);
    residual(c, "attn_residual");
    norm_of_stream(c, "post_attention_layernorm", w[SB_ROLE_post_attention_layernorm], s->y);
    sb_step_mlp(c, layer);
    residual(c, "output");
}

static void embed(sb_step_call &c, const uint32_t *tokens)
{
    const sb_embed_args args = {&c.step->model->weights->embed_tokens, tokens, c.rows, c.s->x};
    SB_STEP(c, "embed", sb_gpu_embed(c.gpu, c.knobs, &args));
}

void sb_step_greedy(sb_step_call &c, size_t rows, uint32_t *tokens)
{
    const sb_queued_step *step = c.step;
    const uint32_t V = c.config->vocab_size;
    if (c.fused)
        SB_STEP(c, "tokens",
                sb_gpu_greedy_once(c.gpu, step->logits, rows, V, step->fused.best, step->fused.done,
                                   tokens));
    else
        SB_STEP(c, "tokens", sb_gpu_greedy(c.gpu, step->logits, rows, V, tokens));
}

/* Computes logits, and the next token, for the last `logits` rows. */
void sb_step_trunk(sb_step_call &c, size_t logits)
{
    const sb_weights *w = c.step->model->weights;
    const sb_scratch *s = c.s;
    const size_t H = c.config->hidden_size;
    SB_STEP(c, "positions", sb_step_begin(c, 0, 0));
    SB_STEP(c, "rotations", sb_step_turns(c));
    embed(c, c.step->tokens);
    for (uint32_t i = 0; i < c.config->layers; i++) {
        c.layer = i;
        sb_step_layer(c, &w->layers[i], c.config->layer_is_full[i] != 0);
    }
    c.layer = SB_NO_LAYER;
    norm_of_stream(c, "norm", w->final_norm, s->hidden);
    const void *staged = c.fused && logits == c.rows ? c.step->fused.norm.layers : nullptr;
    c.linear_of("logits", SB_LINEAR_head, w->lm_head, {s->hidden + (c.rows - logits) * H, staged},
                logits, c.step->logits);
    sb_step_greedy(c, logits, c.step->picked);
}

/* computes the input of the head's layer. `hidden` may be s->x: it is read before the
 * embedding overwrites s->x. */
static const sb_layer *fuse(sb_step_call &c, const float *hidden, const uint32_t *tokens, int ahead)
{
    const sb_weights *w = c.step->model->weights;
    const sb_scratch *s = c.s;
    const size_t H = c.config->hidden_size;
    SB_STEP(c, "positions", sb_step_begin(c, ahead, sb_mtp_position_shift(c.knobs)));
    SB_STEP(c, "rotations", sb_step_turns(c));
    c.norm("mtp.pre_fc_norm_hidden", w->mtp[SB_ROLE_mtp_norm_hidden], hidden, c.rows, H, s->out);
    embed(c, tokens);
    c.norm("mtp.pre_fc_norm_embedding", w->mtp[SB_ROLE_mtp_norm_embedding], s->x, c.rows, H, s->y);
    SB_STEP(c, "mtp.joined", sb_step_join(c));
    c.matrix("mtp.fc", w->mtp[SB_ROLE_mtp_fc], s->joined, s->x);
    return &w->layers[c.config->layers];
}

void sb_step_head(sb_step_call &c, const float *hidden, const uint32_t *tokens, int ahead)
{
    const sb_layer *layer = fuse(c, hidden, tokens, ahead);
    c.layer = c.config->layers;
    sb_step_layer(c, layer, true);
    c.layer = SB_NO_LAYER;
    norm_of_stream(c, "mtp.norm", c.step->model->weights->mtp[SB_ROLE_mtp_norm],
                   c.step->head_hidden);
}

void sb_step_prime(sb_step_call &c, const float *hidden, const uint32_t *tokens, int ahead)
{
    const sb_layer *layer = fuse(c, hidden, tokens, ahead);
    c.layer = c.config->layers;
    norm_of_stream(c, "input_layernorm", layer->w[SB_ROLE_input_layernorm], c.s->y);
    sb_step_entries(c, layer);
    c.layer = SB_NO_LAYER;
}
