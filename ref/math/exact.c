#include "ref/math/exact.h"

#include "ref/base/bytes.h"

/* Additions between two resolutions of the carries. One addition changes a digit by less than
 * 1.5 * 2^32, so 2^30 of them on top of a resolved digit stay below 2^63. */
static const uint32_t PENDING_MAX = 1u << 30;

static const uint32_t CANONICAL_NAN = 0x7fc00000u;
static const uint32_t INFINITY_BITS = 0x7f800000u;

/* Bit position, counted from the bottom of the accumulator, of the smallest binary32, 2^-149. */
enum { LOWEST_BIT = SB_EXACT_BIAS - 149 };

void sb_exact_clear(sb_exact *acc)
{
    for (int d = 0; d < SB_EXACT_DIGITS; d++)
        acc->digit[d] = 0;
    acc->pending = 0;
    acc->poisoned = 0;
}

/* Brings every digit but the last into 0 .. 2^32-1 without changing the value; the last digit keeps
 * the sign. Division instead of a shift, because C leaves right shifts of negative numbers open. */
static void resolve_carries(sb_exact *acc)
{
    for (int d = 0; d + 1 < SB_EXACT_DIGITS; d++) {
        int64_t low = (int64_t)((uint64_t)acc->digit[d] & 0xffffffffu);
        acc->digit[d + 1] += (acc->digit[d] - low) / ((int64_t)1 << 32);
        acc->digit[d] = low;
    }
    acc->pending = 0;
}

/* A finite binary32 is (-1)^sign * significand * 2^(scale - 149). */
static uint32_t significand_of(uint32_t bits)
{
    uint32_t fraction = bits & 0x7fffffu;
    return (bits & 0x7f800000u) ? fraction | 0x800000u : fraction;
}

static uint32_t scale_of(uint32_t bits)
{
    uint32_t exponent = bits >> 23 & 0xffu;
    return exponent ? exponent - 1 : 0;
}

/* "correctly rounded binary32 value, ties to even, of the exact sum of the exact products of
 * its operands" - this is the exact sum: a product of two 24-bit significands is an integer of 48
 * bits, and goes into the accumulator at its own bit position, where nothing is ever lost. */
void sb_exact_add_product(sb_exact *acc, float a, float b)
{
    uint32_t bits_a = sb_bits_f32(a), bits_b = sb_bits_f32(b);
    if (!sb_is_finite_f32(a) || !sb_is_finite_f32(b)) {
        acc->poisoned = 1;
        return;
    }
    uint64_t product = (uint64_t)significand_of(bits_a) * significand_of(bits_b);
    uint32_t position = scale_of(bits_a) + scale_of(bits_b) + SB_EXACT_BIAS - 2 * 149;
    uint32_t d = position / 32, shift = position % 32;

    uint64_t low = (product & 0xffffffffu) << shift;
    uint64_t high = (product >> 32) << shift;
    int64_t sign = (bits_a ^ bits_b) >> 31 ? -1 : 1;
    acc->digit[d] += sign * (int64_t)(low & 0xffffffffu);
    acc->digit[d + 1] += sign * (int64_t)((low >> 32) + (high & 0xffffffffu));
    acc->digit[d + 2] += sign * (int64_t)(high >> 32);
    if (++acc->pending == PENDING_MAX)
        resolve_carries(acc);
}

void sb_exact_add(sb_exact *acc, float a)
{
    sb_exact_add_product(acc, a, 1.0f);
}

static uint32_t bit_at(const sb_exact *acc, int position)
{
    return (uint32_t)(acc->digit[position / 32] >> (position % 32)) & 1u;
}

/* Nonzero if any bit below `position` is set. */
static int any_below(const sb_exact *acc, int position)
{
    for (int d = 0; d < position / 32; d++)
        if (acc->digit[d])
            return 1;
    for (int p = position - position % 32; p < position; p++)
        if (bit_at(acc, p))
            return 1;
    return 0;
}

/* Position of the highest set bit of a resolved, non-negative accumulator; -1 if it is zero. */
static int highest_bit(const sb_exact *acc)
{
    int d = SB_EXACT_DIGITS - 1;
    while (d >= 0 && !acc->digit[d])
        d--;
    int position = 32 * d + 31;
    while (d >= 0 && !bit_at(acc, position))
        position--;
    return d >= 0 ? position : -1;
}

/* RN32 of a resolved, positive accumulator, as bits without a sign. The result counts in units of
 * its last place: 24 bits from the highest one down, but never below 2^-149. */
static uint32_t round_magnitude(const sb_exact *acc)
{
    int top = highest_bit(acc);
    int unit = top - 23 > LOWEST_BIT ? top - 23 : LOWEST_BIT;
    uint32_t kept = 0;
    for (int position = top; position >= unit; position--)
        kept = kept << 1 | bit_at(acc, position);

    uint32_t half = bit_at(acc, unit - 1);
    if (half && (any_below(acc, unit - 1) || (kept & 1u)))
        kept++;
    if (unit - LOWEST_BIT >= 0xff)
        return INFINITY_BITS;
    /* The leading bit of `kept` (24th, or 25th after a carry) adds itself to the exponent field. */
    uint32_t bits = ((uint32_t)(unit - LOWEST_BIT) << 23) + kept;
    return bits < INFINITY_BITS ? bits : INFINITY_BITS;
}

/* "a zero sum is +0 and a nonzero sum that rounds to zero keeps its sign"
 * "a reduction with a NaN or an infinity among its operands gives the canonical NaN
 * 0x7fc00000" */
float sb_exact_round(const sb_exact *acc)
{
    if (acc->poisoned)
        return sb_f32_from_bits(CANONICAL_NAN);
    sb_exact sum = *acc;
    resolve_carries(&sum);
    uint32_t sign = 0;
    if (sum.digit[SB_EXACT_DIGITS - 1] < 0) {
        sign = 0x80000000u;
        for (int d = 0; d < SB_EXACT_DIGITS; d++)
            sum.digit[d] = -sum.digit[d];
        resolve_carries(&sum);
    }
    if (highest_bit(&sum) < 0)
        return 0.0f;
    return sb_f32_from_bits(sign | round_magnitude(&sum));
}

float sb_exact_dot(const float *a, size_t stride_a, const float *b, size_t stride_b, size_t n)
{
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t i = 0; i < n; i++)
        sb_exact_add_product(&acc, a[i * stride_a], b[i * stride_b]);
    return sb_exact_round(&acc);
}

float sb_exact_sum(const float *a, size_t stride, size_t n)
{
    sb_exact acc;
    sb_exact_clear(&acc);
    for (size_t i = 0; i < n; i++)
        sb_exact_add(&acc, a[i * stride]);
    return sb_exact_round(&acc);
}
