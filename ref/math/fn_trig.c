#include "ref/base/bytes.h"
#include "ref/math/fn.h"
#include "ref/math/fn_round.h"

#include "ref/math/trig_table.inc"

enum {
    SIN_TERMS = sizeof SIN_TAYLOR / sizeof SIN_TAYLOR[0],
    COS_TERMS = sizeof COS_TAYLOR / sizeof COS_TAYLOR[0],
    WINDOW = 4 /* words of 2/pi for one product */
};

static const uint32_t QUARTER_PI = 0x3f490fdbu; /* the first binary32 above pi/4 */

/* |x| = quadrant * pi/2 + r with |r| <= pi/4; only quadrant modulo 4 matters. */
typedef struct angle {
    double r;
    unsigned quadrant;
} angle;

/* product = m * 2/pi * 2^e modulo 4, in units of 2^-126: integers only. The window starts after the
 * bits of 2/pi that give multiples of 4. The bits after its end would add less than m 2^-126 <
 * 2^-102. */
static void times_two_over_pi(uint32_t m, int e, uint32_t product[WINDOW])
{
    unsigned start = (unsigned)(30 + e); /* bit 0 of the table has weight 2^31 */
    unsigned word = start / 32, shift = start % 32;
    uint64_t carry = 0;
    for (unsigned i = WINDOW; i-- > 0;) {
        uint64_t pair = (uint64_t)TWO_OVER_PI[word + i] << 32 | TWO_OVER_PI[word + i + 1];
        uint64_t sum = (pair >> (32 - shift) & 0xffffffffu) * m + carry;
        product[i] = (uint32_t)sum;
        carry = sum >> 32;
    }
}

/* Splits the product into the nearest quadrant and a signed rest. The error of the rest is below
 * 2^-95: the end of the window, the bits shifted out, and ~x for -x. No binary32 is nearer to a
 * multiple of pi/2 than 2^-30 quadrants (0x6f79be45 is the nearest of all), so 65 bits are correct.
 * The error of r is u (sum of the words, dominated by the last) + u/2 (HALF_PI) + u (product): 2.5
 * u. */
static angle reduce(uint32_t bits)
{
    uint32_t product[WINDOW], rest[WINDOW - 1];
    times_two_over_pi((bits & 0x7fffffu) | 0x800000u, (int)(bits >> 23) - 150, product);
    unsigned quadrant = product[0] >> 30;
    for (unsigned i = 0; i + 1 < WINDOW; i++)
        rest[i] = product[i] << 2 | product[i + 1] >> 30;

    int negative =
        rest[0] >> 31 != 0; /* at least half a quadrant: negative rest from the next quadrant */
    for (unsigned i = 0; negative && i + 1 < WINDOW; i++)
        rest[i] = ~rest[i];
    double fraction = 0;
    for (unsigned i = WINDOW - 1; i-- > 0;)
        fraction = (fraction + (double)rest[i]) * 0x1p-32;
    angle result = {fraction * HALF_PI, quadrant};
    if (negative) {
        result.r = -result.r;
        result.quadrant++;
    }
    return result;
}

static angle angle_of(double x)
{
    uint32_t bits = sb_bits_f32((float)x) & 0x7fffffffu;
    angle small = {x < 0 ? -x : x, 0};
    return bits < QUARTER_PI ? small : reduce(bits);
}

/* |r| <= pi/4. The 2.5 u of r count fully, the last sum adds u, and the series (at most 0.12 of the
 * result) has an error of 3 u of itself: 3.9 u. The series stops at r^19/19! < 2^-62 |r|. */
static double sine(double r)
{
    double square = r * r;
    return r + r * square * sb_polynomial(SIN_TAYLOR, SIN_TERMS, square);
}

/* |r| <= pi/4, cos r >= 0.7. The 2.5 u of r count r tan r <= 0.79 times: 2 u. r^2/2 adds u of 0.31.
 * The sum with r^2/2 and the last sum are below 1 and add u/2 each. The rest adds 0.05 u. The total
 * is (1.36 u)/0.7 + 2 u = 4 u. The series stops at r^18/18! < 2^-58. */
static double cosine(double r)
{
    double square = r * r;
    double rest = square * square * sb_polynomial(COS_TAYLOR + 1, COS_TERMS - 1, square);
    return (1.0 + COS_TAYLOR[0] * square) + rest;
}

double sb_core_sin(double x)
{
    angle a = angle_of(x);
    double y = a.quadrant & 1u ? cosine(a.r) : sine(a.r);
    int negative = (a.quadrant & 2u) != 0;
    if (x < 0)
        negative = !negative;
    return negative ? -y : y;
}

double sb_core_cos(double x)
{
    angle a = angle_of(x);
    double y = a.quadrant & 1u ? sine(a.r) : cosine(a.r);
    return ((a.quadrant + 1u) & 2u) ? -y : y;
}

float sb_sin(float x)
{
    if (!sb_is_finite_f32(x))
        return sb_fn_nan();
    if (x == 0)
        return x;
    return sb_fn_round(SB_FN_sin, sb_bits_f32(x), sb_core_sin((double)x));
}

float sb_cos(float x)
{
    if (!sb_is_finite_f32(x))
        return sb_fn_nan();
    return sb_fn_round(SB_FN_cos, sb_bits_f32(x), sb_core_cos((double)x));
}
