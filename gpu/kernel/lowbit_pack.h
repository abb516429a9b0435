/* lowbit_pack.h - weights of linear layers with quantized inputs, in the order in which kernels
 * read them (lowbit_shape.h). Codes and scales are copied from the file; nothing is rounded. */
#ifndef SB_KERNEL_LOWBIT_PACK_H
#define SB_KERNEL_LOWBIT_PACK_H

#include "gpu/base.h"
#include "gpu/kernel/lowbit_shape.h"
#include "ref/ops/act_quant.h"

/* The input scheme for which this weight is packed. It may be fp8_token where the real scheme is
 * fp8_static: both have the same packing. */
sb_act_scheme sb_lowbit_scheme(const sb_matrix *matrix);

/* Computes the shape; `scheme` is the result of sb_input_scheme. SB_ERR_UNSUPPORTED: the kernels do
 * not support this scheme for the matrix. */
sb_status sb_lowbit_pack_shape(const sb_matrix *matrix, sb_act_scheme scheme,
                               sb_lowbit_shape *shape);

/* Write bytes [first, first + bytes), which must be whole tiles, of the codes or of the scales of
 * all tiles. */
sb_status sb_lowbit_code_bytes(const sb_matrix *matrix, size_t first, size_t bytes,
                               unsigned char *to);
sb_status sb_lowbit_scale_bytes(const sb_matrix *matrix, size_t first, size_t bytes,
                                unsigned char *to);

/* Pack tiles [first, last). _codes writes the codes, 512 bytes for each step. _scales writes the
 * scales: binary32 for E4M3, words of four scales for E2M1. */
void sb_lowbit_pack_codes(const sb_matrix *matrix, const sb_lowbit_shape *shape, uint32_t first,
                          uint32_t last, uint32_t *to);
void sb_lowbit_pack_scales(const sb_matrix *matrix, const sb_lowbit_shape *shape, uint32_t first,
                           uint32_t last, uint32_t *to);

/* Returns the factors of sums: sums are multiplied by *multiplier, then divided by *divisor. Y-54:
 * "the multipliers and divided by the divisors of weight and input, which have been multiplied with
 * each other before, if there are two". False if a product is not a normal number. */
bool sb_lowbit_factor(const sb_matrix *matrix, sb_act_scheme scheme, float *multiplier,
                      float *divisor);

#endif
