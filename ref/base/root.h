/* root.h - the square root of binary64, correctly rounded, by the processor's instruction. IEEE 754
 * requires it of every processor, and -fno-math-errno keeps the compilers from calling libm. */
#ifndef SB_BASE_ROOT_H
#define SB_BASE_ROOT_H

/* NaN for x < 0; keeps the sign of zero. */
static inline double sb_sqrt64(double x)
{
    return __builtin_sqrt(x);
}

#endif
