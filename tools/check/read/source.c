/* Needs more than POSIX: mincore, cachestat, madvise, O_DIRECT. No other file may do so. */
#define _GNU_SOURCE
#include "tools/check/read/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "ref/base/hash.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/container/checkpoint_parts.h"
#include "ref/container/file.h"
#include "ref/container/overlay.h"
#include "ref/container/show.h"

/* STRETCH: one page tells whether a stretch of a file is in the page cache. */
enum { STRETCH = 1 << 16, ASKED = 256, PIECE = 1 << 20, ROUNDS = 3, PIECES = 4 };
/* For files in the page cache: the size of pieces, and the least size of files. */
enum { CACHED_PIECE = 1 << 18, CACHED_LEAST = 1 << 25 };

struct sb_source {
    const sb_checkpoint *checkpoint;
    sb_io io;
    unsigned char **cached; /* per shard, a byte per stretch: it was in the page cache before */
};

static const char *const names[SB_IO_COUNT] = {"auto", "map", "pread", "direct"};

const char *sb_io_name(sb_io io)
{
    return names[io];
}

sb_io sb_io_named(const char *name)
{
    unsigned io = 0;
    while (io < SB_IO_COUNT && strcmp(name, names[io]) != 0)
        io++;
    return (sb_io)io;
}

const sb_checkpoint *sb_source_checkpoint(const sb_source *s)
{
    return s->checkpoint;
}

sb_io sb_source_io(const sb_source *s)
{
    return s->io;
}

static size_t size_of(const sb_source *s, uint32_t shard)
{
    return s->checkpoint->shards[shard].file.size;
}

/* The mapping of a stub is the only place of its bytes (ref/container/stub.h). */
static int is_stub(const sb_source *s, uint32_t shard)
{
    return s->checkpoint->shards[shard].file.is_stub;
}

/* The address of a byte in the mapping. It is not const, because mincore and madvise take such
 * pointers; no byte is written. */
static unsigned char *mapped(const sb_source *s, uint32_t shard, uint64_t at)
{
    union {
        const unsigned char *given;
        unsigned char *taken;
    } base = {.given = s->checkpoint->shards[shard].file.bytes};
    return base.taken + at;
}

/* --- the page cache --------------------------------------------------------------------------- */

/* A shard, and for each of its stretches whether it is in the page cache. */
typedef struct asked {
    const sb_source *source;
    uint32_t shard;
    size_t count;
} asked;

/* Handles ASKED stretches, because each question to the operating system takes a microsecond. */
static void look_at(void *ctx, size_t turn, size_t worker)
{
    const asked *a = ctx;
    size_t end = (turn + 1) * ASKED < a->count ? (turn + 1) * ASKED : a->count;
    unsigned char page = 1;
    (void)worker;
    for (size_t i = turn * ASKED; i < end; i++) {
#ifdef __linux__
        size_t size = size_of(a->source, a->shard), middle = i * STRETCH + STRETCH / 2;
        if (mincore(mapped(a->source, a->shard, middle < size ? middle : i * STRETCH), 1, &page))
            page = 1; /* unknown: keep it in the cache */
#endif
        a->source->cached[a->shard][i] = page & 1;
    }
}

static void unmap(const sb_source *s, uint32_t shard, uint64_t first, uint64_t end)
{
#ifdef __linux__
    if (end > first && !is_stub(s, shard))
        (void)madvise(mapped(s, shard, first), end - first, MADV_DONTNEED);
#else
    (void)s, (void)shard, (void)first, (void)end;
#endif
}

static int all_kept(const sb_source *s, uint32_t shard, uint64_t first, uint64_t end)
{
    uint64_t at = first;
    while (at < end && s->cached[shard][at / STRETCH])
        at += STRETCH;
    return at >= end;
}

static void forget(const sb_source *s, uint32_t shard, int fd, uint64_t first, uint64_t end)
{
    unmap(s, shard, first, end); /* a page that is mapped does not leave the cache */
    for (uint64_t at = first; at < end;) {
        unsigned char kept = s->cached[shard][at / STRETCH];
        uint64_t from = at;
        while (at < end && s->cached[shard][at / STRETCH] == kept)
            at += STRETCH;
        if (!kept)
            sb_file_advise(fd, from, (at < end ? at : end) - from, SB_FILE_done);
    }
}

/* I-2: "in whole stretches of 64 KiB" - the last stretch of a range is dropped with the next
 * range. */
uint64_t sb_source_drop(const sb_source *s, uint32_t shard, int fd, uint64_t first, uint64_t end)
{
    first = first / STRETCH * STRETCH;
    if (end < size_of(s, shard))
        end = end / STRETCH * STRETCH;
    if (all_kept(s, shard, first, end))
        return end > first ? end - first : 0;
    forget(s, shard, fd, first, end);
    return 0;
}

void sb_source_unmap(const sb_source *s)
{
    for (uint32_t shard = 0; shard < s->checkpoint->shard_count; shard++)
        unmap(s, shard, 0, size_of(s, shard));
}

/* --- files ------------------------------------------------------------------------------------ */

