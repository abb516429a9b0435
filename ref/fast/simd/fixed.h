/* fixed.h - rows of E2M1 with an input in fixed point, whose products are integers: what the
 * kernels of several sets share.
 *
 * The sixteen inputs of a group have a unit u of their own, a power of two, of which they are
 * rounded to whole numbers below 2^47. Such a number is written as six digits to the base 256, from
 * -128 to 127; a code is a whole number of halves. So the sum of a group is exact in 64 bits but
 * for the inputs' rounding, whose errors are known. Instructions that multiply bytes want one of
 * them without sign: codes have 12 added in their halves, and the sum starts with -12 times that of
 * the digits. */
#ifndef SB_SIMD_FIXED_H
#define SB_SIMD_FIXED_H

#include "ref/base/bytes.h"
#include "ref/fast/dot/dot.h"

enum { SB_FIXED_DIGITS = 6, SB_FIXED_GROUP = 16, SB_FIXED_CODE = 12 };

/* Scales in E4M3 are read as 2^-1016 of themselves; with units by 2^500 nothing underflows. What is
 * left is put right at the end, for scales that are coded, and for others. */
#define SB_FIXED_UNIT 0x1p500
#define SB_FIXED_OF_CODED 0x1p516
#define SB_FIXED_OF_PLAIN 0x1p-500

/* Above the largest magnitude of a group there is a power of two 2^47 u, by 129 / 128 at least, so
 * that the highest digit is 127 at most. A group with others than these has a unit of NaN. */
#define SB_FIXED_ABOVE (129.0 / 128)
#define SB_FIXED_LEAST 0x1p-300
#define SB_FIXED_LIMIT 0x1p300

/* 2^47 units of a group by its largest magnitude and the sum of all, which is NaN or infinite if
 * one of them is. 0 if all are 0. */
static inline double sb_fixed_top(double most, double all)
{
    if (all == 0)
        return 0;
    if (!(most >= SB_FIXED_LEAST && all < SB_FIXED_LIMIT))
        return sb_f64_from_bits((uint64_t)0x7ff8 << 48);
    return sb_f64_from_bits(((sb_bits_f64(most * SB_FIXED_ABOVE) >> 52) + 1) << 52);
}

/* Of how many of the lowest digits numbers are 0, by all of them joined: 3 at most. Inputs in
 * bfloat16 have eight digits to the base 2, so that of a group whose smallest number is not 2^16
 * below its largest all ends within three digits; those in binary32 have 24, and end within five.
 */
static inline int sb_fixed_lowest(uint64_t any)
{
    return any & 0xff ? 0 : any & 0xff00 ? 1 : any & 0xff0000 ? 2 : 3;
}

/* Roundings on the way of a product: one of the group's sum, n / 128 + 1 at the blocks, 3 where the
 * lanes meet. row.h allows 18 + 7 n / 128 more, each of 2^-53 of the magnitude; t = 16 + 7 n / 128
 * of them pay for the inputs' rounding. With e the sum of its errors in a group, that is at most 6
 * e times the scale, and so by 2^53 / t e in what is 6 times the magnitude of a group of scale 1.
 */
static inline double sb_fixed_spread(size_t n)
{
    return 0x1p53 / (double)(16 + 7 * n / SB_ROW_BLOCK);
}

/* Kernels with AVX2, and their inputs: of that set, and of AVX-512 without VNNI. */
sb_partial sb_avx2_fixed_e2m1(const sb_row_codes *w, const sb_row_input *x);
void sb_avx2_arrange_fixed(const double *x, size_t n, double *lanes);

#endif
