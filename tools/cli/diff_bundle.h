/* diff_bundle.h - messages of a comparison about its replay bundle, mostly why there is none. */
#ifndef SB_CLI_DIFF_BUNDLE_H
#define SB_CLI_DIFF_BUNDLE_H

#include <jansson.h>

#include "tools/cli/diff_run.h"

/* {op, missing}: the failed op of the bundle, or the reason why the first failure has no bundle;
 * null if none was requested. */
json_t *sb_diff_bundle_json(const sb_diff_run *run);

/* A line on stderr. path: as given by the user; packed: the file is a pack with other members. */
void sb_diff_bundle_say(const sb_diff_run *run, const char *path, int packed);

#endif
