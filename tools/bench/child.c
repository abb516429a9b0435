#define _DEFAULT_SOURCE /* wait4 */
#include "tools/bench/child.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ref/base/pool.h"
#include "tools/bench/measure.h"

/* What the child tells. */
typedef struct told {
    sb_status status;
    sb_error err;
} told;

static void be_child(sb_status (*run)(void *ctx, sb_error *err), void *ctx, int to)
{
    told t = {0};
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(1);
    sb_threads_set(1);
    t.status = run(ctx, &t.err);
    _exit(write(to, &t, sizeof t) != (ssize_t)sizeof t);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Reads what the child tells, and waits for its end. */
static sb_status hear(pid_t child, int from, sb_bench_child *out, sb_error *err)
{
    told t = {0};
    size_t have = 0;
    int status = 0;
    struct rusage used;
    for (ssize_t n = 1; n != 0 && have < sizeof t;) {
        n = read(from, (char *)&t + have, sizeof t - have);
        if (n < 0 && errno != EINTR)
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    while (wait4(child, &status, 0, &used) < 0)
        if (errno != EINTR)
            return sb_fail(err, SB_ERR_IO, "cannot wait for a process: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || have != sizeof t)
        return sb_fail(err, SB_ERR_IO, "a measured process ended early, with status %d", status);
    out->status = t.status;
    out->err = t.err;
    out->processor = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
#ifdef __APPLE__
    out->peak_bytes = (uint64_t)used.ru_maxrss;
#else
    out->peak_bytes = (uint64_t)used.ru_maxrss * 1024;
#endif
    return SB_OK;
}

sb_status sb_bench_in_child(sb_status (*run)(void *ctx, sb_error *err), void *ctx,
                            sb_bench_child *out, sb_error *err)
{
    int ends[2];
    *out = (sb_bench_child){0};
    if (pipe(ends) != 0)
        return sb_fail(err, SB_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    fflush(NULL); /* or the child would have the same output once more */
    const double start = sb_bench_now();
    const pid_t child = fork();
    if (child == 0)
        be_child(run, ctx, ends[1]);
    close(ends[1]);
    sb_status status = child < 0
                           ? sb_fail(err, SB_ERR_IO, "cannot start a process: %s", strerror(errno))
                           : hear(child, ends[0], out, err);
    out->seconds = sb_bench_now() - start;
    close(ends[0]);
    return status;
}
