/* reader.h - the bytes of tensors, for one thread: mapped, or read into memory that is used again.
 */
#ifndef SB_CHECK_READER_H
#define SB_CHECK_READER_H

#include "ref/container/checkpoint.h"

typedef struct sb_reader sb_reader;

/* NULL if memory is out. A reader belongs to one thread. */
sb_reader *sb_reader_new(void);
void sb_reader_free(sb_reader *reader);

/* Bytes first .. first + count - 1 of a tensor, valid until the same slot is fetched again. A slot
 * is a place for one piece of memory, 0 <= slot < SB_READER_SLOTS. */
enum { SB_READER_SLOTS = 64 };
sb_status sb_reader_fetch(sb_reader *reader, const sb_checkpoint *checkpoint,
                          const sb_tensor *tensor, uint64_t first, uint64_t count, unsigned slot,
                          const unsigned char **bytes, sb_error *err);

/* The bytes of a range will not be needed again. */
void sb_reader_done(sb_reader *reader, const sb_checkpoint *checkpoint, const sb_tensor *tensor,
                    uint64_t first, uint64_t count);

#endif
