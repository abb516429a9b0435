/* file_hash.h - the hashes of a file's content under which it may be stored, in one pass. */
#ifndef SB_CHECK_FILE_HASH_H
#define SB_CHECK_FILE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

enum { SB_FILE_HASH_DIGITS = 64 };

/* The kinds of hashes. GIT is the SHA-1 of "blob <size>", a zero byte, and the content. */
typedef enum sb_hash_kind { SB_HASH_SHA256, SB_HASH_GIT, SB_HASH_SHA1, SB_HASH_KINDS } sb_hash_kind;

/* In lower-case hexadecimal digits; "" for a kind that was not asked for. */
typedef struct sb_file_hashes {
    char hex[SB_HASH_KINDS][SB_FILE_HASH_DIGITS + 1];
} sb_file_hashes;

/* Called after each range of bytes first .. end - 1 that was read from fd. */
typedef void sb_file_hash_read(void *ctx, int fd, uint64_t first, uint64_t end);

/* Reads a file and computes each kind for which wanted[] is not 0. SB_ERR_IO: the file cannot be
 * read, or its size changed meanwhile; SB_ERR_UNSUPPORTED: the library of this machine refuses to
 * compute the hash; SB_ERR_MEMORY. */
sb_status sb_file_hash(const char *path, const int wanted[SB_HASH_KINDS], sb_file_hash_read *read,
                       void *ctx, sb_file_hashes *out, sb_error *err);

#endif
