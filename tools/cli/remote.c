#include "tools/cli/remote.h"

#include <stdio.h>
#include <sys/stat.h>

#include "ref/container/show.h"
#include "tools/check/judge/hub.h"
#include "tools/cli/cli.h"
#include "tools/check/remote/remote.h"

sb_status sb_place_of(const char *text, const sb_remote_wish *wish, char **path, sb_error *err)
{
    struct stat about;
    sb_remote_options options = {.cache = wish->cache, .progress = sb_progress};
    sb_remote_result got;
    *path = NULL;
    if (wish->cache && !wish->remote)
        return sb_fail(err, SB_ERR_USAGE, "--remote-cache needs --remote");
    if (!wish->remote || stat(text, &about) == 0)
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
