#include "tools/cli/diff_bundle.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ref/container/show.h"
#include "tools/report/part/document.h"

/* The reason why the first failure has no bundle; NULL: it has one. */
static const char *missing(const sb_diff_run *run)
{
    const sb_verdicts *v = &run->verdicts;
    if (!v->has_failure)
        return *v->bundled ? "an op failed, but the comparison as a whole did not" : "no op failed";
    if (run->side->kind == SB_SIDE_ids)
        return "a file of token ids contains no ops";
    if (!run->has_forced)
        return "no op was judged alone (forced): that needs a trace of level 4";
    if (*v->unbundled)
        return v->unbundled;
    if (*v->bundled)
        return strcmp(v->bundled, v->first_failure.words) == 0
                   ? NULL
                   : "the first failure was not in an op; this op failed after it";
    return "each op is right on the engine's own inputs: the failure lies between the ops";
}

json_t *sb_diff_bundle_json(const sb_diff_run *run)
{
    const char *why = missing(run);
    if (!run->bundle)
        return json_null();
    return json_pack("{s:o,s:o}", "op",
                     *run->verdicts.bundled ? json_string(SB_SHOW(run->verdicts.bundled))
                                            : json_null(),
                     "missing", why ? json_string(SB_SHOW(why)) : json_null());
}

void sb_diff_bundle_say(const sb_diff_run *run, const char *path, int packed)
{
    const char *why = missing(run), *op = run->verdicts.bundled;
    if (!run->bundle)
        return;
    if (*op)
        fprintf(stderr, "samebit: %s: 'samebit replay' repeats %s\n", SB_SHOW(path),
                why ? SB_SHOW(op) : "the first op that failed");
    if (why)
        fprintf(stderr, "samebit: %s: %s: %s\n", SB_SHOW(path),
                *op                       ? "the first failure cannot be replayed"
                : packed                  ? "contains reports only, nothing to replay"
                : access(path, F_OK) == 0 ? "not written, the existing file is from another run"
                                          : "not written",
                SB_SHOW(why));
}
