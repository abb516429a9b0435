/* sweep.h - changes a matrix and multiplies it with a vector in one pass: the two halves of a step
 * of the delta rule, for a few columns. The bits are the same as with a separate change followed by
 * sb_dot_columns. */
#ifndef SB_DOT_SWEEP_H
#define SB_DOT_SWEEP_H

#include <stddef.h>

enum {
    SB_SWEEP = 32 /* the most columns */,
    SB_SWEEP_ROWS = 1024 /* the most rows of a converted vector */
};

/* A group of columns of a matrix. */
typedef struct sb_columns {
    float *at; /* (rows, columns), rows stride apart */
    size_t stride, rows, columns;
    const float *ahead;   /* (rows, 16) data to prefetch; or NULL */
    float most[SB_SWEEP]; /* the largest magnitudes, from sb_sweep_scale for sb_sweep_add */
} sb_columns;

/* A vector that multiplies columns. `wide` is unused if the vector has more than SB_SWEEP_ROWS
 * values. */
typedef struct sb_sweeper {
    const float *x;
    size_t n;
    float most; /* the largest magnitude */
    /* the error of a sum is at most reach times the largest magnitude of the column */
    double reach;
    double wide[SB_SWEEP_ROWS];
} sb_sweeper;

void sb_sweeper_set(sb_sweeper *a, const float *x, size_t n);

/* S[i, j] = RN(decay S[i, j]); out[j] = RN32( dot(S[:, j], a) ) */
void sb_sweep_scale(sb_columns *s, float decay, const sb_sweeper *a, float *out);

/* Called after sb_sweep_scale: S[i, j] = RN( S[i, j] + RN(k[i] d[j]) ); out[j] as above. out may be
 * d. */
void sb_sweep_add(sb_columns *s, const sb_sweeper *k, const float *d, const sb_sweeper *a,
                  float *out);

#endif
