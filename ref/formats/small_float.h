/* small_float.h - the number formats of at most eight bits: elements and scales of quantized
 * tensors. Every decoder is exact. Every encoder uses only integer operations on the bit pattern of
 * its argument, so that neither flushed subnormals nor a rounding mode can change a code.
 *
 *            sign exponent fraction bias  largest  smallest > 0  NaN              infinity
 *   e4m3      1      4        3       7     448       2^-9       0x7f 0xff          -
 *   ue4m3     -      4        3       7     448       2^-9       0x7f 0xff          -
 *   e5m2      1      5        2      15    57344      2^-16      0x7d-0x7f, 0xfd-   0x7c 0xfc
 *   e2m1      1      2        1       1       6       2^-1        -                 -
 *   e8m0      -      8        0     127    2^127      2^-127     0xff               - */
#ifndef SB_FORMATS_SMALL_FLOAT_H
#define SB_FORMATS_SMALL_FLOAT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/formats.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The value of a code without its sign bit, in a format with the given fraction bits and bias
 * (below 127). Codes of infinities and NaNs are read as if they were numbers. */
float sb_small_value(uint32_t code, unsigned fraction_bits, unsigned bias);

/* The code, without sign bit, of the value nearest to the magnitude of a finite x, ties to the even
 * code; `bits` is the bit pattern of x without its sign bit. The exponent field has no upper limit
 * here: the caller handles results beyond the largest value (F-5). fraction_bits 0 to 22, bias 1 to
 * 103. */
uint32_t sb_small_nearest(uint32_t bits, unsigned fraction_bits, unsigned bias);

/* E4M3 (F-6). sb_f32_to_e4m3 saturates, infinity included, at 448. sb_f32_to_e4m3_unsaturated
 * makes magnitudes above 464, infinity included, NaN. Both make every NaN 0x7f with its sign. */
float sb_e4m3_to_f32(uint8_t code);
uint8_t sb_f32_to_e4m3(float x);
uint8_t sb_f32_to_e4m3_unsaturated(float x);

/* UE4M3 (F-7): the scale byte of a block as tensor cores read it, with the sign bit ignored.
 * Encoding is the saturating E4M3 encoding with the sign bit cleared. */
float sb_ue4m3_to_f32(uint8_t code);
uint8_t sb_f32_to_ue4m3(float x);

/* E5M2 (F-8). sb_f32_to_e5m2 saturates, infinity included, at 57344; sb_f32_to_e5m2_ieee gives an
 * infinity from 61440 on. Both make every NaN 0x7e with its sign. */
float sb_e5m2_to_f32(uint8_t code);
uint8_t sb_f32_to_e5m2(float x);
uint8_t sb_f32_to_e5m2_ieee(float x);

/* E2M1 (F-9), in the low four bits of `code`. Encoding saturates at 6, infinity included. It keeps
 * the sign of zeros and of numbers that round to zero, and makes every NaN +6, as the hardware
 * conversion does. Other engines differ: e2m1_forms.h. */
float sb_e2m1_to_f32(uint8_t code);
uint8_t sb_f32_to_e2m1(float x);

/* E8M0 (F-10, F-11): 2^(code - 127). All encoders give 0xff, NaN, for values without a code: NaN,
 * values below zero, infinity, and results above 2^127. Both zeros become 2^-127, code 0. */
float sb_e8m0_to_f32(uint8_t code);
uint8_t sb_f32_to_e8m0(float x);       /* nearest, ties upward */
uint8_t sb_f32_to_e8m0_exact(float x); /* 0xff also for values other than powers of two */
uint8_t sb_f32_to_e8m0_up(float x);    /* 2^ceil(log2 x) */

/* The scale that compressed-tensors gives to a block of largest magnitude `amax` (F-11). The
 * largest element value has the exponent `element_exponent`: 2 for E2M1, 8 for E4M3. */
uint8_t sb_f32_to_e8m0_ct(float amax, unsigned element_exponent);

/* Integers (F-12), two's complement or unsigned; four-bit codes are in the low four bits of `code`.
 * Encoding rounds to nearest, ties to even, saturates, and makes NaN 0. */
float sb_int4_to_f32(uint8_t code);
float sb_int8_to_f32(uint8_t code);
float sb_uint4_to_f32(uint8_t code);
float sb_uint8_to_f32(uint8_t code);
uint8_t sb_f32_to_int4(float x);
uint8_t sb_f32_to_int8(float x);
uint8_t sb_f32_to_uint4(float x);
uint8_t sb_f32_to_uint8(float x);

/* The values of `count` codes of at most eight bits, one per byte. Same results as sb_code_to_f32,
 * but faster. */
void sb_small_decode(sb_format format, const uint8_t *codes, size_t count, float *values);

/* The values of `count` four-bit codes, two per byte, the low half first. */
void sb_nibble_decode(sb_format format, const uint8_t *bytes, size_t count, float *values);

#ifdef __cplusplus
}
#endif

#endif
