/* test_gate_attention.c - vectors of gated_attention: plain binary32 kernels pass, broken ones
 * fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

#include "ref/formats/format.h"
#include "tests/gate/held.h"
#include "tests/lib/suite.h"

/* Variants of the kernel: four right ones, then mistakes. */
enum {
    TWO_PASSES,
    BACKWARDS,
    BLOCKS_OF_16, /* one pass: sums are rescaled when a block has a larger maximum */
    BLOCKS_OF_64,
    RIGHT_ONES,
    AHEAD = RIGHT_ONES, /* a row sees later rows of the call */
    STALE,              /* sees all rows of the cache */
    MASKED_MAXIMUM,     /* masked positions enter the maximum, but not the sum (F18) */
    MAXIMUM_FROM_0,     /* the maximum starts from 0 */
    NO_MAXIMUM,         /* no maximum is subtracted */
    LAST_BLOCK_LOST,    /* drops the positions behind the last multiple of 64 */
    NOT_SCALED_AGAIN,   /* blocks of 16, sums are not rescaled for a larger maximum */
    GATE_MISSING,
    GATE_OF_HEAD_0,
    HALF_A_HEAD, /* scores from the first half of the channels */
    FIRST_ROUNDING,
    FLASH = FIRST_ROUNDING, /* right in bfloat16: exponentials are rounded before the second
                             * product */
    FUSED,                  /* the same, with the gate in the same kernel */
    EAGER,                  /* every step is rounded */
    ROUNDING_ONES
};

typedef struct kernel {
    int kind;
    size_t rows, first, heads, kv_heads, hd, capacity;
    const float *q, *keys, *values, *gate;
    float *s, *out; /* (capacity) scratch */
} kernel;

/* Rounds to bfloat16 if the kernel is one of these two kinds. */
static float round_in(const kernel *k, int one, int other, float x)
{
    return k->kind == one || k->kind == other ? sb_round_to(SB_FORMAT_bf16, x) : x;
}

static float score(const kernel *k, size_t row, size_t kv, size_t u)
{
    const float *q = k->q + row * k->hd, *key = k->keys + (u * k->kv_heads + kv) * k->hd;
    size_t n = k->kind == HALF_A_HEAD ? (k->hd + 1) / 2 : k->hd;
    float sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        size_t at = k->kind == BACKWARDS ? n - 1 - i : i;
        sum += q[at] * key[at];
    }
    sum = round_in(k, EAGER, EAGER, sum) * (1.0f / sqrtf((float)k->hd));
    return round_in(k, EAGER, EAGER, sum);
}

static const float *value(const kernel *k, size_t kv, size_t u)
{
    return k->values + (u * k->kv_heads + kv) * k->hd;
}

/* The number of positions that enter the sum, and of those that enter the maximum. */
static size_t seen(const kernel *k, size_t t, size_t *maximum)
{
    size_t n = k->first + t + 1;
    if (k->kind == AHEAD)
        n = k->first + k->rows;
    if (k->kind == STALE)
        n = k->capacity;
    if (k->kind == LAST_BLOCK_LOST && n > 64)
        n = n / 64 * 64;
    *maximum = k->kind == MASKED_MAXIMUM ? k->capacity : n;
    return n;
}

static void two_passes(const kernel *k, size_t row, size_t kv, float *out)
{
    size_t maximum, n = seen(k, row / k->heads, &maximum);
    float most = k->kind == MAXIMUM_FROM_0 ? 0.0f : -INFINITY, total = 0.0f;
    for (size_t u = 0; u < maximum; u++) {
        k->s[u] = score(k, row, kv, u);
        most = k->kind == NO_MAXIMUM ? 0.0f : k->s[u] > most ? k->s[u] : most;
    }
    for (size_t i = 0; i < n; i++) {
        size_t u = k->kind == BACKWARDS ? n - 1 - i : i;
        k->s[u] = expf(k->s[u] - most);
        total += k->s[u];
    }
    for (size_t u = 0; u < n; u++)
        k->s[u] = round_in(k, EAGER, EAGER, k->s[u] / total);
    for (size_t i = 0; i < k->hd; i++)
        out[i] = 0.0f;
    for (size_t j = 0; j < n; j++) {
        size_t u = k->kind == BACKWARDS ? n - 1 - j : j;
        for (size_t i = 0; i < k->hd; i++)
            out[i] = fmaf(k->s[u], value(k, kv, u)[i], out[i]);
    }
}

