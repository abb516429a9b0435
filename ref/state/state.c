#include "ref/state/state.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

size_t sb_state_kv_row(const sb_config *config)
{
    return sb_config_kv_width(config);
}

size_t sb_state_conv_size(const sb_config *config)
{
    return (size_t)(config->conv_kernel - 1) * sb_config_conv_channels(config);
}

size_t sb_state_recurrent_size(const sb_config *config)
{
    return (size_t)config->lin_v_heads * config->lin_k_dim * config->lin_v_dim;
}

/* S-1: "It starts with position 0 and zero states." */
sb_status sb_state_new(const sb_config *config, sb_state **out, sb_error *err)
{
    sb_state *state = sb_alloc(1, sizeof *state);
    if (!state)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the state of a sequence");
    state->config = config;
    state->layers = sb_alloc(config->layers, sizeof *state->layers);
    int enough = state->layers != NULL;
    for (uint32_t i = 0; enough && i < config->layers; i++) {
        if (config->layer_is_full[i])
            continue;
        state->layers[i].conv = sb_alloc(sb_state_conv_size(config), sizeof(float));
        state->layers[i].recurrent = sb_alloc(sb_state_recurrent_size(config), sizeof(float));
        enough = state->layers[i].conv && state->layers[i].recurrent;
    }
    if (!enough) {
        sb_state_free(state);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the state of a sequence");
    }
    *out = state;
    return SB_OK;
}

void sb_state_free(sb_state *state)
{
    if (!state)
        return;
    for (uint32_t i = 0; state->layers && i < state->config->layers; i++) {
        free(state->layers[i].keys);
        free(state->layers[i].values);
        free(state->layers[i].conv);
        free(state->layers[i].recurrent);
    }
    free(state->layers);
    free(state);
}

void sb_state_reset(sb_state *state)
{
    state->position = 0;
    for (uint32_t i = 0; i < state->config->layers; i++) {
        sb_layer_state *layer = &state->layers[i];
        if (layer->conv)
            memset(layer->conv, 0, sb_state_conv_size(state->config) * sizeof(float));
        if (layer->recurrent)
            memset(layer->recurrent, 0, sb_state_recurrent_size(state->config) * sizeof(float));
    }
}

sb_status sb_state_reserve(sb_state *state, uint64_t more, sb_error *err)
{
    uint64_t needed = state->position + more, capacity = state->capacity ? state->capacity : 64;
    if (needed <= state->capacity)
        return SB_OK;
    while (capacity < needed)
        capacity *= 2;
    size_t row = sb_state_kv_row(state->config);
    for (uint32_t i = 0; i < state->config->layers; i++) {
        if (!state->config->layer_is_full[i])
            continue;
        float *keys = sb_realloc(state->layers[i].keys, (size_t)capacity, row * sizeof(float));
        if (keys)
            state->layers[i].keys = keys;
        float *values = sb_realloc(state->layers[i].values, (size_t)capacity, row * sizeof(float));
        if (values)
            state->layers[i].values = values;
        if (!keys || !values)
            return sb_fail(err, SB_ERR_MEMORY,
                           "out of memory for keys and values of %llu positions",
                           (unsigned long long)capacity);
    }
    state->capacity = capacity;
    return SB_OK;
}

/* D-3: "over the position as an unsigned 64-bit integer, then for each layer in order either
 * K (position, nKV, hd) and V likewise, or the conv state (kw-1, C), oldest column first, and the
 * recurrent state (nV, dk, dv)" */
sb_status sb_state_digest(const sb_state *state, sb_digest *digest, sb_error *err)
{
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    size_t kv = (size_t)state->position * sb_state_kv_row(state->config);
    sb_hash_u64(hash, state->position);
    for (uint32_t i = 0; i < state->config->layers; i++) {
        const sb_layer_state *layer = &state->layers[i];
        if (state->config->layer_is_full[i]) {
            sb_hash_f32(hash, layer->keys, kv);
            sb_hash_f32(hash, layer->values, kv);
        } else {
            sb_hash_f32(hash, layer->conv, sb_state_conv_size(state->config));
            sb_hash_f32(hash, layer->recurrent, sb_state_recurrent_size(state->config));
        }
    }
    *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}
