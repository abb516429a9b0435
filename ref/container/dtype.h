/* dtype.h - the element types of the safetensors container, and the byte length of tensors. */
#ifndef SB_CONTAINER_DTYPE_H
#define SB_CONTAINER_DTYPE_H

#include <stdint.h>

#include "ref/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sb_dtype {
#define SB_DTYPE(name, bits, refused) SB_DTYPE_##name,
#include "ref/container/dtypes.def"
#undef SB_DTYPE
    SB_DTYPE_COUNT
} sb_dtype;

const char *sb_dtype_name(sb_dtype dtype);    /* "BF16", as in the file */
unsigned sb_dtype_bits(sb_dtype dtype);       /* 4, 6, 8, 16, 32 or 64 */
const char *sb_dtype_refused(sb_dtype dtype); /* reason for refusing the dtype, or NULL */

/* Returns 1 and sets *out if a header may have this dtype name, else returns 0. */
int sb_dtype_find(const char *name, sb_dtype *out);

/* The byte length of a tensor. SB_ERR_INPUT if a dimension is 0, a product overflows 64 bits, or
 * elements of 4 or 6 bits do not end at a byte boundary. The message does not name the tensor. */
sb_status sb_dtype_bytes(sb_dtype dtype, unsigned rank, const uint64_t *shape, uint64_t *bytes,
                         sb_error *err);

#ifdef __cplusplus
}
#endif

#endif