static void one_pass(const kernel *k, size_t row, size_t kv, size_t block, float *out)
{
    size_t maximum, n = seen(k, row / k->heads, &maximum);
    float most = -INFINITY, total = 0.0f;
    for (size_t i = 0; i < k->hd; i++)
        out[i] = 0.0f;
    for (size_t from = 0; from < n; from += block) {
        size_t to = from + block < n ? from + block : n;
        float before = most;
        for (size_t u = from; u < to; u++) {
            k->s[u] = score(k, row, kv, u);
            most = k->s[u] > most ? k->s[u] : most;
        }
        float again = k->kind == NOT_SCALED_AGAIN ? 1.0f : expf(before - most);
        total *= again;
        for (size_t i = 0; i < k->hd; i++)
            out[i] *= again;
        for (size_t u = from; u < to; u++) {
            float e = expf(k->s[u] - most);
            total += e;
            e = round_in(k, FLASH, FUSED, e);
            for (size_t i = 0; i < k->hd; i++)
                out[i] += e * value(k, kv, u)[i];
        }
    }
    for (size_t i = 0; i < k->hd; i++)
        out[i] /= total;
}

static void run(const kernel *k)
{
    for (size_t row = 0; row < k->rows * k->heads; row++) {
        size_t kv = row % k->heads / (k->heads / k->kv_heads), at = row * k->hd;
        size_t gate = k->kind == GATE_OF_HEAD_0 ? row / k->heads * k->heads * k->hd : at;
        float *out = k->out + at;
        int blocks = k->kind == BLOCKS_OF_16 || k->kind == NOT_SCALED_AGAIN || k->kind == FLASH;
        if (blocks || k->kind == BLOCKS_OF_64 || k->kind == FUSED)
            one_pass(k, row, kv, blocks ? 16 : 64, out);
        else
            two_passes(k, row, kv, out);
        for (size_t i = 0; i < k->hd && k->kind != GATE_MISSING; i++) {
            float open = round_in(k, EAGER, EAGER, 1.0f / (1.0f + expf(-k->gate[gate + i])));
            out[i] = round_in(k, EAGER, FLASH, out[i]) * open;
        }
    }
}

static double held(const sb_gate_case *c, const char *arith, int kind, size_t *outside_bf16)
{
    float *q = sb_gate_values(c, "q"), *keys = sb_gate_values(c, "keys"),
          *values = sb_gate_values(c, "values"), *gate = sb_gate_values(c, "gate");
    kernel k = {.kind = kind,
                .rows = sb_gate_size(c, "rows"),
                .first = sb_gate_size(c, "first"),
                .heads = sb_gate_size(c, "heads"),
                .kv_heads = sb_gate_size(c, "kv_heads"),
                .hd = sb_gate_size(c, "hd"),
                .q = q,
                .keys = keys,
                .values = values,
                .gate = gate};
    k.capacity = k.first + k.rows + sb_gate_size(c, "spare");
    k.s = calloc(k.capacity, sizeof *k.s);
    k.out = calloc(c->output[0].count, sizeof *k.out);
    assert_true(q && keys && values && gate && k.s && k.out);
    run(&k);
    double worst = held_worst(c, arith, 0, k.out);
    if (outside_bf16)
        *outside_bf16 = held_outside_bf16(c, arith, 0, k.out);
    free(q);
    free(keys);
    free(values);
    free(gate);
    free(k.s);
    free(k.out);
    return worst;
}

