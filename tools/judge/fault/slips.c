#include "tools/judge/fault/planted.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/math/fn.h"

const sb_planted sb_slips[] = {
#define SB_SLIP(where_, by, with_, words_, benign_)                                                \
    {.name = #by,                                                                                  \
     .where = #where_,                                                                             \
     .with = with_,                                                                                \
     .words = words_,                                                                              \
     .benign = benign_,                                                                            \
     .at = sb_slip_##by},
#define SB_PLANTED(kind, where, by, with, words) SB_SLIP(where, by, with, words, 0)
#define SB_HARMLESS(kind, where, by, with, words) SB_SLIP(where, by, with, words, 1)
#include "tools/judge/fault/lists/slips.def"
#undef SB_PLANTED
#undef SB_HARMLESS
#undef SB_SLIP
    {.name = NULL}};

/* --- rollback: the pieces of the state that a round leaves ------------------------------------ */

/* Takes the states of the linear-attention layers after n rows of the round. */
static void take_conv(sb_slip_game *game, size_t n)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (!sb_state_is_full(game->live, i))
            memcpy(game->live->layers[i].conv, game->slot[n]->layers[i].conv,
                   sb_state_conv_size(game->live->config) * sizeof(float));
}

static void take_recurrent(sb_slip_game *game, size_t n)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (!sb_state_is_full(game->live, i))
            memcpy(game->live->layers[i].recurrent, game->slot[n]->layers[i].recurrent,
                   sb_state_recurrent_size(game->live->config) * sizeof(float));
}

static void take_both(sb_slip_game *game, size_t n)
{
    take_conv(game, n);
    take_recurrent(game, n);
}

static void take_hidden(sb_slip_game *game, size_t n)
{
    memcpy(game->live->mtp_hidden, game->slot[n]->mtp_hidden,
           game->live->config->hidden_size * sizeof(float));
}

/* Takes the whole state after n rows; keys, values and entries of all rows are still there. */
static void take_all(sb_slip_game *game, size_t n)
{
    take_both(game, n);
    take_hidden(game, n);
    game->live->position = game->slot[n]->position;
    game->live->mtp_entries = game->slot[n]->mtp_entries;
}

void sb_slip_stale_slot(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->accepted > 0)
        take_recurrent(game, 1);
}

void sb_slip_slot_off_by_one(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_both(game, game->accepted);
}

void sb_slip_slot_one_too_late(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->accepted < game->drafts)
        take_both(game, game->accepted + 2);
}

void sb_slip_conv_forgotten(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_conv(game, game->drafts + 1);
}

void sb_slip_conv_shifted(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->accepted > 0)
        take_conv(game, game->accepted);
}

void sb_slip_crop_keeps_rejected(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_both(game, game->drafts + 1);
}

void sb_slip_round_not_begun(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_both(game, 0);
}

void sb_slip_decay_of_rejected(sb_slip_game *game, sb_slip_stage stage)
{
    const sb_config *c = &game->model->config;
    size_t heads = c->lin_v_heads, cells = (size_t)c->lin_k_dim * c->lin_v_dim;
    for (uint32_t i = 0; stage == SB_SLIP_kept && i < c->layers; i++)
        for (size_t row = game->accepted + 1; row <= game->drafts; row++)
            for (size_t h = 0; h < heads && !sb_state_is_full(game->live, i); h++)
                for (size_t e = 0; e < cells; e++)
                    game->live->layers[i].recurrent[h * cells + e] *=
                        sb_exp(game->g[i][row * heads + h]);
}

void sb_slip_accepted_zero_wraps(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->accepted == 0)
        take_both(game, game->drafts + 1);
}

void sb_slip_zero_draft_stale(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_begin && game->drafts == 0 && game->before > 0)
        take_recurrent(game, 1);
}

void sb_slip_bonus_counted(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->accepted < game->drafts)
        take_all(game, game->accepted + 2);
}

void sb_slip_counts_swapped(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_all(game, (game->before < game->drafts ? game->before : game->drafts) + 1);
}

void sb_slip_last_row_dropped(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->accepted > 0)
        take_all(game, game->accepted);
}

