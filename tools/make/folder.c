#include "tools/make/folder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/container/writer_layout.h"
#include "tools/make/quant_config.h"

int sb_make_goes(const char *name)
{
    return sb_writer_is_shard_name(name) || strcmp(name, "config.json") == 0 ||
           strcmp(name, "model.safetensors.index.json") == 0 || sb_make_is_side_file(name);
}

typedef struct looking {
    const char *place;
    int replace;
} looking;

static sb_status check_entry(void *ctx, const char *path, const char *name, const struct stat *info,
                             sb_error *err)
{
    const looking *l = ctx;
    (void)path;
    if (!l->replace)
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: the folder is not empty (%s); expected --replace or an empty folder",
                       SB_SHOW(l->place), SB_SHOW(name));
    if (sb_ends(name, ".safetensors") && !sb_writer_is_shard_name(name))
        return sb_fail(
            err, SB_ERR_USAGE,
            "%s: %s is not one of the new files and would stay beside them: remove it first",
            SB_SHOW(l->place), SB_SHOW(name));
    if (S_ISDIR(info->st_mode) && sb_make_goes(name))
        return sb_fail(err, SB_ERR_IO, "%s: %s is a folder, expected a file", SB_SHOW(l->place),
                       SB_SHOW(name));
    return SB_OK;
}

sb_status sb_make_folder_open(const char *dir, int replace, sb_target *out, sb_error *err)
{
    struct stat info;
    sb_status status = sb_target_open(dir, out, err);
    if (status)
        return status;
    looking l = {out->place, replace};
    if (lstat(out->place, &info) == 0)
        status = S_ISDIR(info.st_mode)
                     ? sb_each_entry(out->place, check_entry, &l, err)
                     : sb_fail(err, SB_ERR_IO, "%s: is not a folder", SB_SHOW(out->place));
    if (status)
        sb_target_close(out);
    return status;
}

/* Passes if the file system does not report its blocks. */
sb_status sb_make_check_disk(const sb_target *target, uint64_t bytes, sb_error *err)
{
    enum { MORE = 1 << 20 }; /* headers, configuration, blocks that are not full */
    struct statvfs disk;
    char *parent = sb_path_join(target->place, "..");
    if (!parent)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    size_t n = (size_t)(sb_path_last(target->place) - target->place);
    memcpy(parent, target->place, n);
    strcpy(parent + n, "."); /* the folder itself may not exist yet */
    int known = statvfs(target->in_place ? target->place : parent, &disk) == 0 && disk.f_blocks;
    free(parent);
    double free_bytes = known ? (double)disk.f_bavail * (double)disk.f_frsize : 0;
    if (!known || free_bytes >= (double)bytes + (double)MORE)
        return SB_OK;
    return sb_fail(err, SB_ERR_IO, "%s: needs %.3f GB, but the disk has only %.3f GB left",
                   SB_SHOW(target->place), (double)bytes * 1e-9, free_bytes * 1e-9);
}
