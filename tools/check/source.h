/* source.h - the files of a checkpoint as something that bytes are read from, in one of three ways.
 *
 * Everything that asks the operating system for more than POSIX gives is here. What a source tells
 * never changes a finding: the bytes are the same in each way. */
#ifndef SB_CHECK_SOURCE_H
#define SB_CHECK_SOURCE_H

#include "ref/container/checkpoint.h"

/* How bytes come into memory. */
typedef enum sb_io {
    SB_IO_auto,   /* one of the others, as a short measurement on the largest file says */
    SB_IO_map,    /* the mapping of the file */
    SB_IO_pread,  /* read into memory that is used again */
    SB_IO_direct, /* the same past the cache, where the file system can; else as pread */
    SB_IO_COUNT
} sb_io;

const char *sb_io_name(sb_io io);    /* "pread" */
sb_io sb_io_named(const char *name); /* SB_IO_COUNT: there is none */

/* Reads of SB_IO_direct begin and end at multiples of this, in memory too. */
enum { SB_IO_ALIGN = 4096 };

typedef struct sb_source sb_source;

/* Looks at what of the files is in the cache, and chooses. All threads share it. */
sb_status sb_source_new(const sb_checkpoint *checkpoint, sb_io io, sb_source **out, sb_error *err);
void sb_source_free(sb_source *source);

const sb_checkpoint *sb_source_checkpoint(const sb_source *source);
sb_io sb_source_io(const sb_source *source); /* never SB_IO_auto */

/* Opens a shard for one thread; close() ends it. *direct: reads must be aligned. */
sb_status sb_source_open(const sb_source *source, uint32_t shard, int *fd, int *direct,
                         sb_error *err);

/* Fills all of bytes, except behind the end of the file if the read is direct. */
sb_status sb_source_read(const sb_source *source, uint32_t shard, int fd, int direct, uint64_t at,
                         unsigned char *bytes, size_t count, sb_error *err);

/* Bytes first .. end - 1 of a shard will not be needed again: what was not in the cache when the
 * source was made leaves it, and leaves the mapping in any case. fd is one of that shard, or -1. */
void sb_source_drop(const sb_source *source, uint32_t shard, int fd, uint64_t first, uint64_t end);

/* Whether the file system keeps no bytes of a shard from first to end - 1, whole pages: the file
 * has a hole there. 0 if it cannot tell. */
int sb_source_hole(const sb_checkpoint *checkpoint, uint32_t shard, uint64_t first, uint64_t end);

#endif
