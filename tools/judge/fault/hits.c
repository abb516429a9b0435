#include "tools/judge/fault/hits.h"

#include <string.h>

#include "tools/judge/fault/planted.h"

const sb_planted sb_hits[] = {
#define SB_HIT(where_, by, with_, words_, benign_)                                                 \
    {.name = #by,                                                                                  \
     .where = #where_,                                                                             \
     .with = with_,                                                                                \
     .words = words_,                                                                              \
     .benign = benign_,                                                                            \
     .restore = sb_hit_##by},
#define SB_PLANTED(kind, where, by, with, words) SB_HIT(where, by, with, words, 0)
#define SB_HARMLESS(kind, where, by, with, words) SB_HIT(where, by, with, words, 1)
#include "tools/judge/fault/lists/hits.def"
#undef SB_PLANTED
#undef SB_HARMLESS
#undef SB_HIT
    {.name = NULL}};

/* --- pieces of another state; NULL: of an empty one ------------------------------------------- */

static void take_floats(float *to, const float *from, size_t floats)
{
    if (from)
        memcpy(to, from, floats * sizeof *to);
    else
        memset(to, 0, floats * sizeof *to);
}

static void take_conv(sb_hit_game *game, const sb_state *from)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (!sb_state_is_full(game->live, i))
            take_floats(game->live->layers[i].conv, from ? from->layers[i].conv : NULL,
                        sb_state_conv_size(game->live->config));
}

static void take_recurrent(sb_hit_game *game, const sb_state *from)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (!sb_state_is_full(game->live, i))
            take_floats(game->live->layers[i].recurrent, from ? from->layers[i].recurrent : NULL,
                        sb_state_recurrent_size(game->live->config));
}

static void take_both(sb_hit_game *game, const sb_state *from)
{
    take_conv(game, from);
    take_recurrent(game, from);
}

static void take_rows(const sb_layer_state *to, const sb_layer_state *from, size_t skipped,
                      size_t rows, size_t row)
{
    take_floats(to->keys, from->keys + skipped * row, rows * row);
    take_floats(to->values, from->values + skipped * row, rows * row);
}

/* Keys and values of the trunk, from row `skipped` of the other state on. */
static void take_keys(sb_hit_game *game, const sb_state *from, size_t skipped)
{
    for (uint32_t i = 0; i < game->live->config->layers; i++)
        if (sb_state_is_full(game->live, i))
            take_rows(&game->live->layers[i], &from->layers[i], skipped,
                      (size_t)game->live->position, sb_state_kv_row(game->live->config));
}

static void take_entries(sb_hit_game *game, const sb_state *from)
{
    uint32_t head = game->live->config->layers;
    if (game->live->has_mtp)
        take_rows(&game->live->layers[head], &from->layers[head], 0,
                  (size_t)game->live->mtp_entries, sb_state_kv_row(game->live->config));
}

static void take_hidden(sb_hit_game *game, const sb_state *from)
{
    if (game->live->has_mtp)
        take_floats(game->live->mtp_hidden, from->mtp_hidden, game->live->config->hidden_size);
}

static void take_all(sb_hit_game *game, const sb_state *from)
{
    take_both(game, from);
    take_keys(game, from, 0);
    take_entries(game, from);
    take_hidden(game, from);
}

/* --- the rows --------------------------------------------------------------------------------- */

void sb_hit_stale(sb_hit_game *game)
{
    take_both(game, game->before);
}

void sb_hit_shifted(sb_hit_game *game)
{
    take_both(game, game->early);
}

void sb_hit_shifted_late(sb_hit_game *game)
{
    take_both(game, game->late);
}

void sb_hit_foreign(sb_hit_game *game)
{
    take_all(game, game->other);
}

void sb_hit_wrong_slot(sb_hit_game *game)
{
    take_both(game, game->end);
}

void sb_hit_other_slot(sb_hit_game *game)
{
    take_both(game, game->other);
}

void sb_hit_not_restored(sb_hit_game *game)
{
    take_both(game, NULL);
}

void sb_hit_conv_not_restored(sb_hit_game *game)
{
    take_conv(game, NULL);
}

void sb_hit_recurrent_not_restored(sb_hit_game *game)
{
    take_recurrent(game, NULL);
}

void sb_hit_recurrent_of_block(sb_hit_game *game)
{
    take_recurrent(game, game->before);
}

void sb_hit_conv_shifted(sb_hit_game *game)
{
    take_conv(game, game->early);
}

void sb_hit_keys_of_other(sb_hit_game *game)
{
    take_keys(game, game->other, 0);
}

void sb_hit_keys_shifted(sb_hit_game *game)
{
    take_keys(game, game->late, 1);
}

void sb_hit_entries_of_other(sb_hit_game *game)
{
    take_entries(game, game->other);
}

void sb_hit_hidden_stale(sb_hit_game *game)
{
    take_hidden(game, game->early);
}

void sb_hit_restored(sb_hit_game *game)
{
    (void)game;
}

void sb_hit_by_block(sb_hit_game *game)
{
    take_all(game, game->by_block);
}
