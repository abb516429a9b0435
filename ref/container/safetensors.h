/* safetensors.h - one safetensors file. The whole header is checked before any part of it is used.
 *
 * The values of elements are not checked and may be NaN or infinite. Tensors may be unaligned, so
 * their bytes are read only with ref/base/bytes.h or sb_decode. */
#ifndef SB_CONTAINER_SAFETENSORS_H
#define SB_CONTAINER_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/dtype.h"
#include "ref/container/map.h"
#include "ref/container/metadata.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SB_MAX_RANK = 8,
    SB_MAX_TENSOR_NAME = 1024, /* bytes, without the NUL */
    SB_MAX_TENSORS = 1000000,  /* in a file, and in a checkpoint */
    SB_MAX_HEADER_BYTES = 100000000
};

typedef struct sb_tensor {
    const char *name;
    sb_dtype dtype;
    unsigned rank;               /* 0: a scalar, one element */
    uint64_t shape[SB_MAX_RANK]; /* row-major; 0 beyond rank */
    const unsigned char *data;   /* `bytes` bytes, unaligned, little-endian */
    uint64_t bytes;
    uint32_t shard; /* index of the file in the checkpoint; 0 for a single file */
} sb_tensor;

typedef struct sb_safetensors {
    sb_map map;         /* size 0 if the bytes belong to the caller */
    sb_tensor *tensors; /* in the order of their data */
    size_t count;
    char *names;          /* one block with all tensors[].name */
    sb_metadata metadata; /* empty if the header has none */
    const unsigned char *bytes;
    size_t size; /* of the whole file */
    int is_stub; /* only the header and some numbers are here (stub.h); 1 also if a stub was
                    refused for being one */
} sb_safetensors;

/* Opens a file; messages name it by its path. */
sb_status sb_safetensors_open(const char *path, sb_safetensors *out, sb_error *err);

/* Opens bytes in memory, which must outlive *out. `file` names them in messages. */
sb_status sb_safetensors_parse(const unsigned char *bytes, size_t size, const char *file,
                               sb_safetensors *out, sb_error *err);

void sb_safetensors_close(sb_safetensors *file);

#ifdef __cplusplus
}
#endif

#endif
