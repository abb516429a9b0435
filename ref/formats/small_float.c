#include "ref/formats/small_float.h"

#include "ref/base/bytes.h"
#include "ref/formats/format.h"

/* Fields of a binary32. */
#define SIGN 0x80000000u
#define MAGNITUDE 0x7fffffffu
#define INFINITE 0x7f800000u
#define QUIET_NAN 0x7fc00000u
#define FRACTION_BITS 23u
#define BIAS 127u

static uint32_t magnitude_of(float x)
{
    return sb_bits_f32(x) & MAGNITUDE;
}

/* The sign bit of x, moved to bit `place` of a code. */
static uint8_t sign_at(float x, unsigned place)
{
    return (uint8_t)(sb_bits_f32(x) >> 31 << place);
}

/* `magnitude` with the sign bit of an eight-bit code. */
static float signed_value(uint8_t code, float magnitude)
{
    return code & 0x80u ? -magnitude : magnitude;
}

static float nan_of(uint8_t code)
{
    return sb_f32_from_bits((code & 0x80u ? SIGN : 0u) | QUIET_NAN);
}

float sb_small_value(uint32_t code, unsigned fraction_bits, unsigned bias)
{
    uint32_t exponent = code >> fraction_bits;
    uint32_t fraction = code & ((1u << fraction_bits) - 1u);
    if (exponent == 0) /* the fraction counts in units of the smallest step, a power of two */
        return (float)fraction *
               sb_f32_from_bits((BIAS + 1u - bias - fraction_bits) << FRACTION_BITS);
    return sb_f32_from_bits((exponent + BIAS - bias) << FRACTION_BITS |
                            fraction << (FRACTION_BITS - fraction_bits));
}

/* F-5: "the nearest value, and between two equally near values the one with the even code" - shifts
 * the significand so that the last kept bit of the code is bit 0. The bits shifted out decide the
 * rounding. A carry out of the fraction gives the next exponent. */
uint32_t sb_small_nearest(uint32_t bits, unsigned fraction_bits, unsigned bias)
{
    uint32_t exponent = bits >> FRACTION_BITS;
    uint32_t lowest = BIAS + 1u - bias; /* exponent field of the smallest normal value */
    uint32_t significand = (bits & 0x7fffffu) | 0x800000u;
    uint32_t shift = FRACTION_BITS - fraction_bits;
    if (exponent < lowest)
        shift += lowest - exponent;
    if (shift > FRACTION_BITS + 1u)
        return 0; /* below half of the smallest code */
    uint32_t kept = significand >> shift;
    uint32_t rest = significand & ((1u << shift) - 1u);
    uint32_t half = 1u << (shift - 1u);
    kept += rest > half || (rest == half && (kept & 1u));
    if (exponent > lowest) /* the leading bit of `kept` adds the last exponent step */
        kept += (exponent - lowest) << fraction_bits;
    return kept;
}

/* F-6: "(-1)^s 2^(e-7) (1 + f/8), or (-1)^s 2^-9 f where e is 0" */
float sb_e4m3_to_f32(uint8_t code)
{
    if ((code & 0x7fu) == 0x7fu)
        return nan_of(code);
    return signed_value(code, sb_small_value(code & 0x7fu, 3, 7));
}

/* The code without saturation and sign. It is 0x7f or more if the nearest value, in a list extended
 * beyond 448, is above 448. */
static uint32_t e4m3_unbounded(float x)
{
    return sb_small_nearest(magnitude_of(x), 3, 7);
}

/* F-6: "saturates at 448, infinity included" */
uint8_t sb_f32_to_e4m3(float x)
{
    if (x != x)
        return sign_at(x, 7) | 0x7fu;
    uint32_t code = e4m3_unbounded(x);
    return (uint8_t)(sign_at(x, 7) | (code > 0x7eu ? 0x7eu : code));
}

/* F-6: "makes magnitudes above 464, infinity included, NaN" - code 0x7f is the place of 480. */
uint8_t sb_f32_to_e4m3_unsaturated(float x)
{
    uint32_t code = x != x ? 0x7fu : e4m3_unbounded(x);
    return (uint8_t)(sign_at(x, 7) | (code > 0x7fu ? 0x7fu : code));
}

/* F-7: "the value of its E4M3 code with the sign bit cleared" */
float sb_ue4m3_to_f32(uint8_t code)
{
    return sb_e4m3_to_f32(code & 0x7fu);
}

