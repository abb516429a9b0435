/* arrays.h - the arrays of a file of any program: names, types, shapes, and the places of their
 * bytes.
 *
 * The bytes belong to the reader that found them. */
#ifndef SB_DUMP_ARRAYS_H
#define SB_DUMP_ARRAYS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/safetensors.h"

enum { SB_DUMP_MAX_ARRAYS = 1 << 17 };

typedef struct sb_dump_array {
    char *name;
    const char *file; /* for messages; lives as long as the reader */
    sb_dtype dtype;
    unsigned rank;
    uint64_t shape[SB_MAX_RANK];
    uint64_t stride[SB_MAX_RANK]; /* in elements */
    const unsigned char *data;    /* the element with all indices 0 */
    size_t call;                  /* number of its forward call, from 0 */
} sb_dump_array;

typedef struct sb_dump_arrays {
    sb_dump_array *items;
    size_t count, room;
} sb_dump_arrays;

/* Copies an array and its name after checking that every element lies in the `bytes` at data.
 * stride NULL: dense, with the last axis fastest. */
sb_status sb_dump_arrays_add(sb_dump_arrays *list, const sb_dump_array *array, const char *name,
                             const uint64_t *stride, uint64_t bytes, sb_error *err);
void sb_dump_arrays_clear(sb_dump_arrays *list);

uint64_t sb_dump_array_elements(const sb_dump_array *array);

/* "[2, 3]" */
typedef struct sb_dump_shape {
    char text[SB_MAX_RANK * 22 + 3];
} sb_dump_shape;
const char *sb_dump_shape_show(const sb_dump_array *array, sb_dump_shape *room);

/* J-10: "Numbers are F64, F32, F16, BF16, F8_E4M3 or F8_E5M2" */
int sb_dump_is_number(sb_dtype dtype);
int sb_dump_is_integer(sb_dtype dtype); /* types of ids and positions */

/* Decodes `count` consecutive elements to binary32. Returns -1, or the first element without a
 * binary32 value: a finite binary64 that is too large, or an integer that cannot be an id. */
long long sb_dump_decode(sb_dtype dtype, const unsigned char *bytes, size_t count, float *out);

/* One integer; *negative is set if it is below 0. */
uint64_t sb_dump_integer(sb_dtype dtype, const unsigned char *bytes, int *negative);

/* Copies elements [first, first + count) to `out`, in the order of the indices with the last axis
 * fastest. */
void sb_dump_gather(const sb_dump_array *array, uint64_t first, size_t count, unsigned char *out);

/* The place of these elements in the file; NULL if they are not consecutive. */
const unsigned char *sb_dump_in_place(const sb_dump_array *array, uint64_t first);

#endif
