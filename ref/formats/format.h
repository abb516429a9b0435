/* format.h - stored number formats: bytes to exact float32 values, and back with one rounding. The
 * formats of at most eight bits have their own functions in small_float.h. */
#ifndef SB_FORMATS_FORMAT_H
#define SB_FORMATS_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/formats.h"

#ifdef __cplusplus
extern "C" {
#endif

const char *sb_format_name(sb_format format); /* "BF16"; "" if files have no name for it */
unsigned sb_format_bits(sb_format format);    /* bits per element */
size_t sb_format_bytes(sb_format format);     /* bytes per element; 0 for four-bit formats */

/* True for the formats of tensors without scales: f32, bf16, f16. */
int sb_format_is_plain(sb_format format);

/* BF16: the upper half of a float32. Decoding is exact (F-2). Encoding rounds to nearest, ties to
 * even, and overflows to infinity. Every NaN becomes 0x7fc0 with the sign of its input (F-4). */
float sb_bf16_to_f32(uint16_t code);
uint16_t sb_f32_to_bf16(float x);

/* FP16 (IEEE binary16): decoding is exact, also for subnormals (F-3). Encoding follows F-4; NaN
 * becomes 0x7e00. */
float sb_f16_to_f32(uint16_t code);
uint16_t sb_f32_to_f16(float x);

/* sb_code_to_f32 returns the value of the code in the low bits of `code`; sb_f32_to_code returns
 * the code of x. If a format has several encoders, sb_f32_to_code uses the encoder
 * sb_f32_to_<format> without a suffix. Encoders of formats of at most eight bits saturate; the
 * encoder of e8m0 rounds to nearest. */
float sb_code_to_f32(sb_format format, uint32_t code);
uint32_t sb_f32_to_code(sb_format format, float x);

/* x rounded to a format and back: the R of the specification. f32 returns x unchanged. */
float sb_round_to(sb_format format, float x);

/* Decodes `count` little-endian elements, which may be unaligned. Four-bit elements start in the
 * low half of the first byte (F-13). */
void sb_decode(sb_format format, const unsigned char *bytes, size_t count, float *values);

/* Encodes `count` values as sb_f32_to_code does. If the number of four-bit codes is odd, the high
 * half of the last byte is zero. */
void sb_encode(sb_format format, const float *values, size_t count, unsigned char *bytes);

#ifdef __cplusplus
}
#endif

#endif
