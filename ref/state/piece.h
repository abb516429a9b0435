/* piece.h - a state as a list of named arrays in a fixed order, for files and comparisons. */
#ifndef SB_STATE_PIECE_H
#define SB_STATE_PIECE_H

#include "ref/state/state.h"

typedef enum sb_piece_kind {
    SB_PIECE_keys,            /* (position, nKV, hd); for the head (entries, nKV, hd) */
    SB_PIECE_values,          /* as keys */
    SB_PIECE_conv_state,      /* (kw-1, C) */
    SB_PIECE_recurrent_state, /* (nV, dk, dv) */
    SB_PIECE_hidden,          /* (H): of the head */
    SB_PIECE_states           /* (n, Ht): of the drafter */
} sb_piece_kind;

enum { SB_PIECE_RANK = 3 };

typedef struct sb_piece {
    sb_piece_kind kind;
    uint32_t layer; /* L: the MTP head; L + 1: the drafter */
    char name[64];  /* "layers.3.self_attn.keys", "mtp.hidden" */
    unsigned rank;
    uint64_t shape[SB_PIECE_RANK];
    float *data; /* NULL if state->layers is NULL: only the sizes are known */
} sb_piece;

/* Two pieces per layer, then keys, values and hidden of the MTP head, then keys, values and states
 * of the drafter. Some may have no elements. */
size_t sb_state_pieces(const sb_state *state);
sb_piece sb_state_piece(const sb_state *state, size_t i);

/* Piece i of `a` and the piece of the same name of `b`. 0: `b` has none. */
int sb_state_piece_pair(const sb_state *a, const sb_state *b, size_t i, sb_piece *left,
                        sb_piece *right);

uint64_t sb_piece_elements(const sb_piece *piece);

/* The place of an element. */
typedef struct sb_piece_place {
    const char *part; /* of the conv state: "query", "key" or "value"; else NULL */
    int has_head;
    uint64_t head; /* of nKV, nK or nV heads, depending on the part */
    uint64_t row;  /* a token, a column of the convolution (0: the oldest), or a row of dk */
    uint64_t col;  /* index within hd, C, dv or H */
} sb_piece_place;

sb_piece_place sb_piece_find(const sb_config *config, const sb_piece *piece, uint64_t element);

#endif
