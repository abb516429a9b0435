/* checked.h - `samebit check` of a folder that a fuzz target made, and every form of its report. */
#ifndef SB_TESTS_FUZZ_CHECKED_H
#define SB_TESTS_FUZZ_CHECKED_H

#include "tools/check/check.h"

/* Runs the check, whose findings are told in plain lines, and writes text and JSON of the report;
 * what was found is the caller's, who frees it. */
void checked_run(const sb_check_options *options, sb_check *check);

/* The first finding whose message has this in it, or NULL. */
const sb_finding *checked_find(const sb_check *check, const char *part);

#endif
