/* fixed.h - rows of E2M1 with an input in fixed point, so that products are integers. Kernels of
 * several sets use this header.
 *
 * Each group of sixteen inputs has its own unit u, a power of two. The inputs are rounded to
 * integer multiples of u, below 2^47 in magnitude. Such an integer is written as six digits to the
 * base 256, from -128 to 127. A code is an integer multiple of 1/2. So the sum of a group is exact
 * in 64 bits, apart from the roundings of the inputs, whose errors are known. The byte
 * multiplication needs one unsigned operand. So 12 is added to each code, which is counted in
 * halves, and the sum starts with -12 times the sum of the digits. */
#ifndef SB_SIMD_FIXED_H
#define SB_SIMD_FIXED_H

#include "ref/base/bytes.h"
#include "ref/fast/dot/dot.h"

enum { SB_FIXED_DIGITS = 6, SB_FIXED_GROUP = 16, SB_FIXED_CODE = 12 };

/* E4M3 scales are read as 2^-1016 of their values. Units are multiplied by 2^500, so that nothing
 * underflows. The end of the kernel multiplies by the remaining power of two, which differs for
 * coded and plain scales. */
#define SB_FIXED_UNIT 0x1p500
#define SB_FIXED_OF_CODED 0x1p516
#define SB_FIXED_OF_PLAIN 0x1p-500

/* 2^47 u is a power of two above the largest magnitude of a group, by a factor of at least 129 /
 * 128, so that the highest digit is at most 127. Groups outside the range LEAST to LIMIT have the
 * unit NaN. */
#define SB_FIXED_ABOVE (129.0 / 128)
#define SB_FIXED_LEAST 0x1p-300
#define SB_FIXED_LIMIT 0x1p300

/* Returns 2^47 u of a group, from its largest magnitude and its sum of magnitudes. The sum is NaN
 * or infinite if any input is. Returns 0 if all inputs are 0. */
static inline double sb_fixed_top(double most, double all)
{
    if (all == 0)
        return 0;
    if (!(most >= SB_FIXED_LEAST && all < SB_FIXED_LIMIT))
        return sb_f64_from_bits((uint64_t)0x7ff8 << 48);
    return sb_f64_from_bits(((sb_bits_f64(most * SB_FIXED_ABOVE) >> 52) + 1) << 52);
}

/* The number of lowest digits, at most 3, that are 0 in all numbers; `any` is the OR of the
 * numbers. bfloat16 inputs have eight significant bits. So three digits are enough if the largest
 * number of a group is less than 2^16 times the smallest. In this case binary32 inputs, which have
 * 24 bits, need five digits. */
static inline int sb_fixed_lowest(uint64_t any)
{
    return any & 0xff ? 0 : any & 0xff00 ? 1 : any & 0xff0000 ? 2 : 3;
}

/* A product passes through these roundings: one of the group's sum, n / 128 + 1 when blocks are
 * added, 3 when lanes are added. row.h allows 18 + 7 n / 128 more, each 2^-53 of the magnitude; t =
 * 16 + 7 n / 128 of these are used for the rounding of the inputs. Let e be the sum of the rounding
 * errors of a group's inputs. Their effect on the result is at most 6 e times the scale. The
 * magnitude of a group is its size times 6 and the scale, so 2^53 / t * e is added to the size. */
static inline double sb_fixed_spread(size_t n)
{
    return 0x1p53 / (double)(16 + 7 * n / SB_ROW_BLOCK);
}

/* The AVX2 kernel and its inputs, for the AVX2 set and for AVX-512 without VNNI. */
sb_partial sb_avx2_fixed_e2m1(const sb_row_codes *w, const sb_row_input *x);
void sb_avx2_arrange_fixed(const double *x, size_t n, double *lanes);

#endif
