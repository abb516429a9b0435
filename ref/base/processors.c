#define _GNU_SOURCE /* sched_getaffinity; before all headers */
#include "ref/base/processors.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/pool.h"

enum { TEXT = 4096 };

/* Reads a small file as text; returns 0 if there is none. */
static int read_text(const char *path, char text[TEXT])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    if (fd < 0)
        return 0;
    for (ssize_t n = 1; n > 0 && have<TEXT - 1; have += n> 0 ? (size_t)n : 0)
        n = read(fd, text + have, TEXT - 1 - have);
    close(fd);
    text[have] = '\0';
    return 1;
}

static size_t paid(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    const long long whole = quota / period + (quota % period != 0);
    return whole > SB_THREADS_MOST ? 0 : (size_t)whole;
}

static size_t fewer(size_t a, size_t b)
{
    return !a ? b : !b || a < b ? a : b;
}

static long long number_in(const char *folder, const char *name)
{
    char path[2 * TEXT], text[TEXT];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < (int)sizeof path && read_text(path, text) ? strtoll(text, NULL, 10) : -1;
}

/* The quota of one folder, in either version of control groups. */
static size_t quota_in(const char *folder)
{
    char path[2 * TEXT], text[TEXT];
    const int n = snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (n > 0 && n < (int)sizeof path && read_text(path, text)) {
        char *end;
        const long long quota = strtoll(text, &end, 10); /* "max" is not a number */
        return end == text ? 0 : paid(quota, strtoll(end, NULL, 10));
    }
    return paid(number_in(folder, "cpu.cfs_quota_us"), number_in(folder, "cpu.cfs_period_us"));
}

/* The smallest quota of a group and its parents, up to the root of the mount. In a container the
 * path of the group may be outside the mount; then only the root counts. */
static size_t quota_of(const char *root, const char *mount, const char *group)
{
    char folder[TEXT];
    const int n = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
    const size_t least = strlen(root) + strlen(mount);
    size_t threads = 0;
    if (n < 0 || n >= (int)sizeof folder)
        return 0;
    for (size_t length = (size_t)n;;) {
        folder[length] = '\0';
        threads = fewer(threads, quota_in(folder));
        if (length <= least)
            return threads;
        while (--length > least && folder[length] != '/')
            ;
    }
}

static int has_controller(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

size_t sb_quota_threads(const char *groups, const char *root)
{
    char text[TEXT], *rest = text;
    size_t threads = 0;
    if (!read_text(groups, text))
        return 0;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        char *controllers = strchr(line, ':'); /* HIERARCHY:CONTROLLERS:GROUP */
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (!*++controllers) {
            threads = fewer(threads, quota_of(root, "", group));
        } else if (has_controller(controllers, "cpu")) {
            threads = fewer(threads, quota_of(root, "/cpu", group));
            threads = fewer(threads, quota_of(root, "/cpu,cpuacct", group));
        }
    }
    return threads;
}

/* The number of processors in the affinity of the process; 0: unknown. */
static size_t in_affinity(void)
{
    size_t count = 0;
#ifdef __linux__
    enum { MANY = 1 << 16 };
    cpu_set_t *set = CPU_ALLOC(MANY);
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(MANY), set) == 0)
        count = (size_t)CPU_COUNT_S(CPU_ALLOC_SIZE(MANY), set);
    if (set)
        CPU_FREE(set);
#endif
    return count;
}

static size_t allowed(void)
{
    size_t count = in_affinity();
    if (!count) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        count = online > 0 ? (size_t)online : 1;
    }
    return count;
}

size_t sb_processors(void)
{
    const char *asked = getenv("OMP_NUM_THREADS");
    const long wanted = asked ? strtol(asked, NULL, 10) : 0;
    size_t count = wanted > 0
                       ? (size_t)wanted
                       : fewer(allowed(), sb_quota_threads("/proc/self/cgroup", "/sys/fs/cgroup"));
    return count < SB_THREADS_MOST ? count : SB_THREADS_MOST;
}
