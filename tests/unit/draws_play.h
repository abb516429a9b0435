/* draws_play.h - a plain engine that samples, with switches for mistakes, and the judgement of what
 * it draws. */
#ifndef SB_TESTS_UNIT_DRAWS_PLAY_H
#define SB_TESTS_UNIT_DRAWS_PLAY_H

#include "tools/judge/compare/draws.h"
#include "tools/judge/fault/drawer.h"

enum { DRAWS_VOCAB = 48 };

typedef struct draws_play {
    sb_step_sampling declared; /* sequence i gets seed + i if it has a seed */
    sb_drawing engine;         /* declared settings come from `declared` */
    size_t sequences, tokens;  /* of each */
    double spread;             /* of the logits: their standard deviation */
    int ties;                  /* logits are multiples of 1/2, so that many are equal */
    int same_rows;             /* all sequences see the same logits */
    double noise;              /* the judge sees logits that are this far off, and knows it */
    uint64_t seed;
} draws_play;

void draws_run(const draws_play *play, sb_sampler_verdict *out);

#endif
