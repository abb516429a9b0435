/* plain.h - the functions and reductions of docs/spec.md section A in their plainest form, for
 * tests: long double, libm, error-free sums, and one rounding. They share nothing with ref/math. */
#ifndef SB_TESTS_LIB_PLAIN_H
#define SB_TESTS_LIB_PLAIN_H

#include <stddef.h>

#include "ref/ops/knobs.h"

#ifdef __cplusplus
extern "C" {
#endif

float plain_exp(float x);
float plain_log1p(float x);
float plain_sigmoid(float x);
float plain_silu(float x);
float plain_softplus(float x);
float plain_rsqrt(float x);
float plain_sin(float x);
float plain_cos(float x);
float plain_power(double base, long double exponent);

/* RN of the exact sum of a[i * step_a] * b[i * step_b]; a NaN if an operand is not finite. */
float plain_dot(const float *a, size_t step_a, const float *b, size_t step_b, size_t n);
float plain_sum(const float *a, size_t n);

/* Asserts that both results have the same bits. All NaNs count as equal. */
void test_same(const char *what, const float *got, const float *want, size_t count);

/* Asserts |got - want| <= tolerance for every element, and that got is finite. */
void test_near(const char *what, const float *got, const long double *want, size_t count,
               long double tolerance);

/* Profile exact with settings such as "act=bf16 scores=act". */
sb_knobs test_knobs(const char *settings);

#ifdef __cplusplus
}
#endif

#endif
