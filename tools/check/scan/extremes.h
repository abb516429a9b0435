/* extremes.h - check 42: numbers that were cut off at one magnitude, and numbers with random
 * exponents. */
#ifndef SB_CHECK_EXTREMES_H
#define SB_CHECK_EXTREMES_H

#include "ref/formats/matrix.h"
#include "tools/check/read/seen.h"

/* Adds a panel of floats or FP8 codes to seen->cut and seen->strayed. Looks at 128 of its numbers,
 * and at all of them if these are suspicious. */
void sb_see_extremes(const sb_matrix *panel, sb_seen *seen);

#endif
