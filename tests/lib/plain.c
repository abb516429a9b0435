#include "tests/lib/plain.h"

#include "tests/lib/cmocka.h"

#include <math.h>
#include <string.h>

#include "ref/base/bytes.h"

float plain_exp(float x)
{
    return (float)expl((long double)x);
}

float plain_log1p(float x)
{
    return (float)log1pl((long double)x);
}

float plain_sigmoid(float x)
{
    return (float)(1 / (1 + expl(-(long double)x)));
}

float plain_silu(float x)
{
    if (isinf(x) && x < 0)
        return -0.0f;
    if (x != 0 &&
        fabsf(x) < 0x1p-64f) /* x/2 + x^2/4: half-way between subnormals and a little more */
        return (float)nextafterl((long double)x / 2, HUGE_VALL);
    return (float)((long double)x / (1 + expl(-(long double)x)));
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|) is accurate for both signs of x. */
float plain_softplus(float x)
{
    long double wide = (long double)x, rest = log1pl(expl(-fabsl(wide)));
    return (float)(x > 0 ? wide + rest : rest);
}

float plain_rsqrt(float x)
{
    return (float)(1 / sqrtl((long double)x));
}

float plain_sin(float x)
{
    return (float)sinl((long double)x);
}

float plain_cos(float x)
{
    return (float)cosl((long double)x);
}

float plain_power(double base, long double exponent)
{
    return (float)powl((long double)base, exponent);
}

enum { PARTS = 300 }; /* products of binary32 values span 554 bits */

/* A sum as parts that do not overlap, smallest first, so that additions are exact. */
typedef struct expansion {
    long double part[PARTS];
    size_t count;
} expansion;

static void add(expansion *e, long double x)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        long double y = e->part[i], sum = x + y;
        long double of_y = sum - x, rest = (x - (sum - of_y)) + (y - of_y);
        if (rest != 0)
            e->part[kept++] = rest;
        x = sum;
    }
    assert_true(kept < PARTS);
    if (x != 0)
        e->part[kept++] = x;
    e->count = kept;
}

/* Afterwards the largest part is the sum of all, rounded to nearest, and the sign of the next one
 * is the sign of the rest (Shewchuk's compression). */
static void compress(expansion *e)
{
    size_t bottom = e->count - 1, top = 0;
    long double q = e->part[bottom];
    for (size_t i = e->count - 1; i-- > 0;) {
        long double sum = q + e->part[i], rest = e->part[i] - (sum - q);
        q = sum;
        if (rest != 0) {
            e->part[bottom--] = q;
            q = rest;
        }
    }
    for (size_t i = bottom + 1; i < e->count; i++) {
        long double sum = e->part[i] + q, rest = q - (sum - e->part[i]);
        q = sum;
        if (rest != 0)
            e->part[top++] = rest;
    }
    e->part[top] = q;
    e->count = top + 1;
}

/* Rounds once. If the smaller parts are not zero, the true value lies between the largest part and
 * its neighbour. Of these two, the one with the odd significand rounds as the true value does,
 * because it is never half-way between two binary32 values. */
static float round_once(expansion *e)
{
    if (e->count == 0)
        return 0.0f;
    compress(e);
    long double most = e->part[e->count - 1];
    if (e->count == 1)
        return (float)most;
    long double rest = e->part[e->count - 2];
    long double next = nextafterl(most, rest > 0 ? HUGE_VALL : -HUGE_VALL);
    long double step = fabsl(next - most);
    return (float)(fmodl(fabsl(most) / step, 2) == 0 ? next : most);
}

float plain_dot(const float *a, size_t step_a, const float *b, size_t step_b, size_t n)
{
    expansion e = {.count = 0};
    for (size_t i = n; i-- > 0;) {
        float x = a[i * step_a], y = b[i * step_b];
        if (!isfinite(x) || !isfinite(y))
            return sb_f32_from_bits(0x7fc00000u);
        add(&e, (long double)x * (long double)y);
    }
    return round_once(&e);
}

float plain_sum(const float *a, size_t n)
{
    static const float one = 1.0f;
    return plain_dot(a, 1, &one, 0, n);
}

void test_same(const char *what, const float *got, const float *want, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (isnan(got[i]) && isnan(want[i]))
            continue;
        if (sb_bits_f32(got[i]) != sb_bits_f32(want[i]))
            fail_msg("%s: element %zu of %zu is %.9g (%08x), expected %.9g (%08x)", what, i, count,
                     (double)got[i], (unsigned)sb_bits_f32(got[i]), (double)want[i],
                     (unsigned)sb_bits_f32(want[i]));
    }
}

void test_near(const char *what, const float *got, const long double *want, size_t count,
               long double tolerance)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(got[i]) || !(fabsl((long double)got[i] - want[i]) <= tolerance))
            fail_msg("%s: element %zu of %zu is %.9g, expected %.12Lg within %.3Lg", what, i, count,
                     (double)got[i], want[i], tolerance);
}

sb_knobs test_knobs(const char *settings)
{
    sb_knobs knobs;
    sb_error err;
    sb_knobs_exact(&knobs);
    while (*settings) {
        char one[64];
        size_t n = strcspn(settings, " ");
        assert_true(n < sizeof one);
        memcpy(one, settings, n);
        one[n] = '\0';
        if (sb_knobs_set(&knobs, one, &err))
            fail_msg("%s", err.text);
        settings += n + strspn(settings + n, " ");
    }
    return knobs;
}
