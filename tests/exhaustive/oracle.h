/* oracle.h - the functions of ref/math/fn.h by MPFR, and the table that lists them for the tests.
 *
 * The precision of an MPFR value with an error bound grows (Ziv) until both ends of its interval
 * round to the same binary32. Nothing of ref/math is used. */
#ifndef SB_TESTS_ORACLE_H
#define SB_TESTS_ORACLE_H

#include <mpfr.h>
#include <stdint.h>

#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

typedef struct oracle_fn {
    const char *name;
    float (*run)(float);                                     /* the function under test */
    double (*core)(double);                                  /* its binary64 core */
    void (*mpfr)(mpfr_t y, mpfr_t x, mpfr_prec_t precision); /* within 2^(4 - precision) of f(x) */
    double (*libm)(double); /* f in binary64 by the C library, accurate to a few ulps */
    float low, high;        /* the core is not used at low and below, nor at high and above */
} oracle_fn;

extern const oracle_fn oracle_table[SB_FN_COUNT];

/* Returns 1 for inputs at which f is NaN, infinite or exactly zero, and for those so far out that
 * binary32 has only one answer. *value is that answer. Returns 0 for all others. */
int oracle_special(sb_fn fn, float x, float *value);

/* RN32(f(x)) for any binary32 x, special values included. */
float oracle_value(sb_fn fn, float x);

/* (approximation - f(x)) / f(x), in units of 2^-53, for f(x) != 0. */
double oracle_error(sb_fn fn, double x, double approximation);

/* RN32(base^exponent), if it is at least 1. */
float oracle_power(double base, float exponent);

/* RN32(base^(numerator/denominator)). */
float oracle_root_power(double base, int numerator, unsigned denominator);

/* Whether x is passed to the core, and is not a special case of the function. */
int oracle_asks_core(sb_fn fn, float x);

/* RN32 of an MPFR value with a relative error below 2^(slack - precision); returns 0 if the
 * rounding is ambiguous. */
int oracle_round(mpfr_t y, int slack, float *rounded);

#endif
