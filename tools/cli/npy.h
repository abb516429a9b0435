/* npy.h - writes a float32 matrix as a NumPy file, row by row. An incomplete file never appears. */
#ifndef SB_CLI_NPY_H
#define SB_CLI_NPY_H

#include <stddef.h>

#include "ref/base/status.h"

typedef struct sb_npy sb_npy;

sb_status sb_npy_begin(const char *path, size_t rows, size_t cols, sb_npy **out, sb_error *err);
sb_status sb_npy_append(sb_npy *npy, const float *values, size_t count, sb_error *err);

/* Refuses a number of values other than begin announced. */
sb_status sb_npy_commit(sb_npy *npy, sb_error *err);

/* Removes an uncommitted file. NULL is fine. */
void sb_npy_free(sb_npy *npy);

#endif
