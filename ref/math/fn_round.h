/* fn_round.h - internal to ref/math: the last step of every function of fn.h, and the binary64
 * cores.
 *
 * A core returns f(x) with a relative error below 2^-50; the comment above each core has its error
 * analysis, in units of u = 2^-53. The cores are not static, so that tests/exhaustive can measure
 * them. */
#ifndef SB_MATH_FN_ROUND_H
#define SB_MATH_FN_ROUND_H

#include <stddef.h>
#include <stdint.h>

#define SB_FN_LIST(X) X(exp) X(log) X(log1p) X(rsqrt) X(sin) X(cos) X(sigmoid) X(silu) X(softplus)

typedef enum sb_fn {
#define SB_FN(name) SB_FN_##name,
    SB_FN_LIST(SB_FN)
#undef SB_FN
        SB_FN_COUNT
} sb_fn;

/* An input whose rounding binary64 cannot decide, and the output by MPFR. */
typedef struct sb_fn_exception {
    uint32_t input, output; /* bits of binary32 */
} sb_fn_exception;

/* The exceptions of a function, by increasing input. */
const sb_fn_exception *sb_fn_exceptions(sb_fn fn, size_t *count);

/* RN32 of the real number that y approximates. `input` has the bits of x, to find exceptions. */
float sb_fn_round(sb_fn fn, uint32_t input, double y);

float sb_fn_nan(void); /* the canonical NaN */

/* The cores. x is a binary32 value in the range that the function of fn.h leaves to its core. */
double sb_core_exp(double x);      /* |x| <= 110 */
double sb_core_log(double x);      /* positive, finite, any normal binary64 */
double sb_core_log1p(double x);    /* -1 < x, finite, any binary64 */
double sb_core_rsqrt(double x);    /* 1 <= x < 4 */
double sb_core_sin(double x);      /* finite */
double sb_core_cos(double x);      /* finite */
double sb_core_sigmoid(double x);  /* |x| <= 110 */
double sb_core_silu(double x);     /* |x| <= 110 */
double sb_core_softplus(double x); /* |x| <= 110 */

/* c[0] + c[1] x + ... + c[n-1] x^(n-1) */
static inline double sb_polynomial(const double *c, size_t n, double x)
{
    double y = c[n - 1];
    while (--n > 0)
        y = y * x + c[n - 1];
    return y;
}

#endif