uint8_t sb_f32_to_ue4m3(float x)
{
    return sb_f32_to_e4m3(x) & 0x7fu;
}

/* F-8: "(-1)^s 2^(e-15) (1 + f/4), or (-1)^s 2^-16 f where e is 0" */
float sb_e5m2_to_f32(uint8_t code)
{
    uint32_t magnitude = code & 0x7fu;
    if (magnitude >= 0x7cu)
        return sb_f32_from_bits((code & 0x80u ? SIGN : 0u) | INFINITE | (magnitude & 3u) << 21);
    return signed_value(code, sb_small_value(magnitude, 2, 15));
}

/* `largest` is the largest code that a number may get; only NaN gets a larger code. */
static uint8_t e5m2_up_to(uint32_t largest, float x)
{
    if (x != x)
        return sign_at(x, 7) | 0x7eu;
    uint32_t code = sb_small_nearest(magnitude_of(x), 2, 15);
    return (uint8_t)(sign_at(x, 7) | (code > largest ? largest : code));
}

/* F-8: "saturates at 57344, infinity included" */
uint8_t sb_f32_to_e5m2(float x)
{
    return e5m2_up_to(0x7bu, x);
}

/* F-8: "makes magnitudes of 61440 and more infinite" - infinity has the code that 65536 would
 * have. */
uint8_t sb_f32_to_e5m2_ieee(float x)
{
    return e5m2_up_to(0x7cu, x);
}

/* F-9: "0, 0.5, 1, 1.5, 2, 3, 4, 6" */
float sb_e2m1_to_f32(uint8_t code)
{
    float magnitude = sb_small_value(code & 7u, 1, 1);
    return code & 8u ? -magnitude : magnitude;
}

/* F-9: "saturates at 6, infinity included, and makes every NaN +6" */
uint8_t sb_f32_to_e2m1(float x)
{
    if (x != x)
        return 7;
    uint32_t code = sb_small_nearest(magnitude_of(x), 1, 1);
    return (uint8_t)(sign_at(x, 3) | (code > 7u ? 7u : code));
}

/* F-10: "stands for 2^(b-127), except 255, which is NaN" - 2^-127 is a subnormal binary32. */
float sb_e8m0_to_f32(uint8_t code)
{
    if (code == 255)
        return sb_f32_from_bits(QUIET_NAN);
    return sb_f32_from_bits(code == 0 ? 0x00400000u : (uint32_t)code << FRACTION_BITS);
}

/* F-11: "NaN, infinities and values below 0 give 255" */
static int e8m0_has_no_code(float x)
{
    return !(x >= 0) || magnitude_of(x) >= INFINITE;
}

/* The code of the largest power of two not above x. *rest is the excess of x over this power, in
 * units of 2^-23 of the power: halfway to the next power is 2^22. */
static uint32_t e8m0_below(float x, uint32_t *rest)
{
    uint32_t bits = magnitude_of(x);
    uint32_t fraction = bits & 0x7fffffu;
    *rest = fraction;
    if (bits < 0x00800000u) /* subnormal x from 2^-127 on: its unit is 2^-22 of the power */
        *rest = fraction > 0x400000u ? (fraction - 0x400000u) << 1 : 0;
    return bits >> FRACTION_BITS;
}

/* F-11: "The nearest code, and the larger of two equally near ones" */
uint8_t sb_f32_to_e8m0(float x)
{
    uint32_t rest;
    if (e8m0_has_no_code(x))
        return 255;
    uint32_t code = e8m0_below(x, &rest);
    return (uint8_t)(code + (rest >= 0x400000u));
}

/* F-11: "The code equal to the value, or else 255" */
uint8_t sb_f32_to_e8m0_exact(float x)
{
    uint32_t rest;
    if (e8m0_has_no_code(x))
        return 255;
    uint32_t code = e8m0_below(x, &rest);
    return sb_e8m0_to_f32((uint8_t)code) == x || x == 0 ? (uint8_t)code : 255;
}

/* F-11: "The least code that is not below the value" */
uint8_t sb_f32_to_e8m0_up(float x)
{
    uint32_t rest;
    if (e8m0_has_no_code(x))
        return 255;
    uint32_t code = e8m0_below(x, &rest);
    return (uint8_t)(code + (rest > 0));
}

/* F-11: "or the next power of two if a is at least 1.75 times that power" - adding a quarter of
 * the power then carries */
