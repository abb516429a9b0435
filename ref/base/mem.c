#include "ref/base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_ulong fail_at; /* atomic, because several threads open files */

void sb_alloc_fail_at(unsigned long n)
{
    fail_at = n;
}

/* True if this allocation has to fail. The counter stops at 1, so that all later allocations fail,
 * too. */
static int must_fail(void)
{
    unsigned long left = atomic_load_explicit(&fail_at, memory_order_relaxed);
    while (left > 1 && !atomic_compare_exchange_weak(&fail_at, &left, left - 1))
        ;
    return left == 1;
}

void *sb_alloc(size_t count, size_t size)
{
    if (must_fail())
        return NULL;
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

void *sb_realloc(void *old, size_t count, size_t size)
{
    if (must_fail())
        return NULL;
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    size_t bytes = count * size;
    return realloc(old, bytes > 0 ? bytes : 1);
}

void *sb_grow(void *old, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return old;
    size_t more = *room ? 2 * *room : 16;
    void *grown = *room <= SIZE_MAX / 2 ? sb_realloc(old, more, size) : NULL;
    if (grown)
        *room = more;
    return grown;
}

void *sb_alloc_hook(size_t bytes, void *unused)
{
    (void)unused;
    return sb_alloc(bytes, 1);
}

void sb_free_hook(void *block, void *unused)
{
    (void)unused;
    free(block);
}

void *sb_at_line(void *memory)
{
    const size_t past = (size_t)((uintptr_t)memory % SB_LINE);
    return past ? (char *)memory + (SB_LINE - past) : memory;
}

char *sb_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = sb_alloc(bytes, 1);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}
