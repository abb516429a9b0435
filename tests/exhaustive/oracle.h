/* oracle.h - the functions of ref/math/fn.h by MPFR, and the table that lists them for the tests.
 *
 * An MPFR value with an error bound is narrowed (Ziv) until both ends of its interval round to the
 * same binary32; nothing of ref/math takes part. */
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
    double (*libm)(double); /* f in binary64 by the C library, off by a few of its last places */
    float low, high;        /* at low and below, at high and above, the core is not asked */
} oracle_fn;

extern const oracle_fn oracle_table[SB_FN_COUNT];

/* Inputs at which f is no number, infinite or exactly zero, and those so far out that binary32 has
 * only one answer: *value is that answer. 0 for all others. */
int oracle_special(sb_fn fn, float x, float *value);

/* RN32(f(x)) of any binary32, special values included. */
float oracle_value(sb_fn fn, float x);

/* (approximation - f(x)) / f(x), in units of 2^-53, for f(x) != 0. */
double oracle_error(sb_fn fn, double x, double approximation);

/* RN32(base^exponent) where that is from 1 on. */
float oracle_power(double base, float exponent);

/* RN32(base^(numerator/denominator)). */
float oracle_root_power(double base, int numerator, unsigned denominator);

/* Whether x goes to the core, and not to one of the function's special cases. */
int oracle_asks_core(sb_fn fn, float x);

/* RN32 of an MPFR value that is known within 2^(slack - precision) of itself; 0 if that leaves a
 * choice. */
int oracle_round(mpfr_t y, int slack, float *rounded);

#endif
