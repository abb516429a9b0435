/* repeated_keys.h - which keys of millions of marks stand more than once, for check 13. */
#ifndef SB_CHECK_REPEATED_KEYS_H
#define SB_CHECK_REPEATED_KEYS_H

#include "tools/check/units.h"

/* All sb_mark_kind() that two marks of the units have, by rising value, in memory to be freed. 0 if
 * memory is out; then there are none. */
int sb_repeated_keys(const sb_units *units, uint64_t **keys, size_t *count);

int sb_is_repeated(const uint64_t *keys, size_t count, uint64_t key);

#endif
