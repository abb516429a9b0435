/* test_gate_sampler.c - vectors of the sampler: plain binary32 kernels pass, broken ones fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/run/sample.h"
#include "tests/gate/held.h"
#include "tests/lib/suite.h"
#include "tools/judge/gate/whole.h"

/* Variants of the kernel: three right ones, then mistakes. */
enum {
    GUMBEL,
    NOISE, /* divides before it subtracts, and divides p by exponential noise at the end */
    BACKWARDS,
    RIGHT_ONES,
    TOP_P_FIRST = RIGHT_ONES, /* top_p before top_k */
    TEMPERATURE_LAST,         /* the temperature is applied after the limits */
    MIN_P_ABSOLUTE,           /* compared with p, not with the largest p */
    HIGHEST_OF_EQUALS,        /* keeps the highest of equal tokens at the limit of top_k */
    ALL_EQUALS,
    REACHING_CUT, /* drops the token that reaches top_p */
    ONE_MORE,     /* keeps one token more */
    NOT_NORMALISED,
    NO_MAXIMUM,
    U_TURNED, /* 1 - u */
    NO_NOISE,
    KERNELS
};

typedef struct kernel {
    int kind;
    size_t n;
    float temperature, top_p, min_p;
    size_t top_k;
    const float *logits, *uniform;
    size_t *order; /* (V) scratch */
    float *p;
} kernel;

static void sort(const kernel *k)
{
    for (size_t i = 0; i < k->n; i++)
        k->order[i] = i;
    for (size_t i = 1; i < k->n; i++)
        for (size_t j = i; j > 0; j--) {
            size_t a = k->order[j - 1], b = k->order[j];
            float x = k->logits[a], y = k->logits[b];
            if (x > y || (x == y && (k->kind == HIGHEST_OF_EQUALS) == (a > b)))
                break;
            k->order[j - 1] = b;
            k->order[j] = a;
        }
}

static void exponentials(const kernel *k, float temperature)
{
    float most = k->kind == NO_MAXIMUM ? 0.0f : k->logits[k->order[0]];
    for (size_t i = 0; i < k->n; i++)
        k->p[i] = k->kind == NOISE ? expf(k->logits[i] / temperature - most / temperature)
                                   : expf((k->logits[i] - most) / temperature);
}

/* The sum over the first tokens in the sorted order. */
static float sum_of(const kernel *k, size_t count)
{
    float sum = 0.0f;
    for (size_t j = 0; j < count; j++)
        sum += k->p[k->order[k->kind == BACKWARDS ? count - 1 - j : j]];
    return sum;
}

static void keep(const kernel *k, size_t count)
{
    for (size_t j = count; j < k->n; j++)
        k->p[k->order[j]] = 0.0f;
}

static void limit_top_k(const kernel *k)
{
    size_t count = k->top_k && k->top_k < k->n ? k->top_k : k->n;
    while (k->kind == ALL_EQUALS && count < k->n &&
           k->logits[k->order[count]] == k->logits[k->order[count - 1]])
        count++;
    keep(k, count);
}

static void limit_top_p(const kernel *k)
{
    float total = sum_of(k, k->n), sum = 0.0f;
    size_t count = 0;
    while (count < k->n && sum < k->top_p * total)
        sum += k->p[k->order[count++]];
    count -= k->kind == REACHING_CUT && count > 1;
    count += k->kind == ONE_MORE && count < k->n;
    if (k->top_p < 1.0f)
        keep(k, count);
}

static void limit_min_p(const kernel *k)
{
    float most = k->p[k->order[0]], total = sum_of(k, k->n);
    for (size_t i = 0; i < k->n; i++)
        if (k->kind == MIN_P_ABSOLUTE ? k->p[i] / total < k->min_p : k->p[i] < k->min_p * most)
            k->p[i] = 0.0f;
}

