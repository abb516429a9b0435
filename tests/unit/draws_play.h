/* draws_play.h - a plain engine that samples, with switches for mistakes, and the judgement of what
 * it draws. */
#ifndef SB_TESTS_UNIT_DRAWS_PLAY_H
#define SB_TESTS_UNIT_DRAWS_PLAY_H

#include "tools/judge/compare/draws.h"

enum { DRAWS_VOCAB = 48 };

/* What the engine does; declared settings come from `declared`. */
typedef struct draws_engine {
    sb_step_sampling does; /* its settings and its sampler, as it really has them */
    int penalized;         /* how often it applies penalties: 1 */
    int dropped;           /* tokens that top_p drops too many; below 0: too few */
    int seed_of_first;     /* every sequence draws with the numbers of the first one */
    int stuck;             /* every token gets the same random number */
    int greedy_rank;       /* from the second draw on: always draws the token of this rank; 0: no */
} draws_engine;

typedef struct draws_play {
    sb_step_sampling declared; /* sequence i gets seed + i if it has a seed */
    draws_engine engine;
    size_t sequences, tokens; /* of each */
    double spread;            /* of the logits: their standard deviation */
    int ties;                 /* logits are multiples of 1/2, so that many are equal */
    int same_rows;            /* all sequences see the same logits */
    double noise;             /* the judge sees logits that are this far off, and knows it */
    uint64_t seed;
} draws_play;

void draws_run(const draws_play *play, sb_sampler_verdict *out);

#endif
