/* trail.h - the rollback data of one call: the state before the call, and after each of its rows.
 *
 * Keys and values need no copy: a dropped position is overwritten when it is fed again (S-10). A
 * row overwrites only the conv and recurrent states and the last hidden vector of the MTP head. */
#ifndef SB_STATE_TRAIL_H
#define SB_STATE_TRAIL_H

#include "ref/state/state.h"

typedef struct sb_trail {
    const sb_config *config;
    int has_mtp;
    size_t rows;       /* of the call; 0: no rollback possible */
    int every_row;     /* 1: slots 0..rows are used; 0: only slot 0, the state before the call */
    size_t room;       /* allocated slots */
    uint64_t position; /* before the call */
    float **conv;      /* (L) of linear-attention layers (room, kw-1, C), else NULL */
    float **recurrent; /* (L) likewise (room, nV, dk, dv) */
    float *hidden;     /* (room, H) with a head */
} sb_trail;

void sb_trail_free(sb_trail *trail);

/* Before a call of `rows` rows: stores the state in slot 0 and makes room for the other slots,
 * which the caller fills. Slot 1 + t is the state after row t. */
sb_status sb_trail_begin(sb_trail *trail, const sb_state *state, size_t rows, int every_row,
                         sb_error *err);

/* Slot `slot` of a layer's states. The `trail` argument of the ops is slot 1. */
float *sb_trail_conv(const sb_trail *trail, uint32_t layer, size_t slot);
float *sb_trail_recurrent(const sb_trail *trail, uint32_t layer, size_t slot);

/* Restores the conv and recurrent states, the last hidden vector and the position from a slot. The
 * caller sets mtp_entries, which depends on K-27. */
void sb_trail_restore(const sb_trail *trail, size_t slot, sb_state *state);

#endif
