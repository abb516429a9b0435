/* fn.h - functions of one argument, correctly rounded to binary32. No libm.
 *
 * Each returns RN32(f(x)) for all 2^32 inputs. It evaluates f in binary64 with an error below 2^-49
 * and applies a rounding test. If the rounding is not certain, it takes the result from a short
 * table of exceptions. NaN gives the canonical NaN 0x7fc00000. The proof is
 * tests/exhaustive/all32.c. */
#ifndef SB_MATH_FN_H
#define SB_MATH_FN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

float sb_exp(float x);   /* e^x; +0 below, +Inf above */
float sb_log(float x);   /* natural logarithm; NaN for x < 0, -Inf for 0 */
float sb_log1p(float x); /* log(1+x); NaN for x < -1, -Inf for -1; keeps the sign of zero */
float sb_rsqrt(float x); /* 1/sqrt(x); NaN for x < 0, +-Inf for +-0, +0 for +Inf */
float sb_sqrt(float x);  /* NaN for x < 0; keeps the sign of zero */
float sb_sin(float x);   /* every finite x, exact argument reduction; NaN for +-Inf */
float sb_cos(float x);
float sb_sigmoid(float x);  /* 1/(1+e^-x) */
float sb_silu(float x);     /* x/(1+e^-x) as one function; silu(+-0) = +-0, silu(-Inf) = -0 */
float sb_softplus(float x); /* log(1+e^x) as one function, no threshold */

/* RN32( base^(numerator/denominator) ) for a finite base > 0, denominator in 1..256 and
 * |numerator| <= 256, decided by integer comparison of powers. R-7 uses it for RoPE frequencies. */
float sb_root_power(double base, int numerator, unsigned denominator);

/* RN32( base^exponent ) for base from 1 to 2^50 and an exponent from 0 to below 1. The exponent
 * must be 0 or have at least 17 fraction bits: then no power is halfway between two numbers. Powers
 * with shorter exponents are roots for sb_root_power. */
float sb_power(double base, float exponent);

#ifdef __cplusplus
}
#endif

#endif
