/* lanes.h - kernels that compute many results at a time, each in its own lane.
 *
 * Like the kernels of dot.h they add exact products in binary64 in any order, and there is one set
 * per instruction set. Unlike those, they apply the rounding test themselves, to all lanes at once,
 * with a loose bound of the sum of magnitudes. The caller uses dot.h for the results that the test
 * leaves open.
 *
 * The source lanes_kernels.h is compiled once for each set; fn_lanes.h has the functions of
 * fn_array.h. */
#ifndef SB_DOT_LANES_H
#define SB_DOT_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/fast/dot/dots.h"

enum {
    SB_LANES_COLUMNS = 32,   /* columns of one sweep */
    SB_LANES_ROWS = 8,       /* rows of one tile of dots */
    SB_LANES_HEADS = 8,      /* inputs of one tile */
    SB_LANES_TERMS = 512,    /* terms of one dot of a tile */
    SB_LANES_POSITIONS = 16, /* rows of one tile of weighted sums */
};

/* A sweep over s (rows, columns): s = RN(decay s), or s[i][j] = RN(s[i][j] + RN(k[i] d[j])); then
 * the dots of the columns of s with a. The error of a dot is at most `reach` times the largest
 * magnitude of its column. */
typedef struct sb_lanes_sweep {
    float *s;
    size_t stride, rows, columns; /* columns <= SB_LANES_COLUMNS */
    const double *a;
    double reach;
    const float *ahead; /* one cache line per row, to prefetch; or NULL */
    float decay;
    float k_most; /* the largest |k[i]| */
    const float *k, *d;
} sb_lanes_sweep;

/* A tile of dots: each row u < rows of b with each input h < heads. */
typedef struct sb_lanes_tile {
    const double *a;    /* (heads, n) */
    const float *b;     /* (rows, n), rows b_stride apart */
    const float *ahead; /* the next rows, to prefetch; or NULL */
    size_t b_stride, heads, rows, n;
    /* (heads) the error is at most reach times the largest magnitude of a row */
    const double *reach;
    double factor; /* out = RN32(factor sum); the error bound covers both */
} sb_lanes_tile;

/* A tile of weighted sums: at most SB_LANES_POSITIONS rows. */
typedef struct sb_lanes_weighing {
    const double *p;    /* (rows, SB_LANES_HEADS), zero after the last head */
    const float *v;     /* (rows, columns), rows v_stride apart */
    const float *ahead; /* the next rows, to prefetch; or NULL */
    size_t v_stride, rows, columns;
} sb_lanes_weighing;

typedef struct sb_lane_kernels {
    size_t width; /* numbers of columns and terms are multiples of width */

    /* out[j] = RN32( sum_i a[i] s[i][j] ), j < columns, where s is already changed. Bit j of the
     * result is set if out[j] is still open. sweep_scale stores the largest magnitude of each
     * column in `most`, and sweep_add reads it there. out may be d. */
    uint32_t (*sweep_scale)(const sb_lanes_sweep *t, float *most, float *out);
    uint32_t (*sweep_add)(const sb_lanes_sweep *t, float *most, float *out);

    /* Computes out[h out_stride + u]. Bit u of open[h] is set if this result is still open. */
    void (*tile)(const sb_lanes_tile *t, float *out, size_t out_stride, uint8_t *open);

    /* sum[h columns + i] += sum_u p[u][h] v[u][i], for all heads h; most[i] = the maximum of its
     * old value and all |v[u][i]|. */
    void (*weigh)(const sb_lanes_weighing *t, double *sum, float *most);

    /* out[l] = RN32( sum of n terms ) for result from + l, l < count <= SB_LANES_COLUMNS. The error
     * bound is `coefficient` times the sum of magnitudes. Bit l of the result is set if out[l] is
     * still open. */
    uint32_t (*dots)(const sb_dots_term *terms, size_t n, size_t from, size_t count,
                     double coefficient, float *out);

    /* Adds a[0..n) to *sum and the magnitudes to *magnitude, n a multiple of width. */
    void (*sum)(const float *a, size_t n, double *sum, double *magnitude);

    /* The functions of fn.h on n values, or NULL. If result i is still open, out[i] is x[i], and i
     * is appended to `open`. Returns the number of open values. n is a multiple of width. out may
     * be x. */
    size_t (*exp)(const float *x, size_t n, float *out, uint32_t *open);
    size_t (*sigmoid)(const float *x, size_t n, float *out, uint32_t *open);
    size_t (*silu)(const float *x, size_t n, float *out, uint32_t *open);
} sb_lane_kernels;

extern const sb_lane_kernels *const sb_lanes_scalar; /* portable C */
extern const sb_lane_kernels
    *const sb_lanes_avx2; /* NULL in the same cases as the sets of kernels.h */
extern const sb_lane_kernels *const sb_lanes_avx512;

/* The lane kernels of the selected set of dot.h; NULL for "exact". */
const sb_lane_kernels *sb_lanes(void);

/* The error of a sum whose terms pass through at most `deep` roundings is at most this coefficient
 * times the sum of magnitudes, as in error_bound() of dot.c. The 8 extra roundings are for bounds
 * that are products of a few rounded factors. */
static inline double sb_lanes_coefficient(size_t deep)
{
    return (double)(deep + 8) * 0x1.0001p-53;
}

#endif
