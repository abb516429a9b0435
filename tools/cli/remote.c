#include "tools/cli/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/check/judge/hub.h"
#include "tools/cli/cli.h"
#include "tools/check/remote/data.h"

/* 1 if the text is no path, and stands for a checkpoint on a server. */
static int is_far(const char *text, const sb_remote_wish *wish)
{
    struct stat about;
    return wish->remote && stat(text, &about) != 0;
}

sb_status sb_place_of(const char *text, const sb_remote_wish *wish, char **path, sb_error *err)
{
    sb_remote_options options = {.cache = wish->cache, .progress = sb_progress};
    sb_remote_result got;
    *path = NULL;
    if (wish->cache && !wish->remote)
        return sb_fail(err, SB_ERR_USAGE, "--remote-cache needs --remote");
    if (!is_far(text, wish))
        return sb_hub_resolve(text, path, err);
    sb_status status = sb_remote_fetch(text, &options, &got, err);
    if (status)
        return status;
    if (got.was_there)
        fprintf(stderr, "samebit: %s: headers of %s, read before\n", SB_SHOW(text),
                SB_SHOW(got.folder));
    else
        fprintf(stderr, "samebit: %s: %.1f MB read of %.1f MB, into %s\n", SB_SHOW(text),
                (double)got.read * 1e-6, (double)got.whole * 1e-6, SB_SHOW(got.folder));
    *path = got.folder;
    return SB_OK;
}

/* The tensors of the chosen units, as ranges of the files. */
static sb_status ranges_of(const sb_check *check, sb_remote_range **out, size_t *count,
                           sb_error *err)
{
    const sb_checkpoint *c = check->self.checkpoint;
    const sb_units *units = &check->self.units;
    *count = 0;
    *out = sb_alloc(check->sample_units * (SB_PART_COUNT + 1), sizeof **out);
    if (!*out)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the ranges of a sample");
    for (size_t i = 0; i < units->count; i++)
        for (unsigned p = 0; p <= SB_PART_COUNT && units->rows[i].chosen; p++) {
            const sb_unit *unit = &units->rows[i];
            const sb_tensor *t = p < SB_PART_COUNT ? unit->found.part[p] : unit->tensor;
            if (t && t->bytes)
                (*out)[(*count)++] = (sb_remote_range){sb_checkpoint_shard_name(c, t->shard),
                                                       sb_checkpoint_offset(c, t), t->bytes};
        }
    return SB_OK;
}

sb_status sb_place_sample(const char *text, const sb_remote_wish *wish,
                          const sb_check_options *options, sb_error *err)
{
    sb_check check;
    sb_remote_options how = {.cache = wish->cache, .progress = sb_progress};
    sb_remote_range *ranges = NULL;
    size_t count = 0;
    uint64_t read = 0;
    if (!is_far(text, wish))
        return SB_OK;
    sb_status status = sb_check_choose(options, &check, err);
    if (!status)
        status = ranges_of(&check, &ranges, &count, err);
    if (!status)
        status = sb_remote_data(text, &how, options->path, ranges, count, &read, err);
    if (!status)
        fprintf(stderr, "samebit: %s: %.1f MB of values read\n", SB_SHOW(text),
                (double)read * 1e-6);
    free(ranges);
    sb_check_free(&check);
    return status;
}
