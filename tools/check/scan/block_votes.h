/* block_votes.h - V-38: the majority vote of the members of one decoder layer. AutoRound tunes one
 * layer at a time and keeps the best iteration. The best iteration may be the untuned start. */
#ifndef SB_CHECK_BLOCK_VOTES_H
#define SB_CHECK_BLOCK_VOTES_H

#include "tools/check/read/units.h"

/* 1 or 0, or -1 for a member without a vote. */
typedef int (*sb_vote)(const sb_member *member);

/* A cache: the layer that was asked about last. The members of a layer are neighbours in the list.
 * Zeroed: empty. */
typedef struct sb_block_votes {
    const sb_member *first, *end;
    int agrees;
} sb_block_votes;

/* 1 if at least half of the votes in the decoder layer of a member are 1. The member must be in
 * units->members. Neighbouring members without a layer are counted together. */
int sb_block_agrees(sb_block_votes *last, const sb_units *units, const sb_member *member,
                    sb_vote vote);

#endif
