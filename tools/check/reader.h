/* reader.h - the bytes of tensors, for one thread: mapped, or read into memory that is used again.
 *
 * A slot is a place for one piece of memory. What it holds is not read again, and leaves the
 * operating system's cache behind the reader if it was not there before (source.h). */
#ifndef SB_CHECK_READER_H
#define SB_CHECK_READER_H

#include "tools/check/source.h"

typedef struct sb_reader sb_reader;

/* Reads from these sources; other may be NULL. NULL if memory is out. A reader belongs to one
 * thread. */
sb_reader *sb_reader_new(const sb_source *own, const sb_source *other);
void sb_reader_free(sb_reader *reader);

/* Bytes first .. first + count - 1 of a tensor, valid until the same slot is fetched again; they
 * may stand in the slot already, and 0 <= slot < SB_READER_SLOTS. More than SB_READER_LARGEST bytes
 * at once come mapped in any case, so that memory stays bounded. */
enum { SB_READER_SLOTS = 64, SB_READER_LARGEST = 32 << 20 };
sb_status sb_reader_fetch(sb_reader *reader, const sb_checkpoint *checkpoint,
                          const sb_tensor *tensor, uint64_t first, uint64_t count, unsigned slot,
                          const unsigned char **bytes, sb_error *err);

/* The bytes of a tensor will not be needed again. */
void sb_reader_done(sb_reader *reader, const sb_tensor *tensor);

#endif