void sb_slip_keys_of_rejected(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_kept || game->accepted == game->drafts)
        return;
    size_t row = sb_state_kv_row(game->live->config), to = (size_t)(game->live->position - 1) * row;
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (sb_state_is_full(game->live, i)) {
            const sb_layer_state *l = &game->live->layers[i];
            memcpy(l->keys + to, l->keys + to + row, row * sizeof(float));
            memcpy(l->values + to, l->values + to + row, row * sizeof(float));
        }
}

void sb_slip_entries_not_rewound(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        game->live->mtp_entries += game->drafts - game->accepted;
}

/* Keeps the entry that the current draft left in the head's layer. */
static void keep_recycled(sb_slip_game *game, const sb_layer_state *layer, size_t row)
{
    size_t most = SB_MAX_DRAFTS * row, at = (size_t)(game->live->mtp_entries + game->draft) * row;
    game->recycled = sb_realloc(game->recycled, 2 * most, sizeof(float));
    if (!game->recycled)
        abort();
    memcpy(game->recycled + game->draft * row, layer->keys + at, row * sizeof(float));
    memcpy(game->recycled + most + game->draft * row, layer->values + at, row * sizeof(float));
}

/* Replaces entry j of the round by the kept entry of draft j. */
static void put_recycled(sb_slip_game *game, const sb_layer_state *layer, size_t row, size_t j)
{
    size_t at = (size_t)(game->live->mtp_entries - game->accepted - 1 + j) * row;
    memcpy(layer->keys + at, game->recycled + j * row, row * sizeof(float));
    memcpy(layer->values + at, game->recycled + (SB_MAX_DRAFTS + j) * row, row * sizeof(float));
}

/* Starts at entry 1, because the first draft had a true hidden vector. */
void sb_slip_entry_of_recycled(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_drafted && stage != SB_SLIP_kept)
        return;
    const sb_layer_state *layer = &game->live->layers[game->live->config->layers];
    size_t row = sb_state_kv_row(game->live->config);
    if (stage == SB_SLIP_drafted)
        keep_recycled(game, layer, row);
    for (size_t j = 1; stage == SB_SLIP_kept && j <= game->accepted && j < game->drafts; j++)
        put_recycled(game, layer, row, j);
}

/* T-86: "draft step of a round is fed the same as the head gets from the first row of the
 * verify" */
void sb_slip_entry_of_draft(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_drafted && stage != SB_SLIP_kept)
        return;
    const sb_layer_state *layer = &game->live->layers[game->live->config->layers];
    size_t row = sb_state_kv_row(game->live->config);
    if (stage == SB_SLIP_drafted && game->draft == 0)
        keep_recycled(game, layer, row);
    if (stage == SB_SLIP_kept && game->drafts > 0)
        put_recycled(game, layer, row, 0);
}

/* Keeps the entry of a rejected draft; the next round uses it as its first entry. */
void sb_slip_entry_of_rejected(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_kept)
        return;
    const sb_layer_state *layer = &game->live->layers[game->live->config->layers];
    size_t row = sb_state_kv_row(game->live->config);
    if (game->holds)
        put_recycled(game, layer, row, 0);
    game->holds = game->accepted < game->drafts;
    game->draft = 0;
    if (game->holds)
        keep_recycled(game, layer, row);
}

void sb_slip_entry_left_out(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_kept || game->accepted == 0)
        return;
    const sb_layer_state *layer = &game->live->layers[game->live->config->layers];
    size_t row = sb_state_kv_row(game->live->config);
    size_t at = (size_t)(game->live->mtp_entries - 1) * row;
    memset(layer->keys + at, 0, row * sizeof(float));
    memset(layer->values + at, 0, row * sizeof(float));
}

void sb_slip_last_hidden_stale(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_hidden(game, game->drafts + 1);
}

void sb_slip_last_hidden_old(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept)
        take_hidden(game, 0);
}

/* After a round that crosses a boundary of blocks of eight tokens, the state is that before the
 * round. */
void sb_slip_block_boundary(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_kept && game->live->position / 8 != game->slot[0]->position / 8)
        take_recurrent(game, 0);
}

/* --- after the prompt: stored and restored states, and padding -------------------------------- */

