/* processors.h - the number of threads that this process may keep busy. */
#ifndef SB_BASE_PROCESSORS_H
#define SB_BASE_PROCESSORS_H

#include <stddef.h>

/* The first number of OMP_NUM_THREADS; else the processors in the affinity of the process, limited
 * by the quotas of its control groups. From 1 to SB_THREADS_MOST. */
size_t sb_processors(void);

/* The processors that the quotas allow, rounded up; 0: no quota. `groups` is a file like
 * /proc/self/cgroup, `root` a folder like /sys/fs/cgroup. Reads version 2 (cpu.max) and version 1
 * (cpu.cfs_quota_us), for the group and all its parents. */
size_t sb_quota_threads(const char *groups, const char *root);

#endif
