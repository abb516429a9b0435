#define _GNU_SOURCE

#include "tests/fault/sweep_calls.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    sweep_way way;
    unsigned long n;
    int error;
    atomic_ulong count;
    const char *failed;
} now = {.failed = ""};

unsigned long sweep_calls(void)
{
    return now.count;
}

const char *sweep_failed(void)
{
    return now.failed;
}

/* Counts a system call. Returns 1 if it must fail. `changes`: the call changes files. */
static int call(const char *name, int changes)
{
    if (now.way > SWEEP_FAIL || (now.way == SWEEP_KILL && !changes))
        return 0;
    unsigned long count = ++now.count;
    if (count != now.n || now.way == SWEEP_COUNT)
        return 0;
    if (now.way == SWEEP_KILL)
        raise(SIGKILL);
    now.failed = name;
    errno = now.error;
    return 1;
}

static struct {
    uint64_t *list;
    unsigned long room;
} paths;

void sweep_paths(uint64_t *list, unsigned long room)
{
    paths.list = list;
    paths.room = room;
}

static void note_path(unsigned long count)
{
    enum { DEEPEST = 48 };
    void *from[DEEPEST];
    uint64_t hash = 0;
    if (!paths.list || count > paths.room)
        return;
    for (int i = 0, n = backtrace(from, DEEPEST); i < n; i++)
        hash = (hash ^ (uint64_t)(uintptr_t)from[i]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
    paths.list[count - 1] = hash;
}

/* Whether the n-th call of its kind fails: alone, or with all later ones. */
static int fails(const char *name, sweep_way alone, sweep_way with_all)
{
    if (now.way != alone && now.way != with_all)
        return 0;
    unsigned long count = ++now.count;
    note_path(count);
    if (!now.n || (now.way == with_all ? count < now.n : count != now.n))
        return 0;
    now.failed = name;
    return 1;
}

static int starves(const char *name)
{
    int failed = fails(name, SWEEP_ONE, SWEEP_STARVE);
    errno = failed ? ENOMEM : errno;
    return failed;
}

#define WRAP(type, name, parameters, arguments, changes, failure)                                  \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        return call(#name, changes) ? (failure) : __real_##name arguments;                         \
    }
WRAP(int, rename, (const char *a, const char *b), (a, b), 1, -1)
WRAP(int, renameat2, (int x, const char *a, int y, const char *b, unsigned f), (x, a, y, b, f), 1,
     -1)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), 1, -1)
WRAP(int, rmdir, (const char *path), (path), 1, -1)
WRAP(int, unlink, (const char *path), (path), 1, -1)
WRAP(int, link, (const char *a, const char *b), (a, b), 1, -1)
WRAP(int, symlink, (const char *a, const char *b), (a, b), 1, -1)
WRAP(int, flock, (int fd, int how), (fd, how), 0, -1)
WRAP(int, stat, (const char *path, struct stat *info), (path, info), 0, -1)
WRAP(int, lstat, (const char *path, struct stat *info), (path, info), 0, -1)
WRAP(int, fstat, (int fd, struct stat *info), (fd, info), 0, -1)
WRAP(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), 0, -1)
WRAP(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), 0, -1)
WRAP(void *, mmap, (void *at, size_t n, int how, int flags, int fd, off_t from),
     (at, n, how, flags, fd, from), 0, MAP_FAILED)
WRAP(DIR *, opendir, (const char *path), (path), 0, NULL)
WRAP(struct dirent *, readdir, (DIR * dir), (dir), 0, NULL)

/* Does not sync: a process that ends loses none of its writes, and waiting for the disk would take
 * most of the time. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    struct stat info;
    return call("fsync", 1) ? -1 : __real_fstat(fd, &info);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;
    va_end(list);
    return call("open", (flags & O_CREAT) != 0) ? -1 : __real_open(path, flags, mode);
}

/* Writes half of the bytes before the process ends. */
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    if (now.way == SWEEP_KILL && now.count + 1 == now.n && count > 1 &&
        __real_write(fd, bytes, count / 2) < 0)
        return -1;
    return call("write", 1) ? -1 : __real_write(fd, bytes, count);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *),
                          void *arg)
{
    return fails("pthread_create", SWEEP_FEWER, SWEEP_ALONE)
               ? EAGAIN
               : __real_pthread_create(thread, how, run, arg);
}

/* --- memory ----------------------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return starves("malloc") ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return starves("calloc") ? NULL : __real_calloc(count, bytes);
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    return starves("realloc") ? NULL : __real_realloc(old, bytes);
}

int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    return starves("posix_memalign") ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
}

FILE *__real_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size);
FILE *__wrap_open_memstream(char **text, size_t *size)
{
    return starves("open_memstream") ? NULL : __real_open_memstream(text, size);
}

static void *json_malloc(size_t bytes)
{
    return starves("malloc of jansson") ? NULL : __real_malloc(bytes);
}

void sweep_begin(sweep_way way, unsigned long n, int error)
{
    json_set_alloc_funcs(json_malloc, free);
    now.way = way;
    now.n = n;
    now.error = error;
    now.count = 0;
    now.failed = "";
}
