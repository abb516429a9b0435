/* splice.h - replaces a part of bytes in memory by another one, of any length. */
#ifndef SB_TESTS_LIB_SPLICE_H
#define SB_TESTS_LIB_SPLICE_H

#include <stdlib.h>
#include <string.h>

/* Replaces the `old` bytes at `at` of *bytes by the n bytes of `by`. *bytes is from malloc and
 * moves. */
static inline void splice(unsigned char **bytes, size_t *size, size_t at, size_t old,
                          const void *by, size_t n)
{
    const size_t tail = *size - at - old;
    unsigned char *out = malloc(at + n + tail + 1);
    if (!out)
        abort();
    memcpy(out, *bytes, at);
    memcpy(out + at, by, n);
    memcpy(out + at + n, *bytes + at + old, tail);
    free(*bytes);
    *bytes = out;
    *size = at + n + tail;
}

#endif
