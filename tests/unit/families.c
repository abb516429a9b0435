#include "tests/unit/families.h"

#include "ref/base/bytes.h"
#include "ref/base/rng.h"
#include "ref/fast/dot/dot.h"
#include "ref/formats/format.h"

/* The random numbers of a case come from one stream, in order. */
typedef struct cursor {
    uint64_t key, index;
    sb_format format; /* every value of a must be representable in it */
} cursor;

static uint64_t draw(cursor *c)
{
    return sb_rng_u64(c->key, c->index++);
}

static uint32_t below(cursor *c, uint32_t n)
{
    return sb_rng_below(c->key, c->index++, n);
}

static float normal(cursor *c)
{
    return sb_rng_normal(c->key, (uint64_t)1 << 40 | c->index++);
}

static int coin(cursor *c)
{
    return draw(c) >> 63 != 0;
}

/* 2^e, -149 <= e <= 127 */
static float power(int e)
{
    return e < -126 ? sb_f32_from_bits(1u << (e + 149))
                    : sb_f32_from_bits((uint32_t)(e + 127) << 23);
}

/* A normal number times a power of two between 2^low and 2^(low + range - 1). One draw per
 * statement, because C does not specify which side of a * b is evaluated first. */
static float spread_normal(cursor *c, int low, uint32_t range)
{
    float x = normal(c);
    return x * power(low + (int)below(c, range));
}

/* x rounded to the format, or 1 if the result is infinite. */
static float fit(const cursor *c, float x)
{
    float y = sb_round_to(c->format, x);
    return sb_is_finite_f32(y) ? y : 1.0f;
}

static float any_finite(cursor *c)
{
    float x = sb_f32_from_bits((uint32_t)draw(c));
    while (!sb_is_finite_f32(x))
        x = sb_f32_from_bits((uint32_t)draw(c));
    return x;
}

static void shuffle(cursor *c, size_t n, float *a, float *b)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = below(c, (uint32_t)i);
        float ta = a[i - 1], tb = b[i - 1];
        a[i - 1] = a[j];
        b[i - 1] = b[j];
        a[j] = ta;
        b[j] = tb;
    }
}

/* --- the families: each fills n terms --------------------------------------------------------- */

static void fill_normal(cursor *c, size_t n, float *a, float *b)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = fit(c, 0.02f * normal(c));
        b[i] = normal(c);
    }
}

static void fill_heavy_tail(cursor *c, size_t n, float *a, float *b)
{
    fill_normal(c, n, a, b);
    for (size_t i = 0; i < n; i++) {
        uint32_t rare = below(c, 500);
        b[i] *= rare == 0 ? 64.0f : rare < 10 ? 16.0f : rare < 60 ? 4.0f : 1.0f;
    }
}

/* Activations as engines store them. Their exact sums have few bits, so that real ties occur. */
static void fill_bf16(cursor *c, size_t n, float *a, float *b)
{
    fill_heavy_tail(c, n, a, b);
    for (size_t i = 0; i < n; i++) {
        a[i] = fit(c, sb_round_to(SB_FORMAT_bf16, a[i]));
        b[i] = sb_round_to(SB_FORMAT_bf16, b[i]);
    }
}

static void fill_54_binades(cursor *c, size_t n, float *a, float *b)
{
    for (size_t i = 0; i < n; i++) {
        a[i] = fit(c, spread_normal(c, -27, 54));
        b[i] = spread_normal(c, -27, 54);
    }
}

static void fill_any_bits(cursor *c, size_t n, float *a, float *b)
{
    for (size_t i = 0; i < n; i++) {
        float x = any_finite(c);
        if (c->format == SB_FORMAT_f16)
            x = sb_f16_to_f32((uint16_t)draw(c));
        a[i] = fit(c, x);
        b[i] = any_finite(c);
    }
}

/* Products and sums around the smallest binary32 and far below it. */
static void fill_subnormal(cursor *c, size_t n, float *a, float *b)
{
    int down = (int)below(c, 24);
    for (size_t i = 0; i < n; i++) {
        a[i] = fit(c, spread_normal(c, -23, 24));
        b[i] = sb_f32_from_bits((uint32_t)draw(c) & (0x807fffffu >> down | 0x80000000u));
    }
}

