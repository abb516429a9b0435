/* chunk.h - one chunk of one head of the gated delta rule: the common part of. */
#ifndef SB_OPS_CHUNK_H
#define SB_OPS_CHUNK_H

#include "ref/ops/op.h"

enum { SB_CHUNK = 64 };

/* The operands of a chunk, and the matrices that the clauses name. */
typedef struct sb_chunk {
    const float *q, *k, *v, *g, *beta;         /* the first row of each; rows are a stride apart */
    size_t k_stride, v_stride, gate_stride, m; /* m <= SB_CHUNK rows */
    size_t dk, dv;
    float scale;       /* of the outputs: 1, or K-16 */
    float G[SB_CHUNK]; /* sums of g */
    /* A: one row of A or of the scores; scaled: one row of weights */
    float A[SB_CHUNK], scaled[SB_CHUNK];
    float *U, *V;   /* (SB_CHUNK, dv) */
    float *W, *row; /* (SB_CHUNK, dk), (max(SB_CHUNK, dk)) scratch */
    float *within;  /* (dv) sums over the rows of the chunk */
    float *X, *S;   /* (SB_CHUNK, SB_CHUNK), (dk, dv): for R-22 only */
} sb_chunk;

/* exp( RN(G_i - G_j) ) */
float sb_chunk_decay(const sb_chunk *c, size_t i, size_t j);

/* Writes row i of A, negated and followed by 1, to c->A; and kb_i to c->row. */
void sb_chunk_coefficients(sb_chunk *c, size_t i);

/* x_i[n] = dot of (-A_i0, .., -A_i,i-1, 1) with (x_0[n], .., x_i[n]): one step of the substitution;
 * row i of x holds the right-hand side and receives the solution. */
void sb_chunk_substitute(const sb_chunk *c, float *x, size_t i, size_t width);

/* V_i = RN( U_i - dot(W_i, S) ) */
void sb_chunk_correct(sb_chunk *c, const float *S);

/* one chunk; out has the rows of this head, out_stride apart. */
void sb_chunk_fla(const sb_knobs *knobs, sb_chunk *c, float *S, float *out, size_t out_stride);

#endif
