#include "tools/cli/shrunk.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/status.h"
#include "ref/container/show.h"

/* A signal handler may use only plain system calls. */
static void say(const char *text, size_t n)
{
    while (n) {
        ssize_t put = write(STDERR_FILENO, text, n);
        if (put <= 0)
            return;
        text += put;
        n -= (size_t)put;
    }
}

static void say_path(const char *path)
{
    while (*path) {
        size_t n = sb_shown_bytes(path);
        say(n ? path : "?", n ? n : 1);
        path += n ? n : 1;
    }
}

static uintptr_t hex(const char **at)
{
    uintptr_t value = 0;
    for (;; (*at)++) {
        const char *digits = "0123456789abcdef", *d = **at ? strchr(digits, **at) : NULL;
        if (!d)
            return value;
        value = value << 4 | (uintptr_t)(d - digits);
    }
}

/* The path in a line of /proc/self/maps, "from-to rights offset device inode path", if the address
 * is in its range. */
static const char *path_in(const char *line, uintptr_t address)
{
    uintptr_t from = hex(&line);
    line += *line == '-';
    uintptr_t to = hex(&line);
    return address >= from && address < to ? strchr(line, '/') : NULL;
}

/* Reads lines piece by piece; cuts a line that is longer than any path. */
static void say_file(uintptr_t address)
{
    char line[4400];
    size_t used = 0;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (char c; fd >= 0 && read(fd, &c, 1) == 1;) {
        if (c != '\n') {
            if (used < sizeof line - 1)
                line[used++] = c;
            continue;
        }
        line[used] = '\0';
        used = 0;
        const char *path = path_in(line, address);
        if (path) {
            say_path(path);
            break;
        }
    }
    if (fd >= 0)
        close(fd);
}

/* Several threads may fault at the same file: only the first one prints. */
static atomic_flag spoken = ATOMIC_FLAG_INIT;

static void shrunk(int number, siginfo_t *info, void *context)
{
    static const char before
        [] = "samebit: ",
  behind[] =
        ": the file ended while it was read: another program shortened it, or its data is not here\n";
    (void)context;
    if (info->si_code != BUS_ADRERR) {
        signal(number, SIG_DFL); /* not a file: the signal comes again */
        return;
    }
    while (atomic_flag_test_and_set(&spoken))
        pause(); /* the first thread ends the process */
    say(before, sizeof before - 1);
    say_file((uintptr_t)info->si_addr);
    say(behind, sizeof behind - 1);
    _exit(sb_exit_status(SB_ERR_IO));
}

void sb_watch_files(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_sigaction = shrunk;
    act.sa_flags = SA_SIGINFO;
    sigemptyset(&act.sa_mask);
    (void)sigaction(SIGBUS, &act, NULL);
    signal(SIGXFSZ, SIG_IGN);
}
