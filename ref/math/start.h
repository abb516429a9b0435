/* start.h - refuses to compute on a machine or in a process with unsuitable arithmetic. */
#ifndef SB_MATH_START_H
#define SB_MATH_START_H

#include "ref/base/status.h"

/* checks the calling thread for rounding to nearest even, subnormals (no FTZ, no DAZ), no
 * contraction of a*b+c, no excess precision, and correct comparisons of NaN. SB_ERR_NUMERIC names
 * what is wrong. */
sb_status sb_math_check(sb_error *err);

/* True if a function of fn.h ever got an uncertain input that is not in its table. By the proof of
 * the table this happens only if a thread had other arithmetic. The function returned NaN, and from
 * then on sb_math_check() refuses. */
int sb_math_missed(void);

#endif
