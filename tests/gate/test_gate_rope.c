/* test_gate_rope.c - vectors of qk_norm_rope: plain binary32 kernels pass, broken ones fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formats/format.h"
#include "tests/gate/held.h"
#include "tests/lib/suite.h"
#include "tools/judge/gate/whole.h"

/* Variants of the kernel: right ones with two orders of summation, then mistakes. */
enum {
    RIGHT,
    BACKWARDS,
    PLAIN_WEIGHT,    /* w instead of 1 + w */
    ALL_CHANNELS,    /* rotates all hd channels, not rd (F33) */
    HEAD_TABLE,      /* frequencies from hd instead of rd */
    PAIRS,           /* rotates channel 2f with 2f + 1 */
    OTHER_WAY,       /* rotates in the other direction */
    NEXT_POSITION,   /* the position is off by one */
    NORM_BEHIND,     /* rope before the norm */
    EPS_OUTSIDE,     /* eps is added to the root */
    ALL_HEADS,       /* one norm for all heads of a row */
    TIME_ALONE,      /* ignores the mRoPE sections */
    SECTIONS_IN_ROW, /* takes the sections as consecutive, not interleaved */
    EAGER,           /* right in bfloat16: every step is rounded */
    CACHED           /* rounds the output of the norm and the table, but not the products */
};

typedef struct kernel {
    const sb_gate_case *c;
    int kind;
    size_t rows, heads, hd, rd;
    float theta;
    const float *x, *weight;
    float *out;
} kernel;

/* Rounds to bfloat16 if the kernel is one of these two kinds. */
static float round_in(const kernel *k, int one, int other, float x)
{
    return k->kind == one || k->kind == other ? sb_round_to(SB_FORMAT_bf16, x) : x;
}

static float mean_square(const kernel *k, size_t from, size_t n)
{
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float x = k->x[from + (k->kind == BACKWARDS ? n - 1 - i : i)];
        sum += x * x;
    }
    return sum / (float)n;
}

static void norm_head(const kernel *k, size_t t, size_t h, float *y)
{
    size_t at = (t * k->heads + h) * k->hd;
    float mean = k->kind == ALL_HEADS ? mean_square(k, t * k->heads * k->hd, k->heads * k->hd)
                                      : mean_square(k, at, k->hd);
    float r = k->kind == EPS_OUTSIDE ? 1.0f / (sqrtf(mean) + 1e-6f) : 1.0f / sqrtf(mean + 1e-6f);
    for (size_t i = 0; i < k->hd; i++) {
        float factor = k->kind == PLAIN_WEIGHT ? k->weight[i] : 1.0f + k->weight[i];
        y[i] = k->kind == BACKWARDS ? y[i] * (r * factor) : y[i] * r * factor;
        y[i] = round_in(k, EAGER, CACHED, y[i]);
    }
}

static float position_of(const kernel *k, size_t t, size_t f)
{
    static const char *const names[] = {"positions", "positions_height", "positions_width"};
    const sb_gate_array *section = sb_gate_input(k->c, "mrope_section");
    size_t stream = 0;
    if (section && k->kind != TIME_ALONE && k->kind != SECTIONS_IN_ROW)
        stream = f % 3 && (int64_t)f < 3 * sb_gate_whole(section, f % 3) ? f % 3 : 0;
    if (section && k->kind == SECTIONS_IN_ROW)
        while (stream < 2 && (int64_t)f >= sb_gate_whole(section, stream))
            f -= (size_t)sb_gate_whole(section, stream++);
    return (float)(sb_gate_whole(sb_gate_input(k->c, names[stream]), t) +
                   (k->kind == NEXT_POSITION));
}

static void turn_head(const kernel *k, size_t t, float *y)
{
    size_t rd = k->kind == ALL_CHANNELS ? k->hd : k->rd, half = rd / 2;
    for (size_t f = 0; f < half; f++) {
        float exponent = (float)(2 * f) / (float)(k->kind == HEAD_TABLE ? k->hd : rd);
        float angle = position_of(k, t, f) * (1.0f / powf(k->theta, exponent));
        float c = round_in(k, EAGER, CACHED, cosf(angle));
        float s = round_in(k, EAGER, CACHED, k->kind == OTHER_WAY ? -sinf(angle) : sinf(angle));
        float *a = k->kind == PAIRS ? y + 2 * f : y + f, *b = k->kind == PAIRS ? a + 1 : a + half;
        float ac = round_in(k, EAGER, EAGER, *a * c), bs = round_in(k, EAGER, EAGER, *b * s);
        float bc = round_in(k, EAGER, EAGER, *b * c), as = round_in(k, EAGER, EAGER, *a * s);
        float first = k->kind == BACKWARDS ? fmaf(*a, c, -(*b * s)) : ac - bs;
        *b = bc + as;
        *a = first;
    }
}