static char *path_of(const sb_source *s, uint32_t shard)
{
    return sb_path_join(sb_checkpoint_shard_folder(s->checkpoint, shard),
                        sb_checkpoint_shard_name(s->checkpoint, shard));
}

static sb_status open_as(const sb_source *s, uint32_t shard, sb_io io, int *fd, int *direct,
                         sb_error *err)
{
    size_t size;
    char *path = path_of(s, shard);
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the name of a file");
    sb_status status = SB_OK;
    *direct = 0;
    *fd = -1;
#ifdef O_DIRECT
    if (io == SB_IO_direct)
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    *direct = *fd >= 0;
#else
    (void)io;
#endif
    if (*fd < 0)
        status = sb_open_regular(path, fd, &size, err);
    if (!status && !*direct)
        sb_file_advise(*fd, 0, 0, SB_FILE_in_order);
    free(path);
    return status;
}

int sb_source_hole(const sb_checkpoint *checkpoint, uint32_t shard, uint64_t first, uint64_t end)
{
    int hole = 0;
#ifdef SEEK_DATA
    sb_error err;
    size_t size;
    int fd = -1;
    char *path = sb_path_join(sb_checkpoint_shard_folder(checkpoint, shard),
                              sb_checkpoint_shard_name(checkpoint, shard));
    int stub = checkpoint->shards[shard].file.is_stub;
    if (path && !stub && !sb_open_regular(path, &fd, &size, &err)) {
        first = (first + SB_IO_ALIGN - 1) / SB_IO_ALIGN * SB_IO_ALIGN;
        end = end / SB_IO_ALIGN * SB_IO_ALIGN;
        off_t data = lseek(fd, (off_t)first, SEEK_DATA);
        hole = data < 0 ? errno == ENXIO : (uint64_t)data >= end;
        hole = hole && first < end;
        close(fd);
    }
    free(path);
#else
    (void)checkpoint, (void)shard, (void)first, (void)end;
#endif
    return hole;
}

sb_status sb_source_open(const sb_source *s, uint32_t shard, int *fd, int *direct, sb_error *err)
{
    return open_as(s, shard, s->io, fd, direct, err);
}

sb_status sb_source_read(const sb_source *s, uint32_t shard, int fd, int direct, uint64_t at,
                         unsigned char *bytes, size_t count, sb_error *err)
{
    size_t size = size_of(s, shard), done = 0;
    while (done < count) {
        ssize_t n = pread(fd, bytes + done, count - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sb_fail(err, SB_ERR_IO, "%s: cannot read %zu bytes at byte %" PRIu64 ": %s",
                           SB_SHOW(sb_checkpoint_shard_name(s->checkpoint, shard)), count - done,
                           at + done, strerror(errno));
        done += (size_t)n;
        if (direct && at + done >= size)
            return SB_OK; /* the last page of a file may be incomplete */
        if (n == 0)
            return sb_fail(err, SB_ERR_IO, "%s: ends at byte %" PRIu64 ", expected %zu bytes",
                           SB_SHOW(sb_checkpoint_shard_name(s->checkpoint, shard)), at + done,
                           size);
    }
    return SB_OK;
}

/* --- the state of the page cache at the start ------------------------------------------------- */

/* The number of a file's pages in the page cache, from a system call that Linux has since 6.5. The
 * headers may be older. -1: unknown. */
static int64_t pages_cached(int fd, size_t size)
{
    int64_t count = -1;
#ifdef __linux__
    enum { CACHESTAT = 451 }; /* on all architectures where this code is used */
    struct {
        uint64_t first, count;
    } range = {0, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } answer = {0};
    if (syscall(CACHESTAT, fd, &range, &answer, 0) == 0)
        count = (int64_t)answer.cached;
#else
    (void)fd, (void)size;
#endif
    return count;
}

/* 1: all of it is cached; 0: nothing; -1: a part, or unknown. */
static int whole_or_nothing(const sb_source *s, uint32_t shard)
{
    sb_error err;
    int fd, direct;
    size_t size = size_of(s, shard), page = (size_t)sysconf(_SC_PAGESIZE);
    if (open_as(s, shard, SB_IO_pread, &fd, &direct, &err))
        return -1;
    int64_t count = pages_cached(fd, size);
    close(fd);
    return count == 0 ? 0 : count >= (int64_t)((size + page - 1) / page) ? 1 : -1;
}

/* I-2: "Before the first byte is read" */
static int look_in_cache(sb_source *s, uint32_t shard)
{
    asked a = {s, shard, (size_of(s, shard) + STRETCH - 1) / STRETCH};
    s->cached[shard] = sb_alloc(a.count, 1);
    if (!s->cached[shard])
        return 0;
    int all = is_stub(s, shard) ? 1 : whole_or_nothing(s, shard);
    if (all < 0)
        sb_parallel_for((a.count + ASKED - 1) / ASKED, a.count > ASKED, look_at, &a);
    else
        memset(s->cached[shard], all, a.count);
    return 1;
}

/* --- the choice ------------------------------------------------------------------------------- */

typedef struct trial {
    sb_source *source;
    uint32_t shard;
    sb_hash *hash;
    unsigned char *memory; /* PIECE bytes, aligned */
    /* seconds of all rounds, and of the fastest round */
    double seconds[SB_IO_COUNT], least[SB_IO_COUNT];
} trial;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads the bytes from `at` to `end` in pieces, in one way, and hashes them. Drops them from the
 * page cache if they were not cached before. */
static void try_one(trial *t, sb_io io, uint64_t at, uint64_t end, size_t piece)
{
    sb_error err;
    sb_source *s = t->source;
    int fd, direct = 0;
    s->io = io;
    if (open_as(s, t->shard, io, &fd, &direct, &err))
        return;
    double start = now();
    for (uint64_t p = at; p < end; p += piece) {
        const unsigned char *bytes = mapped(s, t->shard, p);
        if (io != SB_IO_map) {
            if (sb_source_read(s, t->shard, fd, direct, p, t->memory, piece, &err))
                break;
            bytes = t->memory;
        }
        sb_hash_bytes(t->hash, bytes, piece);
    }
    double took = now() - start;
    if (io == SB_IO_direct && !direct)
        took += 1e6; /* the file system does not support direct reads */
    if (t->seconds[io] == 0 || took < t->least[io])
        t->least[io] = took;
    t->seconds[io] += took;
    forget(s, t->shard, fd, at, end);
    close(fd);
}

/* I-1: "the largest file, in turns, each time at another place" */
static sb_io measure_ways(trial *t)
{
    static const sb_io ways[] = {SB_IO_pread, SB_IO_map, SB_IO_direct};
    uint64_t size = size_of(t->source, t->shard), step = size / (3 * ROUNDS) / STRETCH * STRETCH;
    sb_io best = SB_IO_pread;
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < 3; i++) {
            uint64_t at = step * (3 * round + i);
            try_one(t, ways[i], at, at + (uint64_t)PIECES * PIECE, PIECE);
        }
    for (unsigned i = 1; i < 3; i++)
        if (t->seconds[ways[i]] < 0.8 * t->seconds[best])
            best = ways[i];
    return best;
}

