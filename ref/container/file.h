/* file.h - reads whole files under a size limit; writes files to a temporary name and renames them
 * when complete. */
#ifndef SB_CONTAINER_FILE_H
#define SB_CONTAINER_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

/* Opens a regular file for reading and returns its size. Fails with SB_ERR_IO and the path in the
 * message. */
sb_status sb_open_regular(const char *path, int *fd, size_t *size, sb_error *err);

/* Tells the operating system how a part of a file is used: it is read in order, or no longer needed
 * in memory. 0 bytes: to the end of the file. Does nothing on a system that cannot be told. */
typedef enum sb_file_use { SB_FILE_in_order, SB_FILE_done } sb_file_use;
void sb_file_advise(int fd, uint64_t from, uint64_t bytes, sb_file_use use);

/* Reads a regular file of at most `limit` bytes. *bytes ends with an extra NUL that *count does not
 * include. free() releases *bytes. */
sb_status sb_read_file(const char *path, size_t limit, unsigned char **bytes, size_t *count,
                       sb_error *err);

/* Finds the path at which a file of this name is written: the end of the chain of links, even if no
 * file exists there. The caller frees *place. */
sb_status sb_file_place(const char *path, char **place, sb_error *err);

/* Writes a file. After success it is complete and on disk; after a failure the old file is
 * unchanged. Links are followed. Devices, pipes, and files that are the process's stdout, stderr or
 * /dev/fd/N are written directly, without a temporary file. */
sb_status sb_write_file(const char *path, const void *bytes, size_t count, sb_error *err);

/* Writes a file in steps, so that it need not be in memory as a whole: begin, any number of append,
 * sync, commit. abort, at any step, removes the temporary file. Several files can be synced before
 * the first is committed. */
typedef struct sb_file_out {
    char *path; /* the final path */
    char *temp; /* the temporary file; NULL if none has to be removed */
    int fd;     /* -1 after sync */
} sb_file_out;

sb_status sb_file_begin(const char *path, sb_file_out *out, sb_error *err);
sb_status sb_file_append(sb_file_out *out, const void *bytes, size_t count, sb_error *err);
sb_status sb_file_sync(sb_file_out *out, sb_error *err);
sb_status sb_file_commit(sb_file_out *out, sb_error *err);
void sb_file_abort(sb_file_out *out); /* also needed after commit, to free the struct */

/* Syncs the folder of a file, so that its names are on disk. A folder that cannot be read, or a
 * file system without sync (EINVAL), is not an error; any other failure is. */
sb_status sb_sync_folder_of(const char *path, sb_error *err);

/* Returns "dir/name", which the caller frees; NULL if out of memory. An empty dir gives "name". */
char *sb_path_join(const char *dir, const char *name);

/* True if there is a folder at the path, links followed. */
int sb_is_folder(const char *path);

#endif
