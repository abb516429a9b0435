#define _GNU_SOURCE /* renameat2 */

#include "ref/container/target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
}

static sb_status io_failed(const char *path, const char *doing, sb_error *err)
{
    return sb_fail(err, SB_ERR_IO, "%s: cannot %s: %s", SB_SHOW(path), doing, strerror(errno));
}

sb_status sb_each_entry(const char *folder, sb_entry_fn visit, void *ctx, sb_error *err)
{
    DIR *dir = opendir(folder);
    sb_status status = SB_OK;
    if (!dir)
        return io_failed(folder, "list", err);
    for (;;) {
        struct stat info;
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry && errno)
            status = io_failed(folder, "list", err);
        if (!entry || status)
            break;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *path = sb_path_join(folder, entry->d_name);
        if (!path)
            status = no_memory(err);
        else if (lstat(path, &info) != 0)
            status = io_failed(path, "stat", err);
        else
            status = visit(ctx, path, entry->d_name, &info, err);
        free(path);
        if (status)
            break;
    }
    closedir(dir);
    return status;
}

static char *with_suffix(const char *path, const char *suffix)
{
    char *out = sb_alloc(strlen(path) + strlen(suffix) + 1, 1);
    if (out) {
        strcpy(out, path);
        strcat(out, suffix);
    }
    return out;
}

int sb_target_is_passing(const char *folder)
{
    static const char *const suffixes[] = {".partial", ".replaced"};
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t m = strlen(suffixes[i]);
        if (n > m && strncmp(folder + n - m, suffixes[i], m) == 0)
            return 1;
    }
    return 0;
}

/* --- opening ---------------------------------------------------------------------------------- */

/* True if a folder cannot be renamed: its name is "." or "..", or it is a mount point (it and its
 * parent are on different devices), or its parent is not writable. */
static int stays(const char *place)
{
    struct stat own, above;
    const char *name = sb_path_last(place);
    char *parent = with_suffix(place, "/..");
    int is = parent && stat(place, &own) == 0 && S_ISDIR(own.st_mode) &&
             stat(parent, &above) == 0 &&
             (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
              own.st_dev != above.st_dev || access(parent, W_OK) != 0);
    free(parent);
    return is;
}

