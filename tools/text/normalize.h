/* normalize.h - Unicode normalization form C. */
#ifndef SB_TOOLS_TEXT_NORMALIZE_H
#define SB_TOOLS_TEXT_NORMALIZE_H

#include <stddef.h>

#include "ref/base/status.h"

/* The NFC of well-formed UTF-8; free(*out) releases it. */
sb_status sb_nfc(const unsigned char *text, size_t bytes, unsigned char **out, size_t *size,
                 sb_error *err);

#endif
