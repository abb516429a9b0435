#include "ref/math/exact.h"

#include "ref/base/bytes.h"

/* The most additions between two carry resolutions. One addition changes a digit by less than 1.5 *
 * 2^32, so a resolved digit stays below 2^63 after 2^30 additions. */
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
 * the sign. Uses division, because right shifts of negative numbers are implementation-defined in
 * C. */
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

/* Adds an integer of 64 bits times 2^(position - SB_EXACT_BIAS). */
static void add_integer(sb_exact *acc, uint64_t product, uint32_t position, int64_t sign)
{
    uint32_t d = position / 32, shift = position % 32;
    uint64_t low = (product & 0xffffffffu) << shift;
    uint64_t high = (product >> 32) << shift;
    acc->digit[d] += sign * (int64_t)(low & 0xffffffffu);
    acc->digit[d + 1] += sign * (int64_t)((low >> 32) + (high & 0xffffffffu));
    acc->digit[d + 2] += sign * (int64_t)(high >> 32);
    if (++acc->pending == PENDING_MAX)
        resolve_carries(acc);
}

/* "correctly rounded binary32 value, ties to even, of the exact sum of the exact products of
 * its operands" - this is the exact sum: a product of two 24-bit significands is an integer of 48
 * bits, and is added to the accumulator at its bit position, without any loss. */
void sb_exact_add_product(sb_exact *acc, float a, float b)
{
    uint32_t bits_a = sb_bits_f32(a), bits_b = sb_bits_f32(b);
    if (!sb_is_finite_f32(a) || !sb_is_finite_f32(b)) {
        acc->poisoned = 1;
        return;
    }
    uint64_t product = (uint64_t)significand_of(bits_a) * significand_of(bits_b);
    uint32_t position = scale_of(bits_a) + scale_of(bits_b) + SB_EXACT_BIAS - 2 * 149;
    add_integer(acc, product, position, (bits_a ^ bits_b) >> 31 ? -1 : 1);
}

void sb_exact_add(sb_exact *acc, float a)
{
    sb_exact_add_product(acc, a, 1.0f);
}

/* Splits a finite binary64 into a 32-bit integer and a power of two. Returns 0 if it has more than
 * 32 significant bits or an exponent outside the range of the accumulator. */
static int split_wide(double x, uint64_t *significand, int *exponent)
{
    uint64_t bits = sb_bits_f64(x), field = bits >> 52 & 0x7ffu;
    *significand = 0;
    *exponent = 0;
    if (bits << 1 == 0)
        return 1;
    *significand = ((bits & 0xfffffffffffffu) | (uint64_t)1 << 52) >> 21;
    *exponent = (int)field - 1023 - 31;
    return (bits & 0x1fffffu) == 0 && *exponent >= -170 - 31 && *exponent <= 160 - 31;
}

/* "code times block scale is a binary64 value of at most 32 significant bits" - the product of
 * two such values is a 64-bit integer at its bit position. */
void sb_exact_add_wide_product(sb_exact *acc, double a, double b)
{
    uint64_t part_a, part_b;
    int exponent_a, exponent_b;
    if (!split_wide(a, &part_a, &exponent_a) || !split_wide(b, &part_b, &exponent_b)) {
        acc->poisoned = 1;
        return;
    }
    int64_t sign = (sb_bits_f64(a) ^ sb_bits_f64(b)) >> 63 ? -1 : 1;
    add_integer(acc, part_a * part_b, (uint32_t)(exponent_a + exponent_b + SB_EXACT_BIAS), sign);
}

/* A sum before its rounding: non-negative digits of 32 bits, and the bit position of the smallest
 * binary32, which may be below or above all digits. Three digits below the sum hold the fraction
 * bits after a division by two 24-bit significands. */
enum { ROOM_BELOW = 3, ROOM_ABOVE = 2, WIDE_DIGITS = SB_EXACT_DIGITS + ROOM_BELOW + ROOM_ABOVE };

typedef struct wide {
    uint64_t digit[WIDE_DIGITS];
    int lowest;
} wide;

static uint32_t bit_at(const wide *w, int position)
{
    return (uint32_t)(w->digit[position / 32] >> (position % 32)) & 1u;
}

/* Nonzero if any bit below `position` is set. */
static int any_below(const wide *w, int position)
{
    for (int d = 0; d < position / 32; d++)
        if (w->digit[d])
            return 1;
    for (int p = position - position % 32; p < position; p++)
        if (bit_at(w, p))
            return 1;
    return 0;
}

/* Position of the highest set bit; -1 if there is none. */
static int highest_bit(const wide *w)
{
    int d = WIDE_DIGITS - 1;
    while (d >= 0 && !w->digit[d])
        d--;
    int position = 32 * d + 31;
    while (d >= 0 && !bit_at(w, position))
        position--;
    return d >= 0 ? position : -1;
}

