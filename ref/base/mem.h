/* mem.h - checked allocation: zeroed memory, and NULL if the size overflows. */
#ifndef SB_BASE_MEM_H
#define SB_BASE_MEM_H

#include <stddef.h>

/* count * size zeroed bytes; NULL if the product overflows or memory is out. free() releases it. A
 * count of 0 gives a valid pointer, so that NULL always means failure. */
void *sb_alloc(size_t count, size_t size);

/* Grows an array. On failure returns NULL, and the old array stays valid. */
void *sb_realloc(void *old, size_t count, size_t size);

/* Returns a list of `count` items with room for one more: `old` itself if count is below *room;
 * else a list of twice the size, with *room updated. On failure returns NULL, and the old list
 * stays valid. */
void *sb_grow(void *old, size_t count, size_t *room, size_t size);

/* sb_alloc and free in the form of allocator hooks of other libraries, so that tests can make their
 * allocations fail, too. */
void *sb_alloc_hook(size_t bytes, void *unused);
void sb_free_hook(void *block, void *unused);

/* The bytes of a cache line; and the first line boundary from `memory` on (NULL for NULL). Vectors
 * that straddle two lines take twice as long. */
enum { SB_LINE = 64 };
void *sb_at_line(void *memory);

/* A copy of a string; NULL if memory is out. */
char *sb_strdup(const char *text);

/* For tests: the n-th allocation from now (1 = the next) fails, and all after it; 0 switches off.
 */
void sb_alloc_fail_at(unsigned long n);

#endif
