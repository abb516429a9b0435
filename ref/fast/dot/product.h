/* product.h - a few vectors with the rows of a long array, and weighted sums of these rows: what
 * attention does with keys and values. Same bits as sb_dot of each pair. */
#ifndef SB_DOT_PRODUCT_H
#define SB_DOT_PRODUCT_H

#include <stddef.h>

/* Rows of one head in the cache. */
typedef struct sb_rows {
    const float *at; /* (count, n), rows stride apart */
    size_t stride, count, n;
    float factor; /* stands before every sum with them (K-24), finite */
} sb_rows;

/* out[h out_stride + u] = RN32( factor dot(a_h, row_u) ); a (heads, n) */
void sb_product_dots(const float *a, size_t heads, const sb_rows *b, float *out, size_t out_stride);

/* Rows of one partial sum; those of an array may be added by many threads, part by part. */
enum { SB_PRODUCT_PART = 2048 };
static inline size_t sb_product_parts(size_t count)
{
    return (count + SB_PRODUCT_PART - 1) / SB_PRODUCT_PART;
}

/* Sum of p[h p_stride + u] row_u[i] over the rows of part `part`, and a bound of the sum of
 * magnitudes: sum and magnitude (parts, heads, n). */
void sb_product_part(const float *p, size_t p_stride, size_t heads, const sb_rows *v, size_t part,
                     double *sum, double *magnitude);

/* out[h n + i] = RN32( factor dot(p_h, v[:, i]) ) from all parts, for head h. */
void sb_product_join(const float *p, size_t heads, size_t h, const sb_rows *v, const double *sum,
                     const double *magnitude, float *out);

#endif