static void run(const kernel *k)
{
    for (size_t row = 0; row < k->rows * k->heads; row++) {
        size_t t = row / k->heads, h = row % k->heads;
        float *y = k->out + row * k->hd;
        memcpy(y, k->x + row * k->hd, k->hd * sizeof *y);
        if (k->kind == NORM_BEHIND)
            turn_head(k, t, y);
        norm_head(k, t, h, y);
        if (k->kind != NORM_BEHIND)
            turn_head(k, t, y);
    }
}

/* The largest quotient of the kernel's error and the bound. *outside_bf16 gets the number of
 * elements outside after rounding to bfloat16. */
static double held(const sb_gate_case *c, const char *arith, int kind, size_t *outside_bf16)
{
    float *x = sb_gate_values(c, "x"), *weight = sb_gate_values(c, "weight");
    float *out = calloc(c->output[0].count, sizeof *out);
    assert_true(x && weight && out);
    run(&(kernel){.c = c,
                  .kind = kind,
                  .rows = sb_gate_size(c, "rows"),
                  .heads = sb_gate_size(c, "heads"),
                  .hd = sb_gate_size(c, "hd"),
                  .rd = sb_gate_size(c, "rd"),
                  .theta = (float)sb_gate_size(c, "theta"),
                  .x = x,
                  .weight = weight,
                  .out = out});
    double worst = held_worst(c, arith, 0, out);
    if (outside_bf16)
        *outside_bf16 = held_outside_bf16(c, arith, 0, out);
    free(x);
    free(weight);
    free(out);
    return worst;
}

static double one(const char *shape, const char *regime, int kind)
{
    sb_gate_case *c = held_case("qk_norm_rope", shape, regime, SB_DTYPE_BF16);
    double worst = held(c, "fp32", kind, NULL);
    sb_gate_case_free(c);
    return worst;
}

TEST(exact_lies_within_every_bound)
{
    held_everywhere("qk_norm_rope", 0.95);
}

/* The right kernels pass, in binary32 and rounded to bfloat16. */
static void check_plain(const char *shape, const char *regime)
{
    sb_gate_case *c = held_case("qk_norm_rope", shape, regime, SB_DTYPE_BF16);
    for (int kind = RIGHT; kind <= BACKWARDS; kind++) {
        size_t outside = 0;
        double worst = held(c, "fp32", kind, &outside);
        if (worst > 1.0 || outside)
            fail_msg("%s %s: kernel %d is at %g, %zu outside in bf16", shape, regime, kind, worst,
                     outside);
    }
    sb_gate_case_free(c);
}

TEST(plain_kernels_pass)
{
    const sb_gate_op *op = sb_gate_op_find("qk_norm_rope");
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        for (size_t s = 0; sb_gate_takes(op, (sb_gate_regime)g) && op->shapes[s]; s++)
            check_plain(op->shapes[s], sb_gate_regime_name((sb_gate_regime)g));
}

/* V-51: "each of the roundings between the ops may be there or not"; without +bf16 in the
 * arithmetic, each of these kernels fails. */
TEST(kernels_in_bfloat16_pass_where_that_is_allowed)
{
    static const char *const shapes[] = {"first=0", "rows=9", "first=16773119,rows=2,theta=10000"};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        sb_gate_case *c = held_case("qk_norm_rope", shapes[s], "normal", SB_DTYPE_BF16);
        for (int kind = EAGER; kind <= CACHED; kind++) {
            size_t outside = 0, outside_f32 = 0;
            held(c, "fp32+bf16", kind, &outside);
            held(c, "fp32", kind, &outside_f32);
            if (outside || !outside_f32)
                fail_msg("%s: kernel %d has %zu outside, and %zu of what is not rounded", shapes[s],
                         kind, outside, outside_f32);
        }
        sb_gate_case_free(c);
    }
}

TEST(mistakes_fail)
{
    static const char *const planted[] = {"norm_plain_weight", "neighbour_pairs"};
    sb_gate_case *c = held_case("qk_norm_rope", NULL, "normal", SB_DTYPE_BF16);
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        assert_true(held_mistake(c, "bf16_mma+bf16", planted[i]) > 1.0);
    sb_gate_case_free(c);
    for (int kind = PLAIN_WEIGHT; kind <= ALL_HEADS; kind++)
        if (kind != EPS_OUTSIDE && !(one(NULL, "normal", kind) > 1.0))
            fail_msg("kernel %d passes", kind);
    assert_true(one(NULL, "tiny", EPS_OUTSIDE) > 1.0);
    for (int kind = TIME_ALONE; kind <= SECTIONS_IN_ROW; kind++)
        assert_true(one("hd=256,rd=64,heads=2,mrope=1", "normal", kind) > 1.0);
}

