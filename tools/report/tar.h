/* tar.h - a pack of files whose bytes depend on nothing but the files: POSIX ustar, no clock, no
 * owner, in the order given. */
#ifndef SB_REPORT_TAR_H
#define SB_REPORT_TAR_H

#include <stddef.h>

#include "ref/base/status.h"

typedef struct sb_tar_member {
    const char *name; /* at most 100 bytes */
    const void *bytes;
    size_t count;
} sb_tar_member;

/* Whole, or not at all. */
sb_status sb_tar_write(const char *path, const sb_tar_member *members, size_t count, sb_error *err);

/* Whether these may be the bytes of a pack. */
int sb_tar_is(const unsigned char *bytes, size_t count);

/* A member by its name, within the bytes: SB_ERR_INPUT, naming the file, if it is not there or
 * what stands before it is damaged. Of any program's ustar. */
sb_status sb_tar_find(const unsigned char *bytes, size_t count, const char *file, const char *name,
                      sb_tar_member *out, sb_error *err);

/* The names of all members, ", " between them; as many as there is room for. */
void sb_tar_names(const unsigned char *bytes, size_t count, char *text, size_t room);

#endif
