/* content.h - whether bytes say enough to be the same at two places by nothing but a copy. */
#ifndef SB_CHECK_CONTENT_H
#define SB_CHECK_CONTENT_H

#include <stddef.h>

/* Each byte is the one `period` bytes before it, for some period up to `most`. */
int sb_is_periodic(const unsigned char *bytes, size_t count, size_t most);

/* Minus the logarithm to base 2, rounded down, of the chance that other bytes which are as frequent
 * as these come out the same. */
unsigned sb_bits_said(const unsigned char *bytes, size_t count);

#endif
