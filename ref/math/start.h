/* start.h - refuses to compute on a machine or in a process whose arithmetic is not the one we
 * need. */
#ifndef SB_MATH_START_H
#define SB_MATH_START_H

#include "ref/base/status.h"

/* checks rounding to nearest even, subnormals kept (no FTZ, no DAZ), no contraction of a*b+c,
 * no excess precision, NaN honest, in the thread that calls. SB_ERR_NUMERIC names what is wrong. */
sb_status sb_math_check(sb_error *err);

/* Whether an input ever came to a function of fn.h that the proof of its table says cannot come:
 * the arithmetic of a thread was another one then. Its value was NaN; sb_math_check() refuses
 * since. */
int sb_math_missed(void);

#endif
