#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "tests/fuzz/guarded_map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { EXACT = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { EXACT = 1 };
#else
enum { EXACT = 0 };
#endif
#else
enum { EXACT = 0 };
#endif

static size_t whole_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Allocates memory that is followed by an inaccessible page. */
static unsigned char *room_for(size_t bytes)
{
    const size_t pages = whole_pages(bytes);
    void *at = NULL;
    if (EXACT) {
        if (posix_memalign(&at, SB_GUARD_ALIGNED, bytes) != 0)
            abort();
        return at;
    }
    at = mmap(NULL, pages + whole_pages(1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
              0);
    if (at == MAP_FAILED || mprotect((unsigned char *)at + pages, whole_pages(1), PROT_NONE) != 0)
        abort();
    return (unsigned char *)at + (pages - bytes) / SB_GUARD_ALIGNED * SB_GUARD_ALIGNED;
}

static void free_room(unsigned char *at, size_t bytes)
{
    if (EXACT)
        free(at);
    else
        munmap(at - (uintptr_t)at % whole_pages(1), whole_pages(bytes) + whole_pages(1));
}

void __real_sb_map_close(sb_map *map);
sb_status __real_sb_map_open(const char *path, sb_map *out, sb_error *err);
sb_status __wrap_sb_map_open(const char *path, sb_map *out, sb_error *err);
sb_status __wrap_sb_map_open(const char *path, sb_map *out, sb_error *err)
{
    sb_map file = {NULL, 0}; /* a failed open may leave it as it is */
    sb_status status = __real_sb_map_open(path, &file, err);
    *out = file;
    if (status || file.size == 0)
        return status;
    unsigned char *copy = room_for(file.size);
    memcpy(copy, file.data, file.size);
    out->data = copy;
    __real_sb_map_close(&file);
    return SB_OK;
}

void __wrap_sb_map_close(sb_map *map);
void __wrap_sb_map_close(sb_map *map)
{
    union {
        const unsigned char *given;
        unsigned char *taken;
    } at = {.given = map->data};
    if (map->size == 0) {
        __real_sb_map_close(map);
        return;
    }
    free_room(at.taken, map->size);
    map->data = (const unsigned char *)"";
    map->size = 0;
}

/* Does nothing: the copy cannot be read again from a file. */
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    (void)at;
    (void)bytes;
    (void)advice;
    return 0;
}
