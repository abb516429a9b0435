/* bundle_matrix.h - the numbers of a stored matrix as a list; for bundle*.c only. */
#ifndef SB_COMPARE_BUNDLE_MATRIX_H
#define SB_COMPARE_BUNDLE_MATRIX_H

#include <stddef.h>

#include "ref/formats/matrix.h"

/* The numbers of a matrix, by name. */
enum { BUNDLE_MATRIX_NUMBERS = 23 };
extern const char *const bundle_matrix_names[BUNDLE_MATRIX_NUMBERS];
void bundle_matrix_numbers(const sb_matrix *matrix, double numbers[BUNDLE_MATRIX_NUMBERS]);

/* Makes a matrix from its numbers; 0 if a number is out of its range. Pointers stay NULL. *parts
 * says which parts the matrix has. */
typedef struct bundle_parts {
    int scales, zero_points, group_index, row_map;
} bundle_parts;
int bundle_matrix_of(const double numbers[BUNDLE_MATRIX_NUMBERS], sb_matrix *out,
                     bundle_parts *parts);

/* Sizes in bytes of stored rows 0 .. last of a matrix and of their scales, zero points and group
 * index. */
typedef struct bundle_extent {
    uint64_t data, scales, zero_points, group_index;
} bundle_extent;
bundle_extent bundle_extent_of(const sb_matrix *matrix, uint64_t last);

#endif
