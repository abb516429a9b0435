/* dot.h - the reductions as the ops call them: the bits of exact.h, at the speed of binary64.
 *
 * A kernel adds the products in binary64 (where each is exact) in any order it likes and returns
 * the sum with an upper bound of the sum of magnitudes. If every real number within the rounding
 * error of that sum rounds to the same binary32, that is the answer; otherwise exact.h decides. */
#ifndef SB_DOT_DOT_H
#define SB_DOT_DOT_H

#include <stddef.h>

#include "ref/base/status.h"
#include "ref/formats/matrix.h"
#include "ref/fast/dot/superacc.h"
#include "ref/math/exact.h"
#include "ref/fast/dot/compensated.h"

typedef struct sb_partial {
    double sum;       /* of the products, rounded at every addition */
    double magnitude; /* of their absolute values, rounded likewise */
} sb_partial;

/* A stored row as the row kernels read it: element j at bit j * bits, low nibble first. */
typedef struct sb_row_codes {
    const unsigned char *codes;
    const double *scales; /* of each `group` columns, exact; NULL: scale_codes, or 1, which codes
                           * of four bits never have */
    const unsigned char *scale_codes; /* the same in E4M3, if reads_scales() says yes to them */
    const double *zeros; /* of each group, subtracted from the codes of integers; NULL: 0 */
    size_t group;        /* a multiple of 16, or at least n */
    size_t n;
} sb_row_codes;

/* An input as sb_row_prepare makes it: x and lanes lie at a multiple of 64 bytes, and zeros follow
 * up to a multiple of two blocks of columns. Where an input is not finite, one of x16 is not. */
enum { SB_ROW_BLOCK = 128 };
typedef struct sb_row_input {
    const double *x;     /* (n) */
    const double *x16;   /* of 16 neighbours each: the sum of their magnitudes */
    const double *lanes; /* x in the order in which the kernel wants it, if that is another */
    double size;         /* the sum of x16 */
    double squares;      /* the sum of squares of x, if the kernel asks for it */
} sb_row_input;

enum { SB_SMALL_GEMM_ROWS = 4, SB_SMALL_GEMM_INPUTS = 32 };

/* One row per instruction set; entries are chosen once, at start, and never change a bit. */
typedef struct sb_dot_kernels {
    const char *name; /* "exact", "scalar", "avx2", "avx512", "avx512vnni", "neon" */
    sb_partial (*f32)(const float *a, const float *b, size_t n);
    sb_partial (*bf16)(const unsigned char *w, const float *x, size_t n); /* little-endian codes */
    sb_partial (*f16)(const unsigned char *w, const float *x, size_t n);
    sb_partial (*f64)(const double *a, const double *b, size_t n); /* products may round */
    /* for each column j < count, of a[i stride_a] b[i stride_b + j] over i < n */
    void (*columns)(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                    size_t count, sb_partial *partials);
    /* a row of codes of each format with an input, as row.h says; NULL: none */
    sb_partial (*row[SB_FORMAT_COUNT])(const sb_row_codes *w, const sb_row_input *x);
    const struct sb_tile_kernels *tile;         /* several rows with many inputs: tile.h */
    unsigned char tile_inputs[SB_FORMAT_COUNT]; /* from so many on it is faster than rows; 0: 2 */
    const struct sb_strip_kernels *strip; /* rows that lie side by side: strips.h; NULL: none */
    /* the same of two rows that differ in nothing but their codes, scales and zeros; NULL: none */
    void (*pair[SB_FORMAT_COUNT])(const sb_row_codes w[2], const sb_row_input *x,
                                  sb_partial partials[2]);
    /* the same of SB_SMALL_GEMM_ROWS rows with scale_codes, of at least one column, with up to
     * SB_SMALL_GEMM_INPUTS inputs: of row r with input t at [t * stride + r]; NULL: none */
    void (*many[SB_FORMAT_COUNT])(const sb_row_codes *w, const sb_row_input *x, size_t inputs,
                                  double *sums, double *magnitudes, size_t stride);
    /* fills sb_row_input.lanes from n columns of x, and the zeros behind them, as far as
     * row[format] reads; NULL: x will do */
    void (*arrange[SB_FORMAT_COUNT])(const double *x, size_t n, double *lanes);
    /* of each 16 of x, as many as `count`: the sum of their magnitudes. NULL: in plain C */
    void (*magnitudes)(const double *x, size_t count, double *sums);
    /* the sum of squares of x, n being a multiple of 16, each through n roundings at most: for
     * row[format]. NULL: it asks for none */
    double (*squares[SB_FORMAT_COUNT])(const double *x, size_t n);
    /* codes of E4M3 as doubles; 0, and nothing sensible, if one is negative or NaN. May be NULL */
    int (*scales)(const unsigned char *codes, size_t n, double *values);
    /* doubles whose sum is exactly that of the products, of values as sb_dot_wide takes them; 0
     * if they would not do. May be NULL */
    int (*parts)(const double *a, const double *b, size_t n, double parts[SB_PARTS]);
    /* whether row[e2m1] takes these n codes of E4M3, of 16 columns each, for scales. May be NULL */
    int (*reads_scales)(const unsigned char *codes, size_t n);
    void (*kept)(sb_compensated *to, const double *a, const double *b,
                 size_t n); /* NULL: sb_compensated_add */
} sb_dot_kernels;

