/* pages.cc - drops pages of files that were read: where device and host share memory, the file and
 * its packed weights would both be in memory. */
#include "gpu/gpu.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The mapping goes first, because pages that a process has mapped do not leave the page cache. */
int sb_gpu_forget_file(const char *path, const void *first, size_t bytes)
{
#if defined(MADV_DONTNEED) && defined(POSIX_FADV_DONTNEED)
    const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t from = reinterpret_cast<uintptr_t>(first) / page * page;
    const uintptr_t end = reinterpret_cast<uintptr_t>(first) + bytes;
    if (bytes == 0 || madvise(reinterpret_cast<void *>(from), end - from, MADV_DONTNEED))
        return 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const int refused = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return !refused;
#else
    (void)path;
    (void)first;
    (void)bytes;
    return 0;
#endif
}
