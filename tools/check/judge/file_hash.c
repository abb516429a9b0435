#include "tools/check/judge/file_hash.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"

enum { PIECE = 1 << 20 };

typedef struct hashing {
    EVP_MD_CTX *context[SB_HASH_KINDS]; /* NULL: not wanted */
    unsigned char *bytes;               /* PIECE bytes */
    int fd;
    size_t size;
} hashing;

static sb_status begin(hashing *h, const int *wanted, sb_error *err)
{
    char head[32];
    int n = snprintf(head, sizeof head, "blob %zu", h->size) + 1; /* including the zero byte */
    h->bytes = sb_alloc(PIECE, 1);
    if (!h->bytes)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for hashes");
    for (unsigned k = 0; k < SB_HASH_KINDS; k++) {
        if (!wanted[k])
            continue;
        h->context[k] = EVP_MD_CTX_new();
        if (!h->context[k])
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for hashes");
        if (!EVP_DigestInit_ex(h->context[k], k == SB_HASH_SHA256 ? EVP_sha256() : EVP_sha1(),
                               NULL) ||
            (k == SB_HASH_GIT && !EVP_DigestUpdate(h->context[k], head, (size_t)n)))
            return sb_fail(err, SB_ERR_UNSUPPORTED, "libcrypto does not compute %s here",
                           k == SB_HASH_SHA256 ? "SHA-256" : "SHA-1");
    }
    return SB_OK;
}

/* Reads the next bytes of the file: *count of them, 0 at the end. */
static sb_status next(const hashing *h, uint64_t at, size_t *count, sb_error *err)
{
    ssize_t n;
    do
        n = pread(h->fd, h->bytes, PIECE, (off_t)at);
    while (n < 0 && errno == EINTR);
    *count = n > 0 ? (size_t)n : 0;
    return n < 0 ? sb_fail(err, SB_ERR_IO, "cannot be read from byte %" PRIu64 " on: %s", at,
                           strerror(errno))
                 : SB_OK;
}

static sb_status all_bytes(const hashing *h, sb_file_hash_read *read, void *ctx, sb_error *err)
{
    uint64_t at = 0;
    for (size_t count; at <= h->size; at += count) {
        sb_status status = next(h, at, &count, err);
        if (status)
            return status;
        if (count == 0)
            break;
        for (unsigned k = 0; k < SB_HASH_KINDS; k++)
            if (h->context[k] && !EVP_DigestUpdate(h->context[k], h->bytes, count))
                return sb_fail(err, SB_ERR_UNSUPPORTED, "libcrypto cannot compute a hash");
        if (read)
            read(ctx, h->fd, at, at + count);
    }
    return at == h->size ? SB_OK : sb_fail(err, SB_ERR_IO, "its size changed while it was read");
}

static sb_status end(const hashing *h, sb_file_hashes *out, sb_error *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n;
    for (unsigned k = 0; k < SB_HASH_KINDS; k++) {
        if (!h->context[k])
            continue;
        if (!EVP_DigestFinal_ex(h->context[k], digest, &n) || 2 * n > SB_FILE_HASH_DIGITS)
            return sb_fail(err, SB_ERR_UNSUPPORTED, "libcrypto cannot compute a hash");
        for (unsigned i = 0; i < n; i++)
            snprintf(out->hex[k] + 2 * i, 3, "%02x", digest[i]);
    }
    return SB_OK;
}

sb_status sb_file_hash(const char *path, const int wanted[SB_HASH_KINDS], sb_file_hash_read *read,
                       void *ctx, sb_file_hashes *out, sb_error *err)
{
    hashing h = {.fd = -1};
    *out = (sb_file_hashes){0};
    sb_status status = sb_open_regular(path, &h.fd, &h.size, err);
    if (status)
        return status;
    status = begin(&h, wanted, err);
    if (!status)
        status = all_bytes(&h, read, ctx, err);
    if (!status)
        status = end(&h, out, err);
    for (unsigned k = 0; k < SB_HASH_KINDS; k++)
        EVP_MD_CTX_free(h.context[k]);
    free(h.bytes);
    close(h.fd);
    return status;
}
