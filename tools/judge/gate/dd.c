#include "tools/judge/gate/dd.h"

#include "ref/base/bytes.h"
#include "ref/base/root.h"
#include "tools/judge/bound/wide_fn.h"

/* For magnitudes above FAR, splitting an operand of a product into halves could overflow. For
 * magnitudes below 1 / FAR, the remainder of a quotient or a root could be lost. */
#define FAR 0x1p480

static int finite64(double x)
{
    return x - x == 0.0;
}

static sb_dd fast_two_sum(double a, double b) /* |a| >= |b| */
{
    double s = a + b;
    return finite64(s) ? (sb_dd){s, b - (s - a)} : (sb_dd){s, 0.0};
}

static sb_dd two_sum(double a, double b)
{
    double s = a + b, t = s - a;
    return finite64(s) ? (sb_dd){s, (a - (s - t)) + (b - t)} : (sb_dd){s, 0.0};
}

static double upper_half(double a)
{
    double t = 0x1.0000002p27 * a;
    return t - (t - a);
}

/* Dekker's product: exact unless its error term is below 2^-1074. */
static sb_dd two_product(double a, double b)
{
    double p = a * b;
    if (!finite64(p))
        return (sb_dd){p, 0.0};
    if (sb_wide_abs(a) < sb_wide_abs(b)) {
        double t = a;
        a = b;
        b = t;
    }
    double back = 1.0;
    if (sb_wide_abs(a) > FAR) {
        a *= 0x1p-512;
        if (sb_wide_abs(b) < 1.0)
            b *= 0x1p512;
        else
            back = 0x1p512;
    }
    double q = a * b, a1 = upper_half(a), a2 = a - a1, b1 = upper_half(b), b2 = b - b1;
    return (sb_dd){p, (((a1 * b1 - q) + a1 * b2 + a2 * b1) + a2 * b2) * back};
}

/* Adds high and low parts separately: the error is relative even where hi cancels. */
sb_dd sb_dd_add(sb_dd a, sb_dd b)
{
    sb_dd s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
    s = fast_two_sum(s.hi, s.lo + t.hi);
    return fast_two_sum(s.hi, s.lo + t.lo);
}

sb_dd sb_dd_neg(sb_dd a)
{
    return (sb_dd){-a.hi, -a.lo};
}

sb_dd sb_dd_sub(sb_dd a, sb_dd b)
{
    return sb_dd_add(a, sb_dd_neg(b));
}

sb_dd sb_dd_mul(sb_dd a, sb_dd b)
{
    sb_dd p = two_product(a.hi, b.hi);
    if (!finite64(p.hi))
        return p;
    return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

sb_dd sb_dd_fma(sb_dd s, sb_dd x, sb_dd y)
{
    return sb_dd_add(s, sb_dd_mul(x, y));
}

int sb_dd_less(sb_dd a, sb_dd b)
{
    return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

static double power_of_two(int n) /* -1022 <= n <= 1023 */
{
    return sb_f64_from_bits((uint64_t)(n + 1023) << 52);
}

sb_dd sb_dd_scale(sb_dd a, int n)
{
    for (; n < -1000; n += 1000)
        a = (sb_dd){a.hi * 0x1p-1000, a.lo * 0x1p-1000};
    for (; n > 1000; n -= 1000)
        a = (sb_dd){a.hi * 0x1p1000, a.lo * 0x1p1000};
    double hi = a.hi * power_of_two(n);
    return finite64(hi) ? fast_two_sum(hi, a.lo * power_of_two(n)) : sb_dd_of(hi);
}

int sb_dd_exponent(sb_dd a)
{
    int far = sb_wide_abs(a.hi) < 0x1p-1000 ? 200 : 0;
    uint64_t bits = sb_bits_f64(sb_wide_abs(a.hi) * (far ? 0x1p200 : 1.0));
    return (int)(bits >> 52) - 1023 - far;
}

/* The quotient by long division, three digits of 53 bits. */
static sb_dd divided(sb_dd a, sb_dd b)
{
    double q1 = a.hi / b.hi;
    a = sb_dd_sub(a, sb_dd_mul(b, sb_dd_of(q1)));
    double q2 = a.hi / b.hi;
    a = sb_dd_sub(a, sb_dd_mul(b, sb_dd_of(q2)));
    sb_dd q = fast_two_sum(q1, q2);
    return sb_dd_add(q, sb_dd_of(a.hi / b.hi));
}

static int near_one(double x)
{
    return sb_wide_abs(x) < FAR && sb_wide_abs(x) > 1.0 / FAR;
}

sb_dd sb_dd_div(sb_dd a, sb_dd b)
{
    if (near_one(a.hi) && near_one(b.hi))
        return divided(a, b);
    if (!finite64(a.hi) || !finite64(b.hi) || a.hi == 0.0 || b.hi == 0.0)
        return sb_dd_of(a.hi / b.hi);
    int na = sb_dd_exponent(a), nb = sb_dd_exponent(b);
    return sb_dd_scale(divided(sb_dd_scale(a, -na), sb_dd_scale(b, -nb)), na - nb);
}

/* A Newton step on a root with error 2^-40, and a second one on its rounded result. */
static sb_dd rooted(sb_dd a)
{
    double s = sb_sqrt64(a.hi);
    s = 0.5 * (s + a.hi / s);
    sb_dd rest = sb_dd_sub(a, two_product(s, s));
    return sb_dd_add(sb_dd_of(s), sb_dd_div(rest, sb_dd_of(2.0 * s)));
}

sb_dd sb_dd_sqrt(sb_dd a)
{
    if (a.hi == 0.0 || a.hi == 1.0 / 0.0)
        return sb_dd_of(a.hi);
    if (!(a.hi > 0.0))
        return sb_dd_of(0.0 / 0.0);
    int half = sb_dd_exponent(a) / 2;
    return sb_dd_scale(rooted(sb_dd_scale(a, -2 * half)), half);
}
