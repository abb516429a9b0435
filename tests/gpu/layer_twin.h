/* layer_twin.h - compares two backends on layers that no checkpoint of `samebit make` has: MXFP4
 * with 32 columns, which has one scale per row, and experts whose inputs have different factors. */
#ifndef SB_TESTS_GPU_LAYER_TWIN_H
#define SB_TESTS_GPU_LAYER_TWIN_H

#include "ref/run/backend.h"

typedef struct layer_twin {
    size_t calls, values, differ; /* all NaNs count as equal */
    char first[80];               /* the first call that differs, or "" */
} layer_twin;

/* Compares calls of one row, and of more than 8, 16 and 64. Returns the status of the first failure
 * in either. */
sb_status layer_twin_compare(const sb_backend *first, const sb_backend *second, layer_twin *found,
                             sb_error *err);

#endif
