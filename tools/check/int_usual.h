/* int_usual.h - what is usual among the integer matrices of a checkpoint, and check 38. */
#ifndef SB_CHECK_INT_USUAL_H
#define SB_CHECK_INT_USUAL_H

#include "tools/check/block_votes.h"
#include "tools/check/producer.h"

typedef struct sb_int_usual {
    sb_check *check;
    sb_producer producer;
    unsigned recipe; /* sb_recipe */
    uint64_t matrices;
    uint64_t v1, v2, versions; /* GPTQ's matrices whose zero points are these, or either */
    unsigned told_version;     /* that all of them are not as declared */
    uint64_t groups, negative, live, inner;
    /* by region: matrices compared with the original; all codes nearest */
    uint64_t compared[SB_REGION_other + 1], nearest[SB_REGION_other + 1];
    int tunes;                   /* AutoRound, and not without iterations */
    int strays;                  /* it may have moved codes by more than half a step */
    sb_block_votes near, inside; /* of AutoRound's layers: all codes nearest; none beyond a step */
} sb_int_usual;

int sb_int_member(const sb_member *member); /* a matrix of integers that has been seen */
void sb_int_usual_make(sb_check *check, sb_int_usual *usual);
void sb_judge_int_distance(sb_int_usual *usual, const sb_member *member); /* 38 */

#endif
