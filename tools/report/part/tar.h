/* tar.h - a POSIX ustar archive. Its bytes depend only on the files: no time, no owner, the given
 * order. */
#ifndef SB_REPORT_TAR_H
#define SB_REPORT_TAR_H

#include <stddef.h>

#include "ref/base/status.h"

typedef struct sb_tar_member {
    const char *name; /* at most 100 bytes */
    const void *bytes;
    size_t count;
} sb_tar_member;

/* Writes the whole file or none. */
sb_status sb_tar_write(const char *path, const sb_tar_member *members, size_t count, sb_error *err);

/* True if these may be the bytes of an archive. */
int sb_tar_is(const unsigned char *bytes, size_t count);

/* Finds a member by its name; *out points into the bytes. Reads the ustar archives of any program.
 * SB_ERR_INPUT, with the name `file`, if the member is missing or an entry before it is damaged. */
sb_status sb_tar_find(const unsigned char *bytes, size_t count, const char *file, const char *name,
                      sb_tar_member *out, sb_error *err);

/* The names of the members, separated by ", ", as far as they fit. */
void sb_tar_names(const unsigned char *bytes, size_t count, char *text, size_t room);

#endif
