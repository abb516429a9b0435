/* hits.h - mistakes in the state that a sequence begins with when it continues another one
 * (hits.def). */
#ifndef SB_FAULT_HITS_H
#define SB_FAULT_HITS_H

#include "ref/state/state.h"

/* The states that an engine could take instead. */
typedef struct sb_hit_game {
    sb_state *live;           /* the state that the sequence begins with: right until changed */
    const sb_state *before;   /* of the parent, one block earlier */
    const sb_state *early;    /* of the parent, one token earlier */
    const sb_state *late;     /* of the parent, one token later */
    const sb_state *end;      /* of the parent, after its whole prompt */
    const sb_state *other;    /* of another sequence, at the same position */
    const sb_state *by_block; /* the right state, computed in calls of one block */
} sb_hit_game;

/* The functions, one per row. */
#define SB_PLANTED(kind, where, by, with, words) void sb_hit_##by(sb_hit_game *game);
#define SB_HARMLESS(kind, where, by, with, words) SB_PLANTED(kind, where, by, with, words)
#include "tools/judge/fault/lists/hits.def"
#undef SB_PLANTED
#undef SB_HARMLESS

#endif
