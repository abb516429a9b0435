/* element.h - the elements of a kernel's output, whatever type it has. */
#ifndef SB_GATE_ELEMENT_H
#define SB_GATE_ELEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/dtype.h"
#include "tools/gate/dd.h"

/* Types of values, and of whole numbers. */
int sb_element_is_value(sb_dtype dtype); /* F32, F64, BF16, F16 */
int sb_element_is_whole(sb_dtype dtype); /* integers, and FP8 by its code */

/* Element i of a dense array. A code of FP8 is its byte; I8 is one, too, unless `negative`: some
 * of the numbers that are expected are. */
double sb_element_value(sb_dtype dtype, const unsigned char *data, size_t i, int negative);
uint64_t sb_element_bits(sb_dtype dtype, const unsigned char *data, size_t i);

/* As people read it: nine digits, NaN without its sign. */
typedef struct sb_element_text {
    char text[32];
} sb_element_text;
sb_element_text sb_element_print(double x);

/* The bits that a value of binary32 has in such a type, rounded once. */
uint64_t sb_element_bits_of(sb_dtype dtype, float x);

/* x rounded once, to nearest even, to a type of values; beyond its largest number infinite. */
double sb_element_round(sb_dtype dtype, double x);

/* The ends of the interval of real numbers that are rounded to g, which is of the type. */
typedef struct sb_cell {
    double low, high;
} sb_cell;
sb_cell sb_element_cell(sb_dtype dtype, double g);

/* How far from the real value a number must lie to be `found`, which BF16 and F16 are by a last
 * rounding; and whether a number within the bound may be. */
double sb_element_error(sb_dtype dtype, double found, sb_dd real);
int sb_element_inside(sb_dtype dtype, double found, sb_dd real, double bound);

#endif
