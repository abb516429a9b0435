/* dot.h - the reductions that the ops call, with the bits of exact.h at the speed of binary64.
 *
 * A kernel adds the products in binary64, where each product is exact, in any order. It returns the
 * sum and an upper bound of the sum of magnitudes. If all real numbers within the error bound round
 * to the same binary32, this is the answer. Otherwise the result is still open, and exact.h
 * decides. */
#ifndef SB_DOT_DOT_H
#define SB_DOT_DOT_H

#include <stddef.h>

#include "ref/base/status.h"
#include "ref/formats/matrix.h"
#include "ref/fast/dot/superacc.h"
#include "ref/math/exact.h"
#include "ref/fast/dot/compensated.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sb_partial {
    double sum;       /* sum of the products, rounded at every addition */
    double magnitude; /* sum of their absolute values, rounded likewise */
} sb_partial;

/* A stored row for the row kernels: element j at bit j * bits, low nibble first. */
typedef struct sb_row_codes {
    const unsigned char *codes;
    const double *scales; /* one for each `group` columns, exact; NULL: scale_codes, or all 1 (never
                             for codes of four bits) */
    const unsigned char *scale_codes; /* the scales in E4M3, if reads_scales() accepts them */
    const double *zeros; /* one for each group, subtracted from integer codes; NULL: 0 */
    size_t group;        /* a multiple of 16, or at least n */
    size_t n;
} sb_row_codes;

/* An input made by sb_row_prepare. x and lanes are aligned to 64 bytes and padded with zeros to a
 * multiple of two blocks of columns. If an input is not finite, some element of x16 is not
 * finite. */
enum { SB_ROW_BLOCK = 128 };
typedef struct sb_row_input {
    const double *x;     /* (n) */
    const double *x16;   /* sums of the magnitudes of each 16 neighbours */
    const double *lanes; /* x in the order of the kernel, if the kernel needs another order */
    double size;         /* the sum of x16 */
    double squares;      /* the sum of squares of x, if the kernel needs it */
} sb_row_input;

enum { SB_SMALL_GEMM_ROWS = 4, SB_SMALL_GEMM_INPUTS = 32 };

/* The kernel set of an instruction set. The set is chosen once, at start, and the choice never
 * changes a bit. */
typedef struct sb_dot_kernels {
    const char *name; /* "exact", "scalar", "avx2", "avx512", "avx512vnni", "neon" */
    sb_partial (*f32)(const float *a, const float *b, size_t n);
    sb_partial (*bf16)(const unsigned char *w, const float *x, size_t n); /* little-endian codes */
    sb_partial (*f16)(const unsigned char *w, const float *x, size_t n);
    sb_partial (*f64)(const double *a, const double *b, size_t n); /* products may round */
    /* for each column j < count, the sum of a[i stride_a] b[i stride_b + j] over i < n */
    void (*columns)(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                    size_t count, sb_partial *partials);
    /* for each format, multiplies a row of codes by an input (contract in row.h); NULL: none */
    sb_partial (*row[SB_FORMAT_COUNT])(const sb_row_codes *w, const sb_row_input *x);
    const struct sb_tile_kernels *tile;         /* several rows with many inputs: tile.h */
    unsigned char tile_inputs[SB_FORMAT_COUNT]; /* least inputs for which a tile is faster than
                                                   rows; 0 means 2 */
    const struct sb_strip_kernels *strip;       /* interleaved rows: strips.h; NULL: none */
    /* as `row`, for two rows that differ only in codes, scales and zeros; NULL: none */
    void (*pair[SB_FORMAT_COUNT])(const sb_row_codes w[2], const sb_row_input *x,
                                  sb_partial partials[2]);
    /* as `row`, for SB_SMALL_GEMM_ROWS rows with scale_codes and at least one column, and for up to
     * SB_SMALL_GEMM_INPUTS inputs; the result of row r and input t is at [t * stride + r]; NULL:
     * none */
    void (*many[SB_FORMAT_COUNT])(const sb_row_codes *w, const sb_row_input *x, size_t inputs,
                                  double *sums, double *magnitudes, size_t stride);
    /* fills sb_row_input.lanes from n columns of x, then with zeros up to the last element that
     * row[format] reads; NULL: row[format] reads x */
    void (*arrange[SB_FORMAT_COUNT])(const double *x, size_t n, double *lanes);
    /* the sum of magnitudes of each of `count` groups of 16 elements of x. NULL: plain C is used */
    void (*magnitudes)(const double *x, size_t count, double *sums);
    /* for row[format]: the sum of squares of x, n a multiple of 16; each square passes through at
     * most n roundings. NULL: row[format] does not need it */
    double (*squares[SB_FORMAT_COUNT])(const double *x, size_t n);
    /* decodes E4M3 codes to doubles; returns 0, with arbitrary values, if a code is negative or
     * NaN. May be NULL */
    int (*scales)(const unsigned char *codes, size_t n, double *values);
    /* finds doubles whose sum is exactly that of the products, for valid operands of sb_dot_wide;
     * returns 0 if there are no such doubles. May be NULL */
    int (*parts)(const double *a, const double *b, size_t n, double parts[SB_PARTS]);
    /* true if row[e2m1] accepts these n E4M3 codes, one for each 16 columns, as scale_codes. May be
     * NULL */
    int (*reads_scales)(const unsigned char *codes, size_t n);
    void (*kept)(sb_compensated *to, const double *a, const double *b,
                 size_t n); /* NULL: sb_compensated_add */
} sb_dot_kernels;

