/* element.h - the elements of a kernel's output of any type. */
#ifndef SB_GATE_ELEMENT_H
#define SB_GATE_ELEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/container/dtype.h"
#include "tools/judge/gate/dd.h"

/* Types of values, and of whole numbers. */
int sb_element_is_value(sb_dtype dtype); /* F32, F64, BF16, F16 */
int sb_element_is_whole(sb_dtype dtype); /* integers, and FP8 as its code */

/* Element i of a dense array. An FP8 element is its byte. An I8 element is its byte, too, unless
 * `negative` is set because some expected numbers are negative. */
double sb_element_value(sb_dtype dtype, const unsigned char *data, size_t i, int negative);
uint64_t sb_element_bits(sb_dtype dtype, const unsigned char *data, size_t i);

/* The text for users: nine digits, NaN without its sign. */
typedef struct sb_element_text {
    char text[32];
} sb_element_text;
sb_element_text sb_element_print(double x);

/* The bits of a binary32 value rounded once to such a type. */
uint64_t sb_element_bits_of(sb_dtype dtype, float x);

/* x rounded once, to nearest even, to a type of values; infinite on overflow. */
double sb_element_round(sb_dtype dtype, double x);

/* The ends of the interval of real numbers that are rounded to g, a number of the type. */
typedef struct sb_cell {
    double low, high;
} sb_cell;
sb_cell sb_element_cell(sb_dtype dtype, double g);

/* sb_element_error: the least distance between the real value and a number that becomes `found` by
 * the last rounding to BF16 or F16. sb_element_inside: whether a number within the bound can become
 * `found`. */
double sb_element_error(sb_dtype dtype, double found, sb_dd real);
int sb_element_inside(sb_dtype dtype, double found, sb_dd real, double bound);

#endif
