#include "ref/run/scratch.h"

#include <stdlib.h>

#include "ref/base/mem.h"

size_t sb_scratch_lay_out(sb_scratch *s, const sb_config *c, size_t rows, float *base)
{
    size_t H = c->hidden_size, C = sb_config_conv_channels(c), Vd = sb_config_value_width(c);
    size_t Kd = sb_config_key_width(c), nV = c->lin_v_heads, E = c->experts;
    size_t Qd = sb_config_query_width(c), KVd = sb_config_kv_width(c), k = c->experts_per_token;
    const size_t of_experts = k * c->moe_intermediate, dense = c->intermediate;
    size_t mlp = rows * (of_experts > dense ? of_experts : dense), used = 0;
    const struct {
        float **array;
        size_t size;
    } parts[] = {
        {&s->x, rows * H},
        {&s->y, rows * H},
        {&s->out, rows * H},
        {&s->sum, rows * H},
        {&s->hidden, rows * H},
        {&s->joined, rows * 2 * H},
        {&s->qkv, rows * C},
        {&s->conv, rows * C},
        {&s->z, rows * Vd},
        {&s->core, rows * Vd},
        {&s->normed, rows * Vd},
        {&s->b, rows * nV},
        {&s->a, rows * nV},
        {&s->g, rows * nV},
        {&s->beta, rows * nV},
        {&s->lin_q, rows * Kd},
        {&s->lin_k, rows * Kd},
        {&s->packed, c->attn_output_gate ? rows * 2 * Qd : 0},
        {&s->query, rows * Qd},
        {&s->query_normed, rows * Qd},
        {&s->gate, c->attn_output_gate ? rows * Qd : 0},
        {&s->attended, rows * Qd},
        {&s->key, rows * KVd},
        {&s->value, rows * KVd},
        {&s->router_logits, rows * E},
        {&s->weights, rows * k},
        {&s->ids_shown, rows * k},
        {&s->gate_out, mlp},
        {&s->up_out, mlp},
        {&s->expert_out, rows * k * H},
        {&s->shared_gate, rows * (size_t)c->shared_intermediate},
        {&s->shared_up, rows * (size_t)c->shared_intermediate},
        {&s->shared_out, rows * H},
        {&s->shared_logit, rows},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].array = base ? base + used : NULL;
        used += parts[i].size;
    }
    return used;
}

int sb_scratch_reserve(sb_scratch *scratch, const sb_config *config, size_t rows)
{
    if (rows <= scratch->rows)
        return 0;
    sb_scratch_free(scratch);
    scratch->block = sb_alloc(sb_scratch_lay_out(scratch, config, rows, NULL), sizeof(float));
    scratch->ids = sb_alloc(rows, (config->experts_per_token + 1) * sizeof(uint32_t));
    scratch->position = sb_alloc(rows, sizeof(uint32_t));
    if (!scratch->block || !scratch->ids || !scratch->position) {
        sb_scratch_free(scratch);
        return 1;
    }
    sb_scratch_lay_out(scratch, config, rows, scratch->block);
    scratch->rows = rows;
    return 0;
}

void sb_scratch_free(sb_scratch *scratch)
{
    free(scratch->block);
    free(scratch->ids);
    free(scratch->position);
    *scratch = (sb_scratch){0};
}
