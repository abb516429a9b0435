/* trail.h - the way back inside one call: what a state was before it, and after each of its rows.
 *
 * Keys and values need no copy: a position that is left is overwritten by the next that comes
 * (S-10). What a row changes for good are the conv and the recurrent states and the last hidden
 * vector of the MTP head. */
#ifndef SB_STATE_TRAIL_H
#define SB_STATE_TRAIL_H

#include "ref/state/state.h"

typedef struct sb_trail {
    const sb_config *config;
    int has_mtp;
    size_t rows;       /* of the call; 0: there is no way back */
    int every_row;     /* slots 0..rows; else slot 0 alone, the state before the call */
    size_t room;       /* slots that there is memory for */
    uint64_t position; /* before the call */
    float **conv;      /* (L) of linear-attention layers (room, kw-1, C), else NULL */
    float **recurrent; /* (L) likewise (room, nV, dk, dv) */
    float *hidden;     /* (room, H) with a head */
} sb_trail;

void sb_trail_free(sb_trail *trail);

/* Before a call of `rows` rows: stores the state in slot 0 and makes room for the slots behind it,
 * which the caller fills: slot 1 + t is the state after row t. */
sb_status sb_trail_begin(sb_trail *trail, const sb_state *state, size_t rows, int every_row,
                         sb_error *err);

/* Slot `slot` of a layer's states: what the ops get as their trail is slot 1. */
float *sb_trail_conv(const sb_trail *trail, uint32_t layer, size_t slot);
float *sb_trail_recurrent(const sb_trail *trail, uint32_t layer, size_t slot);

/* Puts the conv and recurrent states and the last hidden vector of a slot back, and the position;
 * mtp_entries is the caller's business, who knows K-27. */
void sb_trail_restore(const sb_trail *trail, size_t slot, sb_state *state);

#endif
