/* diff_ids.h - compares one or two files of token ids with the reference. */
#ifndef SB_CLI_DIFF_IDS_H
#define SB_CLI_DIFF_IDS_H

#include "tools/cli/diff_run.h"

/* versus: the other file, or NULL. given: the number of prompt tokens of each sequence; 0: unknown.
 * Fills in verdicts, notes and pairs of *run. */
sb_status sb_diff_run_ids(sb_diff_run *run, const char *versus, uint64_t given, sb_error *err);

#endif