static double one(const char *shape, const char *regime, int kind)
{
    sb_gate_case *c = held_case("gated_attention", shape, regime, SB_DTYPE_BF16);
    double worst = held(c, "fp32", kind, NULL);
    sb_gate_case_free(c);
    return worst;
}

TEST(exact_lies_within_every_bound)
{
    held_everywhere("gated_attention", 0.9);
}

/* The right kernels pass, in binary32 and rounded to bfloat16. */
static void check_plain(const char *shape, const char *regime)
{
    sb_gate_case *c = held_case("gated_attention", shape, regime, SB_DTYPE_BF16);
    for (int kind = 0; kind < RIGHT_ONES; kind++) {
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
    const sb_gate_op *op = sb_gate_op_find("gated_attention");
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        for (size_t s = 0; sb_gate_takes(op, (sb_gate_regime)g) && op->shapes[s]; s++)
            check_plain(op->shapes[s], sb_gate_regime_name((sb_gate_regime)g));
}

/* V-51: "each of the roundings between the ops may be there or not"; without +bf16 in the
 * arithmetic, each of these kernels fails. */
TEST(kernels_in_bfloat16_pass_where_that_is_allowed)
{
    static const char *const regimes[] = {"normal", "negative", "ties",         "tiny",
                                          "huge",   "index",    "cancellation", "padding"};
    for (size_t g = 0; g < sizeof regimes / sizeof *regimes; g++) {
        sb_gate_case *c = held_case("gated_attention", NULL, regimes[g], SB_DTYPE_BF16);
        for (int kind = FIRST_ROUNDING; kind < ROUNDING_ONES; kind++) {
            size_t outside = 0, outside_f32 = 0;
            held(c, "bf16_mma+bf16", kind, &outside);
            held(c, "bf16_mma", kind, &outside_f32);
            if (outside || (g == 0 && outside_f32 == 0))
                fail_msg("%s: kernel %d has %zu outside, and %zu of what is not rounded",
                         regimes[g], kind, outside, outside_f32);
        }
        sb_gate_case_free(c);
    }
}

TEST(planted_mistakes_fail)
{
    static const char *const planted[] = {"kv_map_mod", "scores_unscaled", "newest_unseen",
                                          "gate_is_silu", "halves_swapped"};
    sb_gate_case *c = held_case("gated_attention", NULL, "normal", SB_DTYPE_BF16);
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        if (!(held_mistake(c, "bf16_mma+bf16", planted[i]) > 1.0))
            fail_msg("%s passes", planted[i]);
    sb_gate_case_free(c);
}

/* A mistake fails in the regime made for it. In the regime `passes`, it cannot show. */
TEST(broken_kernels_fail)
{
    static const struct {
        int kind;
        const char *shape, *fails, *passes;
    } broken[] = {
        {AHEAD, NULL, "normal", NULL},
        {STALE, NULL, "normal", NULL},
        {STALE, NULL, "padding", NULL},
        {STALE, "spare=0", "padding", NULL},
        {MASKED_MAXIMUM, NULL, "huge", "normal"},
        {MASKED_MAXIMUM, "first=0,rows=1", "padding", "normal"},
        {MAXIMUM_FROM_0, NULL, "negative", "normal"},
        {NO_MAXIMUM, NULL, "huge", "normal"},
        {LAST_BLOCK_LOST, "rows=3,first=62", "normal", NULL},
        {LAST_BLOCK_LOST, "rows=3,first=126", "normal", NULL},
        {NOT_SCALED_AGAIN, NULL, "normal", "ties"},
        {GATE_MISSING, NULL, "normal", NULL},
        {GATE_OF_HEAD_0, NULL, "normal", NULL},
        {HALF_A_HEAD, NULL, "normal", "ties"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        double worst = one(broken[i].shape, broken[i].fails, broken[i].kind);
        if (!(worst > 1.0))
            fail_msg("kernel %d passes %s", broken[i].kind, broken[i].fails);
        if (broken[i].passes && one(broken[i].shape, broken[i].passes, broken[i].kind) > 1.0)
            fail_msg("kernel %d fails %s", broken[i].kind, broken[i].passes);
    }
}

/* --- the real value, computed with MPFR ------------------------------------------------------- */

enum { BITS = 400 };

static void wide_output(const sb_attention_args *a, const float *gate, size_t row, size_t i,
                        mpfr_t out)
{
    size_t kv = row % a->heads / (a->heads / a->kv_heads), n = a->first + row / a->heads + 1;
    mpfr_t s, root, total, x;
    mpfr_inits2(BITS, s, root, total, x, (mpfr_ptr)0);
    mpfr_sqrt_ui(root, (unsigned long)a->hd, MPFR_RNDN);
    mpfr_set_zero(total, 1);
    mpfr_set_zero(out, 1);
    for (size_t u = 0; u < n; u++) {
        size_t at = (u * a->kv_heads + kv) * a->hd;
        mpfr_set_zero(s, 1);
        for (size_t j = 0; j < a->hd; j++) {
            mpfr_set_d(x, (double)a->q[row * a->hd + j], MPFR_RNDN);
            mpfr_mul_d(x, x, (double)a->keys[at + j], MPFR_RNDN);
            mpfr_add(s, s, x, MPFR_RNDN);
        }
        mpfr_div(s, s, root, MPFR_RNDN);
        mpfr_exp(s, s, MPFR_RNDN);
        mpfr_add(total, total, s, MPFR_RNDN);
        mpfr_mul_d(s, s, (double)a->values[at + i], MPFR_RNDN);
        mpfr_add(out, out, s, MPFR_RNDN);
    }
    mpfr_div(out, out, total, MPFR_RNDN);
    mpfr_set_flt(x, -gate[row * a->hd + i], MPFR_RNDN);
    mpfr_exp(x, x, MPFR_RNDN);
    mpfr_add_ui(x, x, 1, MPFR_RNDN);
    mpfr_div(out, out, x, MPFR_RNDN);
    mpfr_clears(s, root, total, x, (mpfr_ptr)0);
}

static void check_wide(const char *regime)
{
    sb_gate_case *c =
        held_case("gated_attention", "rows=2,first=9,hd=16,spare=1", regime, SB_DTYPE_F32);
    float *q = sb_gate_values(c, "q"), *keys = sb_gate_values(c, "keys"),
          *values = sb_gate_values(c, "values"), *gate = sb_gate_values(c, "gate");
    const sb_attention_args a = {.q = q,
                                 .keys = keys,
                                 .values = values,
                                 .first = sb_gate_size(c, "first"),
                                 .heads = sb_gate_size(c, "heads"),
                                 .kv_heads = sb_gate_size(c, "kv_heads"),
                                 .hd = sb_gate_size(c, "hd")};
    mpfr_t y;
    mpfr_init2(y, BITS);
    for (size_t i = 0; i < c->output[0].count; i++) {
        sb_dd real = c->output[0].real[i];
        wide_output(&a, gate, i / a.hd, i % a.hd, y);
        double size = fabs(mpfr_get_d(y, MPFR_RNDN));
        mpfr_sub_d(y, y, real.hi, MPFR_RNDN);
        mpfr_sub_d(y, y, real.lo, MPFR_RNDN);
        if (!(fabs(mpfr_get_d(y, MPFR_RNDN)) <= 0x1p-75 * size + 0x1p-1000))
            fail_msg("%s: element %zu is off by %g", regime, i, mpfr_get_d(y, MPFR_RNDN));
    }
    mpfr_clear(y);
    free(q);
    free(keys);
    free(values);
    free(gate);
    sb_gate_case_free(c);
}

TEST(real_values_agree_with_mpfr)
{
    static const char *const regimes[] = {"normal", "negative", "ties", "tiny",
                                          "huge",   "one-hot",  "index"};
    for (size_t i = 0; i < sizeof regimes / sizeof *regimes; i++)
        check_wide(regimes[i]);
}
