/* plain_dot.h - the sums of plain programs, for tests of bounds. */
#ifndef SB_TESTS_LIB_PLAIN_DOT_H
#define SB_TESTS_LIB_PLAIN_DOT_H

#include <stddef.h>

/* A sum of products in binary32: forwards, backwards, or in eight lanes. */
static inline float dot(const float *a, size_t step_a, const float *b, size_t step_b, size_t n,
                        int order)
{
    float lane[8] = {0.0f}, sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        size_t at = order == 1 ? n - 1 - i : i;
        lane[order == 2 ? i % 8 : 0] += a[at * step_a] * b[at * step_b];
    }
    for (size_t i = 0; i < 8; i++)
        sum += lane[i];
    return sum;
}

#endif
