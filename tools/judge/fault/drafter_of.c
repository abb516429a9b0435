#include "tools/judge/fault/drafter_of.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/root.h"

enum { WIDTH = 128, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 32, INNER = 96 };

static const char *flag(const char *kind, const char *word)
{
    const char *at = strstr(kind, word);
    const size_t n = strlen(word);
    return at && (at[n] == ' ' || at[n] == '\0') ? "true" : "false";
}

/* The config of speculators. States are taken after 1, half of, and all layers. */
static sb_status read_config(const sb_config *target, const char *kind, sb_eagle3_config *out,
                             sb_error *err)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"speculators_model_type\": \"eagle3\", \"draft_vocab_size\": %u, "
             "\"target_hidden_size\": %u, \"norm_before_residual\": %s, \"norm_output\": %s, "
             "\"fc_norm\": %s, \"norm_before_fc\": %s, "
             "\"eagle_aux_hidden_state_layer_ids\": [1, %u, %u], \"transformer_layer_config\": "
             "{\"model_type\": \"%s\", \"hidden_size\": %d, \"vocab_size\": %u, "
             "\"intermediate_size\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
             "\"head_dim\": %d, \"num_hidden_layers\": 1, \"rms_norm_eps\": 1e-6, "
             "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 2000.0}}}",
             (unsigned)target->vocab_size / 4 * 3, (unsigned)target->hidden_size,
             flag(kind, "residual"), flag(kind, "norm_output"), flag(kind, "fc_norm"),
             flag(kind, "norm_before_fc"), (unsigned)target->layers / 2, (unsigned)target->layers,
             strstr(kind, "qwen3") ? "qwen3" : "llama", WIDTH, (unsigned)target->vocab_size, INNER,
             HEADS, KV_HEADS, HEAD_DIM);
    return sb_eagle3_config_parse(text, strlen(text), "drafter", out, err);
}

/* Uniform values: of variance 1 / cols, or norms from 1/2 to 3/2. */
static void fill(sb_made_drafter *m, uint64_t seed, uint32_t rows, uint32_t cols, sb_matrix *out)
{
    const uint64_t key = sb_rng_u64(sb_rng_key(seed, "drafter"), m->count);
    const float reach = rows == 1 ? 0.5f : (float)sb_sqrt64(3.0 / cols);
    uint16_t *to = m->weights + m->count;
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        const float unit = (float)sb_rng_below(key, i, 1 << 16) / 32768.0f - 1.0f;
        const float value = (rows == 1 ? 1.0f : 0.0f) + reach * unit;
        to[i] = (uint16_t)(sb_bits_f32(value) >> 16); /* cut: any value will do */
    }
    *out = (sb_matrix){
        .data = (const unsigned char *)to, .format = SB_FORMAT_bf16, .rows = rows, .cols = cols};
    m->count += (size_t)rows * cols;
}

static void fill_all(sb_made_drafter *m, uint64_t seed)
{
    sb_eagle3 *d = &m->drafter;
    const sb_eagle3_config *c = &d->config;
    const uint32_t H = WIDTH, Q = HEADS * HEAD_DIM, K = KV_HEADS * HEAD_DIM,
                   all = c->states * c->target_hidden;
    sb_matrix *w = d->layer.w;
    fill(m, seed, c->layer.vocab_size, H, &d->weights.embed_tokens);
    fill(m, seed, H, all, &d->fc);
    fill(m, seed, 1, H, &w[SB_ROLE_input_layernorm]);
    fill(m, seed, 1, H, &d->hidden_norm);
    fill(m, seed, Q, 2 * H, &w[SB_ROLE_q_proj]);
    fill(m, seed, K, 2 * H, &w[SB_ROLE_k_proj]);
    fill(m, seed, K, 2 * H, &w[SB_ROLE_v_proj]);
    fill(m, seed, H, Q, &w[SB_ROLE_o_proj]);
    fill(m, seed, 1, H, &w[SB_ROLE_post_attention_layernorm]);
    fill(m, seed, INNER, H, &w[SB_ROLE_gate_proj]);
    fill(m, seed, INNER, H, &w[SB_ROLE_up_proj]);
    fill(m, seed, H, INNER, &w[SB_ROLE_down_proj]);
    fill(m, seed, 1, H, &d->weights.final_norm);
    fill(m, seed, c->draft_vocab, H, &d->weights.lm_head);
    fill(m, seed, 1, all, &d->input_norm);
    for (uint32_t i = 0; i < c->states; i++)
        fill(m, seed, 1, c->target_hidden, &d->fc_norm[i]);
    if (c->qk_norm) {
        fill(m, seed, 1, HEAD_DIM, &w[SB_ROLE_q_norm]);
        fill(m, seed, 1, HEAD_DIM, &w[SB_ROLE_k_norm]);
    }
}

static size_t weights_of(const sb_eagle3_config *c)
{
    const size_t all = (size_t)c->states * c->target_hidden;
    return WIDTH * ((size_t)c->layer.vocab_size + c->draft_vocab + all + 4 + 3 * INNER +
                    (size_t)(3 * HEADS + 4 * KV_HEADS) * HEAD_DIM) +
           2 * all + 2 * HEAD_DIM;
}

sb_status sb_made_drafter_new(const sb_model *target, const char *kind, uint64_t seed,
                              sb_made_drafter **out, sb_error *err)
{
    sb_made_drafter *m = sb_alloc(1, sizeof *m);
    if (!m)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter");
    sb_eagle3 *d = &m->drafter;
    sb_status status = read_config(&target->config, kind, &d->config, err);
    m->room = status ? 0 : weights_of(&d->config);
    m->weights = sb_alloc(m->room, sizeof *m->weights);
    d->target_of = sb_alloc(d->config.draft_vocab, sizeof *d->target_of);
    if (!status && (!m->weights || !d->target_of))
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a drafter");
    if (status) {
        sb_made_drafter_free(m);
        return status;
    }
    memcpy(d->after, d->config.after, sizeof d->after);
    fill_all(m, seed);
    for (uint32_t i = 0; i < d->config.draft_vocab; i++)
        d->target_of[i] = i + i / 3; /* every fourth token is left out */
    d->weights.layers = &d->layer;
    d->weights.layer_count = 1;
    d->model = (sb_model){.config = d->config.layer, .weights = &d->weights};
    *out = m;
    return SB_OK;
}

void sb_made_drafter_free(sb_made_drafter *m)
{
    if (!m)
        return;
    free(m->weights);
    free(m->drafter.target_of);
    free(m);
}
