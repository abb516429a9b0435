/* mem.h - checked allocation: zeroed memory, and NULL if the size overflows. */
#ifndef SB_BASE_MEM_H
#define SB_BASE_MEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* count * size zeroed bytes; NULL if the product overflows or the memory is exhausted. free()
 * releases the memory. A count of 0 gives a valid pointer, so that NULL always means failure. */
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

/* SB_LINE is the size of a cache line in bytes. sb_at_line() returns the first address from
 * `memory` on that is a multiple of SB_LINE (NULL for NULL). A vector across two cache lines takes
 * twice as long to load. */
enum { SB_LINE = 64 };
void *sb_at_line(void *memory);

/* A copy of a string; NULL if out of memory. */
char *sb_strdup(const char *text);

/* For tests: makes the n-th allocation from now (1 = the next) and all later ones fail; 0 switches
 * this off. */
void sb_alloc_fail_at(unsigned long n);

#ifdef __cplusplus
}
#endif

#endif
