/* block_votes.h - V-38: what is usual in one decoder layer. AutoRound tunes a layer at a time and
 * keeps the best iteration of it, which may be the one before the first step. */
#ifndef SB_CHECK_BLOCK_VOTES_H
#define SB_CHECK_BLOCK_VOTES_H

#include "tools/check/units.h"

/* 1 or 0, or -1 of a member that has no vote. */
typedef int (*sb_vote)(const sb_member *member);

/* The layer that was asked about last: members of one lie side by side. Zeroed: none. */
typedef struct sb_block_votes {
    const sb_member *first, *end;
    int agrees;
} sb_block_votes;

/* 1 if at least half of those that vote in the decoder layer of a member say 1. The member is one
 * of units->members; what is in no layer is counted with its neighbours that are in none. */
int sb_block_agrees(sb_block_votes *last, const sb_units *units, const sb_member *member,
                    sb_vote vote);

#endif
