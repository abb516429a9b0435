/* dd.h - real numbers as the sum of two binary64 numbers: about 106 bits, for the unrounded value
 * that a kernel's output is compared with.
 *
 * hi is the sum rounded to binary64, so |lo| <= ulp(hi) / 2. The relative error of arithmetic is at
 * most 2^-100, that of functions at most 2^-90 for exact arguments (sine and cosine: absolute).
 * Tiny numbers add an absolute error of 2^-1060. Results beyond the range are infinity or 0. All
 * steps are binary64 operations, each rounded once: the same bits everywhere. */
#ifndef SB_GATE_DD_H
#define SB_GATE_DD_H

typedef struct sb_dd {
    double hi, lo;
} sb_dd;

static inline sb_dd sb_dd_of(double x)
{
    return (sb_dd){x, 0.0};
}

sb_dd sb_dd_add(sb_dd a, sb_dd b);
sb_dd sb_dd_sub(sb_dd a, sb_dd b);
sb_dd sb_dd_mul(sb_dd a, sb_dd b);
sb_dd sb_dd_div(sb_dd a, sb_dd b);
sb_dd sb_dd_sqrt(sb_dd a);
sb_dd sb_dd_neg(sb_dd a);
int sb_dd_less(sb_dd a, sb_dd b);
sb_dd sb_dd_scale(sb_dd a, int n); /* a 2^n, -2000 < n < 2000 */
int sb_dd_exponent(sb_dd a);       /* n of 2^n <= |a.hi| < 2^(n + 1), a finite and not 0 */

/* s + x y, for sums of many products. */
sb_dd sb_dd_fma(sb_dd s, sb_dd x, sb_dd y);

sb_dd sb_dd_exp(sb_dd x);
sb_dd sb_dd_expm1(sb_dd x);
sb_dd sb_dd_log(sb_dd x);   /* x > 0 */
sb_dd sb_dd_log1p(sb_dd x); /* x > -1 */
sb_dd sb_dd_sin(sb_dd x);   /* |x| < 2^25 */
sb_dd sb_dd_cos(sb_dd x);
sb_dd sb_dd_pow(sb_dd base, sb_dd exponent); /* base > 0 */
sb_dd sb_dd_sigmoid(sb_dd x);
sb_dd sb_dd_silu(sb_dd x);
sb_dd sb_dd_softplus(sb_dd x); /* log(1 + e^x), over the whole range */

#endif
