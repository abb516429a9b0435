/* folder.c - the target of a conversion: nothing of it is there before all of it is whole. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "tools/convert/plan.h"

/* Calls visit(ctx, path, name, info) for the entries of a folder; a visitor that fails has written
 * err. */
typedef sb_status (*entry_fn)(void *ctx, const char *path, const char *name,
                              const struct stat *info, sb_error *err);

static sb_status each_entry(const char *folder, entry_fn visit, void *ctx, sb_error *err)
{
    DIR *dir = opendir(folder);
    sb_status status = SB_OK;
    if (!dir)
        return sb_fail(err, SB_ERR_IO, "%s: cannot list: %s", SB_SHOW(folder), strerror(errno));
    for (struct dirent *entry = readdir(dir); entry && !status; entry = readdir(dir)) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *path = sb_path_join(folder, entry->d_name);
        if (!path)
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
        else if (lstat(path, &info) != 0)
            status = sb_fail(err, SB_ERR_IO, "%s: cannot stat: %s", SB_SHOW(path), strerror(errno));
        else
            status = visit(ctx, path, entry->d_name, &info, err);
        free(path);
    }
    closedir(dir);
    return status;
}

/* What is replaced must be a checkpoint of plain files: nothing else is ever removed. */
static sb_status check_old(void *ctx, const char *path, const char *name, const struct stat *info,
                           sb_error *err)
{
    int *found = ctx;
    *found |= strcmp(name, "config.json") == 0 || sb_ends(name, ".safetensors");
    if (S_ISREG(info->st_mode) || S_ISLNK(info->st_mode))
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "%s: is no file; a folder that has such is not replaced",
                   SB_SHOW(path));
}

static char *with_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    char *out = sb_alloc(n + strlen(suffix) + 1, 1);
    if (out) {
        memcpy(out, path, n);
        strcpy(out + n, suffix);
    }
    return out;
}

int sb_target_is(const char *folder, const char *target)
{
    struct stat from, to;
    return stat(folder, &from) == 0 && stat(target, &to) == 0 && from.st_dev == to.st_dev &&
           from.st_ino == to.st_ino;
}

static sb_status check_replaced(const char *source, const char *target, int replace, sb_error *err)
{
    struct stat to;
    int found = 0;
    if (!*target)
        return sb_fail(err, SB_ERR_USAGE, "the name of the folder to be written is empty");
    if (lstat(target, &to) != 0)
        return SB_OK;
    if (sb_target_is(source, target))
        return sb_fail(err, SB_ERR_USAGE, "%s: is the source, which is never written to",
                       SB_SHOW(target));
    if (!replace)
        return sb_fail(err, SB_ERR_USAGE, "%s: exists, and replacing it was not asked for",
                       SB_SHOW(target));
    if (lstat(target, &to) == 0 && !S_ISDIR(to.st_mode))
        return sb_fail(err, SB_ERR_USAGE, "%s: is no folder, and so is not replaced",
                       SB_SHOW(target));
    sb_status status = each_entry(target, check_old, &found, err);
    if (!status && !found && rmdir(target) != 0) /* an empty folder is nothing to lose */
        status = sb_fail(err, SB_ERR_USAGE, "%s: holds no checkpoint, and so is not replaced",
                         SB_SHOW(target));
    return status;
}

/* A folder of that name stands there if a conversion was cut off. */
static sb_status check_free(const char *target, const char *suffix, const char *what, sb_error *err)
{
    struct stat info;
    char *path = with_suffix(target, suffix);
    sb_status status = SB_OK;
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (lstat(path, &info) == 0)
        status = sb_fail(err, SB_ERR_USAGE,
                         "%s: exists, %s that was cut off: remove it first, or move it away",
                         SB_SHOW(path), what);
    free(path);
    return status;
}

sb_status sb_target_check(const char *source, const char *target, int replace, char **partial,
                          sb_error *err)
{
    struct stat info;
    sb_status status =
        stat(source, &info) == 0 && !S_ISDIR(info.st_mode)
            ? sb_fail(err, SB_ERR_USAGE,
                      "%s: is no folder; a conversion needs its config.json, too", SB_SHOW(source))
            : check_replaced(source, target, replace, err);
    if (status)
        return status;
    status = check_free(target, ".replaced", "the old folder of a replacement", err);
    if (!status)
        status = check_free(target, ".partial", "left by a conversion", err);
    *partial = status ? NULL : with_suffix(target, ".partial");
    return status || *partial ? status : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
}

