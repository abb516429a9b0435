/* processors.h - how many threads this process may keep busy. */
#ifndef SB_BASE_PROCESSORS_H
#define SB_BASE_PROCESSORS_H

#include <stddef.h>

/* What OMP_NUM_THREADS says (its first number), else the processors of the process' affinity, but
 * no more than the quotas of its control groups pay for. From 1 to SB_THREADS_MOST. */
size_t sb_processors(void);

/* What the quotas pay for, rounded up; 0: there is none. `groups` is a file like
 * /proc/self/cgroup, `root` a folder like /sys/fs/cgroup. Version 2 (cpu.max) and version 1
 * (cpu.cfs_quota_us), of the group and of all above it. */
size_t sb_quota_threads(const char *groups, const char *root);

#endif
