/* bundle_fields.h - the members of the argument structs as a list; for bundle*.c only. */
#ifndef SB_COMPARE_BUNDLE_FIELDS_H
#define SB_COMPARE_BUNDLE_FIELDS_H

#include <stddef.h>

#include "ref/ops/op.h"

typedef enum bundle_kind {
    BUNDLE_size,
    BUNDLE_int,
    BUNDLE_float,
    BUNDLE_double,
    BUNDLE_in,
    BUNDLE_out,
    BUNDLE_inplace,
    BUNDLE_state,
    BUNDLE_ids,
    BUNDLE_matrix
} bundle_kind;

typedef struct bundle_field {
    sb_op op;
    const char *name;
    bundle_kind kind;
    size_t offset, count_offset; /* of the member; of the size_t that counts its ids */
} bundle_field;

extern const bundle_field bundle_fields[];
extern const size_t bundle_field_count;

/* Every argument struct fits. */
enum { BUNDLE_ARGS = 256 };

static inline void *bundle_member(void *args, const bundle_field *field)
{
    return (unsigned char *)args + field->offset;
}

/* The numbers of a matrix, by name. */
enum { BUNDLE_MATRIX_NUMBERS = 23 };
extern const char *const bundle_matrix_names[BUNDLE_MATRIX_NUMBERS];
void bundle_matrix_numbers(const sb_matrix *matrix, double numbers[BUNDLE_MATRIX_NUMBERS]);

/* Back; 0 if a number is out of its range. Pointers stay NULL; *parts has which there are. */
typedef struct bundle_parts {
    int scales, zero_points, group_index, row_map;
} bundle_parts;
int bundle_matrix_of(const double numbers[BUNDLE_MATRIX_NUMBERS], sb_matrix *out,
                     bundle_parts *parts);

/* Bytes that stored rows 0 .. last of a matrix take, and what belongs to them. */
typedef struct bundle_extent {
    uint64_t data, scales, zero_points, group_index;
} bundle_extent;
bundle_extent bundle_extent_of(const sb_matrix *matrix, uint64_t last);

#endif
