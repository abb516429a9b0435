#include "tools/bench/made.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "ref/container/show.h"

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        char *file = sb_path_join(path, entry->d_name);
        if (file && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(file);
        free(file);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

/* Also removes the partial folder of an interrupted writer (ref/container/target.h). */
void sb_bench_made_remove(const char *path)
{
    char partial[SB_BENCH_PATH + 16];
    snprintf(partial, sizeof partial, "%s.partial", path);
    remove_folder(partial);
    remove_folder(path);
}

static int is_there(const char *path)
{
    char partial[SB_BENCH_PATH + 16];
    snprintf(partial, sizeof partial, "%s.partial", path);
    return access(path, F_OK) == 0 || access(partial, F_OK) == 0;
}

/* Waits for the signal in a thread, where all functions may be called, and raises it again at the
 * end. Other threads may still write files, so the removal repeats until nothing is left. */
static void *wait_for_signals(void *path)
{
    enum { MOST = 1000 };
    sigset_t ends;
    int which;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    if (sigwait(&ends, &which))
        return NULL;
    for (int i = 0; i < MOST && is_there(path); i++)
        sb_bench_made_remove(path);
    signal(which, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
    raise(which);
    return NULL;
}

/* Keeps ignoring an ignored signal (nohup). */
static void block(int which)
{
    struct sigaction now;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, which);
    if (sigaction(which, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
}

sb_status sb_bench_made_new(char path[SB_BENCH_PATH], sb_error *err)
{
    const char *where = getenv("TMPDIR");
    pthread_t thread;
    sigset_t before;
    int n = snprintf(path, SB_BENCH_PATH, "%s/samebit-bench-XXXXXX", where && *where ? where : ".");
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    block(SIGINT);
    block(SIGTERM);
    block(SIGHUP);
    if (n < 0 || n >= SB_BENCH_PATH || !mkdtemp(path))
        return sb_fail(err, SB_ERR_IO, "%s: cannot make a temporary folder", SB_SHOW(path));
    if (pthread_create(&thread, NULL, wait_for_signals, path) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_SETMASK, &before, NULL); /* signals then leave the folder */
    return SB_OK;
}
