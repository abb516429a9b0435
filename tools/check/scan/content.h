/* content.h - do bytes contain enough information that equal bytes at two places must be a copy? */
#ifndef SB_CHECK_CONTENT_H
#define SB_CHECK_CONTENT_H

#include <stddef.h>

/* 1 if for some period up to `most` each byte equals the byte `period` bytes before it. */
int sb_is_periodic(const unsigned char *bytes, size_t count, size_t most);

/* -log2, rounded down, of the probability that random bytes with the same frequencies are equal to
 * these. */
unsigned sb_bits_said(const unsigned char *bytes, size_t count);

#endif
