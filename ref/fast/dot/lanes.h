/* lanes.h - kernels that work on many results at a time, each in a lane of its own.
 *
 * Like the kernels of dot.h they add exact products in binary64 in any order, and a set exists per
 * instruction set. What differs is the rounding test, which is theirs: against a loose bound of the
 * sum of magnitudes, for all lanes at once. Results that it does not settle are left to the caller,
 * who has dot.h.
 *
 * One text, lanes_kernels.h, is compiled for each set; the functions of fn_array.h have their own.
 */
#ifndef SB_DOT_LANES_H
#define SB_DOT_LANES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/fast/dot/dots.h"

enum {
    SB_LANES_COLUMNS = 32,   /* of one sweep */
    SB_LANES_ROWS = 8,       /* of one tile of dots */
    SB_LANES_HEADS = 8,      /* inputs that meet one tile */
    SB_LANES_TERMS = 512,    /* of one dot of a tile */
    SB_LANES_POSITIONS = 16, /* rows of one tile of weighted sums */
};

/* A sweep over s (rows, columns): s = RN(decay s), or s[i][j] = RN(s[i][j] + RN(k[i] d[j])); then
 * dots of its columns with a. `reach` times the largest magnitude of a column bounds the error. */
typedef struct sb_lanes_sweep {
    float *s;
    size_t stride, rows, columns; /* columns <= SB_LANES_COLUMNS */
    const double *a;
    double reach;
    const float *ahead; /* one line of memory for each row, to be fetched; or NULL */
    float decay;
    float k_most; /* the largest |k[i]| */
    const float *k, *d;
} sb_lanes_sweep;

/* A tile of dots: rows u < rows of b with inputs h < heads. */
typedef struct sb_lanes_tile {
    const double *a;    /* (heads, n) */
    const float *b;     /* (rows, n), rows b_stride apart */
    const float *ahead; /* rows that will be asked for next, to be fetched; or NULL */
    size_t b_stride, heads, rows, n;
    const double *reach; /* (heads) times the largest magnitude of a row: the bound of the error */
    double factor;       /* of the sums: out = RN32(factor sum), the bound being that of both */
} sb_lanes_tile;

/* A tile of weighted sums: at most SB_LANES_POSITIONS rows. */
typedef struct sb_lanes_weighing {
    const double *p;    /* (rows, SB_LANES_HEADS), zero behind the last head */
    const float *v;     /* (rows, columns), rows v_stride apart */
    const float *ahead; /* as above */
    size_t v_stride, rows, columns;
} sb_lanes_weighing;

typedef struct sb_lane_kernels {
    size_t width; /* columns and terms come in multiples of it */

    /* out[j] = RN32( sum_i a[i] s[i][j] ) of the changed s, j < columns; bit j of the result says
     * that it is not settled. sweep_scale leaves the largest magnitude of each column in `most`,
     * where sweep_add expects it. out may be d. */
    uint32_t (*sweep_scale)(const sb_lanes_sweep *t, float *most, float *out);
    uint32_t (*sweep_add)(const sb_lanes_sweep *t, float *most, float *out);

    /* out[h out_stride + u]; bit u of open[h] says that it is not settled. */
    void (*tile)(const sb_lanes_tile *t, float *out, size_t out_stride, uint8_t *open);

    /* sum[h columns + i] += sum_u p[u][h] v[u][i], all heads; most[i]: the largest |v[u][i]|, and
     * what was there. */
    void (*weigh)(const sb_lanes_weighing *t, double *sum, float *most);

    /* out[l] = RN32( sum of n terms ), result from + l, l < count <= SB_LANES_COLUMNS;
     * `coefficient` times the sum of magnitudes is the bound. Bit l as above. */
    uint32_t (*dots)(const sb_dots_term *terms, size_t n, size_t from, size_t count,
                     double coefficient, float *out);

    /* Adds a[0..n) to *sum and the magnitudes to *magnitude, n a multiple of width. */
    void (*sum)(const float *a, size_t n, double *sum, double *magnitude);

    /* Functions of n values, or NULL. Where one is not settled, out[i] is x[i] and i stands in
     * `open`; how many of these is returned. n is a multiple of width. out may be x. */
    size_t (*exp)(const float *x, size_t n, float *out, uint32_t *open);
    size_t (*sigmoid)(const float *x, size_t n, float *out, uint32_t *open);
    size_t (*silu)(const float *x, size_t n, float *out, uint32_t *open);
} sb_lane_kernels;

extern const sb_lane_kernels *const sb_lanes_scalar; /* portable C */
extern const sb_lane_kernels *const sb_lanes_avx2;   /* NULL as the sets of kernels.h are */
extern const sb_lane_kernels *const sb_lanes_avx512;

/* Those that belong to the selected set of dot.h; NULL for "exact". */
const sb_lane_kernels *sb_lanes(void);

/* What times the sum of magnitudes bounds the error of a sum whose terms pass through at most
 * `deep` roundings: error_bound() of dot.c. The 8 are spare, for a bound that is itself a product
 * of few rounded factors. */
static inline double sb_lanes_coefficient(size_t deep)
{
    return (double)(deep + 8) * 0x1.0001p-53;
}

#endif
