/* diff_explain.h - samebit diff --explain: why an engine fails. */
#ifndef SB_CLI_DIFF_EXPLAIN_H
#define SB_CLI_DIFF_EXPLAIN_H

#include "tools/cli/diff_run.h"

/* Fills in the explanations of the verdicts, or adds a note that says why there are none. options:
 * those of the comparison that failed. */
sb_status sb_diff_explain(sb_diff_run *run, const sb_differ_options *options, const sb_keep *keep,
                          sb_error *err);

#endif
