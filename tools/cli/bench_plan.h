/* bench_plan.h - samebit bench plan: what each command costs for a checkpoint of this shape. */
#ifndef SB_CLI_BENCH_PLAN_H
#define SB_CLI_BENCH_PLAN_H

#include "ref/base/status.h"

sb_status sb_bench_plan(int argc, char **argv, sb_error *err);

#endif