/* 1 if a process holds the lock of the folder. */
static int is_locked(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static sb_status in_the_way(const char *path, sb_error *err)
{
    if (is_locked(path))
        return sb_fail(err, SB_ERR_USAGE, "%s: exists, another process is writing it",
                       SB_SHOW(path));
    return sb_fail(err, SB_ERR_USAGE,
                   "%s: exists, left by an interrupted run: remove it first, or move it away",
                   SB_SHOW(path));
}

sb_status sb_target_open(const char *folder, sb_target *t, sb_error *err)
{
    struct stat info;
    *t = (sb_target){.fd = -1};
    size_t n = strlen(folder);
    char *bare = sb_strdup(folder);
    if (!bare)
        return no_memory(err);
    while (n > 1 && bare[n - 1] == '/')
        bare[--n] = '\0';
    sb_status status =
        n ? sb_file_place(bare, &t->place, err)
          : sb_fail(err, SB_ERR_USAGE, "the name of the folder to be written is empty");
    free(bare);
    if (status)
        return status;
    t->in_place = stays(t->place);
    t->partial = with_suffix(t->place, t->in_place ? "" : ".partial");
    t->aside = with_suffix(t->place, ".replaced");
    if (!t->partial || !t->aside)
        status = no_memory(err);
    else if (lstat(t->aside, &info) == 0)
        status = in_the_way(t->aside, err);
    else if (!t->in_place && lstat(t->partial, &info) == 0)
        status = in_the_way(t->partial, err);
    if (status)
        sb_target_close(t);
    return status;
}

/* --- removing an old folder ------------------------------------------------------------------- */

typedef struct leaving {
    sb_target_goes goes; /* NULL: all entries are removed */
    const char *to;      /* the new folder, to which kept entries move; NULL: they do not move */
    int heads;           /* 1: only config.json and the index */
} leaving;

/* Moves a kept entry to the new folder, or removes it if the new folder has an entry of this
 * name. */
static sb_status move(const leaving *l, const char *path, const char *name, sb_error *err)
{
    struct stat info;
    char *to = l->to ? sb_path_join(l->to, name) : NULL;
    sb_status status = SB_OK;
    if (l->to && !to)
        status = no_memory(err);
    else if (to && lstat(to, &info) != 0 && rename(path, to) != 0)
        status = io_failed(path, "move into the new folder", err);
    else if (to && lstat(path, &info) == 0 && !S_ISDIR(info.st_mode) && unlink(path) != 0)
        status = io_failed(path, "remove", err);
    free(to);
    return status;
}

static sb_status leave(void *ctx, const char *path, const char *name, const struct stat *info,
                       sb_error *err)
{
    const leaving *l = ctx;
    if (l->heads && strcmp(name, "config.json") != 0 && !sb_ends(name, ".index.json"))
        return SB_OK;
    if (l->goes && !l->goes(name))
        return move(l, path, name, err);
    if (S_ISDIR(info->st_mode) || unlink(path) == 0)
        return SB_OK;
    return io_failed(path, "remove", err);
}

/* Removes config.json and the index first: if the process ends after that, the rest is not a
 * checkpoint. */
static sb_status empty(const char *folder, sb_target_goes goes, const char *to, sb_error *err)
{
    leaving l = {.goes = goes, .to = to, .heads = 1};
    sb_status status = sb_each_entry(folder, leave, &l, err);
    l.heads = 0;
    return status ? status : sb_each_entry(folder, leave, &l, err);
}

sb_status sb_target_begin(sb_target *t, sb_target_goes goes, sb_error *err)
{
    if (!t->in_place && mkdir(t->partial, 0777) != 0)
        return errno == EEXIST ? in_the_way(t->partial, err)
                               : io_failed(t->partial, "create this folder", err);
    t->fd = open(t->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->fd >= 0 && flock(t->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(t->fd);
        t->fd = -1; /* another process has the lock */
        return in_the_way(t->partial, err);
    }
    if (t->fd >= 0)
        return t->in_place ? empty(t->place, goes, NULL, err) : SB_OK;
    sb_status status = io_failed(t->partial, "open this folder", err);
    if (!t->in_place)
        rmdir(t->partial);
    return status;
}

static sb_status remove_folder(const char *folder, sb_target_goes goes, const char *to,
                               sb_error *err)
{
    sb_status status = empty(folder, goes, to, err);
    if (!status && rmdir(folder) != 0)
        status = io_failed(folder, "remove what was there before", err);
    return status;
}

static sb_status remove_inner(void *ctx, const char *path, const char *name,
                              const struct stat *info, sb_error *err)
{
    (void)name;
    if (S_ISDIR(info->st_mode))
        (void)sb_each_entry(path, remove_inner, ctx, err);
    (void)remove(path);
    return SB_OK;
}

/* Removes everything in the partial folder, including folders, because this process has made all of
 * it. */
static void remove_partial(const char *partial)
{
    (void)empty(partial, NULL, NULL, NULL);
    (void)sb_each_entry(partial, remove_inner, NULL, NULL);
    rmdir(partial);
}

void sb_target_clear(const char *folder)
{
    char *partial = with_suffix(folder, ".partial");
    if (partial && !is_locked(partial))
        remove_partial(partial);
    free(partial);
}

void sb_target_close(sb_target *t)
{
    if (t->fd >= 0) {
        if (!t->in_place)
            remove_partial(t->partial);
        close(t->fd);
    }
    free(t->place);
    free(t->partial);
    free(t->aside);
    *t = (sb_target){.fd = -1};
}

/* --- the exchange ----------------------------------------------------------------------------- */

/* C-9: "the new folder and the old folder exchange their names in one step" - sets *old to the name
 * of the old folder. */
static sb_status exchange(const sb_target *t, const char **old, sb_error *err)
{
    *old = t->partial;
#ifdef RENAME_EXCHANGE
    if (renameat2(AT_FDCWD, t->partial, AT_FDCWD, t->place, RENAME_EXCHANGE) == 0)
        return SB_OK;
    if (errno != EINVAL && errno != ENOSYS)
        return io_failed(t->place, "change places with the new folder", err);
#endif
    struct stat info;
    *old = t->aside;
    if (lstat(t->aside, &info) == 0 || rename(t->place, t->aside) != 0)
        return sb_fail(err, SB_ERR_IO, "%s: cannot be moved to %s", SB_SHOW(t->place),
                       SB_SHOW(t->aside));
    if (rename(t->partial, t->place) == 0)
        return SB_OK;
    sb_status status = io_failed(t->partial, "take its place", err);
    (void)rename(t->aside, t->place);
    return status;
}

/* Gives up ownership of the partial folder. From here on it must not be removed. */
static void let_go(sb_target *t)
{
    close(t->fd);
    t->fd = -1;
}

sb_status sb_target_commit(sb_target *t, int replace, sb_target_goes goes, sb_error *err)
{
    const char *old = NULL;
    if (fsync(t->fd) != 0)
        return io_failed(t->partial, "sync this folder", err);
    if (t->in_place) {
        let_go(t);
        return SB_OK;
    }
    int there = rename(t->partial, t->place) != 0; /* rename also replaces an empty folder */
    if (there && errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
        return io_failed(t->partial, "take its place", err);
    if (there && !replace)
        return sb_fail(err, SB_ERR_USAGE, "%s: was created meanwhile and is not replaced",
                       SB_SHOW(t->place));
    sb_status status = there ? exchange(t, &old, err) : SB_OK;
    if (status)
        return status;
    let_go(t);
    status = sb_sync_folder_of(t->place, err);
    sb_status gone = there ? remove_folder(old, goes, t->place, status ? NULL : err) : SB_OK;
    return status ? status : gone;
}