/* --- the files beside the tensors ------------------------------------------------------------- */

typedef struct copying {
    const char *partial;
    sb_conversion *out;
} copying;

/* What the conversion writes itself. */
static int is_written(const char *name)
{
    return sb_ends(name, ".safetensors") || sb_ends(name, ".safetensors.index.json") ||
           strcmp(name, "config.json") == 0 || strcmp(name, "hf_quant_config.json") == 0;
}

/* Of a folder only the name is kept, to be told; the partial one may stand in the source. */
static sb_status note_folder(copying *c, const char *name, const struct stat *info, sb_error *err)
{
    struct stat partial;
    if (stat(c->partial, &partial) == 0 && partial.st_dev == info->st_dev &&
        partial.st_ino == info->st_ino)
        return SB_OK;
    char **grown = sb_realloc(c->out->folders, c->out->folder_count + 1, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a name");
    c->out->folders = grown;
    grown[c->out->folder_count] = sb_strdup(name);
    if (!grown[c->out->folder_count])
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a name");
    c->out->folder_count++;
    return SB_OK;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static sb_status copy_one(void *ctx, const char *path, const char *name, const struct stat *info,
                          sb_error *err)
{
    copying *c = ctx;
    struct stat target;
    sb_map map;
    (void)info;
    if (stat(path, &target) == 0 && S_ISDIR(target.st_mode))
        return note_folder(c, name, &target, err);
    if (is_written(name))
        return SB_OK;
    char *to = sb_path_join(c->partial, name);
    if (!to)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    sb_status status = sb_map_open(path, &map, err);
    if (!status) {
        status = sb_write_file(to, map.data, map.size, err);
        sb_map_close(&map);
        c->out->files++;
    }
    free(to);
    return status;
}

sb_status sb_target_copy(const char *source, const char *partial, sb_conversion *out, sb_error *err)
{
    copying c = {partial, out};
    sb_status status = each_entry(source, copy_one, &c, err);
    if (out->folder_count)
        qsort(out->folders, out->folder_count, sizeof *out->folders, by_name);
    return status;
}

/* --- the end ------------------------------------------------------------------------------------
 */

static sb_status remove_one(void *ctx, const char *path, const char *name, const struct stat *info,
                            sb_error *err)
{
    (void)ctx;
    (void)name;
    if (S_ISDIR(info->st_mode) || unlink(path) == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_IO, "%s: cannot remove: %s", SB_SHOW(path), strerror(errno));
}

void sb_target_drop(const char *partial)
{
    if (each_entry(partial, remove_one, NULL, NULL) == SB_OK)
        (void)rmdir(partial);
}

/* The old folder steps aside, the new one takes its place, and only then the old one goes. Without
 * `replace` nothing steps aside: what came there meanwhile is somebody else's. */
sb_status sb_target_commit(const char *partial, const char *target, int replace, sb_error *err)
{
    struct stat info;
    char *place = with_suffix(target, ""), *aside = with_suffix(target, ".replaced");
    sb_status status = SB_OK;
    if (!place || !aside)
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    int old = !status && lstat(place, &info) == 0;
    if (old && !replace)
        status = sb_fail(err, SB_ERR_USAGE, "%s: came into being meanwhile, and is not replaced",
                         SB_SHOW(place));
    else if (old && (lstat(aside, &info) == 0 || rename(place, aside) != 0))
        status =
            sb_fail(err, SB_ERR_IO, "%s: cannot be moved to %s", SB_SHOW(place), SB_SHOW(aside));
    if (!status && rename(partial, place) != 0) {
        status = sb_fail(err, SB_ERR_IO, "%s: cannot be renamed to %s: %s", SB_SHOW(partial),
                         SB_SHOW(place), strerror(errno));
        if (old)
            (void)rename(aside, place);
    } else if (!status && old) {
        sb_target_drop(aside);
    }
    free(place);
    free(aside);
    return status;
}
