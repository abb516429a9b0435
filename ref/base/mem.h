/* mem.h - checked allocation: zeroed, and NULL instead of a size that overflows. */
#ifndef SB_BASE_MEM_H
#define SB_BASE_MEM_H

#include <stddef.h>

/* count * size zeroed bytes; NULL if the product overflows or memory is out. free() releases it.
 * A count of 0 gives a valid pointer to nothing, so that NULL always means failure. */
void *sb_alloc(size_t count, size_t size);

/* Grows an array; on failure NULL, and the old array is still there. */
void *sb_realloc(void *old, size_t count, size_t size);

/* A list of `count` items with room for one more: `old` itself while count is below *room, else
 * twice as large, and *room with it. On failure NULL, and the old list is still there. */
void *sb_grow(void *old, size_t count, size_t *room, size_t size);

/* sb_alloc and free as libraries with an allocator of the caller's ask for them, so that the
 * allocations of these fail where a test wants it, too. */
void *sb_alloc_hook(size_t bytes, void *unused);
void sb_free_hook(void *block, void *unused);

/* Bytes of a line of the cache, and the first one from `memory` on; NULL of NULL. Vectors that
 * straddle two lines take twice as long. */
enum { SB_LINE = 64 };
void *sb_at_line(void *memory);

/* A copy of a string; NULL if memory is out. */
char *sb_strdup(const char *text);

/* For tests: the n-th allocation from now (1 = the next) fails, and all after it; 0 switches off.
 */
void sb_alloc_fail_at(unsigned long n);

#endif
