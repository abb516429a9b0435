/* reader.h - the bytes of tensors, for one thread: mapped, or read into memory that is reused.
 *
 * A slot holds one piece of memory. Bytes that were fetched are not fetched again; the reader drops
 * them from the page cache if they were not cached before (source.h). */
#ifndef SB_CHECK_READER_H
#define SB_CHECK_READER_H

#include "tools/check/read/source.h"

typedef struct sb_reader sb_reader;

/* Reads from these sources; other may be NULL. Returns NULL if memory runs out. A reader belongs to
 * one thread. */
sb_reader *sb_reader_new(const sb_source *own, const sb_source *other);
void sb_reader_free(sb_reader *reader);

/* Bytes first .. first + count - 1 of a tensor, valid until the same slot is fetched again. Bytes
 * that the slot already holds are not read again. 0 <= slot < SB_READER_SLOTS. A piece of more than
 * SB_READER_LARGEST bytes is always mapped, so that memory stays bounded. */
enum { SB_READER_SLOTS = 64, SB_READER_LARGEST = 32 << 20 };
sb_status sb_reader_fetch(sb_reader *reader, const sb_checkpoint *checkpoint,
                          const sb_tensor *tensor, uint64_t first, uint64_t count, unsigned slot,
                          const unsigned char **bytes, sb_error *err);

/* The bytes of a tensor will not be needed again. */
void sb_reader_done(sb_reader *reader, const sb_tensor *tensor);

#endif
