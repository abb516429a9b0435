/* wide_fn.h - the program's own functions in binary64. C libraries differ in the last bits; with
 * these functions a bound, and so a verdict, is the same on every machine.
 *
 * They use only +, -, * and /, each rounded once. */
#ifndef SB_COMPARE_WIDE_FN_H
#define SB_COMPARE_WIDE_FN_H

/* T-5: "functions err by less than 2^-40, relative (sine and cosine absolute)". Arguments of
 * wide_sin and wide_cos are below 2^25 (S-5: positions are below 2^24, frequencies at most 1). */
double sb_wide_exp(double x); /* 0 and infinity beyond the range of binary64 */
double sb_wide_expm1(double x);
double sb_wide_log(double x);   /* x > 0 and finite */
double sb_wide_log1p(double x); /* x > -1 */
double sb_wide_sin(double x);
double sb_wide_cos(double x);
double sb_wide_pow(double base, double exponent); /* base > 0 */

/* The whole number nearest to x, for |x| < 2^51. */
static inline double sb_wide_round(double x)
{
    double shifted = x + 0x1.8p52;
    return shifted - 0x1.8p52;
}

static inline double sb_wide_abs(double x)
{
    return __builtin_fabs(x); /* always an instruction, never a function call */
}
static inline double sb_wide_max(double a, double b)
{
    return a > b || b != b ? a : b;
}
static inline double sb_wide_min(double a, double b)
{
    return a < b || b != b ? a : b;
}

#endif
