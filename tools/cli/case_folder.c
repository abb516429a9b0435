#include "tools/cli/case_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "ref/container/map.h"
#include "ref/container/show.h"

sb_status sb_case_folder_begin(const char *folder, sb_target *target, sb_error *err)
{
    struct stat info;
    sb_status status = sb_target_open(folder, target, err);
    if (status)
        return status;
    if (target->in_place) /* C-9: "a folder that cannot be renamed is refused" */
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: this folder cannot be renamed, so several cases cannot replace it at "
                       "once; name a subfolder of it",
                       SB_SHOW(folder));
    if (stat(target->place, &info) == 0 && !S_ISDIR(info.st_mode))
        return sb_fail(err, SB_ERR_IO, "%s: is not a folder", SB_SHOW(target->place));
    return sb_target_begin(target, NULL, err);
}

static sb_status copy(const char *from, const char *to, sb_error *err)
{
    sb_map map;
    sb_status status = sb_map_open(from, &map, err);
    if (status)
        return status;
    status = sb_write_file(to, map.data, map.size, err);
    sb_map_close(&map);
    return status;
}

/* C-9: "files of other names in the old folder are in the new one before it takes its place" -
 * copies where the file system has no links. */
static sb_status keep(void *ctx, const char *path, const char *name, const struct stat *info,
                      sb_error *err)
{
    const sb_target *target = ctx;
    struct stat new;
    char *to = sb_path_join(target->partial, name);
    sb_status status = to ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (to && S_ISREG(info->st_mode) && lstat(to, &new) != 0 && link(path, to) != 0)
        status = copy(path, to, err);
    free(to);
    return status;
}

/* Nothing of the old folder is removed: folders and links move to the new one after the
 * exchange. */
static int goes(const char *name)
{
    (void)name;
    return 0;
}

sb_status sb_case_folder_commit(sb_target *target, sb_error *err)
{
    struct stat old;
    sb_status status = SB_OK;
    if (lstat(target->place, &old) == 0)
        status = sb_each_entry(target->place, keep, target, err);
    return status ? status : sb_target_commit(target, 1, goes, err);
}
