#include "ref/container/dtype.h"

#include <inttypes.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned bits;
    const char *refused;
} dtypes[] = {
#define SB_DTYPE(name, bits, refused) {#name, bits, refused},
#include "ref/container/dtypes.def"
#undef SB_DTYPE
};

const char *sb_dtype_name(sb_dtype dtype)
{
    return dtypes[dtype].name;
}

unsigned sb_dtype_bits(sb_dtype dtype)
{
    return dtypes[dtype].bits;
}

const char *sb_dtype_refused(sb_dtype dtype)
{
    return dtypes[dtype].refused;
}

int sb_dtype_find(const char *name, sb_dtype *out)
{
    for (unsigned i = 0; i < SB_DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (sb_dtype)i;
            return 1;
        }
    }
    return 0;
}

/* C-3: "The byte length of every tensor is the product of its dimensions times the size of its
 * dtype, computed without overflow" */
sb_status sb_dtype_bytes(sb_dtype dtype, unsigned rank, const uint64_t *shape, uint64_t *bytes,
                         sb_error *err)
{
    uint64_t bits = sb_dtype_bits(dtype);
    for (unsigned i = 0; i < rank; i++) {
        /* The format allows empty tensors, but no model has one, while damaged headers often do. */
        if (shape[i] == 0)
            return sb_fail(err, SB_ERR_INPUT, "dimension %u of shape is 0, expected at least 1", i);
        if (bits > UINT64_MAX / shape[i])
            return sb_fail(err, SB_ERR_INPUT,
                           "the product of the dimensions of shape overflows 64 bits at dimension "
                           "%u, which is %" PRIu64,
                           i, shape[i]);
        bits *= shape[i];
    }
    if (bits % 8 != 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "%" PRIu64 " elements of %u bits (%s) do not end at a byte",
                       bits / sb_dtype_bits(dtype), sb_dtype_bits(dtype), sb_dtype_name(dtype));
    *bytes = bits / 8;
    return SB_OK;
}
