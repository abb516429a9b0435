#include "tests/exhaustive/codec_oracle.h"

#include <math.h>
#include <stdlib.h>

#include "ref/formats/format.h"
#include "ref/formats/small_float.h"

/* one prototype for all encoders */
#define ENCODER(name)                                                                              \
    static uint32_t name(float x)                                                                  \
    {                                                                                              \
        return sb_f32_to_##name(x);                                                                \
    }
ENCODER(bf16)
ENCODER(f16)
ENCODER(e4m3)
ENCODER(e4m3_unsaturated)
ENCODER(ue4m3)
ENCODER(e5m2)
ENCODER(e5m2_ieee)
ENCODER(e2m1)
ENCODER(e8m0)
ENCODER(e8m0_up)
ENCODER(e8m0_exact)
ENCODER(int4)
ENCODER(int8)
ENCODER(uint4)
ENCODER(uint8)

static uint32_t e8m0_ct_e2m1(float x)
{
    return sb_f32_to_e8m0_ct(x, 2);
}

static uint32_t e8m0_ct_e4m3(float x)
{
    return sb_f32_to_e8m0_ct(x, 8);
}

#define FLOATING(id, to, bits, b, n, l, s, q, qs)                                                  \
    {                                                                                              \
        .name = #id, .format = SB_FORMAT_##to, .encode = id, .kind = CODEC_FLOATING,               \
        .fraction_bits = bits, .bias = b, .finite = n, .list = l, .sign = s, .nan = q,             \
        .nan_signed = qs                                                                           \
    }
#define POWERS(id, how, a)                                                                         \
    {                                                                                              \
        .name = #id, .format = SB_FORMAT_e8m0, .encode = id, .kind = CODEC_POWERS, .rule = how,    \
        .bias = 127, .argument = a, .finite = 255, .list = 256, .nan = 255                         \
    }
#define INTEGERS(id, low, n)                                                                       \
    {                                                                                              \
        .name = #id, .format = SB_FORMAT_##id, .encode = id, .kind = CODEC_INTEGERS,               \
        .lowest = low, .finite = n, .list = n                                                      \
    }

const codec codec_table[] = {
    FLOATING(bf16, bf16, 7, 127, 0x7f80, 0x7f81, 0x8000, 0x7fc0, 1),
    FLOATING(f16, f16, 10, 15, 0x7c00, 0x7c01, 0x8000, 0x7e00, 1),
    FLOATING(e4m3, e4m3, 3, 7, 0x7f, 0x7f, 0x80, 0x7f, 1),
    FLOATING(e4m3_unsaturated, e4m3, 3, 7, 0x7f, 0x80, 0x80, 0x7f, 1),
    FLOATING(ue4m3, ue4m3, 3, 7, 0x7f, 0x7f, 0, 0x7f, 0),
    FLOATING(e5m2, e5m2, 2, 15, 0x7c, 0x7c, 0x80, 0x7e, 1),
    FLOATING(e5m2_ieee, e5m2, 2, 15, 0x7c, 0x7d, 0x80, 0x7e, 1),
    FLOATING(e2m1, e2m1, 1, 1, 8, 8, 8, 7, 0),
    POWERS(e8m0, CODEC_NEAREST, 0),
    POWERS(e8m0_up, CODEC_UP, 0),
    POWERS(e8m0_exact, CODEC_EXACT, 0),
    POWERS(e8m0_ct_e2m1, CODEC_BLOCK, 2),
    POWERS(e8m0_ct_e4m3, CODEC_BLOCK, 8),
    INTEGERS(int4, -8, 16),
    INTEGERS(int8, -128, 256),
    INTEGERS(uint4, 0, 16),
    INTEGERS(uint8, 0, 256),
};
const size_t codec_count = sizeof codec_table / sizeof codec_table[0];

static double *lists[sizeof codec_table / sizeof codec_table[0]];

static double value(const codec *c, uint32_t i)
{
    if (c->kind == CODEC_INTEGERS)
        return c->lowest + (double)i;
    if (c->kind == CODEC_POWERS)
        return ldexp(1.0, (int)i - c->bias);
    int exponent = (int)(i >> c->fraction_bits);
    double one = (double)(1 << c->fraction_bits);
    double fraction = (double)(i & ((1u << c->fraction_bits) - 1)) / one;
    return exponent > 0 ? ldexp(1 + fraction, exponent - c->bias) : ldexp(fraction, 1 - c->bias);
}

void codec_prepare(void)
{
    for (size_t k = 0; k < codec_count; k++) {
        if (lists[k])
            continue;
        lists[k] = malloc(codec_table[k].list * sizeof(double));
        if (!lists[k])
            abort();
        for (uint32_t i = 0; i < codec_table[k].list; i++)
            lists[k][i] = value(&codec_table[k], i);
    }
}

double codec_value(const codec *c, uint32_t i)
{
    return lists[c - codec_table][i];
}

/* The last entry that is not above v, or the first. */
static uint32_t below(const codec *c, const double *values, double v, uint32_t hint)
{
    uint32_t low = hint, high = hint + 1;
    if (values[low] <= v && (high == c->list || v < values[high]))
        return low;
    low = 0;
    high = c->list; /* the result is in low .. high - 1 */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (values[middle] <= v)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint32_t nearest(const codec *c, const double *values, double v, uint32_t low)
{
    if (low + 1 == c->list)
        return low;
    double midpoint = (values[low] + values[low + 1]) / 2;
    int odd = (low + (uint32_t)(c->lowest & 1)) % 2 != 0;
    return low + (v > midpoint || (v == midpoint && odd));
}

/* v is finite, so that a value above low exists. */
static uint32_t power(const codec *c, const double *values, double v, uint32_t low)
{
    if (v == 0)
        return 0;
    switch (c->rule) {
    case CODEC_NEAREST:
        return low + (v >= (values[low] + values[low + 1]) / 2);
    case CODEC_UP:
        return low + (values[low] < v);
    case CODEC_EXACT:
        return values[low] == v ? low : c->nan;
    case CODEC_BLOCK:
        low += v >= 1.75 * values[low];
        if (low == c->nan)
            return low;
        return (int)low > c->argument ? low - (uint32_t)c->argument : 0;
    }
    abort();
}

uint32_t codec_expected(const codec *c, float x, uint32_t *hint)
{
    const double *values = lists[c - codec_table];
    int negative = signbit(x) != 0;
    if (x != x)
        return c->nan | (negative && c->nan_signed ? c->sign : 0);
    if (c->kind == CODEC_POWERS && (x < 0 || isinf(x)))
        return c->nan;
    double v = c->kind == CODEC_FLOATING ? fabs((double)x) : (double)x;
    uint32_t low = *hint = below(c, values, v, *hint);
    if (c->kind == CODEC_FLOATING)
        return nearest(c, values, v, low) | (negative ? c->sign : 0);
    if (c->kind == CODEC_POWERS)
        return power(c, values, v, low);
    uint32_t mask = (1u << sb_format_bits(c->format)) - 1;
    return (uint32_t)(c->lowest + (int)nearest(c, values, v, low)) & mask;
}
