/* lowbit_pack.h - weights of linear layers with quantized inputs, in the order in which kernels
 * read them (lowbit_shape.h). Codes and scales are those of the file; nothing is rounded.
 */
#ifndef SB_KERNEL_LOWBIT_PACK_H
#define SB_KERNEL_LOWBIT_PACK_H

#include "gpu/base.h"
#include "gpu/kernel/lowbit_shape.h"

extern "C" {
#include "ref/ops/act_quant.h"
}

/* The scheme of quantized inputs of this weight: token also where an input scale would make it
 * static, which has the same packing. */
sb_act_scheme sb_lowbit_scheme(const sb_matrix *matrix);

/* SB_ERR_UNSUPPORTED if the kernels do not support `scheme`, which is that of sb_input_scheme. */
sb_status sb_lowbit_pack_shape(const sb_matrix *matrix, sb_act_scheme scheme,
                               sb_lowbit_shape *shape);

/* Write bytes [first, first + bytes), whole tiles, of the codes and of the scales of all tiles. */
sb_status sb_lowbit_code_bytes(const sb_matrix *matrix, size_t first, size_t bytes,
                               unsigned char *to);
sb_status sb_lowbit_scale_bytes(const sb_matrix *matrix, size_t first, size_t bytes,
                                unsigned char *to);

/* Tiles [first, last): their codes, 512 bytes for each step, and their scales, which are binary32
 * for E4M3 and words for E2M1. */
void sb_lowbit_pack_codes(const sb_matrix *matrix, const sb_lowbit_shape *shape, uint32_t first,
                          uint32_t last, uint32_t *to);
void sb_lowbit_pack_scales(const sb_matrix *matrix, const sb_lowbit_shape *shape, uint32_t first,
                           uint32_t last, uint32_t *to);

/* The factor and then the divisor of sums. Y-54: "the multipliers and divided by the divisors of
 * weight and input, which have been multiplied with each other before, if there are two". False if
 * a product is not a normal number. */
bool sb_lowbit_factor(const sb_matrix *matrix, sb_act_scheme scheme, float *multiplier,
                      float *divisor);

#endif
