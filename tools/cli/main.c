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
#include "tools/cli/shrunk.h"

static const struct {
    const char *name, *help;
    sb_status (*run)(int argc, char **argv, sb_error *err);
} commands[] = {
#define SB_COMMAND(name, help) {#name, help, sb_cmd_##name},
#include "tools/cli/commands.def"
#undef SB_COMMAND
};

void sb_set_threads(unsigned threads)
{
    if (threads)
        sb_threads_set(threads);
}

/* --- progress ----------------------------------------------------------------------------------
 */

/* What is done, since when, and when it was last said. Only one thread calls. */
static struct {
    const char *what;
    double start, last;
} going;

static double now(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) ? 0 : (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The seconds since the work began; below 0: too early to say something again. */
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

static void print_help(void)
{
    printf(
        "usage: samebit COMMAND [options]\n\n"
        "A deterministic reference of the Qwen3.5 / Qwen3.6 / Qwen3-Next models: the same bits on\n"
        "every machine.\n\ncommands:\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].help);
    printf("\n'samebit COMMAND --help' explains one. SAMEBIT_ISA=auto|exact|scalar|avx2|avx512|\n"
           "avx512vnni|neon chooses the instructions, never the result.\n"
           "A file that is written follows links, goes straight into a device or pipe, and is\n"
           "never one that the same command reads.\n"
           "Exit status: 0 passed, 1 a difference, 2 wrong use, 3 input refused, 4 skipped.\n");
}

int main(int argc, char **argv)
{
    sb_error err = {""};
    sb_status status;
    int helped = argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    sb_json_watch();
    sb_watch_files();
    if (helped)
        print_help();
    if (argc < 2)
        return sb_exit_status(SB_ERR_USAGE);
    status = helped ? SB_OK : sb_math_start(NULL, &err);
    for (size_t i = 0; !status && !helped; i++) {
        if (i == sizeof commands / sizeof *commands) {
            status = sb_fail(&err, SB_ERR_USAGE, "there is no command '%s'; see 'samebit --help'",
                             argv[1]);
        } else if (strcmp(argv[1], commands[i].name) == 0) {
            status = commands[i].run(argc - 1, argv + 1, &err);
            break;
        }
    }
    if (!status && sb_math_missed())
        status = sb_math_check(&err);
    if (!status && (fflush(stdout) != 0 || ferror(stdout)))
        status = sb_fail(&err, SB_ERR_IO, "the result could not be written to stdout");
    if ((!status || status == SB_ERR_DIFF) && sb_json_lost())
        status = sb_fail(&err, SB_ERR_MEMORY, "out of memory: what was told may lack something");
    if (status) {
        fputs("samebit: ", stderr);
        sb_print_shown(err.text, stderr); /* whatever it quotes, it steers no terminal */
        fputc('\n', stderr);
    }
    return sb_exit_status(status);
}
