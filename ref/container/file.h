/* file.h - whole files: read under a limit, written to a temporary name and renamed when whole. */
#ifndef SB_CONTAINER_FILE_H
#define SB_CONTAINER_FILE_H

#include <stddef.h>

#include "ref/base/status.h"

/* Opens a regular file for reading and tells its size. SB_ERR_IO, naming the path, on failure. */
sb_status sb_open_regular(const char *path, int *fd, size_t *size, sb_error *err);

/* Reads a regular file of at most `limit` bytes. *bytes has a NUL behind its end, which *count does
 * not count; free() releases it. */
sb_status sb_read_file(const char *path, size_t limit, unsigned char **bytes, size_t *count,
                       sb_error *err);

/* Where a file of this name is written: at the end of the links that the name leads along, whether
 * something stands there or not; for the caller to free(). */
sb_status sb_file_place(const char *path, char **place, sb_error *err);

/* Writes a file: after success it is whole and on disk; after failure what stood there before
 * stands there still. A link is followed. What is no regular file, a device or a pipe, is written
 * straight, and so is what the process has as its stdout, its stderr or /dev/fd/N. */
sb_status sb_write_file(const char *path, const void *bytes, size_t count, sb_error *err);

/* The same in steps, for a file that is not in memory at once. begin, any number of append, sync,
 * commit; abort in place of any of them removes the temporary file. Several files can be synced
 * before the first is committed. */
typedef struct sb_file_out {
    char *path; /* where it shall stand */
    char *temp; /* where it is written; NULL when nothing is there to remove, or written straight */
    int fd;     /* -1 after sync */
} sb_file_out;

sb_status sb_file_begin(const char *path, sb_file_out *out, sb_error *err);
sb_status sb_file_append(sb_file_out *out, const void *bytes, size_t count, sb_error *err);
sb_status sb_file_sync(sb_file_out *out, sb_error *err);
sb_status sb_file_commit(sb_file_out *out, sb_error *err);
void sb_file_abort(sb_file_out *out); /* also releases a file_out after commit */

/* The names in the folder of a file are on the disk. A folder that may not be read, or a file
 * system that has nothing to sync (EINVAL), keeps its own promises; any other failure is one. */
sb_status sb_sync_folder_of(const char *path, sb_error *err);

/* "dir/name", for the caller to free(); NULL if memory is out. An empty dir gives "name". */
char *sb_path_join(const char *dir, const char *name);

#endif
