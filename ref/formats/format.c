#include "ref/formats/format.h"

#include "ref/base/bytes.h"

static const struct {
    const char *name;
    size_t bytes;
} formats[] = {
#define SB_FORMAT(id, name, bytes, clause) {name, bytes},
#include "ref/formats/formats.def"
#undef SB_FORMAT
};

const char *sb_format_name(sb_format format)
{
    return formats[format].name;
}

size_t sb_format_bytes(sb_format format)
{
    return formats[format].bytes;
}

/* F-2: "A BF16 code is the upper half of a binary32" */
float sb_bf16_to_f32(uint16_t code)
{
    return sb_f32_from_bits((uint32_t)code << 16);
}

/* F-4: "to nearest, ties to even" - done on the bit pattern, where a carry out of the significand
 * is the next exponent and a carry out of the last exponent is infinity. */
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

/* F-4: "to nearest, ties to even". The significand of x is shifted to where the last kept bit of
 * the result stands, and the part shifted out decides. */
uint16_t sb_f32_to_f16(float x)
{
    uint32_t u = sb_bits_f32(x);
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000u);
    uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return sign | 0x7e00u;
    if (magnitude >=
        0x477ff000u) /* 65520, half-way between the largest code and the next: infinity */
        return sign | 0x7c00u;
    uint32_t exponent = magnitude >> 23;
    uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t shift = exponent >= 113u ? 13u : 126u - exponent; /* subnormal codes count in 2^-24 */
    if (shift > 24u)
        return sign; /* below half of the smallest code */
    uint32_t kept = significand >> shift;
    uint32_t rest = significand & ((1u << shift) - 1u);
    uint32_t half = 1u << (shift - 1u);
    kept += rest > half || (rest == half && (kept & 1u));
    if (exponent >= 113u)
        kept += (exponent - 113u) << 10; /* the leading one of `kept` adds the last exponent step */
    return (uint16_t)(sign | kept);
}

float sb_round_to(sb_format format, float x)
{
    switch (format) {
    case SB_FORMAT_bf16:
        return sb_bf16_to_f32(sb_f32_to_bf16(x));
    case SB_FORMAT_f16:
        return sb_f16_to_f32(sb_f32_to_f16(x));
    default:
        return x;
    }
}

/* F-1: "every stored format decodes to binary32 without rounding" */
void sb_decode(sb_format format, const unsigned char *bytes, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        if (format == SB_FORMAT_f32)
            values[i] = sb_f32_from_bits(sb_load_u32(bytes + 4 * i));
        else if (format == SB_FORMAT_bf16)
            values[i] = sb_bf16_to_f32(sb_load_u16(bytes + 2 * i));
        else
            values[i] = sb_f16_to_f32(sb_load_u16(bytes + 2 * i));
    }
}

void sb_encode(sb_format format, const float *values, size_t count, unsigned char *bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (format == SB_FORMAT_f32)
            sb_store_u32(bytes + 4 * i, sb_bits_f32(values[i]));
        else if (format == SB_FORMAT_bf16)
            sb_store_u16(bytes + 2 * i, sb_f32_to_bf16(values[i]));
        else
            sb_store_u16(bytes + 2 * i, sb_f32_to_f16(values[i]));
    }
}
