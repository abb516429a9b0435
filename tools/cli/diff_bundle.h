/* diff_bundle.h - what a comparison says of its replay bundle, above all why there is none. */
#ifndef SB_CLI_DIFF_BUNDLE_H
#define SB_CLI_DIFF_BUNDLE_H

#include <jansson.h>

#include "tools/cli/diff_run.h"

/* {op, missing}: the failure that the bundle is of, or why there is no bundle of the first one;
 * null where none was asked for. */
json_t *sb_diff_bundle_json(const sb_diff_run *run);

/* A line on stderr. path: as the user calls it; packed: other things are in it, too. */
void sb_diff_bundle_say(const sb_diff_run *run, const char *path, int packed);

#endif