/* Pairs that cancel, some of them except for one last place. With odd n the last term is tiny. */
static void fill_cancelling(cursor *c, size_t n, float *a, float *b)
{
    int perturbed = coin(c);
    fill_54_binades(c, n, a, b);
    for (size_t i = 0; i + 1 < n; i += 2) {
        a[i + 1] = -a[i];
        b[i + 1] = b[i];
        if (perturbed && below(c, 16) == 0)
            b[i + 1] = sb_f32_from_bits(sb_bits_f32(b[i]) ^ 1u);
    }
    if (n % 2)
        b[n - 1] *= power(-(int)below(c, 100));
    shuffle(c, n, a, b);
}

static void fill_sparse(cursor *c, size_t n, float *a, float *b)
{
    uint32_t density = below(c, 4);
    fill_normal(c, n, a, b);
    for (size_t i = 0; i < n; i++) {
        float zero = coin(c) ? -0.0f : 0.0f;
        if (below(c, 4) < density)
            continue;
        if (coin(c))
            a[i] = zero;
        else
            b[i] = zero;
    }
}

/* Integers, some of them multiplied so that sums exceed 2^24, where every odd sum is a tie. */
static void fill_integers(cursor *c, size_t n, float *a, float *b)
{
    float scale = coin(c) ? 4096.0f : 1.0f;
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)((int)below(c, 65) - 32);
        b[i] = (float)((int)below(c, 65) - 32);
        if (coin(c)) {
            a[i] *= coin(c) ? 16.0f : 1.0f;
            b[i] *= scale;
        }
    }
}

/* Sums below and above the largest binary32. */
static void fill_near_overflow(cursor *c, size_t n, float *a, float *b)
{
    for (size_t i = 0; i < n; i++) {
        float sign = below(c, 4) == 0 ? -1.0f : 1.0f;
        a[i] = fit(c, sign * (1.0f + 0.5f * sb_rng_uniform(c->key, c->index++)) * 0x1p12f);
        b[i] = 1.0f + sb_rng_uniform(c->key, c->index++);
        b[i] *= power(115 - (int)below(c, 8));
    }
}

static void put(float *a, float *b, size_t *i, size_t n, float x, float y)
{
    if (*i < n) {
        a[*i] = x;
        b[*i] = y;
        ++*i;
    }
}

/* A sum half-way between two binary32 values (or a representable one). Then perhaps a small term
 * that decides the tie, at most one step of binary64 in size, and perhaps a term of 2^-149. The
 * rest are pairs that cancel. All terms are shuffled. */
static void fill_ties(cursor *c, size_t n, float *a, float *b)
{
    uint32_t bits = (uint32_t)draw(c) & 0x7fffffffu;
    bits = below(c, 8) == 0 ? 0x7f7fffffu : below(c, 4) == 0 ? bits & 0xffffffu : bits;
    bits = bits < 0x7f800000u ? bits : 0x3f800000u;
    int exponent = (int)(bits >> 23), unit = (exponent ? exponent : 1) - 150;
    float sign = coin(c) ? -1.0f : 1.0f, value = sb_f32_from_bits(bits);
    size_t i = 0;
    put(a, b, &i, n, sign, value);
    if (below(c, 4) != 0)
        put(a, b, &i, n, sign * 0.5f, power(unit));
    uint32_t decider = below(c, 4);
    float tiny = decider == 1   ? power(-149)
                 : decider == 2 ? power(unit > -120 ? unit - 29 : -149)
                                : 0;
    float deciding_sign = coin(c) ? -1.0f : 1.0f;
    int down = coin(c) ? 0 : -(int)below(c, 24);
    put(a, b, &i, n, deciding_sign * power(down), tiny);
    if (coin(c))
        put(a, b, &i, n, coin(c) ? -1.0f : 1.0f, power(-149));
    while (i + 1 < n) {
        float x = fit(c, normal(c)), y = coin(c) ? value * normal(c) * 0.01f : any_finite(c);
        put(a, b, &i, n, x, sb_is_finite_f32(y) ? y : 1.0f);
        put(a, b, &i, n, -a[i - 1], b[i - 1]);
    }
    put(a, b, &i, n, 0.0f, 1.0f);
    shuffle(c, n, a, b);
}