/* Chooses the kernels: name is "auto" (the best set of this CPU), the name of a set, or "exact",
 * which computes every reduction by exact.h. SB_ERR_USAGE if the CPU or the name has no such
 * kernels. Must be called before threads start (sb_math_start does it); the default is scalar. */
sb_status sb_dot_select(const char *name, sb_error *err);
const char *sb_dot_selected(void);

/* Calls sb_math_check() and selects the dot kernels. "exact" selects the definitions of all ops,
 * too. isa NULL: the environment variable SAMEBIT_ISA, or "auto". Every command calls this function
 * first. */
sb_status sb_math_start(const char *isa, sb_error *err);

/* True if "exact" is selected: the ops are the definitions in ref/ops, not their twins. */
int sb_math_is_exact(void);

/* Kernel set i of this CPU, from the simplest to the fastest; NULL past the last set. The first is
 * "exact", which has no kernels. */
const sb_dot_kernels *sb_dot_set(size_t i);

/* RN32 of the exact sum of products; the same bits as sb_exact_dot for every input. */
float sb_dot(const float *a, const float *b, size_t n);
float sb_dot_strided(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n);
float sb_sum(const float *a, size_t n);

/* The dot products of a with the columns of b (n, columns): out[j] = dot(a, b[:, j]). The rows of b
 * are stride_b apart. out may be a row of b. */
void sb_dot_columns(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n,
                    size_t columns, float *out);

/* RN32( sum_i a[i] b[i] * mul[0] mul[1] / (div[0] div[1]) ), with the bits of exact.h. The operands
 * must be valid for sb_exact_add_wide_product, as rows of quantized weights and activations are. */
float sb_dot_wide(const double *a, const double *b, size_t n, const sb_scalar *scalar);

/* As sb_dot_wide, for sums that a rounding test could not decide: begins with a compensated sum. */
float sb_dot_wide_slowly(const double *a, const double *b, size_t n, const sb_scalar *scalar);

/* As sb_dot_wide, for many similar sums: begins with the method *effort, and sets *effort to the
 * method that decided the result. */
typedef enum sb_effort { SB_EFFORT_binary64, SB_EFFORT_compensated, SB_EFFORT_exact } sb_effort;
float sb_dot_wide_from(const double *a, const double *b, size_t n, const sb_scalar *scalar,
                       sb_effort *effort);

/* RN32 of the exact dot product of stored row `row` with x (matrix->cols values); the matrix must
 * be plain. */
float sb_dot_row(const sb_matrix *matrix, uint32_t row, const float *x);

/* The rounding test: returns nonzero and sets *rounded if every real number within error bound (n
 * terms, magnitude) of partial.sum rounds to the same binary32. Public for tests and for the
 * fallback rate of the benchmark. */
int sb_round_certain(sb_partial partial, size_t n, float *rounded);

/* The rounding test if each term passes through at most `steps` roundings, in the sum as well as in
 * the magnitude. The rounding of its product is included. */
int sb_round_within(sb_partial partial, size_t steps, float *rounded);

#ifdef __cplusplus
}
#endif

#endif
