#include "ref/container/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"

static sb_status io_failed(const char *doing, const char *path, sb_error *err)
{
    return sb_fail(err, SB_ERR_IO, "%s: cannot %s: %s", SB_SHOW(path), doing, strerror(errno));
}

void sb_file_advise(int fd, uint64_t from, uint64_t bytes, sb_file_use use)
{
#ifdef POSIX_FADV_DONTNEED
    static const int advice[] = {
        [SB_FILE_in_order] = POSIX_FADV_SEQUENTIAL, [SB_FILE_done] = POSIX_FADV_DONTNEED};
    (void)posix_fadvise(fd, (off_t)from, (off_t)bytes, advice[use]);
#else
    (void)fd, (void)from, (void)bytes, (void)use;
#endif
}

sb_status sb_open_regular(const char *path, int *fd, size_t *size, sb_error *err)
{
    struct stat info;
    /* O_NONBLOCK, because opening a pipe must not block */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return io_failed("open", path, err);
    if (fstat(opened, &info) != 0) {
        sb_status status = io_failed("stat", path, err);
        close(opened);
        return status;
    }
    if (!S_ISREG(info.st_mode)) {
        close(opened);
        return sb_fail(err, SB_ERR_IO, "%s: is %s, expected a regular file", SB_SHOW(path),
                       S_ISDIR(info.st_mode) ? "a folder" : "a pipe, socket or device");
    }
    if ((uintmax_t)info.st_size > SIZE_MAX - 1) {
        close(opened);
        return sb_fail(err, SB_ERR_MEMORY, "%s: too large for this machine's addresses",
                       SB_SHOW(path));
    }
    *fd = opened;
    *size = (size_t)info.st_size;
    return SB_OK;
}

/* Reads exactly count bytes. */
static sb_status read_all(int fd, const char *path, unsigned char *bytes, size_t count,
                          sb_error *err)
{
    size_t done = 0;
    while (done < count) {
        ssize_t got = read(fd, bytes + done, count - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_failed("read", path, err);
        if (got == 0)
            return sb_fail(err, SB_ERR_IO, "%s: ended after %zu bytes, expected %zu", SB_SHOW(path),
                           done, count);
        done += (size_t)got;
    }
    return SB_OK;
}

sb_status sb_read_file(const char *path, size_t limit, unsigned char **bytes, size_t *count,
                       sb_error *err)
{
    int fd;
    size_t size;
    sb_status status = sb_open_regular(path, &fd, &size, err);
    if (status != SB_OK)
        return status;
    unsigned char *block = NULL;
    if (size > limit) {
        status = sb_fail(err, SB_ERR_INPUT, "%s: has %zu bytes, expected at most %zu",
                         SB_SHOW(path), size, limit);
        goto out;
    }
    block = sb_alloc(size + 1, 1);
    if (!block) {
        status =
            sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu bytes", SB_SHOW(path), size);
        goto out;
    }
    status = read_all(fd, path, block, size, err);
out:
    close(fd);
    if (status != SB_OK) {
        free(block);
        return status;
    }
    *bytes = block;
    *count = size;
    return SB_OK;
}

char *sb_path_join(const char *dir, const char *name)
{
    size_t dir_bytes = strlen(dir);
    size_t room = dir_bytes + strlen(name) + 2;
    char *path = sb_alloc(room, 1);
    if (path) {
        int slash = dir_bytes > 0 && dir[dir_bytes - 1] != '/';
        snprintf(path, room, "%s%s%s", dir, slash ? "/" : "", name);
    }
    return path;
}

/* Opens a new temporary file. The name contains the name of the final file, so that a file left by
 * a crash can be recognised. It does not end in .safetensors, so that the folder stays a readable
 * checkpoint. */
static sb_status open_temp(sb_file_out *out, sb_error *err)
{
    size_t room = strlen(out->path) + 64;
    out->temp = sb_alloc(room, 1);
    if (!out->temp)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(out->path));
    for (unsigned i = 0; i < 100; i++) {
        snprintf(out->temp, room, "%s.tmp-%ld-%u", out->path, (long)getpid(), i);
        out->fd = open(out->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd >= 0)
            return SB_OK;
        if (errno != EEXIST)
            break;
    }
    sb_status status = io_failed("create", out->temp, err);
    free(out->temp);
    out->temp = NULL;
    return status;
}

/* --- the target of a path --------------------------------------------------------------------- */

enum { LINKS = 40, LINK_BYTES = 4096 };

/* The target of a link as a path from the current folder; the caller frees it. If path is not a
 * link, returns NULL and sets *wrong to 0. If the link cannot be followed, returns NULL and sets
 * *wrong to 1. */
static char *behind(const char *path, int *wrong)
{
    char text[LINK_BYTES];
    ssize_t count = readlink(path, text, sizeof text);
    *wrong = count == (ssize_t)sizeof text;
    if (count <= 0 || *wrong)
        return NULL;
    text[count] = '\0';
    size_t keep = text[0] != '/' ? (size_t)(sb_path_last(path) - path) : 0;
    char *to = sb_alloc(keep + (size_t)count + 1, 1);
    *wrong = !to;
    if (to) {
        memcpy(to, path, keep);
        memcpy(to + keep, text, (size_t)count + 1);
    }
    return to;
}

