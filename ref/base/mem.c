#include "ref/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static unsigned long fail_at;

void sb_alloc_fail_at(unsigned long n)
{
    fail_at = n;
}

/* True if this allocation has to fail. The counter stops at 1, so that all later ones fail too. */
static int must_fail(void)
{
    if (fail_at == 0)
        return 0;
    if (fail_at == 1)
        return 1;
    fail_at--;
    return 0;
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

char *sb_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = sb_alloc(bytes, 1);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}