/* F33 passes at position 0, where the rotation is the identity, and fails at all others. */
TEST(turning_all_channels_shows_behind_position_0)
{
    assert_true(one("first=0,rows=1", "normal", ALL_CHANNELS) <= 1.0);
    assert_true(one("first=1,rows=1", "normal", ALL_CHANNELS) > 1.0);
    assert_true(one("first=262143,rows=1", "normal", ALL_CHANNELS) > 1.0);
}

/* --- the real value, computed with MPFR ------------------------------------------------------- */

enum { BITS = 300 };

typedef struct wide {
    mpfr_t root, angle, sine, cosine, a, b, y;
} wide;

/* (1 + w) x / sqrt( mean + eps ) for channel i of this head, into out. */
static void wide_norm(wide *w, const kernel *k, size_t row, size_t i, mpfr_t out)
{
    mpfr_set_zero(w->root, 1);
    for (size_t j = 0; j < k->hd; j++) {
        mpfr_set_flt(w->y, k->x[row * k->hd + j], MPFR_RNDN);
        mpfr_fma(w->root, w->y, w->y, w->root, MPFR_RNDN);
    }
    mpfr_div_ui(w->root, w->root, (unsigned long)k->hd, MPFR_RNDN);
    mpfr_add_d(w->root, w->root, (double)1e-6f, MPFR_RNDN);
    mpfr_sqrt(w->root, w->root, MPFR_RNDN);
    mpfr_set_flt(out, k->weight[i], MPFR_RNDN);
    mpfr_add_ui(out, out, 1, MPFR_RNDN);
    mpfr_mul_d(out, out, (double)k->x[row * k->hd + i], MPFR_RNDN);
    mpfr_div(out, out, w->root, MPFR_RNDN);
}

static void wide_element(wide *w, const kernel *k, size_t row, size_t i)
{
    size_t half = k->rd / 2, f = i % half;
    wide_norm(w, k, row, i, w->y);
    if (i >= k->rd)
        return;
    wide_norm(w, k, row, f, w->a);
    wide_norm(w, k, row, f + half, w->b);
    mpfr_set_flt(w->angle, k->theta, MPFR_RNDN);
    mpfr_log(w->angle, w->angle, MPFR_RNDN);
    mpfr_mul_si(w->angle, w->angle, -2 * (long)f, MPFR_RNDN);
    mpfr_div_ui(w->angle, w->angle, (unsigned long)k->rd, MPFR_RNDN);
    mpfr_exp(w->angle, w->angle, MPFR_RNDN);
    mpfr_mul_d(w->angle, w->angle, (double)position_of(k, row / k->heads, f), MPFR_RNDN);
    mpfr_sin_cos(w->sine, w->cosine, w->angle, MPFR_RNDN);
    if (i < half)
        mpfr_fmms(w->y, w->a, w->cosine, w->b, w->sine, MPFR_RNDN);
    else
        mpfr_fmma(w->y, w->b, w->cosine, w->a, w->sine, MPFR_RNDN);
}

static void check_wide(const char *shape)
{
    sb_gate_case *c = held_case("qk_norm_rope", shape, "normal", SB_DTYPE_F32);
    float *x = sb_gate_values(c, "x"), *weight = sb_gate_values(c, "weight");
    const kernel k = {.c = c,
                      .rows = sb_gate_size(c, "rows"),
                      .heads = sb_gate_size(c, "heads"),
                      .hd = sb_gate_size(c, "hd"),
                      .rd = sb_gate_size(c, "rd"),
                      .theta = (float)sb_gate_size(c, "theta"),
                      .x = x,
                      .weight = weight};
    wide w;
    mpfr_inits2(BITS, w.root, w.angle, w.sine, w.cosine, w.a, w.b, w.y, (mpfr_ptr)0);
    for (size_t i = 0; i < c->output[0].count; i++) {
        sb_dd real = c->output[0].real[i];
        wide_element(&w, &k, i / k.hd, i % k.hd);
        double size = fabs(mpfr_get_d(w.y, MPFR_RNDN));
        mpfr_sub_d(w.y, w.y, real.hi, MPFR_RNDN);
        mpfr_sub_d(w.y, w.y, real.lo, MPFR_RNDN);
        if (!(fabs(mpfr_get_d(w.y, MPFR_RNDN)) <= 0x1p-60 * (size + 1.0)))
            fail_msg("%s: element %zu is off by %g", shape, i, mpfr_get_d(w.y, MPFR_RNDN));
    }
    mpfr_clears(w.root, w.angle, w.sine, w.cosine, w.a, w.b, w.y, (mpfr_ptr)0);
    free(x);
    free(weight);
    sb_gate_case_free(c);
}

TEST(real_values_agree_with_mpfr)
{
    check_wide("rows=2,heads=2");
    check_wide("rows=2,heads=1,first=262143,hd=24,rd=12");
    check_wide("rows=2,heads=1,first=16773119,hd=16,rd=16,theta=10000");
}