/* Allocates room for conv and recurrent states of all layers. */
static void make_store(sb_slip_game *game)
{
    const sb_config *c = game->live->config;
    size_t floats = sb_state_conv_size(c) + sb_state_recurrent_size(c);
    game->stored = sb_alloc(c->layers, floats * sizeof(float));
    if (!game->stored)
        abort();
}

/* Copies conv and recurrent states of `state` to game->stored (out), or back. */
static void store(sb_slip_game *game, const sb_state *state, int out)
{
    const sb_config *c = state->config;
    float *at = game->stored;
    for (uint32_t i = 0; i < c->layers; i++) {
        const sb_layer_state *l = &state->layers[i];
        size_t conv = sb_state_conv_size(c), recurrent = sb_state_recurrent_size(c);
        if (sb_state_is_full(state, i))
            continue;
        memcpy(out ? at : l->conv, out ? l->conv : at, conv * sizeof *at);
        at += conv;
        memcpy(out ? at : l->recurrent, out ? l->recurrent : at, recurrent * sizeof *at);
        at += recurrent;
    }
}

/* Restores a state stored between two calls of the prompt as if it were the state after the prompt.
 */
void sb_slip_stale_snapshot(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage == SB_SLIP_prompt && !game->stored) {
        make_store(game);
        store(game, game->live, 1);
    }
    if (stage == SB_SLIP_primed)
        store(game, game->live, 0);
}

/* Stores the states that a short sequence of other tokens leaves. */
static void store_other(sb_slip_game *game)
{
    static const uint32_t tokens[] = {5, 3, 8, 2, 13};
    const sb_session_options options = {.backend = game->options.backend, .knobs = &game->knobs};
    sb_session *other = NULL;
    sb_error err;
    if (sb_session_new(game->model, &options, &other, &err) ||
        sb_session_feed(other, tokens, sizeof tokens / sizeof *tokens, &err))
        abort();
    make_store(game);
    store(game, sb_session_state(other), 1);
    sb_session_free(other);
}

void sb_slip_slot_of_other(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_kept)
        return;
    if (!game->stored)
        store_other(game);
    store(game, game->live, 0);
}

void sb_slip_published_mutated(sb_slip_game *game, sb_slip_stage stage)
{
    size_t row = sb_state_kv_row(&game->model->config);
    for (uint32_t i = 0; stage == SB_SLIP_primed && i < game->model->config.layers; i++)
        if (sb_state_is_full(game->live, i))
            memcpy(game->live->layers[i].keys, game->live->layers[i].keys + row,
                   row * sizeof(float));
}

/* Adds a row of padding after the prompt: the product of its key, value and beta is 1/4. */
void sb_slip_padded_tail(sb_slip_game *game, sb_slip_stage stage)
{
    const sb_config *c = &game->model->config;
    size_t heads = c->lin_v_heads, cells = (size_t)c->lin_k_dim * c->lin_v_dim;
    for (uint32_t i = 0; stage == SB_SLIP_primed && i < c->layers; i++)
        for (size_t h = 0; h < heads && !sb_state_is_full(game->live, i); h++)
            for (size_t e = 0; e < cells; e++) {
                float *cell = &game->live->layers[i].recurrent[h * cells + e];
                *cell = *cell * sb_exp(game->g[i][h]) + 0.25f;
            }
}

/* --- inputs of the head ----------------------------------------------------------------------- */

void sb_slip_boundary_hidden(sb_slip_game *game, sb_slip_stage stage)
{
    size_t H = game->model->config.hidden_size;
    if (stage == SB_SLIP_prompt)
        memcpy(game->live->mtp_hidden,
               sb_session_hidden(game->session) + (sb_session_rows(game->session) - 2) * H,
               H * sizeof(float));
}

void sb_slip_head_not_primed(sb_slip_game *game, sb_slip_stage stage)
{
    if (stage != SB_SLIP_primed)
        return;
    const sb_layer_state *layer = &game->live->layers[game->live->config->layers];
    size_t n = (size_t)game->live->mtp_entries * sb_state_kv_row(game->live->config);
    memset(layer->keys, 0, n * sizeof(float));
    memset(layer->values, 0, n * sizeof(float));
}
