#include "tools/judge/gate/element.h"

#include <stdio.h>

#include "ref/base/bytes.h"
#include "ref/formats/format.h"

int sb_element_is_value(sb_dtype dtype)
{
    return dtype == SB_DTYPE_F32 || dtype == SB_DTYPE_F64 || dtype == SB_DTYPE_BF16 ||
           dtype == SB_DTYPE_F16;
}

int sb_element_is_whole(sb_dtype dtype)
{
    switch (dtype) {
    case SB_DTYPE_U8:
    case SB_DTYPE_I8:
    case SB_DTYPE_F8_E4M3:
    case SB_DTYPE_F8_E5M2:
    case SB_DTYPE_F8_E8M0:
    case SB_DTYPE_I16:
    case SB_DTYPE_U16:
    case SB_DTYPE_I32:
    case SB_DTYPE_U32:
    case SB_DTYPE_I64:
    case SB_DTYPE_U64:
        return 1;
    default:
        return 0;
    }
}

uint64_t sb_element_bits(sb_dtype dtype, const unsigned char *data, size_t i)
{
    switch (sb_dtype_bits(dtype)) {
    case 16:
        return sb_load_u16(data + 2 * i);
    case 32:
        return sb_load_u32(data + 4 * i);
    case 64:
        return sb_load_u64(data + 8 * i);
    default:
        return data[i];
    }
}

double sb_element_value(sb_dtype dtype, const unsigned char *data, size_t i, int negative)
{
    uint64_t bits = sb_element_bits(dtype, data, i);
    switch (dtype) {
    case SB_DTYPE_F64:
        return sb_f64_from_bits(bits);
    case SB_DTYPE_F32:
        return (double)sb_f32_from_bits((uint32_t)bits);
    case SB_DTYPE_BF16:
        return (double)sb_bf16_to_f32((uint16_t)bits);
    case SB_DTYPE_F16:
        return (double)sb_f16_to_f32((uint16_t)bits);
    case SB_DTYPE_I8:
        return negative && bits > 127 ? (double)bits - 256.0 : (double)bits;
    case SB_DTYPE_I16:
        return bits > 0x7fff ? (double)bits - 0x1p16 : (double)bits;
    case SB_DTYPE_I32:
        return bits > 0x7fffffff ? (double)bits - 0x1p32 : (double)bits;
    case SB_DTYPE_I64:
        return bits >> 63 ? -(double)(0 - bits) : (double)bits;
    default:
        return (double)bits;
    }
}

sb_element_text sb_element_print(double x)
{
    sb_element_text out;
    if (x != x)
        snprintf(out.text, sizeof out.text, "NaN");
    else
        snprintf(out.text, sizeof out.text, "%.9g", x);
    return out;
}

uint64_t sb_element_bits_of(sb_dtype dtype, float x)
{
    switch (dtype) {
    case SB_DTYPE_F64:
        return sb_bits_f64((double)x);
    case SB_DTYPE_BF16:
        return sb_f32_to_bf16(x);
    case SB_DTYPE_F16:
        return sb_f32_to_f16(x);
    default:
        return sb_bits_f32(x);
    }
}

/* --- rounding --------------------------------------------------------------------------------- */

/* Significant bits, and the exponents of the smallest and the largest normal number. */
typedef struct precision {
    int bits, least, largest;
} precision;

static precision precision_of(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16  ? (precision){8, -126, 127}
           : dtype == SB_DTYPE_F16 ? (precision){11, -14, 15}
           : dtype == SB_DTYPE_F32 ? (precision){24, -126, 127}
                                   : (precision){53, -1022, 1023};
}

/* 2^e of a normal binary64 */
static double power(int e)
{
    return sb_f64_from_bits((uint64_t)(1023 + e) << 52);
}

static int exponent(double x)
{
    return (int)(sb_bits_f64(x) >> 52 & 2047) - 1023;
}

/* The spacing of the type's numbers at the magnitude of x. */
static double unit_at(precision p, double x)
{
    int e = exponent(x) < p.least ? p.least : exponent(x);
    return power(e - p.bits + 1);
}

static double largest(precision p)
{
    return power(p.largest) * (2.0 - power(1 - p.bits));
}

double sb_element_round(sb_dtype dtype, double x)
{
    precision p = precision_of(dtype);
    if (dtype == SB_DTYPE_F64 || exponent(x) == 1024)
        return x;
    if (exponent(x) > p.largest)
        return x < 0 ? -sb_f64_from_bits(0x7ffull << 52) : sb_f64_from_bits(0x7ffull << 52);
    /* |scaled| < 2^25: the sum with 1.5 2^52 has no fraction bits */
    double unit = unit_at(p, x), scaled = x / unit + 0x1.8p52;
    double rounded = (scaled - 0x1.8p52) * unit;
    if (rounded > largest(p) || rounded < -largest(p))
        return x < 0 ? -sb_f64_from_bits(0x7ffull << 52) : sb_f64_from_bits(0x7ffull << 52);
    return rounded;
}

sb_cell sb_element_cell(sb_dtype dtype, double g)
{
    precision p = precision_of(dtype);
    double size = g < 0 ? -g : g;
    double most = largest(p);
    int infinite = exponent(g) == 1024;
    if (dtype == SB_DTYPE_F64 || g != g)
        return (sb_cell){g, g};
    double unit = unit_at(p, infinite ? most : size);
    /* below a power of two the spacing is half as large */
    int closer = !infinite && (sb_bits_f64(g) & 0xfffffffffffffull) == 0 && exponent(g) > p.least;
    double inner = infinite ? most + unit / 2 : size - (closer ? unit / 4 : unit / 2);
    double outer = infinite ? size : size + unit / 2;
    return g < 0 ? (sb_cell){-outer, -inner} : (sb_cell){inner, outer};
}

/* --- against the real value ------------------------------------------------------------------- */

static int is_narrow(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16 || dtype == SB_DTYPE_F16;
}

/* x - real */
static double above(double x, sb_dd real)
{
    return (x - real.hi) - real.lo;
}

static double size_of(double x)
{
    return x < 0 ? -x : x;
}

double sb_element_error(sb_dtype dtype, double found, sb_dd real)
{
    if (!is_narrow(dtype))
        return size_of(above(found, real));
    sb_cell cell = sb_element_cell(dtype, found);
    double low = above(cell.low, real), high = above(cell.high, real);
    return low > 0 ? low : high < 0 ? -high : found != found ? found : 0.0;
}

/* T-4: "The rounding to bfloat16 or binary16 is not bounded but carried out" */
int sb_element_inside(sb_dtype dtype, double found, sb_dd real, double bound)
{
    if (!is_narrow(dtype))
        return size_of(above(found, real)) <= bound;
    double low = (real.hi - bound) + real.lo, high = (real.hi + bound) + real.lo;
    return found >= sb_element_round(dtype, low) && found <= sb_element_round(dtype, high);
}
