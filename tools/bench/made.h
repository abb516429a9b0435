/* made.h - a temporary folder for a checkpoint that is only made to be measured. */
#ifndef SB_BENCH_MADE_H
#define SB_BENCH_MADE_H

#include "ref/base/status.h"

enum { SB_BENCH_PATH = 1024 };

/* A new folder in $TMPDIR or here. From now on whoever ends the process by SIGINT, SIGTERM or
 * SIGHUP ends it without the folder. Only one at a time, and before threads start. */
sb_status sb_bench_made_new(char path[SB_BENCH_PATH], sb_error *err);

/* Removes the folder and its files. */
void sb_bench_made_remove(const char *path);

#endif
