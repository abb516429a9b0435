/* writer.h - writes a checkpoint in the published layout: the same bytes for the same input.
 *
 * Declare tensors, then produce their bytes piece by piece; memory stays bounded. Tensors fill
 * shards in the order of declaration; inside a shard they lie as the reference writer lays them.
 * All files are written under temporary names and renamed when all are whole; on failure the
 * temporaries are removed and what stood there before stands there still. */
#ifndef SB_CONTAINER_WRITER_H
#define SB_CONTAINER_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/safetensors.h"

typedef struct sb_writer sb_writer;

enum {
    SB_WRITER_REPLACE = 1, /* the target may exist; model*.safetensors and the index are replaced */
    SB_WRITER_FILE = 2     /* the target is one file, not a folder; max_shard_bytes is ignored */
};

/* Pieces start at multiples of this many bytes: a multiple of every element size, and of the three
 * bytes that four 6-bit elements take. */
enum { SB_WRITER_PIECE = 3 << 20 };

/* Produces bytes first_byte .. first_byte + count - 1 of a tensor (whose data is NULL). Called in
 * the order in which bytes lie in the files. A status that is not SB_OK ends the writing. */
typedef sb_status (*sb_writer_fill)(void *ctx, const sb_tensor *tensor, uint64_t first_byte,
                                    unsigned char *bytes, size_t count, sb_error *err);

/* dir is created if absent (its parent is not); it must be empty unless SB_WRITER_REPLACE is given.
 * max_shard_bytes counts data bytes; 0 is no limit. Nothing is touched before sb_writer_run. */
sb_status sb_writer_new(const char *dir, uint64_t max_shard_bytes, unsigned flags, sb_writer **out,
                        sb_error *err);
void sb_writer_free(sb_writer *writer);

/* Declares a tensor. Its name is printable ASCII and not yet declared (checked by run). */
sb_status sb_writer_add(sb_writer *writer, const char *name, sb_dtype dtype, unsigned rank,
                        const uint64_t *shape, sb_error *err);

/* The next tensor begins a new shard, whatever room the last one has. Without effect in one file,
 * before the first tensor, and twice in a row. */
sb_status sb_writer_cut(sb_writer *writer, sb_error *err);

/* Puts key and value, UTF-8, into the "__metadata__" of the shard that will hold `tensor`, behind
 * "format"; keys stand there sorted bytewise. The tensor must be declared, and the key not yet be
 * in that shard (both checked by run). */
sb_status sb_writer_metadata(sb_writer *writer, const char *tensor, const char *key,
                             const char *value, sb_error *err);

/* Plans, writes, renames. A writer runs once. */
sb_status sb_writer_run(sb_writer *writer, sb_writer_fill fill, void *ctx, sb_error *err);

#endif
