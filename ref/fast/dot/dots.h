/* dots.h - many dot products of a few terms each, side by side, with the bits of sb_dot. */
#ifndef SB_DOT_DOTS_H
#define SB_DOT_DOTS_H

#include <stddef.h>

/* One term: a[j] b[j] for result j, or a[j] b[0] if b_stride is 0. */
typedef struct sb_dots_term {
    const float *a, *b;
    size_t b_stride; /* 0 or 1 */
} sb_dots_term;

/* out[j] = RN32( sum over n terms ), j < count. No array of a term may overlap out. */
void sb_dots(const sb_dots_term *terms, size_t n, size_t count, float *out);

#endif