sb_status sb_file_place(const char *path, char **place, sb_error *err)
{
    int wrong = 0;
    char *at = sb_strdup(path), *next;
    if (!at)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    for (int links = 0; (next = behind(at, &wrong)) != NULL; links++) {
        free(at);
        at = next;
        if (links == LINKS) {
            free(at);
            return sb_fail(err, SB_ERR_IO, "%s: more than %d links in a row", SB_SHOW(path), LINKS);
        }
    }
    if (wrong) {
        free(at);
        return sb_fail(err, SB_ERR_IO, "%s: its link cannot be followed", SB_SHOW(path));
    }
    *place = at;
    return SB_OK;
}

/* The open descriptor that a path names: the number in "/dev/fd/3", or stdout or stderr if the path
 * is the file to which they write. Returns -1 if the path names none. A file with an open
 * descriptor must not be replaced, because the output of other writers would be lost. */
static int named_descriptor(const char *path, const struct stat *info)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < 2; i++) {
        const char *number = path + strlen(folders[i]);
        if (strncmp(path, folders[i], strlen(folders[i])) == 0 && *number &&
            strspn(number, "0123456789") == strlen(number) && strlen(number) < 8)
            return (int)strtol(number, NULL, 10);
    }
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat own;
        if (fstat(fd, &own) == 0 && own.st_dev == info->st_dev && own.st_ino == info->st_ino)
            return fd;
    }
    return -1;
}

/* Opens the file if it has to be written directly. For other files out->fd stays -1. */
static sb_status open_straight(sb_file_out *out, sb_error *err)
{
    struct stat info;
    if (stat(out->path, &info) != 0)
        return SB_OK; /* does not exist, or is a dangling link */
    if (S_ISDIR(info.st_mode))
        return sb_fail(err, SB_ERR_IO, "%s: is a folder, expected the name of a file",
                       SB_SHOW(out->path));
    int fd = named_descriptor(out->path, &info);
    if (fd < 0 && S_ISREG(info.st_mode))
        return SB_OK;
    if (fd >= 0)
        fflush(stdout); /* so that earlier output comes first */
    out->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : open(out->path, O_WRONLY | O_CLOEXEC);
    return out->fd >= 0 ? SB_OK : io_failed("open for writing", out->path, err);
}

sb_status sb_file_begin(const char *path, sb_file_out *out, sb_error *err)
{
    *out = (sb_file_out){.path = sb_strdup(path), .fd = -1};
    if (!out->path)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    char *place = NULL;
    sb_status status = open_straight(out, err);
    if (!status && out->fd < 0)
        status = sb_file_place(path, &place, err);
    if (place) {
        free(out->path);
        out->path = place;
        status = open_temp(out, err);
    }
    if (status != SB_OK)
        sb_file_abort(out);
    return status;
}

static const char *written(const sb_file_out *out)
{
    return out->temp ? out->temp : out->path;
}

sb_status sb_file_append(sb_file_out *out, const void *bytes, size_t count, sb_error *err)
{
    const unsigned char *from = bytes;
    size_t done = 0;
    while (done < count) {
        ssize_t put = write(out->fd, from + done, count - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return io_failed("write", written(out), err);
        done += (size_t)put;
    }
    return SB_OK;
}

/* A device or a pipe returns EINVAL and has nothing to sync. */
sb_status sb_file_sync(sb_file_out *out, sb_error *err)
{
    sb_status status = SB_OK;
    if (fsync(out->fd) != 0 && (out->temp || (errno != EINVAL && errno != EROFS)))
        status = io_failed("sync", written(out), err);
    /* a full disk may be reported only now */
    if (close(out->fd) != 0 && status == SB_OK)
        status = io_failed("close", written(out), err);
    out->fd = -1;
    return status;
}

sb_status sb_sync_folder_of(const char *path, sb_error *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? sb_strdup(path) : sb_strdup(".");
    sb_status status = SB_OK;
    if (!folder)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    if (slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0 ? errno != EACCES : fsync(fd) != 0 && errno != EINVAL)
        status = io_failed(fd < 0 ? "open to sync" : "sync", folder, err);
    if (fd >= 0)
        close(fd);
    free(folder);
    return status;
}

sb_status sb_file_commit(sb_file_out *out, sb_error *err)
{
    if (!out->temp)
        return SB_OK; /* the file was written directly */
    if (rename(out->temp, out->path) != 0)
        return io_failed("rename the finished file to this name", out->path, err);
    free(out->temp);
    out->temp = NULL;
    return sb_sync_folder_of(out->path, err);
}

void sb_file_abort(sb_file_out *out)
{
    if (out->fd >= 0 && out->path)
        close(out->fd);
    if (out->temp)
        unlink(out->temp);
    free(out->temp);
    free(out->path);
    *out = (sb_file_out){.fd = -1};
}

sb_status sb_write_file(const char *path, const void *bytes, size_t count, sb_error *err)
{
    sb_file_out out;
    sb_status status = sb_file_begin(path, &out, err);
    if (status != SB_OK)
        return status;
    status = sb_file_append(&out, bytes, count, err);
    if (status == SB_OK)
        status = sb_file_sync(&out, err);
    if (status == SB_OK)
        status = sb_file_commit(&out, err);
    sb_file_abort(&out);
    return status;
}

int sb_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}
