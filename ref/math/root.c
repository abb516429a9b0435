#include "ref/base/bytes.h"
#include "ref/math/fn.h"

/* A positive number, word[0] + 2^32 word[1] + ..., times 2^scale. The longest have 25 * 256 + 53 *
 * 256 bits: the highest powers of a midpoint and of a base. */
enum { WORDS = 640 };

typedef struct number {
    uint32_t word[WORDS];
    int count; /* words in use; the last is not zero */
    int scale;
} number;

/* An odd integer times 2^scale. */
typedef struct factor {
    uint64_t odd;
    int scale;
} factor;

static factor make_factor(uint64_t integer, int scale)
{
    factor f = {integer, scale};
    while (f.odd && !(f.odd & 1u)) {
        f.odd >>= 1;
        f.scale++;
    }
    return f;
}

static void set_one(number *x)
{
    x->word[0] = 1;
    x->count = 1;
    x->scale = 0;
}

/* x = x * digit + (x * high digit) 2^32: long multiplication with two digits. */
static void multiply(number *x, factor f)
{
    uint64_t low = f.odd & 0xffffffffu, high = f.odd >> 32;
    uint64_t carry_low = 0, carry_high = 0;
    uint32_t before = 0; /* the old value of the word below */
    x->scale += f.scale;
    for (int i = 0; i < x->count + 2; i++) {
        uint32_t old = i < x->count ? x->word[i] : 0;
        carry_low += low * old;
        carry_high += high * before;
        uint64_t sum = (carry_low & 0xffffffffu) + (carry_high & 0xffffffffu);
        x->word[i] = (uint32_t)sum;
        carry_low = (carry_low >> 32) + (sum >> 32);
        carry_high >>= 32;
        before = old;
    }
    x->count += 2;
    while (x->count > 1 && x->word[x->count - 1] == 0)
        x->count--;
}

static void multiply_power(number *x, factor f, unsigned power)
{
    for (unsigned i = 0; i < power; i++)
        multiply(x, f);
}

/* floor(log2 x) */
static int exponent_of(const number *x)
{
    int e = 32 * (x->count - 1) + x->scale;
    for (uint32_t top = x->word[x->count - 1]; top > 1; top >>= 1)
        e++;
    return e;
}

/* The i-th group of 32 bits counted from the leading bit down; zeros past the end. */
static uint32_t from_top(const number *x, int i)
{
    int at = x->count - 1 - i, shift = 0;
    while (!(x->word[x->count - 1] << shift & 0x80000000u))
        shift++;
    uint64_t pair = (uint64_t)(at >= 0 ? x->word[at] : 0) << 32 | (at >= 1 ? x->word[at - 1] : 0);
    return (uint32_t)(pair >> (32 - shift));
}

static int compare(const number *x, const number *y)
{
    int ex = exponent_of(x), ey = exponent_of(y);
    if (ex != ey)
        return ex < ey ? -1 : 1;
    for (int i = 0; i < x->count || i < y->count; i++) {
        uint32_t wx = from_top(x, i), wy = from_top(y, i);
        if (wx != wy)
            return wx < wy ? -1 : 1;
    }
    return 0;
}

/* base^(numerator/denominator) as one side of an inequality between integer powers. */
typedef struct root {
    factor base;
    int numerator;
    unsigned denominator;
    number power; /* base^numerator, or 1 if the numerator is negative */
} root;

/* The sign of candidate - base^(numerator/denominator), from candidate^denominator -
 * base^numerator, or from candidate^denominator base^-numerator - 1. */
static int compare_root(factor candidate, const root *r)
{
    number left;
    if (candidate.odd == 0)
        return -1;
    set_one(&left);
    multiply_power(&left, candidate, r->denominator);
    if (r->numerator < 0)
        multiply_power(&left, r->base, (unsigned)-r->numerator);
    return compare(&left, &r->power);
}

/* half = 1: the midpoint between the finite binary32 with these bits and the next. half = 0: the
 * number itself. */
static factor binary32(uint32_t bits, unsigned half)
{
    uint32_t exponent = bits >> 23, fraction = bits & 0x7fffffu;
    uint64_t significand = exponent ? fraction | 0x800000u : fraction;
    return make_factor(2 * significand + half, (exponent ? (int)exponent : 1) - 151);
}

static root make_root(double base, int numerator, unsigned denominator)
{
    root r;
    uint64_t bits = sb_bits_f64(base);
    int exponent = (int)(bits >> 52);
    uint64_t fraction = bits & 0xfffffffffffffu;
    r.base = exponent ? make_factor(fraction | (uint64_t)1 << 52, exponent - 1075)
                      : make_factor(fraction, -1074);
    r.numerator = numerator;
    r.denominator = denominator;
    set_one(&r.power);
    if (numerator > 0)
        multiply_power(&r.power, r.base, (unsigned)numerator);
    return r;
}

static unsigned common_divisor(unsigned a, unsigned b)
{
    while (b) {
        unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* "the largest integer of 24 bits whose power does not exceed" that of the base is the
 * significand at or below the root. The bits of positive binary32 values are ordered like the
 * values, so one bisection finds the significand together with its exponent. Then the same
 * comparison with the 25-bit integer halfway to the next significand decides. Nothing is rounded
 * anywhere. */
static float find_root(double base, int numerator, unsigned denominator)
{
    unsigned divisor =
        common_divisor((unsigned)(numerator < 0 ? -numerator : numerator), denominator);
    root r = make_root(base, numerator / (int)divisor, denominator / divisor);
    uint32_t low = 0,
             high = 0x7f800000u; /* low does not exceed the root; high does, or is infinity */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_root(binary32(middle, 0), &r) <= 0)
            low = middle;
        else
            high = middle;
    }
    int midpoint = compare_root(binary32(low, 1), &r);
    if (midpoint < 0 || (midpoint == 0 && (low & 1u)))
        low++;
    return sb_f32_from_bits(low);
}

/* A model needs the same few hundred roots in every call, so each thread caches its last
 * results. */
float sb_root_power(double base, int numerator, unsigned denominator)
{
    enum { KEPT = 512 };
    static _Thread_local struct {
        double base;
        int numerator;
        unsigned denominator; /* 0: empty slot */
        float found;
    } kept[KEPT];
    size_t at = ((unsigned)numerator * 31u + denominator) % KEPT;
    if (kept[at].denominator != denominator || kept[at].numerator != numerator ||
        sb_bits_f64(kept[at].base) != sb_bits_f64(base)) {
        kept[at].found = find_root(base, numerator, denominator);
        kept[at].base = base;
        kept[at].numerator = numerator;
        kept[at].denominator = denominator;
    }
    return kept[at].found;
}
