/* ints_kernels.h - the kernels behind ints.h, for 128 columns at a time. */
#ifndef SB_MATH_INTS_KERNELS_H
#define SB_MATH_INTS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* 128 columns are 64 bytes of codes and 8 scales. */
enum { SB_INT_COLUMNS = 128, SB_INT_BYTES = 64, SB_INT_GROUPS = 8, SB_INT_INPUTS = 4 };

/* 128 columns of an input: its halves in the order of the codes, which are the low and the high
 * half of each byte; and its scales. As kernels multiply codes + 12, which have no sign, `start` is
 * -12 times the sum of the halves that belong to each four bytes. */
typedef struct sb_int_block {
    int8_t low[SB_INT_BYTES], high[SB_INT_BYTES];
    int32_t start[SB_INT_BYTES / 4];
    int64_t scale[SB_INT_GROUPS];
} sb_int_block;

/* Adds to sums[t], of `count` (at most SB_INT_INPUTS) inputs that are `stride` blocks apart, the
 * products of a row of codes. Zero where one of its scales has no value: then sums are anything. */
typedef int (*sb_int_row_fn)(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                             const sb_int_block *x, size_t stride, size_t count, int64_t *sums);

int sb_int_row_scalar(const unsigned char *codes, const unsigned char *scales, size_t blocks,
                      const sb_int_block *x, size_t stride, size_t count, int64_t *sums);

/* NULL where compiler or CPU has none. */
sb_int_row_fn sb_int_row_avx2(void);
sb_int_row_fn sb_int_row_avx512(void);

/* The code of a scale, below 0x7f, in units of 2^-9. */
static inline int32_t sb_int_scale(unsigned char code)
{
    int32_t exponent = code >> 3, fraction = code & 7;
    return exponent ? (8 + fraction) << (exponent - 1) : fraction;
}

/* E2M1 in halves. */
#define SB_INT_HALVES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

#endif