/* 1 if at least nine tenths of the shard were cached. */
static int is_cached(const sb_source *s, uint32_t shard)
{
    size_t count = (size_of(s, shard) + STRETCH - 1) / STRETCH, there = 0;
    for (size_t i = 0; i < count; i++)
        there += s->cached[shard][i];
    return there >= count - count / 10;
}

/* I-1: "A smaller file that is in the cache" */
static sb_io measure_cached(trial *t)
{
    static const sb_io ways[] = {SB_IO_pread, SB_IO_map};
    uint64_t step = size_of(t->source, t->shard) / (2 * ROUNDS) / STRETCH * STRETCH;
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < 2; i++) {
            uint64_t at = step * (2 * round + i);
            try_one(t, ways[i], at, at + CACHED_PIECE, CACHED_PIECE);
        }
    return t->least[SB_IO_map] < 0.8 * t->least[SB_IO_pread] ? SB_IO_map : SB_IO_pread;
}

static sb_io choose(sb_source *s)
{
    trial t = {.source = s};
    sb_io best = SB_IO_pread;
    void *memory = NULL;
    for (uint32_t i = 1; i < sb_checkpoint_shards(s->checkpoint); i++)
        if (size_of(s, i) > size_of(s, t.shard))
            t.shard = i;
    int large = size_of(s, t.shard) >= UINT64_C(2) << 30;
    if (!large && (size_of(s, t.shard) < CACHED_LEAST || !is_cached(s, t.shard)))
        return best;
    t.hash = sb_hash_new();
    if (t.hash && posix_memalign(&memory, SB_IO_ALIGN, PIECE) == 0) {
        t.memory = memory;
        best = large ? measure_ways(&t) : measure_cached(&t);
    }
    free(memory);
    if (t.hash)
        sb_hash_free(t.hash);
    return best;
}

sb_status sb_source_new(const sb_checkpoint *checkpoint, sb_io io, sb_source **out, sb_error *err)
{
    sb_source *s = sb_alloc(1, sizeof *s);
    size_t shards = sb_checkpoint_shards(checkpoint);
    int sound = s != NULL;
    if (s) {
        *s = (sb_source){.checkpoint = checkpoint, .cached = sb_alloc(shards, sizeof *s->cached)};
        sound = s->cached != NULL;
        for (uint32_t i = 0; i < shards && sound; i++)
            sound = look_in_cache(s, i);
    }
    if (!sound) {
        sb_source_free(s);
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for reading %s",
                       SB_SHOW(sb_checkpoint_path(checkpoint)));
    }
    int stubs = 0;
    for (uint32_t i = 0; i < shards; i++)
        stubs |= is_stub(s, i);
    s->io = stubs ? SB_IO_map : io == SB_IO_auto ? choose(s) : io;
    *out = s;
    return SB_OK;
}

void sb_source_free(sb_source *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->cached && i < sb_checkpoint_shards(s->checkpoint); i++)
        free(s->cached[i]);
    free(s->cached);
    free(s);
}
