/* mutants_state.c - mistakes on the way back: what a round leaves of each piece of the state. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mtp/mutants.h"

/* The states of the linear-attention layers after n rows of the round. */
static void take_conv(slip_game *game, size_t n)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (!sb_state_is_full(game->live, i))
            memcpy(game->live->layers[i].conv, game->slot[n]->layers[i].conv,
                   sb_state_conv_size(game->live->config) * sizeof(float));
}

static void take_recurrent(slip_game *game, size_t n)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (!sb_state_is_full(game->live, i))
            memcpy(game->live->layers[i].recurrent, game->slot[n]->layers[i].recurrent,
                   sb_state_recurrent_size(game->live->config) * sizeof(float));
}

static void take_both(slip_game *game, size_t n)
{
    take_conv(game, n);
    take_recurrent(game, n);
}

static void take_hidden(slip_game *game, size_t n)
{
    memcpy(game->live->mtp_hidden, game->slot[n]->mtp_hidden,
           game->live->config->hidden_size * sizeof(float));
}

/* All of it; keys, values and entries of all rows are still there. */
static void take_all(slip_game *game, size_t n)
{
    take_both(game, n);
    take_hidden(game, n);
    game->live->position = game->slot[n]->position;
    game->live->mtp_entries = game->slot[n]->mtp_entries;
}

void slip_stale_slot(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept && game->accepted > 0)
        take_recurrent(game, 1);
}

void slip_slot_off_by_one(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_both(game, game->accepted);
}

void slip_slot_one_too_late(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept && game->accepted < game->drafts)
        take_both(game, game->accepted + 2);
}

void slip_conv_forgotten(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_conv(game, game->drafts + 1);
}

void slip_conv_shifted(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept && game->accepted > 0)
        take_conv(game, game->accepted);
}

void slip_crop_keeps_rejected(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_both(game, game->drafts + 1);
}

void slip_round_not_begun(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_both(game, 0);
}

void slip_decay_of_rejected(slip_game *game, slip_stage stage)
{
    const sb_config *c = &game->model->config;
    size_t heads = c->lin_v_heads, cells = (size_t)c->lin_k_dim * c->lin_v_dim;
    for (uint32_t i = 0; stage == SLIP_kept && i < c->layers; i++)
        for (size_t row = game->accepted + 1; row <= game->drafts; row++)
            for (size_t h = 0; h < heads && !sb_state_is_full(game->live, i); h++)
                for (size_t e = 0; e < cells; e++)
                    game->live->layers[i].recurrent[h * cells + e] *=
                        expf(game->g[i][row * heads + h]);
}

void slip_accepted_zero_wraps(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept && game->accepted == 0)
        take_both(game, game->drafts + 1);
}

void slip_zero_draft_stale(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_begin && game->drafts == 0 && game->before > 0)
        take_recurrent(game, 1);
}

void slip_bonus_counted(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept && game->accepted < game->drafts)
        take_all(game, game->accepted + 2);
}

void slip_counts_swapped(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_all(game, (game->before < game->drafts ? game->before : game->drafts) + 1);
}

void slip_last_row_dropped(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept && game->accepted > 0)
        take_all(game, game->accepted);
}

void slip_keys_of_rejected(slip_game *game, slip_stage stage)
{
    if (stage != SLIP_kept || game->accepted == game->drafts)
        return;
    size_t row = sb_state_kv_row(game->live->config), to = (size_t)(game->live->position - 1) * row;
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (sb_state_is_full(game->live, i)) {
            const sb_layer_state *l = &game->live->layers[i];
            memcpy(l->keys + to, l->keys + to + row, row * sizeof(float));
            memcpy(l->values + to, l->values + to + row, row * sizeof(float));
        }
}

void slip_entries_not_rewound(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        game->live->mtp_entries += game->drafts - game->accepted;
}

/* What the drafts left in the head's layer. */
static void keep_recycled(slip_game *game, const sb_layer_state *layer, size_t row)
{
    size_t most = SB_MAX_DRAFTS * row, at = (size_t)(game->live->mtp_entries + game->draft) * row;
    game->recycled = realloc(game->recycled, 2 * most * sizeof(float));
    if (!game->recycled)
        abort();
    memcpy(game->recycled + game->draft * row, layer->keys + at, row * sizeof(float));
    memcpy(game->recycled + most + game->draft * row, layer->values + at, row * sizeof(float));
}

/* The first of them was made of a true hidden vector. */
void slip_entry_of_recycled(slip_game *game, slip_stage stage)
{
    if (stage != SLIP_drafted && stage != SLIP_kept)
        return;
    const sb_layer_state *layer = &game->live->layers[game->live->config->layers];
    size_t row = sb_state_kv_row(game->live->config), most = SB_MAX_DRAFTS * row;
    if (stage == SLIP_drafted)
        keep_recycled(game, layer, row);
    for (size_t j = 1; stage == SLIP_kept && j <= game->accepted && j < game->drafts; j++) {
        size_t at = (size_t)(game->live->mtp_entries - game->accepted - 1 + j) * row;
        memcpy(layer->keys + at, game->recycled + j * row, row * sizeof(float));
        memcpy(layer->values + at, game->recycled + most + j * row, row * sizeof(float));
    }
}

void slip_last_hidden_stale(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_hidden(game, game->drafts + 1);
}

void slip_last_hidden_old(slip_game *game, slip_stage stage)
{
    if (stage == SLIP_kept)
        take_hidden(game, 0);
}