/* An odd integer of 25 bits (a tie), split into n random summands of up to 24 bits. */
static void fill_split_ties(cursor *c, size_t n, float *a, float *b)
{
    int64_t rest = (int64_t)(1u << 24 | (uint32_t)(draw(c) >> 40) | 1u);
    int scale = (int)below(c, 240) - 140;
    rest = coin(c) ? -rest : rest;
    for (size_t i = 0; i < n; i++) {
        uint64_t random = draw(c) >> 41;
        int64_t part = (int64_t)(random >> below(c, 20)) - (int64_t)(1 << 18);
        if (i + 2 >= n)
            part = i + 2 == n ? rest / 2 : rest;
        rest -= part;
        a[i] = 1.0f;
        b[i] = (float)part * power(scale);
    }
    shuffle(c, n, a, b);
}

static const struct {
    const char *name;
    void (*fill)(cursor *c, size_t n, float *a, float *b);
} families[] = {
    {"normal", fill_normal},
    {"heavy tail", fill_heavy_tail},
    {"bf16", fill_bf16},
    {"54 binades", fill_54_binades},
    {"any bits", fill_any_bits},
    {"subnormal", fill_subnormal},
    {"cancelling", fill_cancelling},
    {"sparse", fill_sparse},
    {"integers", fill_integers},
    {"near overflow", fill_near_overflow},
    {"ties", fill_ties},
    {"split ties", fill_split_ties},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

/* Mostly short; rarely 0 to 2, or around 256 and 512, where reductions are split into pieces. */
static size_t length(cursor *c)
{
    uint32_t rare = below(c, 64);
    if (rare == 0)
        return below(c, 3);
    if (rare == 1)
        return 250 + below(c, 14);
    if (rare == 2)
        return 505 + below(c, 130);
    return 1 + below(c, rare < 32 ? 12 : 48);
}

static sb_format format_of(family_kind kind)
{
    return kind == KIND_row_bf16  ? SB_FORMAT_bf16
           : kind == KIND_row_f16 ? SB_FORMAT_f16
                                  : SB_FORMAT_f32;
}

const char *family_kind_name(family_kind kind)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FAMILY_KINDS(NAME)
#undef NAME
    };
    return names[kind];
}

void family_make(family_case *c, family_kind kind, uint64_t key, uint64_t index)
{
    cursor at = {sb_rng_u64(key, index), 0, format_of(kind)};
    size_t family = (size_t)(index % FAMILIES);
    c->family = families[family].name;
    c->kind = kind;
    c->n = length(&at);
    families[family].fill(&at, c->n, c->a, c->b);
    for (size_t i = 0; kind == KIND_sum && i < c->n; i++) {
        float product = c->a[i] * c->b[i];
        c->a[i] = sb_is_finite_f32(product) ? product : c->a[i];
        c->b[i] = 1.0f;
    }
    family_spread(c);
}

void family_spread(family_case *c)
{
    sb_encode(format_of(c->kind), c->a, c->n, c->codes + 1);
    for (size_t i = 0; i < c->n; i++) {
        c->wide_a[i * FAMILY_STRIDE_A] = c->a[i];
        c->wide_b[i * FAMILY_STRIDE_B] = c->b[i];
    }
}

float family_reduce(const family_case *c)
{
    sb_matrix matrix = {
        .data = c->codes + 1, .format = format_of(c->kind), .rows = 1, .cols = (uint32_t)c->n};
    switch (c->kind) {
    case KIND_dot_f32:
        return sb_dot(c->a, c->b, c->n);
    case KIND_sum:
        return sb_sum(c->a, c->n);
    case KIND_strided:
        return sb_dot_strided(c->wide_a, FAMILY_STRIDE_A, c->wide_b, FAMILY_STRIDE_B, c->n);
    default:
        return sb_dot_row(&matrix, 0, c->b);
    }
}

float family_input(uint64_t key, uint64_t index)
{
    uint64_t bits = sb_rng_u64(key, index);
    if (bits >> 63) /* sign, exponent from -30 to 7, any fraction */
        return sb_f32_from_bits(((uint32_t)bits & 0x807fffffu) |
                                (97u + (uint32_t)(bits >> 40) % 38u) << 23);
    return sb_f32_from_bits((uint32_t)bits);
}
