#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ref/base/pool.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/start.h"
#include "tools/cli/cli.h"
#include "tools/cli/color.h"
#include "tools/cli/commands.h"
#include "tools/cli/shrunk.h"

void sb_set_threads(unsigned threads)
{
    if (threads)
        sb_threads_set(threads);
}

/* --- progress --------------------------------------------------------------------------------- */

/* The current work, its start, and the time of the last output. Only one thread calls. */
static struct {
    const char *what;
    double start, last;
} going;

static double now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) ? 0 : (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The seconds since the work began; negative: too early for another output. */
static double moment(const char *what, uint64_t done, uint64_t total)
{
    double at = now();
    if (!going.what || strcmp(going.what, what) != 0) {
        going.what = what;
        going.start = at;
        going.last = at - 1;
    }
    if (done < total && at - going.last < 0.1)
        return -1;
    going.last = at;
    if (done >= total)
        going.what = NULL;
    return at - going.start;
}

static void print_left(double seconds)
{
    unsigned long long s = seconds < 1e6 ? (unsigned long long)seconds : 1000000;
    if (s >= 3600)
        fprintf(stderr, ", %llu h %02llu min left", s / 3600, s / 60 % 60);
    else if (s >= 60)
        fprintf(stderr, ", %llu min %02llu s left", s / 60, s % 60);
    else
        fprintf(stderr, ", %llu s left", s);
}

void sb_progress(void *unused, const char *what, uint64_t done, uint64_t total)
{
    (void)unused;
    double seconds = isatty(STDERR_FILENO) ? moment(what, done, total) : -1;
    if (seconds < 0)
        return;
    fprintf(stderr, "\r%s %llu/%llu", what, (unsigned long long)done, (unsigned long long)total);
    if (seconds >= 1 && done > 0 && done < total)
        print_left(seconds * (double)(total - done) / (double)done);
    fprintf(stderr, "\033[K%s", done >= total ? "\n" : "");
}

void sb_progress_bytes(void *unused, const char *what, uint64_t done, uint64_t total)
{
    (void)unused;
    double seconds = isatty(STDERR_FILENO) ? moment(what, done, total) : -1;
    if (seconds < 0)
        return;
    fprintf(stderr, "\r%s %.2f of %.2f GB", what, (double)done * 1e-9, (double)total * 1e-9);
    if (seconds >= 1)
        fprintf(stderr, ", %.2f GB/s", (double)done * 1e-9 / seconds);
    if (seconds >= 1 && done > 0 && done < total)
        print_left(seconds * (double)(total - done) / (double)done);
    fprintf(stderr, "\033[K%s", done >= total ? "\n" : "");
}

static int is_flag(const char *word, const char *flag, const char *letter)
{
    return strcmp(word, flag) == 0 || (letter && strcmp(word, letter) == 0);
}

static sb_status run_command(int argc, char **argv, sb_error *err)
{
    const sb_command *command;
    if (argc < 2 || is_flag(argv[1], "--help", "-h")) {
        sb_print_commands();
        return SB_OK;
    }
    if (is_flag(argv[1], "--version", NULL))
        return sb_print_version(err);
    sb_status status = sb_math_start(NULL, err);
    if (!status)
        status = sb_command_find(argv[1], &command, err);
    return status ? status : command->run(argc - 1, argv + 1, err);
}

int main(int argc, char **argv)
{
    sb_error err = {""};
    sb_json_watch();
    sb_watch_files();
    sb_color_start();
    sb_status status = run_command(argc, argv, &err);
    if (argc < 2)
        return sb_exit_status(SB_ERR_USAGE);
    if (!status && sb_math_missed())
        status = sb_math_check(&err);
    if (!status && (fflush(stdout) != 0 || ferror(stdout)))
        status = sb_fail(&err, SB_ERR_IO, "the result could not be written to stdout");
    sb_color_end();
    if ((!status || status == SB_ERR_DIFF) && sb_json_lost())
        status = sb_fail(&err, SB_ERR_MEMORY, "out of memory: the output may be incomplete");
    if (status) {
        fputs("samebit: ", stderr);
        sb_print_shown(err.text, stderr); /* escapes control characters in quoted text */
        fputc('\n', stderr);
    }
    return sb_exit_status(status);
}
