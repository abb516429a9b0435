/* state_show.h - what `samebit state` says of one file, and of two. */
#ifndef SB_CLI_STATE_SHOW_H
#define SB_CLI_STATE_SHOW_H

#include <jansson.h>

#include "ref/run/state_file.h"

/* Position, digests, layers and pieces of a file that was read. */
sb_status sb_state_show(const char *path, const sb_state_file *file, int as_json, sb_error *err);

/* Compares two: SB_ERR_DIFF names the first difference. */
sb_status sb_state_show_diff(const char *const paths[2], const sb_state_file *const files[2],
                             int as_json, sb_error *err);

#endif
