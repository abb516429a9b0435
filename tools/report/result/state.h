/* state.h - the output of `samebit state` for one file, and for two. */
#ifndef SB_REPORT_STATE_H
#define SB_REPORT_STATE_H

#include <jansson.h>

#include "ref/run/state_file.h"

/* Prints position, digests, layers and pieces of a file. */
sb_status sb_state_show(const char *path, const sb_state_file *file, int as_json, sb_error *err);

/* Compares two: SB_ERR_DIFF names the first difference. */
sb_status sb_state_show_diff(const char *const paths[2], const sb_state_file *const files[2],
                             int as_json, sb_error *err);

#endif
