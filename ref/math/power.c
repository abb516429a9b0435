#include "ref/base/bytes.h"
#include "ref/math/fn.h"

#include <string.h>

/* Numbers of at least 1, in units of 2^-96: word[0] + 2^32 word[1] + ... */
enum { ROOT = 4, PRODUCT = 5, FRACTION = 3 };

/* Compares x and y of n words: -1, 0 or 1. */
static int compare(const uint32_t *x, const uint32_t *y, int n)
{
    while (n-- > 0)
        if (x[n] != y[n])
            return x[n] < y[n] ? -1 : 1;
    return 0;
}

static void subtract(uint32_t *x, const uint32_t *y, int n)
{
    uint64_t borrow = 0;
    for (int i = 0; i < n; i++) {
        uint64_t difference = (uint64_t)x[i] - y[i] - borrow;
        x[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
}

static void shift_left(uint32_t *x, int n, unsigned bits)
{
    for (int i = n; i-- > 0;)
        x[i] = x[i] << bits | (i > 0 ? x[i - 1] >> (32 - bits) : 0);
}

/* floor(sqrt(x)) of 8 words, in 4 words: bit by bit from the top, as on paper. */
static void square_root(const uint32_t x[8], uint32_t root[ROOT])
{
    uint32_t rest[6] = {0}, trial[6];
    memset(root, 0, ROOT * sizeof *root);
    for (int i = 127; i >= 0; i--) {
        shift_left(rest, 6, 2);
        rest[0] |= x[i / 16] >> (2 * (i % 16)) & 3u;
        memset(trial, 0, sizeof trial);
        memcpy(trial, root, ROOT * sizeof *root);
        shift_left(trial, 6, 2);
        trial[0] |= 1;
        shift_left(root, ROOT, 1);
        if (compare(rest, trial, 6) < 0)
            continue;
        subtract(rest, trial, 6);
        root[0] |= 1;
    }
}

/* x = floor(x y / 2^96) */
static void multiply(uint32_t x[PRODUCT], const uint32_t y[ROOT])
{
    uint32_t product[PRODUCT + ROOT] = {0};
    for (int i = 0; i < PRODUCT; i++) {
        uint64_t carry = 0;
        for (int k = 0; k < ROOT; k++) {
            carry += (uint64_t)x[i] * y[k] + product[i + k];
            product[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + ROOT] = (uint32_t)carry;
    }
    memcpy(x, product + FRACTION, PRODUCT * sizeof *x);
}

/* base 2^192 in 8 words. base is at least 1, and below 2^52 or an integer. */
static void widen(double base, uint32_t out[8])
{
    uint64_t bits = sb_bits_f64(base), significand = (bits & 0xfffffffffffffu) | (uint64_t)1 << 52;
    int low = (int)(bits >> 52) - 1075 + 192; /* the position of its last bit */
    memset(out, 0, 8 * sizeof *out);
    for (int i = 0; i < 53; i++)
        if (significand >> i & 1)
            out[(low + i) / 32] |= 1u << (low + i) % 32;
}

/* The 24 leading bits, rounded to nearest by the bits below. */
static float rounded(const uint32_t x[PRODUCT])
{
    int top = 32 * PRODUCT - 1;
    while (!(x[top / 32] >> top % 32 & 1))
        top--;
    uint32_t significand = 0;
    for (int i = top; i > top - 24; i--)
        significand = significand << 1 | (x[i / 32] >> i % 32 & 1);
    significand += x[(top - 24) / 32] >> (top - 24) % 32 & 1;
    return (float)significand * sb_f32_from_bits((uint32_t)(top - 23 - 32 * FRACTION + 127) << 23);
}

/* "For a binary fraction e, base^e is the product of the square roots that the bits of e
 * select"
 *
 * Each root is too small by a relative error below 2^-95, and each of at most 40 products adds less
 * than that. So the 89 bits after the leading bit are correct, except for the last of them. A tie
 * is impossible if e has more than 16 fraction bits, because base is not a perfect 2^17-th
 * power. */
static float find_power(double base, float exponent)
{
    uint32_t wide[8], root[ROOT], product[PRODUCT] = {0};
    product[FRACTION] = 1;
    widen(base, wide);
    for (float rest = exponent, bit = 0.5f; rest > 0; bit /= 2) {
        square_root(wide, root);
        if (rest >= bit) {
            multiply(product, root);
            rest -= bit;
        }
        memset(wide, 0, sizeof wide);
        memcpy(wide + FRACTION, root, sizeof root);
    }
    return rounded(product);
}

float sb_power(double base, float exponent)
{
    enum { KEPT = 512 };
    static _Thread_local struct {
        double base;
        float exponent; /* 0: empty slot */
        float found;
    } kept[KEPT];
    if (exponent == 0)
        return 1;
    size_t at = (sb_bits_f32(exponent) >> 3) * 2654435761u % KEPT;
    if (sb_bits_f32(kept[at].exponent) != sb_bits_f32(exponent) ||
        sb_bits_f64(kept[at].base) != sb_bits_f64(base)) {
        kept[at].found = find_power(base, exponent);
        kept[at].base = base;
        kept[at].exponent = exponent;
    }
    return kept[at].found;
}