uint8_t sb_f32_to_e8m0_ct(float amax, unsigned element_exponent)
{
    if (e8m0_has_no_code(amax))
        return 255;
    uint32_t code = (magnitude_of(amax) + 0x200000u) >> FRACTION_BITS;
    if (code == 255)
        return 255;
    return (uint8_t)(code > element_exponent ? code - element_exponent : 0);
}

/* F-12: "the integer that its bits represent" */
float sb_uint8_to_f32(uint8_t code)
{
    return (float)code;
}

float sb_uint4_to_f32(uint8_t code)
{
    return (float)(code & 15u);
}

/* F-12: "in two's complement" */
float sb_int8_to_f32(uint8_t code)
{
    return (float)((int)(code ^ 0x80u) - 128);
}

float sb_int4_to_f32(uint8_t code)
{
    return (float)((int)((code & 15u) ^ 8u) - 8);
}

/* F-12: "nearest integer, ties to even, saturates at both ends, and makes NaN 0" */
static int nearest_integer(float x, int lowest, int highest)
{
    if (x != x)
        return 0;
    if (x <= (float)lowest)
        return lowest;
    if (x >= (float)highest)
        return highest;
    float magnitude = x < 0 ? -x : x;
    int whole = (int)magnitude;
    float rest = magnitude - (float)whole; /* exact, because its bits are bits of x */
    whole += rest > 0.5f || (rest == 0.5f && whole % 2 != 0);
    return x < 0 ? -whole : whole;
}

uint8_t sb_f32_to_int8(float x)
{
    return (uint8_t)nearest_integer(x, -128, 127);
}

uint8_t sb_f32_to_int4(float x)
{
    return (uint8_t)(nearest_integer(x, -8, 7) & 15);
}

uint8_t sb_f32_to_uint8(float x)
{
    return (uint8_t)nearest_integer(x, 0, 255);
}

uint8_t sb_f32_to_uint4(float x)
{
    return (uint8_t)nearest_integer(x, 0, 15);
}

/* The values of F-6 and F-9 as tables, because decoding weights has to be fast. */
static const float e4m3_values[256] = {
#include "ref/formats/e4m3_values.inc"
};
static const float e2m1_values[16] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                      -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* The values of a four-bit format by code; NULL for other formats. */
static const float *nibble_values(sb_format format)
{
    static const float int4[16] = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    static const float uint4[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return format == SB_FORMAT_e2m1    ? e2m1_values
           : format == SB_FORMAT_int4  ? int4
           : format == SB_FORMAT_uint4 ? uint4
                                       : NULL;
}

void sb_small_decode(sb_format format, const uint8_t *codes, size_t count, float *values)
{
    const float *nibble = nibble_values(format);
    for (size_t i = 0; nibble && i < count; i++)
        values[i] = nibble[codes[i] & 15u];
    for (size_t i = 0; format == SB_FORMAT_uint8 && i < count; i++)
        values[i] = (float)codes[i];
    for (size_t i = 0; format == SB_FORMAT_int8 && i < count; i++)
        values[i] = (float)((int)(codes[i] ^ 0x80u) - 128);
    for (size_t i = 0; format == SB_FORMAT_e8m0 && i < count; i++)
        values[i] = sb_e8m0_to_f32(codes[i]);
    if (nibble || format == SB_FORMAT_uint8 || format == SB_FORMAT_int8 || format == SB_FORMAT_e8m0)
        return;
    /* true also after a NaN, because the E4M3 table has no NaN */
    unsigned others = format != SB_FORMAT_e4m3;
    for (size_t i = 0; format == SB_FORMAT_e4m3 && i < count; i++) {
        values[i] = e4m3_values[codes[i]];
        others |= ((codes[i] & 0x7fu) + 1u) >> 7;
    }
    for (size_t i = 0; others && i < count; i++)
        if (format != SB_FORMAT_e4m3 || (codes[i] & 0x7fu) == 0x7fu)
            values[i] = sb_code_to_f32(format, codes[i]);
}

void sb_nibble_decode(sb_format format, const uint8_t *bytes, size_t count, float *values)
{
    const float *nibble = nibble_values(format);
    size_t i = 0;
    for (; i + 2 <= count; i += 2, bytes++) {
        values[i] = nibble[*bytes & 15u];
        values[i + 1] = nibble[*bytes >> 4];
    }
    if (i < count)
        values[i] = nibble[*bytes & 15u];
}
