/* made.h - a temporary folder for a checkpoint that is made for a measurement. */
#ifndef SB_BENCH_MADE_H
#define SB_BENCH_MADE_H

#include "ref/base/status.h"

enum { SB_BENCH_PATH = 1024 };

/* Makes a folder in $TMPDIR or the current folder. From then on, SIGINT, SIGTERM and SIGHUP remove
 * the folder before they end the process. Only one folder at a time; call this before threads
 * start. */
sb_status sb_bench_made_new(char path[SB_BENCH_PATH], sb_error *err);

/* Removes the folder and its files. */
void sb_bench_made_remove(const char *path);

#endif
