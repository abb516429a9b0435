/* layer_twin.h - layers that no checkpoint of `samebit make` has, by two backends: MXFP4 of 32
 * columns, which has one scale a row, and experts whose inputs have different factors. */
#ifndef SB_TESTS_GPU_LAYER_TWIN_H
#define SB_TESTS_GPU_LAYER_TWIN_H

#include "ref/run/backend.h"

typedef struct layer_twin {
    size_t calls, values, differ; /* one NaN is as good as another */
    char first[80];               /* the call of the first that differs, or "" */
} layer_twin;

/* Calls of a row, and of more than 8, 16 and 64; the status is of what fails on either. */
sb_status layer_twin_compare(const sb_backend *first, const sb_backend *second, layer_twin *found,
                             sb_error *err);

#endif
