/* int_usual.h - what is usual among the integer matrices of a checkpoint, and check 38. */
#ifndef SB_CHECK_INT_USUAL_H
#define SB_CHECK_INT_USUAL_H

#include "tools/check/scan/block_votes.h"
#include "tools/check/scan/producer.h"

typedef struct sb_int_usual {
    sb_check *check;
    sb_producer producer;
    unsigned recipe; /* sb_recipe */
    uint64_t matrices;
    uint64_t v1, v2, versions; /* GPTQ's matrices with zero points of v1, of v2, of either */
    /* number of matrices whose version is not the declared version, if all have the same version */
    unsigned told_version;
    uint64_t groups, negative, live, inner;
    /* by region: matrices compared with the original, and those of them with nearest codes only */
    uint64_t compared[SB_REGION_other + 1], nearest[SB_REGION_other + 1];
    int tunes;  /* 1 for AutoRound, unless it declares 0 iterations */
    int strays; /* the producer may have moved codes by more than half a step */
    /* votes of members in AutoRound's layers: nearest codes only; no code more than a step off */
    sb_block_votes near, inside;
} sb_int_usual;

int sb_int_member(const sb_member *member); /* 1 for a matrix of integers that was scanned */
void sb_int_usual_make(sb_check *check, sb_int_usual *usual);
/* Check 38 for one matrix. */
void sb_judge_int_distance(sb_int_usual *usual, const sb_member *member);

#endif
