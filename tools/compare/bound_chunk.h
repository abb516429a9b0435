/* bound_chunk.h - one chunk of one head in balls: what the bounds of have in common.
 */
#ifndef SB_COMPARE_BOUND_CHUNK_H
#define SB_COMPARE_BOUND_CHUNK_H

#include "tools/compare/bound.h"

typedef struct sb_chunk_balls {
    const sb_arithmetic *ar;
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    const sb_ball *q, *k; /* row 0 of the chunk */
    size_t head, key_head, first, m;
    size_t rows;                 /* of a chunk (T-87), at most those of the call */
    sb_ball G[SB_CHUNK_LONGEST]; /* sums of g */
    sb_ball *S;                  /* (dk, dv) */
    sb_ball *A, *scores;         /* (rows, rows) */
    double *inverse;             /* (rows, rows) of I + A */
    sb_ball *U, *W;              /* (rows, dv), (rows, dk): right-hand sides, then solutions */
    sb_ball *row;                /* (max(dk, rows)) */
    sb_ball *X, *copy;           /* (rows, rows), (dk, dv): of R-22 and T-33 */
    /* T-66, of R-10 alone. (dv) 2-norms of the error of a column of S before the chunk, and of what
     * is left of it behind; else NULL. (rows) norms of W, and what a row leaves of S. */
    double *before, *after;
    double reach[SB_CHUNK_LONGEST], left[SB_CHUNK_LONGEST];
} sb_chunk_balls;

const sb_ball *sb_chunk_balls_row(const sb_chunk_balls *c, const sb_ball *x, size_t i);
float sb_chunk_balls_gate(const sb_chunk_balls *c, const float *x, size_t i);
sb_ball sb_chunk_balls_decay(const sb_chunk_balls *c, size_t i, size_t j);
sb_ball sb_chunk_balls_product(const sb_chunk_balls *c, const sb_ball *left, size_t i, size_t j);

/* c->inverse from c->A, and what it makes of the error of column n of x. */
void sb_chunk_balls_invert(sb_chunk_balls *c);
void sb_chunk_balls_substitute(const sb_chunk_balls *c, sb_ball *x, size_t n, size_t width);

/* The inverse in balls, c->X, from c->A and c->inverse. */
void sb_chunk_balls_inverse(sb_chunk_balls *c);

/* V in the place of U; reads c->S. */
void sb_chunk_balls_correct(sb_chunk_balls *c);

/* outputs of one chunk, and the state behind it in c->S. */
void sb_chunk_balls_fla(sb_chunk_balls *c, sb_ball *out, size_t out_stride);

/* The output of either form from the sum that it is made of (K-16), and a state that is kept
 * (K-35). */
sb_ball sb_ball_output(const sb_arithmetic *ar, const sb_knobs *knobs, int recurrent, size_t dk,
                       sb_ball o);
sb_ball sb_ball_kept(const sb_knobs *knobs, sb_ball x);

#endif
