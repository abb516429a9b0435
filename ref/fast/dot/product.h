/* product.h - dot products of a few vectors with the rows of a long array, and weighted sums of
 * these rows, for attention. The bits are those of sb_dot for each pair of vectors. */
#ifndef SB_DOT_PRODUCT_H
#define SB_DOT_PRODUCT_H

#include <stddef.h>

/* The rows of one head in the KV cache. */
typedef struct sb_rows {
    const float *at; /* (count, n), rows stride apart */
    size_t stride, count, n;
    float factor; /* multiplies every sum with these rows (K-24), finite */
} sb_rows;

/* out[h out_stride + u] = RN32( factor dot(a_h, row_u) ); a (heads, n) */
void sb_product_dots(const float *a, size_t heads, const sb_rows *b, float *out, size_t out_stride);

/* The number of rows of a part. Different threads may sum different parts of an array. */
enum { SB_PRODUCT_PART = 2048 };
static inline size_t sb_product_parts(size_t count)
{
    return (count + SB_PRODUCT_PART - 1) / SB_PRODUCT_PART;
}

/* Computes the sum of p[h p_stride + u] row_u[i] over the rows u of part `part`, and an upper bound
 * of the sum of magnitudes. sum and magnitude are (parts, heads, n). */
void sb_product_part(const float *p, size_t p_stride, size_t heads, const sb_rows *v, size_t part,
                     double *sum, double *magnitude);

/* out[h n + i] = RN32( factor dot(p_h, v[:, i]) ) from all parts, for head h. */
void sb_product_join(const float *p, size_t heads, size_t h, const sb_rows *v, const double *sum,
                     const double *magnitude, float *out);

#endif
