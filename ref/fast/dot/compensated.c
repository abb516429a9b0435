#include "ref/fast/dot/compensated.h"

#include "ref/base/bytes.h"
#include "ref/fast/dot/kernels.h"

/* Independent chains of additions. */
enum { LANES = 4 };

/* x + y = *sum + return value, exactly, for any x and y (Knuth's six operations). */
static inline double two_sum(double x, double y, double *sum)
{
    double s = x + y;
    double y_seen = s - x;
    double x_seen = s - y_seen;
    *sum = s;
    return (x - x_seen) + (y - y_seen);
}

/* Adds `term` to the sum, the error of this addition to `errors`, and the error of the second
 * addition to `rest`. Only the additions to `rest` lose bits. */
static inline void join(sb_compensated *to, double term)
{
    double error = two_sum(to->sum, term, &to->sum);
    double left = two_sum(to->errors, error, &to->errors);
    to->rest += left;
    to->size += sb_absolute(left);
}

void sb_compensated_join(sb_compensated *to, double term)
{
    join(to, term);
}

/* The upper 16 of 32 significant bits. The products of this part, and of the rest, with a number of
 * 32 bits are exact. */
static inline double upper(double x)
{
    return sb_f64_from_bits(sb_bits_f64(x) & 0xffffffe000000000u);
}

static inline void add_product(sb_compensated *to, double a, double b)
{
    double part = upper(a);
    join(to, part * b);
    join(to, (a - part) * b);
}

void sb_compensated_add(sb_compensated *to, const double *a, const double *b, size_t n)
{
    sb_compensated lane[LANES] = {{0, 0, 0, 0}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            add_product(&lane[l], a[i + l], b[i + l]);
    for (; i < n; i++)
        add_product(&lane[0], a[i], b[i]);
    for (size_t l = 0; l < LANES; l++) {
        join(to, lane[l].sum);
        join(to, lane[l].errors);
        to->rest += lane[l].rest;
        to->size += lane[l].size;
    }
}

/* A number as a sum of two parts with an error of at most `bound`. The second part is at most half
 * an ulp of the first. */
typedef struct pair {
    double first, second, bound;
} pair;

/* x y = *product + return value, exactly: Veltkamp's splitting, Dekker's product. */
static double two_product(double x, double y, double *product)
{
    const double big_x = 0x8000001p0 * x, big_y = 0x8000001p0 * y;
    const double x1 = big_x - (big_x - x), x2 = x - x1;
    const double y1 = big_y - (big_y - y), y2 = y - y1;
    *product = x * y;
    return x2 * y2 - (((*product - x1 * y1) - x2 * y1) - x1 * y2);
}

/* Two rounding units, plus a reserve for the roundings of the bound itself. */
static const double TWO_UNITS = 0x1.00001p-52;

/* The compensated sum as a pair. A term of rest passes through at most 3 n + 64 additions;
 * error_bound() in dot.c bounds their error. */
static pair pair_of(const sb_compensated *k, size_t n)
{
    pair p;
    double first, low, lower, lowest;
    low = two_sum(k->sum, k->errors, &first);
    lower = two_sum(low, k->rest, &low);
    low = two_sum(first, low, &p.first);
    lowest = two_sum(low, lower, &p.second);
    p.bound = (double)(3 * n + 64) * 0x1.0001p-53 * k->size + sb_absolute(lowest);
    return p;
}

/* p times factor. The product is exact if p.second is 0. */
static pair times(pair p, double factor)
{
    pair q;
    double error = two_product(p.first, factor, &q.first), more = p.second * factor;
    q.second = error + more;
    q.bound = p.bound * sb_absolute(factor);
    if (p.second != 0)
        q.bound += (sb_absolute(error) + sb_absolute(more)) * TWO_UNITS;
    return q;
}

/* p / divisor. The remainder of a rounded quotient is exact in binary64. */
static pair over(pair p, double divisor)
{
    pair q;
    double product, error;
    q.first = p.first / divisor;
    error = two_product(q.first, divisor, &product);
    double remainder = (p.first - product) - error, all = remainder + p.second;
    q.second = all / divisor;
    q.bound = (p.bound + (sb_absolute(remainder) + sb_absolute(p.second)) * TWO_UNITS) /
              sb_absolute(divisor);
    q.bound += sb_absolute(q.second) * TWO_UNITS;
    return q;
}

/* True if no part of a product or quotient can underflow or overflow. */
static int in_range(pair p)
{
    double size = sb_absolute(p.first);
    return size > 0x1p-900 && size < 0x1p900;
}

static float neighbour(double x, int up)
{
    return (float)sb_f64_from_bits(sb_bits_f64(x) + (up == (x > 0) ? 1u : (uint64_t)-1));
}

/* The number is less than one ulp of `first` away from `first`. If both neighbours of `first` round
 * differently, `first` itself may be a binary32 value of 24 bits or a midpoint of 25 bits, which
 * are even in binary64. If the number is certainly on one side of `first`, the odd neighbour on
 * that side rounds as the number does. */
static int round_pair(pair p, float *rounded)
{
    const double bound = p.bound * 0x1.0001p0;
    double first, second = two_sum(p.first, p.second, &first);
    if (!(sb_absolute(second) + bound < sb_absolute(first) * 0x1p-53))
        return 0;
    *rounded = neighbour(first, 0);
    if (sb_bits_f32(*rounded) == sb_bits_f32(neighbour(first, 1)))
        return 1;
    *rounded = (float)first;
    if (sb_bits_f64(first) & 1u || (second == 0 && bound == 0))
        return 1;
    *rounded = neighbour(first, second > 0);
    return sb_absolute(second) > bound;
}

/* "a zero sum is +0" - for both signs of the factor. */
int sb_compensated_round(const sb_compensated *from, size_t n, const sb_scalar *factor,
                         float *rounded)
{
    const double mul = (double)factor->mul[0] * (double)factor->mul[1];
    const double div = (double)factor->div[0] * (double)factor->div[1];
    pair p = pair_of(from, n);
    if (n >= (size_t)1 << 26)
        return 0;
    if (mul == 0 || (p.first == 0 && p.second == 0 && p.bound == 0)) {
        *rounded = 0;
        return p.first - p.first == 0; /* true unless infinite or NaN */
    }
    if (mul != 1 && in_range(p))
        p = times(p, mul);
    if (div != 1 && in_range(p))
        p = over(p, div);
    return in_range(p) && round_pair(p, rounded);
}
