/* writer.h - writes a checkpoint in the published layout. The same input gives the same bytes.
 *
 * The caller declares tensors, then produces their bytes piece by piece, so memory stays bounded.
 * Tensors fill shards in the order of declaration. Within a shard, tensors have the order of the
 * reference writer. All files get temporary names and are renamed when all are complete. On failure
 * the temporary files are removed and the old files are unchanged. */
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

/* Pieces start at multiples of this number of bytes. It is a multiple of every element size, and of
 * the three bytes that four 6-bit elements take. */
enum { SB_WRITER_PIECE = 3 << 20 };

/* Produces bytes first_byte .. first_byte + count - 1 of a tensor (whose data is NULL). Called in
 * the order of the bytes in the files. A status other than SB_OK ends the writing. */
typedef sb_status (*sb_writer_fill)(void *ctx, const sb_tensor *tensor, uint64_t first_byte,
                                    unsigned char *bytes, size_t count, sb_error *err);

/* dir is created if absent; its parent must exist. dir must be empty unless SB_WRITER_REPLACE is
 * given. max_shard_bytes counts data bytes; 0: no limit. No file is touched before
 * sb_writer_run. */
sb_status sb_writer_new(const char *dir, uint64_t max_shard_bytes, unsigned flags, sb_writer **out,
                        sb_error *err);
void sb_writer_free(sb_writer *writer);

/* Declares a tensor. Its name must be printable ASCII and not yet declared (checked by run). */
sb_status sb_writer_add(sb_writer *writer, const char *name, sb_dtype dtype, unsigned rank,
                        const uint64_t *shape, sb_error *err);

/* The next tensor begins a new shard, even if the current shard has room. Has no effect with
 * SB_WRITER_FILE, before the first tensor, or directly after another cut. */
sb_status sb_writer_cut(sb_writer *writer, sb_error *err);

/* Adds key and value, both UTF-8, to the "__metadata__" of the shard that will hold `tensor`. The
 * keys come after "format", sorted bytewise. The tensor must be declared, and the shard must not
 * have the key yet (both checked by run). */
sb_status sb_writer_metadata(sb_writer *writer, const char *tensor, const char *key,
                             const char *value, sb_error *err);

/* Plans, writes and renames the files. A writer runs only once. */
sb_status sb_writer_run(sb_writer *writer, sb_writer_fill fill, void *ctx, sb_error *err);

#endif
