/* bench_step.h - samebit bench decode|verify|prefill: the ledger of a step. */
#ifndef SB_CLI_BENCH_STEP_H
#define SB_CLI_BENCH_STEP_H

#include "ref/base/status.h"

/* True for the first word of such a command. */
int sb_is_bench_step(const char *word);

sb_status sb_bench_step(int argc, char **argv, sb_error *err);

#endif
