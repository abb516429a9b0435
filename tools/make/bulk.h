/* bulk.h - loops over many weights, compiled for the instructions that the CPU has.
 *
 * Each computes the formula above it, element by element. No argument is a NaN. */
#ifndef SB_MAKE_BULK_H
#define SB_MAKE_BULK_H

#include <stddef.h>

enum { SB_BULK_FP4_GROUP = 16 };

/* values[i] = mean + spread * values[i], two roundings */
void sb_bulk_scale(float *values, size_t n, float mean, float spread);

/* sb_round_to(SB_FORMAT_bf16, ..), in place */
void sb_bulk_bf16(float *values, size_t n);

/* sb_encode(SB_FORMAT_bf16, ..) */
void sb_bulk_bf16_codes(const float *values, size_t n, unsigned char *bytes);

/* *out = the largest magnitude of n weights */
void sb_bulk_largest_of(const float *weights, size_t n, float *out);

/* out[g] = the largest magnitude of the 16 weights of group g */
void sb_bulk_largest(const float *weights, size_t groups, float *out);

/* sb_e2m1_compressed_tensors(w / steps[g]), and sb_e2m1_modelopt(w / steps[g]), two codes to a
 * byte */
void sb_bulk_e2m1(const float *weights, const float *steps, size_t groups, unsigned char *codes);

/* sb_f32_to_e4m3 */
void sb_bulk_e4m3(const float *values, size_t n, unsigned char *codes);

/* values[i] = bf16(weights[i] / by) + zero: a zero of 0 turns -0 into 0, a zero of -0 keeps it */
void sb_bulk_bf16_quotients(const float *weights, size_t n, float by, float zero, float *values);

#endif
