#include "ref/state/piece.h"

#include <stdio.h>
#include <string.h>

#include "ref/state/drafter.h"

static const char *const names[] = {"self_attn.keys",
                                    "self_attn.values",
                                    "linear_attn.conv_state",
                                    "linear_attn.recurrent_state",
                                    "hidden",
                                    "states"};

/* Those of the layers and of the MTP head. */
static size_t own_pieces(const sb_state *state)
{
    return 2 * (size_t)sb_state_layers(state) + (state->has_mtp ? 1 : 0);
}

size_t sb_state_pieces(const sb_state *state)
{
    return own_pieces(state) + (state->drafter ? 3 : 0);
}

uint64_t sb_piece_elements(const sb_piece *piece)
{
    uint64_t elements = 1;
    for (unsigned d = 0; d < piece->rank; d++)
        elements *= piece->shape[d];
    return elements;
}

static void set_shape(sb_piece *piece, unsigned rank, uint64_t a, uint64_t b, uint64_t c)
{
    piece->rank = rank;
    piece->shape[0] = a;
    piece->shape[1] = b;
    piece->shape[2] = c;
}

static void set_name(const sb_state *state, sb_piece *piece)
{
    const char *name = names[piece->kind];
    if (piece->kind == SB_PIECE_states)
        snprintf(piece->name, sizeof piece->name, "drafter.%s", name);
    else if (piece->layer > state->config->layers)
        snprintf(piece->name, sizeof piece->name, "drafter.layers.0.%s", name);
    else if (piece->kind == SB_PIECE_hidden)
        snprintf(piece->name, sizeof piece->name, "mtp.%s", name);
    else if (piece->layer == state->config->layers)
        snprintf(piece->name, sizeof piece->name, "mtp.layers.0.%s", name);
    else
        snprintf(piece->name, sizeof piece->name, "layers.%u.%s", (unsigned)piece->layer, name);
}

/* D-10: "Those of the drafter are [entries, nKV, hd] with its own nKV and hd, and states [n, Ht]"
 */
static sb_piece drafter_piece(const sb_state *state, size_t i)
{
    const sb_drafter_state *d = state->drafter;
    sb_piece piece = {.layer = state->config->layers + 1, .kind = SB_PIECE_states};
    if (i == 2) {
        piece.data = d->pending;
        set_shape(&piece, 2, d->states, d->width, 1);
    } else {
        piece.kind = i ? SB_PIECE_values : SB_PIECE_keys;
        piece.data = i ? d->values : d->keys;
        set_shape(&piece, 3, d->entries, d->kv_heads, d->head_dim);
    }
    set_name(state, &piece);
    return piece;
}

/* D-10: "keys and values are [position, nKV, hd], conv_state [kw-1, C], recurrent_state
 * [nV, dk, dv]" */
sb_piece sb_state_piece(const sb_state *state, size_t i)
{
    const sb_config *c = state->config;
    sb_piece piece = {.layer = (uint32_t)(i / 2)};
    if (i >= own_pieces(state))
        return drafter_piece(state, i - own_pieces(state));
    if (piece.layer == sb_state_layers(state)) {
        piece.layer = c->layers;
        piece.kind = SB_PIECE_hidden;
        piece.data = state->layers ? state->mtp_hidden : NULL;
        set_shape(&piece, 1, c->hidden_size, 1, 1);
        set_name(state, &piece);
        return piece;
    }
    const sb_layer_state none = {NULL, NULL, NULL, NULL};
    const sb_layer_state *layer = state->layers ? &state->layers[piece.layer] : &none;
    if (sb_state_is_full(state, piece.layer)) {
        piece.kind = i % 2 ? SB_PIECE_values : SB_PIECE_keys;
        piece.data = i % 2 ? layer->values : layer->keys;
        set_shape(&piece, 3, sb_state_kv_rows(state, piece.layer), c->kv_heads, c->head_dim);
    } else if (i % 2 == 0) {
        piece.kind = SB_PIECE_conv_state;
        piece.data = layer->conv;
        set_shape(&piece, 2, c->conv_kernel - 1, sb_config_conv_channels(c), 1);
    } else {
        piece.kind = SB_PIECE_recurrent_state;
        piece.data = layer->recurrent;
        set_shape(&piece, 3, c->lin_v_heads, c->lin_k_dim, c->lin_v_dim);
    }
    set_name(state, &piece);
    return piece;
}

int sb_state_piece_pair(const sb_state *a, const sb_state *b, size_t i, sb_piece *left,
                        sb_piece *right)
{
    *left = sb_state_piece(a, i);
    for (size_t j = 0; j < sb_state_pieces(b); j++) {
        *right = sb_state_piece(b, j);
        if (strcmp(left->name, right->name) == 0)
            return 1;
    }
    return 0;
}

/* D-10: "channels are those of the queries of all nK heads, then the keys of all nK heads, then the
 * values of all nV heads" */
static void find_channel(const sb_config *c, sb_piece_place *place)
{
    uint64_t width = sb_config_key_width(c), channel = place->col;
    place->part = channel < width ? "query" : channel < 2 * width ? "key" : "value";
    if (channel < 2 * width)
        place->head = channel % width / c->lin_k_dim;
    else
        place->head = (channel - 2 * width) / c->lin_v_dim;
}

sb_piece_place sb_piece_find(const sb_config *config, const sb_piece *piece, uint64_t element)
{
    uint64_t cols = piece->rank == 1 ? piece->shape[0] : piece->shape[piece->rank - 1];
    sb_piece_place place = {.has_head = piece->kind < SB_PIECE_hidden, .col = element % cols};
    uint64_t above = element / cols;
    switch (piece->kind) {
    case SB_PIECE_keys:
    case SB_PIECE_values:
        place.head = above % piece->shape[1];
        place.row = above / piece->shape[1];
        break;
    case SB_PIECE_recurrent_state:
        place.row = above % piece->shape[1];
        place.head = above / piece->shape[1];
        break;
    case SB_PIECE_conv_state:
        place.row = above;
        find_channel(config, &place);
        break;
    case SB_PIECE_states:
        place.row = above;
        break;
    case SB_PIECE_hidden:
        break;
    }
    return place;
}
