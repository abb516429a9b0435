#include "ref/state/trail.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

void sb_trail_free(sb_trail *trail)
{
    for (uint32_t i = 0; trail->config && i < trail->config->layers; i++) {
        if (trail->conv)
            free(trail->conv[i]);
        if (trail->recurrent)
            free(trail->recurrent[i]);
    }
    free(trail->conv);
    free(trail->recurrent);
    free(trail->hidden);
    *trail = (sb_trail){0};
}

float *sb_trail_conv(const sb_trail *trail, uint32_t layer, size_t slot)
{
    return trail->conv[layer] + slot * sb_state_conv_size(trail->config);
}

float *sb_trail_recurrent(const sb_trail *trail, uint32_t layer, size_t slot)
{
    return trail->recurrent[layer] + slot * sb_state_recurrent_size(trail->config);
}

/* Makes room for `slots` slots; the old contents are lost. Returns nonzero if memory is out. */
static int make_room(sb_trail *trail, const sb_state *state, size_t slots)
{
    const sb_config *c = state->config;
    sb_trail_free(trail);
    trail->config = c;
    trail->has_mtp = state->has_mtp;
    trail->conv = sb_alloc(c->layers, sizeof *trail->conv);
    trail->recurrent = sb_alloc(c->layers, sizeof *trail->recurrent);
    int enough = trail->conv && trail->recurrent;
    for (uint32_t i = 0; enough && i < c->layers; i++) {
        if (sb_state_is_full(state, i))
            continue;
        trail->conv[i] = sb_alloc(slots * sb_state_conv_size(c), sizeof(float));
        trail->recurrent[i] = sb_alloc(slots * sb_state_recurrent_size(c), sizeof(float));
        enough = trail->conv[i] && trail->recurrent[i];
    }
    if (enough && state->has_mtp) {
        trail->hidden = sb_alloc(slots * c->hidden_size, sizeof(float));
        enough = trail->hidden != NULL;
    }
    if (!enough)
        sb_trail_free(trail);
    else
        trail->room = slots;
    return !enough;
}

sb_status sb_trail_begin(sb_trail *trail, const sb_state *state, size_t rows, int every_row,
                         sb_error *err)
{
    const sb_config *c = state->config;
    size_t slots = every_row ? rows + 1 : 1;
    if ((trail->room < slots || trail->config != c || trail->has_mtp != state->has_mtp) &&
        make_room(trail, state, slots))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the way back from %zu rows", rows);
    trail->rows = rows;
    trail->every_row = every_row;
    trail->position = state->position;
    for (uint32_t i = 0; i < c->layers; i++) {
        if (sb_state_is_full(state, i))
            continue;
        memcpy(sb_trail_conv(trail, i, 0), state->layers[i].conv,
               sb_state_conv_size(c) * sizeof(float));
        memcpy(sb_trail_recurrent(trail, i, 0), state->layers[i].recurrent,
               sb_state_recurrent_size(c) * sizeof(float));
    }
    if (state->has_mtp)
        memcpy(trail->hidden, state->mtp_hidden, c->hidden_size * sizeof(float));
    return SB_OK;
}

/* S-10: "Conv state, recurrent state and last hidden vector are those after the last kept row" */
void sb_trail_restore(const sb_trail *trail, size_t slot, sb_state *state)
{
    const sb_config *c = state->config;
    for (uint32_t i = 0; i < c->layers; i++) {
        if (sb_state_is_full(state, i))
            continue;
        memcpy(state->layers[i].conv, sb_trail_conv(trail, i, slot),
               sb_state_conv_size(c) * sizeof(float));
        memcpy(state->layers[i].recurrent, sb_trail_recurrent(trail, i, slot),
               sb_state_recurrent_size(c) * sizeof(float));
    }
    if (state->has_mtp)
        memcpy(state->mtp_hidden, trail->hidden + slot * c->hidden_size,
               c->hidden_size * sizeof(float));
    state->position = trail->position + slot;
}
