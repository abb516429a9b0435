/* compare.h - compares the bits of two states and finds the first difference.
 *
 * S-11: "Two states are equal when position, number of entries and the bits of all elements are" -
 * 0 and -0 differ; two NaNs are equal if their bits are. */
#ifndef SB_STATE_COMPARE_H
#define SB_STATE_COMPARE_H

#include "ref/state/piece.h"

/* The difference of two pieces of the same kind and layer, over the rows that both have. */
typedef struct sb_piece_difference {
    uint64_t compared, different; /* elements */
    uint64_t first;               /* the first different element, if any */
    uint32_t bits[2];             /* its bits on both sides */
    double largest;               /* the largest |a - b| of two finite elements */
} sb_piece_difference;

typedef struct sb_state_difference {
    int differs;
    uint64_t position[2], entries[2];
    uint64_t drafter_entries[2];
    int has_drafter[2]; /* likewise as has_mtp */
    int has_mtp[2];     /* pieces of the head are compared only if both states have a head */
    int has_element;    /* 1: a common element differs, and the members below are set */
    sb_piece piece;     /* the first piece that differs */
    sb_piece_difference in_piece;
    sb_piece_place place;
    size_t pieces, pieces_different; /* pieces: those that both have */
    uint64_t different;              /* different elements in all pieces */
} sb_state_difference;

/* SB_ERR_USAGE if the states cannot be of one model: layers or widths differ. */
sb_status sb_state_compare(const sb_state *a, const sb_state *b, sb_state_difference *out,
                           sb_error *err);

sb_piece_difference sb_piece_compare(const sb_piece *a, const sb_piece *b);

/* "layers.3.self_attn.keys: head 1, row 5, col 17: 0x3f800000 (1) and ...", or "the states are the
 * same": one line, written to *room. */
typedef struct sb_difference_text {
    char text[512];
} sb_difference_text;
const char *sb_difference_show(const sb_state_difference *difference, sb_difference_text *room);

#endif
