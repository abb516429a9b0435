#include "ref/fast/dot/superacc.h"

#include "ref/base/bytes.h"

/* The 32 significant bits of a value; 0 for zero. Sets *outside to nonzero for values that
 * split_wide() of exact.c refuses: with more bits, or an exponent outside -170 .. 160. */
static inline uint64_t significand_of(uint64_t bits, uint64_t *outside)
{
    const uint64_t field = bits >> 52 & 0x7ffu, magnitude = bits << 1 >> 1;
    const uint64_t all = (uint64_t)0 - (magnitude != 0);
    *outside |= ((bits & 0x1fffffu) | (field - (1023 - 170) > 330)) & all;
    return ((bits & 0xfffffffffffffu) | (uint64_t)1 << 52) >> 21 & all;
}

/* A 64-bit product is shifted by at most 31 places in its bin, to 95 bits. This leaves room for
 * 2^30 products. The bin number is valid even for values outside the range. */
static inline void add_product(sb_superacc *restrict to, double a, double b, uint64_t *outside)
{
    const uint64_t bits_a = sb_bits_f64(a), bits_b = sb_bits_f64(b);
    const uint64_t product = significand_of(bits_a, outside) * significand_of(bits_b, outside);
    const uint64_t place = (bits_a >> 52 & 0x7ffu) + (bits_b >> 52 & 0x7ffu) -
                           (uint64_t)(2 * (1023 + 31) - SB_EXACT_BIAS);
    const uint64_t bin = place / 32 < SB_SUPERACC_WORDS ? place / 32 : 0, shift = place % 32;
    const uint64_t minus = (uint64_t)0 - ((bits_a ^ bits_b) >> 63);
    const uint64_t low = product << shift, high = product >> 1 >> (63 - shift);
    const uint64_t signed_low = (low ^ minus) - minus;
    const uint64_t signed_high = (high ^ minus) + (minus & (low == 0));
    const uint64_t sum = to->low[bin] + signed_low;
    to->high[bin] += signed_high + (sum < signed_low);
    to->low[bin] = sum;
}

void sb_superacc_add(sb_superacc *to, const double *a, const double *b, size_t n)
{
    uint64_t outside = 0;
    for (size_t i = 0; i < n; i++)
        add_product(to, a[i], b[i], &outside);
    to->outside |= outside;
}

/* Adds the part as two products, one for its upper 32 bits and one for its lower bits. The exponent
 * is divided between the two factors, so that each factor is in range. */
void sb_superacc_add_part(sb_superacc *to, double part)
{
    const uint64_t bits = sb_bits_f64(part), field = bits >> 52 & 0x7ffu, half = (field + 1023) / 2;
    const double power = sb_f64_from_bits(half << 52),
                 inverse = sb_f64_from_bits((2046 - half) << 52);
    const double upper = sb_f64_from_bits(bits & 0xffffffffffe00000u);
    if (bits << 1 == 0)
        return;
    const double a[2] = {upper * inverse, (part - upper) * inverse}, b[2] = {power, power};
    sb_superacc_add(to, a, b, 2);
}

/* Adds a 128-bit magnitude to four digits, or subtracts it. */
static void add_digits(int64_t *digit, uint64_t low, uint64_t high, int64_t sign)
{
    digit[0] += sign * (int64_t)(low & 0xffffffffu);
    digit[1] += sign * (int64_t)(low >> 32);
    digit[2] += sign * (int64_t)(high & 0xffffffffu);
    digit[3] += sign * (int64_t)(high >> 32);
}

/* Adds the bins to the digits of `sum`. Each digit overlaps four bins. */
void sb_superacc_sum(const sb_superacc *from, sb_exact *sum)
{
    sb_exact_clear(sum);
    sum->poisoned = from->outside != 0;
    sum->pending = 4;
    for (size_t d = 0; d < SB_SUPERACC_WORDS; d++) {
        uint64_t low = from->low[d], high = from->high[d];
        if (high >> 63)
            add_digits(sum->digit + d, (uint64_t)0 - low, ~high + (low == 0), -1);
        else
            add_digits(sum->digit + d, low, high, 1);
    }
}

/* A level begins with 1.5 2^k, the middle of its range. A term moves it by less than twice the
 * term's size. With 2^m >= n, all terms together move it by at most 2^(m+2) times the largest term.
 * This movement has to stay below 2^(k-1). The error of a product is below 2^-53 times the product,
 * so it is less than the rest that the first level passes on, which is at most 2^(k-53). */
int sb_levels_start(double largest, size_t n, double start[SB_LEVELS])
{
    int m = 0, k = (int)(sb_bits_f64(largest) >> 52) - 1023 + 1; /* largest < 2^k */
    while (m < 28 && (size_t)1 << m < n)
        m++;
    for (int l = 0; l < SB_LEVELS; l++, k -= 53) {
        k += m + 4;
        start[l] = 0;
        if (largest == 0)
            continue;
        if (k < -900 || k > 900 || (size_t)1 << m < n)
            return 0;
        start[l] = sb_f64_from_bits((uint64_t)(k + 1023) << 52 | (uint64_t)1 << 51);
    }
    return 1;
}
