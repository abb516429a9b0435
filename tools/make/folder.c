#include "tools/make/folder.h"

#include <string.h>

#include "ref/base/text.h"
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
                       "%s: the folder is not empty (%s), and replacing was not asked for",
                       SB_SHOW(l->place), SB_SHOW(name));
    if (sb_ends(name, ".safetensors") && !sb_writer_is_shard_name(name))
        return sb_fail(err, SB_ERR_USAGE,
                       "%s: %s would stand beside the new files without belonging to them: remove "
                       "it first",
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
                     : sb_fail(err, SB_ERR_IO, "%s: is no folder", SB_SHOW(out->place));
    if (status)
        sb_target_close(out);
    return status;
}
