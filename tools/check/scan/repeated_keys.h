/* repeated_keys.h - check 13: which keys, of millions of marks, occur more than once. */
#ifndef SB_CHECK_REPEATED_KEYS_H
#define SB_CHECK_REPEATED_KEYS_H

#include "tools/check/read/units.h"

enum { SB_KEY_BITS = 18 };

/* Keys in ascending order. Most keys that are asked for are not among them: `maybe` has one bit for
 * each value of the first SB_KEY_BITS bits of a key, which is set if a key begins with it. */
typedef struct sb_key_set {
    uint64_t *keys;
    size_t count;
    unsigned char *maybe;
} sb_key_set;

/* All values of sb_mark_kind() that at least two marks of the units have. Returns 0 if memory runs
 * out; the set is empty then. */
int sb_repeated_keys(const sb_units *units, sb_key_set *out);

int sb_key_set_has(const sb_key_set *set, uint64_t key);

void sb_key_set_free(sb_key_set *set);

#endif
