/* int_dot_kernels.h - the kernels of int_dot.h, for 256 columns at a time. */
#ifndef SB_DOT_INT_DOT_KERNELS_H
#define SB_DOT_INT_DOT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* 256 columns are 128 bytes of codes and 16 scales. */
enum {
    SB_INT_COLUMNS = 256,
    SB_INT_BYTES = 128,
    SB_INT_GROUPS = 16,
    SB_INT_INPUTS = 4, /* the largest number of inputs of a kernel */
    SB_INT_ROWS = 4    /* the number of rows of a kernel */
};

/* The slot that the kernels use for group g of a block. Groups of the first and of the second half
 * alternate in pairs, because one instruction interleaves the words of two registers. */
static inline size_t sb_int_slot(size_t g)
{
    return g % 8 / 2 * 4 + g / 8 * 2 + g % 2;
}

/* 256 columns of an input. half[2 p + n][4 s + i] is column 8 p + 2 i + n of the group in slot s,
 * in halves. This order matches the codes: a group has two runs of four bytes, with low (n = 0) and
 * high nibbles. scale[n][i] is the scale of slot 2 i + n. The kernels multiply codes + 12, which
 * are unsigned. To correct this, `start` is -12 times the sum of all halves of each slot. */
typedef struct sb_int_block {
    int8_t half[4][SB_INT_BYTES / 2];
    int32_t start[SB_INT_GROUPS];
    int64_t scale[2][SB_INT_GROUPS / 2];
} sb_int_block;

/* sums[t * SB_INT_ROWS + r] is the sum of products of row r of codes and input t of `count` (at
 * most SB_INT_INPUTS) inputs, which are `stride` blocks apart. If bit r of the result is set, a
 * scale of row r has no value, and its sums are arbitrary. */
typedef unsigned (*sb_int_rows_fn)(const unsigned char *const *codes,
                                   const unsigned char *const *scales, size_t blocks,
                                   const sb_int_block *x, size_t stride, size_t count,
                                   int64_t *sums);

unsigned sb_int_rows_scalar(const unsigned char *const *codes, const unsigned char *const *scales,
                            size_t blocks, const sb_int_block *x, size_t stride, size_t count,
                            int64_t *sums);

/* NULL if the compiler or the CPU does not support the kernel. */
sb_int_rows_fn sb_int_rows_avx2(void);
sb_int_rows_fn sb_int_rows_avx512(void);

/* The value of a scale code below 0x7f as a multiple of 2^-9. */
static inline int32_t sb_int_scale(unsigned char code)
{
    int32_t exponent = code >> 3, fraction = code & 7;
    return exponent ? (8 + fraction) << (exponent - 1) : fraction;
}

/* The values of the E2M1 codes times two. */
#define SB_INT_HALVES 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

#endif
