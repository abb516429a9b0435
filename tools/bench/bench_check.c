/* bench_check.c - compares `samebit check` with one pass of pread and XXH3 over the same files,
 * with the same number of threads and in the same run. */
#include "tools/bench/bench_check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/container/file.h"
#include "tools/bench/bench_folder.h"
#include "tools/check/read/check.h"

enum { PIECE = 1 << 20, PASSES = 15 };

/* Elapsed seconds, and seconds of all processors, which other processes do not disturb. */
typedef struct cost {
    double wall, cpu;
} cost;

static double clock_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static cost now(void)
{
    return (cost){clock_of(CLOCK_MONOTONIC), clock_of(CLOCK_PROCESS_CPUTIME_ID)};
}

static cost since(cost start)
{
    cost end = now();
    return (cost){end.wall - start.wall, end.cpu - start.cpu};
}

static cost better(cost a, cost b)
{
    return (cost){a.wall < b.wall ? a.wall : b.wall, a.cpu < b.cpu ? a.cpu : b.cpu};
}

typedef struct hashing {
    const char *path;
    struct {
        int fd; /* 0: not opened yet */
        unsigned char *memory;
        sb_hash *hash;
        uint64_t bytes;
    } * of; /* each thread */
} hashing;

static void hash_piece(void *ctx, size_t i, size_t worker)
{
    hashing *h = ctx;
    if (!h->of[worker].fd) {
        h->of[worker].fd = open(h->path, O_RDONLY);
        h->of[worker].memory = sb_alloc(PIECE, 1);
        h->of[worker].hash = sb_hash_new();
    }
    if (h->of[worker].fd < 0 || !h->of[worker].memory || !h->of[worker].hash)
        return;
    ssize_t n = pread(h->of[worker].fd, h->of[worker].memory, PIECE, (off_t)i * PIECE);
    if (n > 0) {
        sb_hash_bytes(h->of[worker].hash, h->of[worker].memory, (size_t)n);
        h->of[worker].bytes += (uint64_t)n;
    }
}

/* The yardstick: each thread reads its own pieces of PIECE bytes. Returns the bytes, 0 on
 * failure. */
static uint64_t hash_file(const char *path)
{
    const size_t threads = sb_threads();
    struct stat info;
    uint64_t bytes = 0;
    hashing h = {.path = path};
    h.of = sb_alloc(threads, sizeof *h.of);
    if (!h.of || stat(path, &info) != 0) {
        free(h.of);
        return 0;
    }
    sb_parallel_in_order((size_t)((info.st_size + PIECE - 1) / PIECE), 1, hash_piece, &h);
    for (size_t i = 0; i < threads; i++) {
        bytes += h.of[i].bytes;
        if (h.of[i].hash)
            sb_hash_free(h.of[i].hash);
        free(h.of[i].memory);
        if (h.of[i].fd > 0)
            close(h.of[i].fd);
    }
    free(h.of);
    return bytes;
}

static void leave_cache(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return;
    sb_file_advise(fd, 0, 0, SB_FILE_done);
    close(fd);
}

/* Hashes the files of a folder one by one. */
static uint64_t each_file(const char *folder, int cold)
{
    sb_error err;
    sb_checkpoint *c;
    uint64_t bytes = 0;
    if (!folder || sb_checkpoint_open(folder, &c, &err))
        return 0;
    for (uint32_t i = 0; i < sb_checkpoint_shards(c); i++) {
        char *path = sb_path_join(sb_checkpoint_folder(c), sb_checkpoint_shard_name(c, i));
        if (path && cold)
            leave_cache(path);
        else if (path)
            bytes += hash_file(path);
        free(path);
    }
    sb_checkpoint_close(c);
    return bytes;
}

static cost time_hash(const char *folder, const char *original, uint64_t *bytes)
{
    cost start = now();
    *bytes = each_file(folder, 0) + each_file(original, 0);
    return since(start);
}

static int time_check(const char *folder, const char *original, sb_io io, cost *out)
{
    sb_check check;
    sb_error err;
    sb_check_options options = {.path = folder, .against = original, .io = io};
    cost start = now();
    sb_status status = sb_check_run(&options, &check, &err);
    *out = since(start);
    if (status)
        fprintf(stderr, "bench: %s\n", err.text);
    sb_check_free(&check);
    return !status;
}

/* The best of several passes: disturbances only make a pass longer. */
static int bench_way(const char *folder, const char *original, sb_io io, int cold)
{
    cost hash = {0, 0}, check = {0, 0}, one;
    uint64_t bytes = 0;
    for (int pass = 0; pass < (cold ? 1 : PASSES); pass++) {
        if (cold)
            each_file(folder, 1), each_file(original, 1);
        one = time_hash(folder, original, &bytes);
        hash = pass ? better(hash, one) : one;
        if (cold)
            each_file(folder, 1), each_file(original, 1);
        if (bytes == 0 || !time_check(folder, original, io, &one))
            return 0;
        check = pass ? better(check, one) : one;
    }
    double gb = (double)bytes / 1e9;
    printf("check %-6s %-6s %s check_over_hash %.2f of time, %.2f of processors (%.2f against %.2f "
           "GB/s; %.2f against %.2f per processor)\n",
           sb_io_name(io), cold ? "cold" : "cached", original ? "against" : "alone",
           hash.wall / check.wall, hash.cpu / check.cpu, gb / check.wall, gb / hash.wall,
           gb / check.cpu, gb / hash.cpu);
    return 1;
}

/* Times the automatic choice and each way of reading, with cached and uncached files. */
int sb_bench_check(const char *folder, const char *original)
{
    int sound = 1;
    printf(
        "%s%s%s, %d threads; check_over_hash is the speed of `samebit check` divided by that of pread and XXH3\n",
        folder, original ? " against " : "", original ? original : "", (int)sb_threads());
    for (sb_io io = SB_IO_auto; io < SB_IO_COUNT && sound; io++)
        sound = bench_way(folder, original, io, 0);
    for (sb_io io = SB_IO_auto; io < SB_IO_COUNT && sound; io++)
        sound = bench_way(folder, original, io, 1);
    return sound;
}

int sb_bench_check_made(const char *folder)
{
    sb_error err;
    char paths[SB_BENCH_FORMATS][1024];
    int sound = 1;
    for (unsigned f = 0; f < SB_BENCH_FORMATS && sound; f++) {
        snprintf(paths[f], sizeof paths[f], "%s-%s", folder,
                 sb_bench_format_name((sb_bench_format)f));
        sound = !sb_bench_folder(paths[f], (sb_bench_format)f, &err);
        if (!sound)
            fprintf(stderr, "bench: %s\n", err.text);
    }
    if (sound)
        printf(
            "check of 4 * 10^8 weights in %s-*, %d threads; check_over_hash is the speed of `samebit check`\n"
            "divided by that of pread and XXH3 over the same files\n",
            folder, (int)sb_threads());
    for (unsigned f = 0; f < SB_BENCH_FORMATS && sound; f++)
        for (int way = 0; way < 4 && sound; way++) {
            const char *original = way % 2 ? paths[SB_BENCH_bf16] : NULL;
            printf("%-5s ", sb_bench_format_name((sb_bench_format)f));
            sound = bench_way(paths[f], original, SB_IO_auto, way / 2);
        }
    return sound;
}
