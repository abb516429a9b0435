/* source.h - the files of a checkpoint as a source of bytes, which are read in one of three ways.
 *
 * All calls that need more than POSIX are here. How bytes are read never changes a finding: the
 * bytes are the same. */
#ifndef SB_CHECK_SOURCE_H
#define SB_CHECK_SOURCE_H

#include "ref/container/checkpoint.h"

/* How bytes come into memory. */
typedef enum sb_io {
    SB_IO_auto,  /* one of the others, chosen by a short measurement on the largest file */
    SB_IO_map,   /* the mapping of the file */
    SB_IO_pread, /* read into memory that is reused */
    /* as SB_IO_pread, but past the page cache, where the file system supports it */
    SB_IO_direct,
    SB_IO_COUNT
} sb_io;

const char *sb_io_name(sb_io io);    /* "pread" */
sb_io sb_io_named(const char *name); /* SB_IO_COUNT: no such name */

/* Reads of SB_IO_direct begin and end at multiples of this, in the file and in memory. */
enum { SB_IO_ALIGN = 4096 };

typedef struct sb_source sb_source;

/* Looks which parts of the files are in the page cache, and chooses a way. All threads share the
 * source. */
sb_status sb_source_new(const sb_checkpoint *checkpoint, sb_io io, sb_source **out, sb_error *err);
void sb_source_free(sb_source *source);

const sb_checkpoint *sb_source_checkpoint(const sb_source *source);
sb_io sb_source_io(const sb_source *source); /* never SB_IO_auto */

/* Opens a shard for one thread; end it with close(). *direct: reads must be aligned. */
sb_status sb_source_open(const sb_source *source, uint32_t shard, int *fd, int *direct,
                         sb_error *err);

/* Fills all of bytes. Only a direct read may end early, at the end of the file. */
sb_status sb_source_read(const sb_source *source, uint32_t shard, int fd, int direct, uint64_t at,
                         unsigned char *bytes, size_t count, sb_error *err);

/* Bytes first .. end - 1 of a shard are not needed again. If some of them were not cached when the
 * source was made, these leave the page cache, and all of them the mapping. Otherwise returns their
 * number: they may still be mapped. fd belongs to that shard, or is -1. */
uint64_t sb_source_drop(const sb_source *source, uint32_t shard, int fd, uint64_t first,
                        uint64_t end);

/* All bytes leave the mapping; a thread that reads some of them maps them again. */
void sb_source_unmap(const sb_source *source);

/* 1 if the file has a hole there: the file system stores no bytes for the whole pages from first to
 * end - 1. 0 if it cannot tell. */
int sb_source_hole(const sb_checkpoint *checkpoint, uint32_t shard, uint64_t first, uint64_t end);

#endif
