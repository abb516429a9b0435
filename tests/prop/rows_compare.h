/* rows_compare.h - runs the cases of rows.h by the kernels of every set, with several inputs at
 * once, and by the definition. */
#ifndef SB_TESTS_ROWS_COMPARE_H
#define SB_TESTS_ROWS_COMPARE_H

#include "tests/prop/rows.h"

const char *rows_family_name(rows_family family);

/* "e2m1 x f32, groups of 16, 4 x 70, 3 inputs, tie 123", in a buffer of its own. */
const char *rows_text(const rows_case *c);

/* The definition: want (count, rows). */
void rows_define(const rows_case *c, float *want);

/* The results of the chosen kernels, all inputs at once or one after the other: got (count, rows).
 * Returns zero if memory does not suffice. */
int rows_together(const rows_case *c, float *got);
int rows_apart(const rows_case *c, float *got);

/* Compares every set that this machine has, in both ways, and for plain rows with binary32 inputs
 * also by the functions for those. Returns the number of differences; text describes the first. */
size_t rows_compare(const rows_case *c, const float *want, char text[256]);

#endif
