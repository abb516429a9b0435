#include "ref/formats/round.h"

#include <string.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

static const struct {
    const char *name;
    unsigned bits;
} formats[] = {
#define SB_FORMAT(id, name, bits, clause) {name, bits},
#include "ref/formats/formats.def"
#undef SB_FORMAT
};

const char *sb_format_name(sb_format format)
{
    return formats[format].name;
}

unsigned sb_format_bits(sb_format format)
{
    return formats[format].bits;
}

size_t sb_format_bytes(sb_format format)
{
    return formats[format].bits / 8;
}

int sb_format_is_plain(sb_format format)
{
    return format == SB_FORMAT_f32 || format == SB_FORMAT_bf16 || format == SB_FORMAT_f16;
}

/* F-2: "A BF16 code is the upper half of a binary32" */
float sb_bf16_to_f32(uint16_t code)
{
    return sb_f32_from_bits((uint32_t)code << 16);
}

/* F-4: "to nearest, ties to even" - computed on the bit pattern. A carry out of the significand
 * gives the next exponent; a carry out of the largest exponent gives infinity. */
uint16_t sb_f32_to_bf16(float x)
{
    uint32_t u = sb_bits_f32(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 & 0x8000u) | 0x7fc0u;
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* F-3: "(-1)^s 2^(e-15) (1 + f/1024)", and 2^-24 f where the exponent field is 0 */
float sb_f16_to_f32(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x8000u) << 16;
    uint32_t exponent = code >> 10 & 31u;
    uint32_t fraction = code & 1023u;
    if (exponent == 31)
        return sb_f32_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        float magnitude = (float)fraction * 0x1p-24f;
        return sb_f32_from_bits(sign | sb_bits_f32(magnitude));
    }
    return sb_f32_from_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

/* F-4: "to nearest, ties to even, overflows to infinity" - infinity has the code that 65536 would
 * have. */
uint16_t sb_f32_to_f16(float x)
{
    uint32_t u = sb_bits_f32(x);
    uint32_t sign = u >> 16 & 0x8000u;
    uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u);
    uint32_t code = sb_small_nearest(magnitude, 10, 15);
    return (uint16_t)(sign | (code > 0x7c00u ? 0x7c00u : code));
}

float sb_code_to_f32(sb_format format, uint32_t code)
{
    switch (format) {
    case SB_FORMAT_f32:
        return sb_f32_from_bits(code);
    case SB_FORMAT_bf16:
        return sb_bf16_to_f32((uint16_t)code);
    case SB_FORMAT_f16:
        return sb_f16_to_f32((uint16_t)code);
    case SB_FORMAT_e4m3:
        return sb_e4m3_to_f32((uint8_t)code);
    case SB_FORMAT_ue4m3:
        return sb_ue4m3_to_f32((uint8_t)code);
    case SB_FORMAT_e5m2:
        return sb_e5m2_to_f32((uint8_t)code);
    case SB_FORMAT_e8m0:
        return sb_e8m0_to_f32((uint8_t)code);
    case SB_FORMAT_e2m1:
        return sb_e2m1_to_f32((uint8_t)code);
    case SB_FORMAT_int4:
        return sb_int4_to_f32((uint8_t)code);
    case SB_FORMAT_int8:
        return sb_int8_to_f32((uint8_t)code);
    case SB_FORMAT_uint4:
        return sb_uint4_to_f32((uint8_t)code);
    case SB_FORMAT_uint8:
        return sb_uint8_to_f32((uint8_t)code);
    case SB_FORMAT_COUNT:
        break;
    }
    return 0;
}

