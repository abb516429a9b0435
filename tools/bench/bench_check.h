/* bench_check.h - the cost of reading a checkpoint, compared with reading and hashing its files. */
#ifndef SB_BENCH_BENCH_CHECK_H
#define SB_BENCH_BENCH_CHECK_H

/* Prints a line per way of reading, with cached and with uncached files; original may be NULL.
 * Returns 0 if something cannot be read. */
int sb_bench_check(const char *folder, const char *original);

/* The same for folders that it makes under names that begin with `folder`. */
int sb_bench_check_made(const char *folder);

#endif