/* RN32 of a nonzero value, as bits without a sign. Its last place is 24 bits from the highest bit
 * down, but never below 2^-149. */
static uint32_t round_magnitude(const wide *w)
{
    int top = highest_bit(w);
    int unit = top - 23 > w->lowest ? top - 23 : w->lowest;
    if (unit > top + 1)
        return 0; /* below half of the smallest binary32 */
    uint32_t kept = 0;
    for (int position = top; position >= unit; position--)
        kept = kept << 1 | bit_at(w, position);

    uint32_t half = bit_at(w, unit - 1);
    if (half && (any_below(w, unit - 1) || (kept & 1u)))
        kept++;
    if (unit - w->lowest >= 0xff)
        return INFINITY_BITS;
    /* The leading bit of `kept` (the 24th, or the 25th after a carry) increments the exponent
     * field. */
    uint32_t bits = ((uint32_t)(unit - w->lowest) << 23) + kept;
    return bits < INFINITY_BITS ? bits : INFINITY_BITS;
}

/* Stores the magnitude of the sum, moved up by ROOM_BELOW digits; returns the sign. */
static uint32_t magnitude_of(const sb_exact *acc, wide *w)
{
    sb_exact sum = *acc;
    uint32_t sign = 0;
    resolve_carries(&sum);
    if (sum.digit[SB_EXACT_DIGITS - 1] < 0) {
        sign = 0x80000000u;
        for (int d = 0; d < SB_EXACT_DIGITS; d++)
            sum.digit[d] = -sum.digit[d];
        resolve_carries(&sum);
    }
    *w = (wide){.lowest = LOWEST_BIT + 32 * ROOM_BELOW};
    for (int d = 0; d < SB_EXACT_DIGITS; d++)
        w->digit[d + ROOM_BELOW] = (uint64_t)sum.digit[d];
    return sign;
}

static void multiply(wide *w, float factor)
{
    uint32_t bits = sb_bits_f32(factor), significand = significand_of(bits);
    uint64_t carry = 0;
    for (int d = 0; d < WIDE_DIGITS; d++) {
        uint64_t product = w->digit[d] * significand + carry;
        w->digit[d] = product & 0xffffffffu;
        carry = product >> 32;
    }
    w->lowest -= (int)scale_of(bits) - 149;
}

/* Long division. Returns nonzero if there is a remainder. */
static int divide(wide *w, float divisor)
{
    uint32_t bits = sb_bits_f32(divisor), significand = significand_of(bits);
    uint64_t rest = 0;
    for (int d = WIDE_DIGITS - 1; d >= 0; d--) {
        uint64_t part = rest << 32 | w->digit[d];
        w->digit[d] = part / significand;
        rest = part % significand;
    }
    w->lowest += (int)scale_of(bits) - 149;
    return rest != 0;
}

/* Multiplies before it divides, because a product after a division would miss the bits that the
 * division drops. A remainder sets the lowest bit, far below the 24 kept bits, where it can only
 * distinguish a tie from a value above the tie. Returns the sign of the factors. */
static uint32_t apply_factors(wide *w, const sb_scalar *scalar)
{
    uint32_t sign = 0;
    int rest = 0;
    for (int i = 0; i < 2; i++) {
        sign ^= (sb_bits_f32(scalar->mul[i]) ^ sb_bits_f32(scalar->div[i])) & 0x80000000u;
        if (scalar->mul[i] != 1)
            multiply(w, scalar->mul[i]);
    }
    for (int i = 0; i < 2; i++)
        rest |= scalar->div[i] != 1 && divide(w, scalar->div[i]);
    w->digit[0] |= (uint64_t)rest;
    return sign;
}

/* "a zero sum is +0, and a nonzero sum that rounds to zero keeps its sign"
 * "a reduction with a NaN or an infinity among its operands gives the canonical NaN
 * 0x7fc00000" */
static float round_wide(const sb_exact *acc, const sb_scalar *scalar)
{
    wide w;
    if (acc->poisoned)
        return sb_f32_from_bits(CANONICAL_NAN);
    uint32_t sign = magnitude_of(acc, &w);
    if (scalar)
        sign ^= apply_factors(&w, scalar);
    return highest_bit(&w) < 0 ? 0.0f : sb_f32_from_bits(sign | round_magnitude(&w));
}

float sb_exact_round(const sb_exact *acc)
{
    return round_wide(acc, NULL);
}

/* "it is rounded once, after these factors" */
float sb_exact_round_scaled(const sb_exact *acc, const sb_scalar *scalar)
{
    return round_wide(acc, scalar);
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