uint32_t sb_f32_to_code(sb_format format, float x)
{
    switch (format) {
    case SB_FORMAT_f32:
        return sb_bits_f32(x);
    case SB_FORMAT_bf16:
        return sb_f32_to_bf16(x);
    case SB_FORMAT_f16:
        return sb_f32_to_f16(x);
    case SB_FORMAT_e4m3:
        return sb_f32_to_e4m3(x);
    case SB_FORMAT_ue4m3:
        return sb_f32_to_ue4m3(x);
    case SB_FORMAT_e5m2:
        return sb_f32_to_e5m2(x);
    case SB_FORMAT_e8m0:
        return sb_f32_to_e8m0(x);
    case SB_FORMAT_e2m1:
        return sb_f32_to_e2m1(x);
    case SB_FORMAT_int4:
        return sb_f32_to_int4(x);
    case SB_FORMAT_int8:
        return sb_f32_to_int8(x);
    case SB_FORMAT_uint4:
        return sb_f32_to_uint4(x);
    case SB_FORMAT_uint8:
        return sb_f32_to_uint8(x);
    case SB_FORMAT_COUNT:
        break;
    }
    return 0;
}

float sb_round_to(sb_format format, float x)
{
    if (format == SB_FORMAT_f32)
        return x;
    if (format == SB_FORMAT_bf16)
        return sb_bf16_to_f32(sb_f32_to_bf16(x));
    return sb_code_to_f32(format, sb_f32_to_code(format, x));
}

/* sb_f32_to_bf16 and back without a branch, so that the compiler vectorizes it. */
static void round_to_bf16(const float *x, size_t n, float *out)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = sb_bits_f32(x[i]), upper = 0xffff0000u;
        const uint32_t nearest = (u + 0x7fffu + (u >> 16 & 1u)) & upper;
        const uint32_t nan = (u & 0x80000000u) | 0x7fc00000u;
        out[i] = sb_f32_from_bits((u & 0x7fffffffu) > 0x7f800000u ? nan : nearest);
    }
}

void sb_round_many(sb_format format, const float *x, size_t n, float *out)
{
    if (format == SB_FORMAT_f32)
        memmove(out, x, n * sizeof *out);
    else if (format == SB_FORMAT_bf16)
        round_to_bf16(x, n, out);
    else
        for (size_t i = 0; i < n; i++)
            out[i] = sb_round_to(format, x[i]);
}

/* F-13: "Two codes of four bits share a byte, the element of even index in the low half" */
static void store_small_code(unsigned char *bytes, unsigned bits, size_t i, uint32_t code)
{
    if (bits == 8)
        bytes[i] = (unsigned char)code;
    else if (i % 2 == 0)
        bytes[i / 2] = (unsigned char)code;
    else
        bytes[i / 2] |= (unsigned char)(code << 4);
}

/* F-1: "every stored format decodes to binary32 without rounding" */
void sb_decode(sb_format format, const unsigned char *bytes, size_t count, float *values)
{
    unsigned bits = sb_format_bits(format);
    if (bits == 8) {
        sb_small_decode(format, bytes, count, values);
        return;
    }
    for (size_t i = 0; format == SB_FORMAT_f32 && i < count; i++)
        values[i] = sb_f32_from_bits(sb_load_u32(bytes + 4 * i));
    for (size_t i = 0; format == SB_FORMAT_bf16 && i < count; i++)
        values[i] = sb_f32_from_bits((uint32_t)sb_load_u16(bytes + 2 * i) << 16);
    if (format == SB_FORMAT_f32 || format == SB_FORMAT_bf16)
        return;
    for (size_t i = 0; i < count; i++) {
        if (format == SB_FORMAT_f16)
            values[i] = sb_f16_to_f32(sb_load_u16(bytes + 2 * i));
        else
            values[i] = sb_code_to_f32(format, ((unsigned)bytes[i / 2] >> (i % 2 * 4)) & 15u);
    }
}

void sb_encode(sb_format format, const float *values, size_t count, unsigned char *bytes)
{
    unsigned bits = sb_format_bits(format);
    for (size_t i = 0; i < count; i++) {
        if (format == SB_FORMAT_f32)
            sb_store_u32(bytes + 4 * i, sb_bits_f32(values[i]));
        else if (format == SB_FORMAT_bf16)
            sb_store_u16(bytes + 2 * i, sb_f32_to_bf16(values[i]));
        else if (format == SB_FORMAT_f16)
            sb_store_u16(bytes + 2 * i, sb_f32_to_f16(values[i]));
        else
            store_small_code(bytes, bits, i, sb_f32_to_code(format, values[i]));
    }
}
