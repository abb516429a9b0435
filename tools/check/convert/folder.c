/* folder.c - the target folder of a conversion, which appears only when it is complete. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "tools/check/convert/plan.h"

enum { CHECKPOINT = 1, OTHERS = 2 };

/* Only a checkpoint of plain files may be replaced: nothing else is ever removed. */
static sb_status check_old(void *ctx, const char *path, const char *name, const struct stat *info,
                           sb_error *err)
{
    int *found = ctx;
    *found |=
        strcmp(name, "config.json") == 0 || sb_ends(name, ".safetensors") ? CHECKPOINT : OTHERS;
    if (S_ISREG(info->st_mode) || S_ISLNK(info->st_mode))
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE,
                   "%s: is not a file; a folder that contains it is not replaced", SB_SHOW(path));
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
    if (lstat(target, &to) != 0)
        return SB_OK;
    if (sb_target_is(source, target))
        return sb_fail(err, SB_ERR_USAGE, "%s: is the source folder and cannot be the target",
                       SB_SHOW(target));
    if (!replace)
        return sb_fail(err, SB_ERR_USAGE, "%s: exists; expected --replace or a new folder",
                       SB_SHOW(target));
    if (lstat(target, &to) == 0 && !S_ISDIR(to.st_mode))
        return sb_fail(err, SB_ERR_USAGE, "%s: is not a folder and therefore not replaced",
                       SB_SHOW(target));
    sb_status status = sb_each_entry(target, check_old, &found, err);
    if (!status && found == OTHERS) /* an empty folder may be replaced */
        status = sb_fail(err, SB_ERR_USAGE, "%s: holds no checkpoint and is therefore not replaced",
                         SB_SHOW(target));
    return status;
}

sb_status sb_target_check(const char *source, const char *folder, int replace, sb_target *target,
                          sb_error *err)
{
    struct stat info;
    *target = (sb_target){.fd = -1};
    if (stat(source, &info) == 0 && !S_ISDIR(info.st_mode))
        return sb_fail(err, SB_ERR_USAGE, "%s: is not a folder; expected a folder with config.json",
                       SB_SHOW(source));
    sb_status status = sb_target_open(folder, target, err);
    if (!status)
        status = check_replaced(source, target->place, replace, err);
    if (status)
        sb_target_close(target);
    return status;
}

/* --- files without tensors -------------------------------------------------------------------- */

typedef struct copying {
    const char *partial;
    sb_conversion *out;
} copying;

/* True for files that the conversion writes itself. */
static int is_written(const char *name)
{
    return sb_ends(name, ".safetensors") || sb_ends(name, ".safetensors.index.json") ||
           strcmp(name, "config.json") == 0 || strcmp(name, "hf_quant_config.json") == 0;
}

/* Notes the name of a folder for the report. The partial target may be inside the source and is
 * skipped. */
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
    sb_status status = sb_each_entry(source, copy_one, &c, err);
    if (out->folder_count)
        qsort(out->folders, out->folder_count, sizeof *out->folders, by_name);
    return status;
}
