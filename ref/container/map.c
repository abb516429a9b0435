/* For madvise, which is not in POSIX. posix_madvise does not release pages. */
#define _DEFAULT_SOURCE
#include "ref/container/map.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ref/container/file.h"
#include "ref/container/show.h"

#if defined(MADV_HUGEPAGE) && defined(MADV_NOHUGEPAGE)
enum { MADV_LARGE = MADV_HUGEPAGE, MADV_USUAL = MADV_NOHUGEPAGE };
#else
enum { MADV_LARGE = MADV_NORMAL, MADV_USUAL = MADV_NORMAL };
#endif

static const unsigned char nothing[1];

sb_status sb_map_open(const char *path, sb_map *out, sb_error *err)
{
    int fd;
    size_t size;
    sb_status status = sb_open_regular(path, &fd, &size, err);
    if (status != SB_OK)
        return status;
    out->data = nothing; /* used for an empty file, because mmap refuses a length of 0 */
    out->size = size;
    if (size > 0) {
        void *base = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (base == MAP_FAILED)
            status = sb_fail(err, SB_ERR_IO, "%s: cannot map %zu bytes: %s", SB_SHOW(path), size,
                             strerror(errno));
        else
            out->data = base;
    }
    close(fd); /* the mapping outlives the descriptor */
    if (status != SB_OK)
        *out = (sb_map){nothing, 0};
    return status;
}

void sb_map_close(sb_map *map)
{
    const long page = sysconf(_SC_PAGESIZE);
    if (map->size > 0) {
        /* munmap takes a pointer to non-const, but does not write the bytes */
        union {
            const unsigned char *given;
            void *taken;
        } base = {.given = map->data};
        /* the header of a stub begins within a page (stub.h) */
        size_t before = page > 0 ? (uintptr_t)map->data % (size_t)page : 0;
        base.given -= before;
        munmap(base.taken, map->size + before);
    }
    *map = (sb_map){nothing, 0};
}

/* madvise takes a pointer to non-const, but does not write the bytes. */
void sb_map_advise(const unsigned char *from, uint64_t bytes, sb_pages what)
{
    static const int advice[] = {[SB_PAGES_soon] = MADV_WILLNEED,
                                 [SB_PAGES_large] = MADV_LARGE,
                                 [SB_PAGES_usual] = MADV_USUAL,
                                 [SB_PAGES_done] = MADV_DONTNEED};
    const long page = sysconf(_SC_PAGESIZE);
    union {
        const unsigned char *given;
        void *taken;
    } at = {.given = from};
    if (bytes == 0 || page <= 0)
        return;
    size_t before = (uintptr_t)from % (size_t)page;
    at.given -= before;
    (void)madvise(at.taken, (size_t)bytes + before, advice[what]);
}
