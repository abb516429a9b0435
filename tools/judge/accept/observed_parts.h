/* observed_parts.h - for observed.c: one reader per form. */
#ifndef SB_ACCEPT_OBSERVED_PARTS_H
#define SB_ACCEPT_OBSERVED_PARTS_H

#include "tools/judge/accept/observed.h"

sb_status sb_observed_prometheus(const char *text, size_t n, const char *file, sb_observed *out,
                                 sb_error *err);
sb_status sb_observed_json(const char *text, size_t n, const char *file, sb_observed *out,
                           sb_error *err);

/* Adds to a sum; nonzero if the sum would exceed the limit. */
int sb_observed_add(uint64_t *sum, uint64_t more);

#endif
