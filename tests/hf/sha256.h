/* sha256.h - the digest by which a recording names its checkpoint (FIPS 180-4). */
#ifndef SB_TESTS_HF_SHA256_H
#define SB_TESTS_HF_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t state[8];
    unsigned char block[64];
    uint64_t bytes;
} sha256;

void sha256_begin(sha256 *s);
void sha256_add(sha256 *s, const unsigned char *data, size_t n);
void sha256_end(sha256 *s, char hex[65]);

#endif
