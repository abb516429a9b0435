/* text.h - prefixes and suffixes of texts, and plurals. */
#ifndef SB_BASE_TEXT_H
#define SB_BASE_TEXT_H

#include <stdint.h>
#include <string.h>

static inline int sb_starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static inline int sb_ends(const char *text, const char *with)
{
    size_t n = strlen(text), tail = strlen(with);
    return n >= tail && strcmp(text + n - tail, with) == 0;
}

/* "s" unless count is 1: printf("%zu round%s", n, sb_s(n)). */
static inline const char *sb_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

#endif
