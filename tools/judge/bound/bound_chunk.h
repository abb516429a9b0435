/* bound_chunk.h - one chunk of one head in balls: shared by the bounds of. */
#ifndef SB_COMPARE_BOUND_CHUNK_H
#define SB_COMPARE_BOUND_CHUNK_H

#include "tools/judge/bound/bound.h"

typedef struct sb_chunk_balls {
    const sb_arithmetic *ar;
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    const sb_ball *q, *k;        /* row 0 of the chunk */
    const sb_ball *v, *g, *beta; /* as in sb_delta_side */
    size_t head, key_head, first, m;
    size_t rows;                 /* length of a chunk (T-87), at most the rows of the call */
    sb_ball G[SB_CHUNK_LONGEST]; /* sums of g */
    sb_ball *S;                  /* (dk, dv) */
    sb_ball *A, *scores;         /* (rows, rows) */
    double *inverse;             /* (rows, rows) of I + A */
    sb_ball *U, *W;              /* (rows, dv), (rows, dk): right-hand sides, then solutions */
    sb_ball *row;                /* (max(dk, rows)) */
    sb_ball *X, *copy;           /* (rows, rows), (dk, dv): for R-22 and T-33 */
    /* T-66, only for R-10. before, after: (dv) 2-norm of the error of each column of S before the
     * chunk, and what remains of that error after the chunk; else NULL. reach: (rows) norms of W.
     * left: (rows) the factor by which the rows so far shrink an error of S. */
    double *before, *after;
    double reach[SB_CHUNK_LONGEST], left[SB_CHUNK_LONGEST];
} sb_chunk_balls;

const sb_ball *sb_chunk_balls_row(const sb_chunk_balls *c, const sb_ball *x, size_t i);
sb_ball sb_chunk_balls_beta(const sb_chunk_balls *c, size_t i);
sb_ball sb_chunk_balls_value(const sb_chunk_balls *c, size_t i, size_t j);
sb_ball sb_chunk_balls_decay(const sb_chunk_balls *c, size_t i, size_t j);
sb_ball sb_chunk_balls_product(const sb_chunk_balls *c, const sb_ball *left, size_t i, size_t j);

/* invert: computes c->inverse from c->A. substitute: solves for column n of x, with its error. */
void sb_chunk_balls_invert(sb_chunk_balls *c);
void sb_chunk_balls_substitute(const sb_chunk_balls *c, sb_ball *x, size_t n, size_t width);

/* Computes c->X, the inverse in balls, from c->A and c->inverse. */
void sb_chunk_balls_inverse(sb_chunk_balls *c);

/* Replaces U by V; reads c->S. */
void sb_chunk_balls_correct(sb_chunk_balls *c);

/* computes the outputs of one chunk, and the state after it in c->S. */
void sb_chunk_balls_fla(sb_chunk_balls *c, sb_ball *out, size_t out_stride);

/* K-16: the output of either form from its sum. K-35: the state that a call leaves. */
sb_ball sb_ball_output(const sb_arithmetic *ar, const sb_knobs *knobs, int recurrent, size_t dk,
                       sb_ball o);
sb_ball sb_ball_kept(const sb_knobs *knobs, sb_ball x);

#endif
