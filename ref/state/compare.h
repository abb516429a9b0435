/* compare.h - whether two states are the same to the bit, and if not, where they differ first.
 *
 * S-11: "Two states are equal when position, number of entries and the bits of all elements are" -
 * 0 and -0 differ, and a NaN equals the NaN of its payload. */
#ifndef SB_STATE_COMPARE_H
#define SB_STATE_COMPARE_H

#include "ref/state/piece.h"

/* Of two pieces of one kind and layer, over the rows that both have. */
typedef struct sb_piece_difference {
    uint64_t compared, different; /* elements */
    uint64_t first;               /* if any differs: the first */
    uint32_t bits[2];             /* its bits on both sides */
    double largest;               /* of |a - b|, where both are finite */
} sb_piece_difference;

typedef struct sb_state_difference {
    int differs;
    uint64_t position[2], entries[2];
    int has_mtp[2];  /* pieces of the head are compared only where both have it */
    int has_element; /* the rest says something: an element that both have differs */
    sb_piece piece;  /* the first that differs */
    sb_piece_difference in_piece;
    sb_piece_place place;
    size_t pieces, pieces_different;
    uint64_t different; /* elements in all pieces */
} sb_state_difference;

/* SB_ERR_USAGE where the two cannot be of one model: layers or widths differ. */
sb_status sb_state_compare(const sb_state *a, const sb_state *b, sb_state_difference *out,
                           sb_error *err);

sb_piece_difference sb_piece_compare(const sb_piece *a, const sb_piece *b);

/* "layers.3.self_attn.keys: head 1, row 5, col 17: 0x3f800000 (1) and ...", or "the states are the
 * same": one line, written into *room. */
typedef struct sb_difference_text {
    char text[512];
} sb_difference_text;
const char *sb_difference_show(const sb_state_difference *difference, sb_difference_text *room);

#endif
