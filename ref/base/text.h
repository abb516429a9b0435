/* text.h - prefixes and suffixes of texts, the last part of a path, and plurals. */
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

/* What follows the last '/' of a path; the whole path if there is none, "" if the path ends with
 * '/'. It points into path, so the length of the folder's part is the difference of both. */
static inline const char *sb_path_last(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The last part of a path as a title: the whole path if nothing follows the last '/'. */
static inline const char *sb_path_title(const char *path)
{
    const char *last = sb_path_last(path);
    return *last ? last : path;
}

/* "s" unless count is 1: printf("%zu round%s", n, sb_s(n)). */
static inline const char *sb_s(uint64_t count)
{
    return count == 1 ? "" : "s";
}

#endif
