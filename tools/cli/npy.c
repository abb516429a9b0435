#include "tools/cli/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"

struct sb_npy {
    sb_file_out file;
    size_t expected, written;
};

/* Format 1.0: magic, version, header length, a Python literal padded with blanks so that the data
 * start at a multiple of 64, a line feed. */
static sb_status header(sb_npy *npy, size_t rows, size_t cols, sb_error *err)
{
    unsigned char block[128];
    memset(block, ' ', sizeof block);
    memcpy(block, "\x93NUMPY\x01\x00", 8);
    sb_store_u16(block + 8, sizeof block - 10);
    char text[100];
    int length =
        snprintf(text, sizeof text,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows, cols);
    memcpy(block + 10, text, (size_t)length);
    block[sizeof block - 1] = '\n';
    return sb_file_append(&npy->file, block, sizeof block, err);
}

sb_status sb_npy_begin(const char *path, size_t rows, size_t cols, sb_npy **out, sb_error *err)
{
    sb_npy *npy = sb_alloc(1, sizeof *npy);
    if (!npy)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", path);
    npy->expected = rows * cols;
    sb_status status = sb_file_begin(path, &npy->file, err);
    if (status) {
        free(npy);
        return status;
    }
    status = header(npy, rows, cols, err);
    if (status) {
        sb_npy_free(npy);
        return status;
    }
    *out = npy;
    return SB_OK;
}

sb_status sb_npy_append(sb_npy *npy, const float *values, size_t count, sb_error *err)
{
    unsigned char bytes[4096];
    sb_status status = SB_OK;
    npy->written += count;
    while (count && !status) {
        size_t part = count < sizeof bytes / 4 ? count : sizeof bytes / 4;
        for (size_t i = 0; i < part; i++)
            sb_store_u32(bytes + 4 * i, sb_bits_f32(values[i]));
        status = sb_file_append(&npy->file, bytes, 4 * part, err);
        values += part;
        count -= part;
    }
    return status;
}

sb_status sb_npy_commit(sb_npy *npy, sb_error *err)
{
    if (npy->written != npy->expected)
        return sb_fail(err, SB_ERR_IO, "%zu logits were written, expected %zu", npy->written,
                       npy->expected);
    sb_status status = sb_file_sync(&npy->file, err);
    return status ? status : sb_file_commit(&npy->file, err);
}

void sb_npy_free(sb_npy *npy)
{
    if (npy)
        sb_file_abort(&npy->file);
    free(npy);
}