static void probabilities(const kernel *k)
{
    sort(k);
    exponentials(k, k->kind == TEMPERATURE_LAST ? 1.0f : k->temperature);
    if (k->kind == TOP_P_FIRST)
        limit_top_p(k);
    limit_top_k(k);
    if (k->kind != TOP_P_FIRST)
        limit_top_p(k);
    limit_min_p(k);
    for (size_t i = 0; i < k->n && k->kind == TEMPERATURE_LAST; i++)
        if (k->p[i] > 0.0f)
            k->p[i] = expf((k->logits[i] - k->logits[k->order[0]]) / k->temperature);
    float total = k->kind == NOT_NORMALISED ? 1.0f : sum_of(k, k->n);
    for (size_t i = 0; i < k->n; i++)
        k->p[i] /= total;
}

static size_t draw(const kernel *k)
{
    size_t token = 0;
    float best = -INFINITY;
    for (size_t i = 0; i < k->n; i++) {
        float u = k->kind == U_TURNED ? 1.0f - k->uniform[i] : k->uniform[i];
        float noise = k->kind == NO_NOISE ? 1.0f : -log1pf(-u);
        float score = k->kind == NOISE ? k->p[i] / noise : logf(k->p[i]) - logf(noise);
        if (k->p[i] > 0.0f && score > best) {
            token = i;
            best = score;
        }
    }
    return token;
}

static size_t run(const kernel *k)
{
    if (k->temperature > 0.0f) {
        probabilities(k);
        return draw(k);
    }
    size_t token = 0;
    for (size_t i = 0; i < k->n; i++) {
        k->p[i] = 0.0f;
        token = k->logits[i] > k->logits[token] ? i : token;
    }
    k->p[token] = 1.0f;
    return token;
}

typedef struct verdict {
    double worst;
    held_choices tokens;
} verdict;

static verdict held(const sb_gate_case *c, const char *arith, int kind)
{
    float *logits = sb_gate_values(c, "logits"), *uniform = sb_gate_values(c, "uniform");
    size_t rows = sb_gate_size(c, "rows"), n = sb_gate_size(c, "vocab");
    float *p = calloc(rows * (n + 1), sizeof *p);
    size_t *order = calloc(n, sizeof *order);
    assert_true(logits && uniform && p && order);
    for (size_t row = 0; row < rows; row++) {
        const kernel k = {.kind = kind,
                          .n = n,
                          .temperature = sb_gate_single(sb_gate_input(c, "temperature"), row),
                          .top_p = sb_gate_single(sb_gate_input(c, "top_p"), row),
                          .min_p = sb_gate_single(sb_gate_input(c, "min_p"), row),
                          .top_k = (size_t)sb_gate_whole(sb_gate_input(c, "top_k"), row),
                          .logits = logits + row * n,
                          .uniform = uniform + row * n,
                          .order = order,
                          .p = p + row * n};
        p[rows * n + row] = (float)run(&k);
    }
    const verdict found = {.worst = held_worst(c, arith, 1, p),
                           .tokens = held_choose(c, arith, 0, p + rows * n)};
    free(logits);
    free(uniform);
    free(p);
    free(order);
    return found;
}

static verdict one(const char *shape, const char *regime, sb_dtype input, int kind)
{
    sb_gate_case *c = held_case("sampler", shape, regime, input);
    const verdict found = held(c, "fp32", kind);
    sb_gate_case_free(c);
    return found;
}

TEST(exact_lies_within_every_bound)
{
    held_everywhere("sampler", 0.75);
}

/* Section P draws the same tokens; the only difference is that the case contains the random
 * numbers. */
