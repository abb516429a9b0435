/* checked.h - runs `samebit check` on a folder made by a fuzz target, with every form of its
 * report. */
#ifndef SB_TESTS_FUZZ_CHECKED_H
#define SB_TESTS_FUZZ_CHECKED_H

#include "tools/check/read/check.h"

/* Runs the check and writes the report as text and JSON. Findings must be plain lines. The caller
 * frees *check. */
void checked_run(const sb_check_options *options, sb_check *check);

/* The first finding whose message contains `part`, or NULL. */
const sb_finding *checked_find(const sb_check *check, const char *part);

#endif