/* Chooses the kernels: name is "auto" (the best this CPU has), one of the sets, or "exact", which
 * sends every reduction through exact.h. SB_ERR_USAGE if the CPU or the name has no such kernels.
 * Must be called before threads start (sb_math_start does it); the default is scalar. */
sb_status sb_dot_select(const char *name, sb_error *err);
const char *sb_dot_selected(void);

/* sb_math_check(), and selects the dot kernels, or "exact": the definition, whole (isa NULL means
 * the environment variable SAMEBIT_ISA, or "auto"). Every command calls it first. */
sb_status sb_math_start(const char *isa, sb_error *err);

/* Whether "exact" is selected: ops are those of ref/ops, no longer their twins. */
int sb_math_is_exact(void);

/* Set i of those that this CPU has, from the plainest to the best; NULL behind the last. The first
 * is "exact", which has no kernels. */
const sb_dot_kernels *sb_dot_set(size_t i);

/* RN32 of the exact sum of products; the same bits as sb_exact_dot for every input. */
float sb_dot(const float *a, const float *b, size_t n);
float sb_dot_strided(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n);
float sb_sum(const float *a, size_t n);

/* The same with each column of b (n, columns), whose rows are stride_b apart: out[j] is the dot
 * product with b[:, j]. out may be a row of b. */
void sb_dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                    size_t columns, float *out);

/* RN32( sum_i a[i] b[i] * mul[0] mul[1] / (div[0] div[1]) ), the same bits as exact.h, for values
 * as sb_exact_add_wide_product takes them: the rows of quantized weights and activations. */
float sb_dot_wide(const double *a, const double *b, size_t n, const sb_scalar *scalar);

/* The same for sums that a rounding test has left open already: errors are kept. */
float sb_dot_wide_slowly(const double *a, const double *b, size_t n, const sb_scalar *scalar);

/* The same for many sums that are likely to be alike: begins with what *effort says, of the three
 * ways to get at the bits, and leaves there the one that did. */
typedef enum sb_effort { SB_EFFORT_binary64, SB_EFFORT_compensated, SB_EFFORT_exact } sb_effort;
float sb_dot_wide_from(const double *a, const double *b, size_t n, const sb_scalar *scalar,
                       sb_effort *effort);

/* RN32 of the exact dot product of stored row `row` with x (matrix->cols values); the matrix must
 * be plain. */
float sb_dot_row(const sb_matrix *matrix, uint32_t row, const float *x);

/* The rounding test: nonzero, and *rounded set, if every real number within
 * error bound (n terms, magnitude) of partial.sum rounds to the same binary32. Public for tests and
 * for the benchmark's fallback rate. */
int sb_round_certain(sb_partial partial, size_t n, float *rounded);

/* The same where each term passes through at most `steps` roundings, those of its product and of
 * the magnitude included. */
int sb_round_within(sb_partial partial, size_t steps, float *rounded);

#endif