TEST(exact_is_section_p)
{
    sb_gate_case *c = held_case("sampler", "rows=16", "normal", SB_DTYPE_F32);
    float *logits = sb_gate_values(c, "logits");
    size_t n = sb_gate_size(c, "vocab");
    for (size_t row = 0; row < 16; row++) {
        const sb_sampling settings = {
            .seed = 42,
            .sequence = row,
            .temperature = sb_gate_single(sb_gate_input(c, "temperature"), row),
            .top_k = (uint32_t)sb_gate_whole(sb_gate_input(c, "top_k"), row),
            .top_p = sb_gate_single(sb_gate_input(c, "top_p"), row),
            .min_p = sb_gate_single(sb_gate_input(c, "min_p"), row)};
        sb_sampler *sampler = NULL;
        uint32_t token = 0;
        assert_int_equal(sb_sampler_new(&settings, (uint32_t)n, &sampler, NULL), SB_OK);
        assert_int_equal(sb_sample_draw(sampler, logits + row * n, 0, SB_DRAW_token, &token, NULL),
                         SB_OK);
        assert_int_equal(token, (uint32_t)c->output[0].exact[row]);
        sb_sampler_free(sampler);
    }
    free(logits);
    sb_gate_case_free(c);
}

static void check_plain(const char *shape, const char *regime, sb_dtype input)
{
    for (int kind = 0; kind < RIGHT_ONES; kind++) {
        verdict v = one(shape, regime, input, kind);
        if (!(v.worst <= 1.0) || v.tokens.wrong)
            fail_msg("%s %s: kernel %d is at %g, %zu tokens are wrong", shape, regime, kind,
                     v.worst, v.tokens.wrong);
    }
}

TEST(plain_kernels_pass)
{
    static const char *const shapes[] = {"vocab=257", "vocab=1",    "vocab=2",
                                         "vocab=31",  "vocab=1025", "rows=40,vocab=64"};
    const sb_gate_op *op = sb_gate_op_find("sampler");
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (sb_gate_takes(op, (sb_gate_regime)g)) {
                const char *regime = sb_gate_regime_name((sb_gate_regime)g);
                check_plain(shapes[s], regime, SB_DTYPE_BF16);
                check_plain(shapes[s], regime, SB_DTYPE_F32);
            }
}

TEST(mistakes_fail)
{
    static const struct {
        int kind;
        sb_dtype input;
        const char *regime;
    } broken[] = {
        {TOP_P_FIRST, SB_DTYPE_F32, "normal"},    {TEMPERATURE_LAST, SB_DTYPE_F32, "normal"},
        {MIN_P_ABSOLUTE, SB_DTYPE_F32, "normal"}, {HIGHEST_OF_EQUALS, SB_DTYPE_BF16, "ties"},
        {ALL_EQUALS, SB_DTYPE_BF16, "ties"},      {REACHING_CUT, SB_DTYPE_F32, "normal"},
        {ONE_MORE, SB_DTYPE_F32, "normal"},       {NOT_NORMALISED, SB_DTYPE_F32, "normal"},
        {NO_MAXIMUM, SB_DTYPE_F32, "huge"},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (one(NULL, broken[i].regime, broken[i].input, broken[i].kind).worst <= 1.0)
            fail_msg("kernel %d passes %s", broken[i].kind, broken[i].regime);
    /* p is right, but the draw is wrong */
    for (int kind = U_TURNED; kind < KERNELS; kind++) {
        verdict v = one(NULL, "normal", SB_DTYPE_F32, kind);
        assert_true(v.worst <= 1.0);
        assert_true(v.tokens.wrong > 0);
    }
}

/* An arithmetic leaves few draws open: in regime normal, none of 400. */
TEST(few_draws_are_open)
{
    sb_gate_case *c = held_case("sampler", "rows=400,vocab=64", "normal", SB_DTYPE_F32);
    const sb_gate_output *y = &c->output[0];
    sb_gate_arith ar;
    size_t open = 0;
    assert_int_equal(sb_gate_arith_of("fp32", &ar, NULL), SB_OK);
    for (size_t row = 0; row < y->count; row++)
        for (int token = 0; token < 64; token++)
            open += c->op->open(c, &ar, 0, row, (double)token) != ((float)token == y->exact[row]);
    assert_int_equal(open, 0);
    assert_false(c->op->open(c, &ar, 0, 0, -1.0));
    assert_false(c->op->open(c, &ar, 0, 0, 64.0));
    assert_false(c->op->open(c, &ar, 0, 0, 0.5));
    sb_gate_case_free(c);
}
