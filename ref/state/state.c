#include "ref/state/state.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/state/drafter.h"

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

uint32_t sb_state_layers(const sb_state *state)
{
    return state->config->layers + (state->has_mtp ? 1 : 0);
}

int sb_state_is_full(const sb_state *state, uint32_t layer)
{
    return layer == state->config->layers || state->config->layer_is_full[layer];
}

uint64_t sb_state_kv_rows(const sb_state *state, uint32_t layer)
{
    return layer == state->config->layers ? state->mtp_entries : state->position;
}

static sb_status out_of_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the state of a sequence");
}

/* S-1: "It starts with position 0 and zero states." */
sb_status sb_state_new(const sb_config *config, int has_mtp, sb_state **out, sb_error *err)
{
    sb_state *state = sb_alloc(1, sizeof *state);
    if (!state)
        return out_of_memory(err);
    state->config = config;
    state->has_mtp = has_mtp;
    state->layers = sb_alloc(sb_state_layers(state), sizeof *state->layers);
    int enough = state->layers != NULL;
    for (uint32_t i = 0; enough && i < sb_state_layers(state); i++) {
        if (sb_state_is_full(state, i))
            continue;
        state->layers[i].conv = sb_alloc(sb_state_conv_size(config), sizeof(float));
        state->layers[i].recurrent = sb_alloc(sb_state_recurrent_size(config), sizeof(float));
        enough = state->layers[i].conv && state->layers[i].recurrent;
    }
    if (enough && has_mtp) {
        state->mtp_hidden = sb_alloc(config->hidden_size, sizeof(float));
        enough = state->mtp_hidden != NULL;
    }
    if (!enough) {
        sb_state_free(state);
        return out_of_memory(err);
    }
    *out = state;
    return SB_OK;
}

void sb_state_free(sb_state *state)
{
    if (!state)
        return;
    for (uint32_t i = 0; state->layers && i < sb_state_layers(state); i++) {
        free(state->layers[i].keys);
        free(state->layers[i].values);
        free(state->layers[i].conv);
        free(state->layers[i].recurrent);
    }
    free(state->layers);
    free(state->mtp_hidden);
    sb_drafter_state_free(state->drafter);
    free(state);
}

void sb_state_drop_mtp(sb_state *state)
{
    if (!state->has_mtp)
        return;
    sb_layer_state *head = &state->layers[state->config->layers];
    free(head->keys);
    free(head->values);
    free(state->mtp_hidden);
    *head = (sb_layer_state){NULL, NULL, NULL, NULL};
    state->mtp_hidden = NULL;
    state->mtp_entries = 0;
    state->has_mtp = 0;
}

void sb_state_reset(sb_state *state)
{
    const sb_config *c = state->config;
    state->position = 0;
    state->mtp_entries = 0;
    if (state->has_mtp)
        memset(state->mtp_hidden, 0, c->hidden_size * sizeof(float));
    for (uint32_t i = 0; i < sb_state_layers(state); i++) {
        sb_layer_state *layer = &state->layers[i];
        if (layer->conv)
            memset(layer->conv, 0, sb_state_conv_size(c) * sizeof(float));
        if (layer->recurrent)
            memset(layer->recurrent, 0, sb_state_recurrent_size(c) * sizeof(float));
    }
}

/* Grows keys and values to exactly `capacity` positions. */
static sb_status grow(sb_state *state, uint64_t capacity, sb_error *err)
{
    size_t row = sb_state_kv_row(state->config);
    for (uint32_t i = 0; i < sb_state_layers(state); i++) {
        if (!sb_state_is_full(state, i))
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

sb_status sb_state_reserve(sb_state *state, uint64_t more, sb_error *err)
{
    uint64_t needed = state->position + more, capacity = state->capacity ? state->capacity : 64;
    if (needed <= state->capacity)
        return SB_OK;
    while (capacity < needed)
        capacity *= 2;
    return grow(state, capacity, err);
}

static void copy(float *to, const float *from, size_t count)
{
    if (count)
        memcpy(to, from, count * sizeof *to);
}

sb_status sb_state_assign(sb_state *to, const sb_state *from, sb_error *err)
{
    const sb_config *c = from->config;
    if (to == from)
        return SB_OK;
    if (to->config != c || !to->has_mtp != !from->has_mtp)
        return sb_fail(
            err, SB_ERR_USAGE,
            "the states belong to different models, or only one of them has an MTP head");
    uint64_t most = from->mtp_entries > from->position ? from->mtp_entries : from->position;
    if (most > to->capacity) {
        sb_status status = grow(to, most, err);
        if (status)
            return status;
    }
    to->position = from->position;
    to->mtp_entries = from->mtp_entries;
    if (to->has_mtp)
        copy(to->mtp_hidden, from->mtp_hidden, c->hidden_size);
    for (uint32_t i = 0; i < sb_state_layers(to); i++) {
        const sb_layer_state *layer = &from->layers[i];
        size_t kv = (size_t)sb_state_kv_rows(from, i) * sb_state_kv_row(c);
        if (sb_state_is_full(to, i)) {
            copy(to->layers[i].keys, layer->keys, kv);
            copy(to->layers[i].values, layer->values, kv);
        } else {
            copy(to->layers[i].conv, layer->conv, sb_state_conv_size(c));
            copy(to->layers[i].recurrent, layer->recurrent, sb_state_recurrent_size(c));
        }
    }
    return SB_OK;
}

sb_status sb_state_copy(const sb_state *from, sb_state **out, sb_error *err)
{
    sb_state *state = NULL;
    sb_status status = sb_state_new(from->config, from->has_mtp, &state, err);
    if (!status)
        status = sb_state_assign(state, from, err);
    if (status) {
        sb_state_free(state);
        return status;
    }
    *out = state;
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

/* D-9: "over the number of entries as an unsigned 64-bit integer, K (entries, nKV, hd) and V
 * likewise, and the last hidden vector (H)" */
sb_status sb_state_mtp_digest(const sb_state *state, sb_digest *digest, sb_error *err)
{
    if (!state->has_mtp)
        return sb_fail(err, SB_ERR_USAGE, "a state without an MTP head has no MTP digest");
    sb_hash *hash = sb_hash_new();
    if (!hash)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a digest");
    const sb_layer_state *layer = &state->layers[state->config->layers];
    size_t kv = (size_t)state->mtp_entries * sb_state_kv_row(state->config);
    sb_hash_u64(hash, state->mtp_entries);
    sb_hash_f32(hash, layer->keys, kv);
    sb_hash_f32(hash, layer->values, kv);
    sb_hash_f32(hash, state->mtp_hidden, state->config->hidden_size);
    *digest = sb_hash_end(hash);
    sb_hash_free(hash);
    return SB_OK;
}
