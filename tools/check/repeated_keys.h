/* repeated_keys.h - check 13: which keys, of millions of marks, occur more than once. */
#ifndef SB_CHECK_REPEATED_KEYS_H
#define SB_CHECK_REPEATED_KEYS_H

#include "tools/check/units.h"

/* All values of sb_mark_kind() that at least two marks of the units have, in ascending order. The
 * caller frees the memory. Returns 0 if memory runs out; there are no keys then. */
int sb_repeated_keys(const sb_units *units, uint64_t **keys, size_t *count);

int sb_is_repeated(const uint64_t *keys, size_t count, uint64_t key);

#endif
