/* test_gate_mtp.c - vectors of the input of the MTP head: plain binary32 kernels pass, broken ones
 * fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "tests/gate/held.h"
#include "tests/lib/suite.h"

/* Variants of the kernel: two right ones, then mistakes. */
enum {
    FORWARDS,
    BACKWARDS,
    RIGHT_ONES,
    HIDDEN_FIRST = RIGHT_ONES, /* the halves of the input of fc are swapped */
    NORMS_SWAPPED,             /* the weights of the norms are swapped */
    ONE_NORM,                  /* both halves take the weight of the embedding's norm */
    PLAIN_EMBEDDING,           /* w instead of 1 + w in one of the halves */
    PLAIN_HIDDEN,
    TWICE_SHIFTED, /* 2 + w (F05) */
    NOT_NORMED,    /* the hidden vector is not normalized */
    NO_HIDDEN,
    EVERYWHERE,              /* the kinds before this one fail in every regime */
    JOINED_NORM = EVERYWHERE /* one mean of squares over both halves, which eps can hide */
};

typedef struct kernel {
    int kind;
    size_t rows, n;
    float *half[2], *weight[2], *fc; /* the embedding is first */
    float *joined, *out;
} kernel;

static float mean_square(const kernel *k, size_t h, size_t t)
{
    float sum = 0.0f;
    for (size_t i = 0; i < k->n; i++) {
        float x = k->half[h][t * k->n + (k->kind == BACKWARDS ? k->n - 1 - i : i)];
        sum += x * x;
    }
    return sum / (float)k->n;
}

static float factor(const kernel *k, size_t h, size_t i)
{
    size_t from = k->kind == NORMS_SWAPPED ? 1 - h : k->kind == ONE_NORM ? 0 : h;
    float plus = 1.0f;
    if ((k->kind == PLAIN_EMBEDDING && h == 0) || (k->kind == PLAIN_HIDDEN && h == 1))
        plus = 0.0f;
    if (k->kind == TWICE_SHIFTED)
        plus = 2.0f;
    return plus + k->weight[from][i];
}

static void join(const kernel *k, size_t t)
{
    for (size_t h = 0; h < 2; h++) {
        float mean = mean_square(k, h, t);
        if (k->kind == JOINED_NORM)
            mean = (mean_square(k, 0, t) + mean_square(k, 1, t)) / 2.0f;
        float r = k->kind == NOT_NORMED && h == 1 ? 1.0f : 1.0f / sqrtf(mean + 1e-6f);
        float *to = k->joined + (k->kind == HIDDEN_FIRST ? 1 - h : h) * k->n;
        for (size_t i = 0; i < k->n; i++)
            to[i] = k->kind == NO_HIDDEN && h == 1 ? 0.0f
                                                   : k->half[h][t * k->n + i] * r * factor(k, h, i);
    }
}

static void run(const kernel *k)
{
    for (size_t t = 0; t < k->rows; t++) {
        join(k, t);
        for (size_t o = 0; o < k->n; o++) {
            float sum = 0.0f;
            for (size_t i = 0; i < 2 * k->n; i++) {
                size_t at = k->kind == BACKWARDS ? 2 * k->n - 1 - i : i;
                sum += k->fc[o * 2 * k->n + at] * k->joined[at];
            }
            k->out[t * k->n + o] = sum;
        }
    }
}

static double held(const sb_gate_case *c, int kind, size_t *outside_bf16)
{
    kernel k = {.kind = kind,
                .rows = sb_gate_size(c, "rows"),
                .n = sb_gate_size(c, "n"),
                .half = {sb_gate_values(c, "embedding"), sb_gate_values(c, "hidden")},
                .weight = {sb_gate_values(c, "pre_fc_norm_embedding"),
                           sb_gate_values(c, "pre_fc_norm_hidden")},
                .fc = sb_gate_values(c, "fc")};
    k.joined = calloc(2 * k.n, sizeof *k.joined);
    k.out = calloc(k.rows * k.n, sizeof *k.out);
    assert_true(k.half[0] && k.half[1] && k.weight[0] && k.weight[1] && k.fc && k.joined && k.out);
    run(&k);
    double worst = held_worst(c, "fp32", 0, k.out);
    if (outside_bf16)
        *outside_bf16 = held_outside_bf16(c, "fp32", 0, k.out);
    for (size_t h = 0; h < 2; h++) {
        free(k.half[h]);
        free(k.weight[h]);
    }
    free(k.fc);
    free(k.joined);
    free(k.out);
    return worst;
}

TEST(exact_lies_within_every_bound)
{
    held_everywhere("mtp", 0.95);
}

TEST(plain_kernels_pass)
{
    const sb_gate_op *op = sb_gate_op_find("mtp");
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        for (size_t s = 0; sb_gate_takes(op, (sb_gate_regime)g) && op->shapes[s]; s++) {
            const char *regime = sb_gate_regime_name((sb_gate_regime)g);
            sb_gate_case *c = held_case("mtp", op->shapes[s], regime, SB_DTYPE_BF16);
            for (int kind = 0; kind < RIGHT_ONES; kind++) {
                size_t outside = 0;
                double worst = held(c, kind, &outside);
                if (worst > 1.0 || outside)
                    fail_msg("%s %s: kernel %d is at %g, %zu outside in bf16", op->shapes[s],
                             regime, kind, worst, outside);
            }
            sb_gate_case_free(c);
        }
}

/* The order of the halves and the 1 + w of each half show in every regime. */
TEST(mistakes_fail_in_every_regime)
{
    const sb_gate_op *op = sb_gate_op_find("mtp");
    for (int g = 0; g < SB_GATE_REGIMES; g++) {
        const char *regime = sb_gate_regime_name((sb_gate_regime)g);
        if (!sb_gate_takes(op, (sb_gate_regime)g))
            continue;
        sb_gate_case *c = held_case("mtp", NULL, regime, SB_DTYPE_BF16);
        for (int kind = RIGHT_ONES; kind < EVERYWHERE; kind++)
            if (!(held(c, kind, NULL) > 1.0))
                fail_msg("kernel %d passes %s", kind, regime);
        if (!(held_mistake(c, "bf16_mma+bf16", "norm_plain_weight") > 1.0))
            fail_msg("norm_plain_weight passes %s", regime);
        sb_gate_case_free(c);
    }
}

TEST(more_mistakes_fail_in_normal)
{
    sb_gate_case *c = held_case("mtp", NULL, "normal", SB_DTYPE_BF16);
    assert_true(held_mistake(c, "bf16_mma+bf16", "last_column_lost") > 1.0);
    assert_true(held(c, JOINED_NORM, NULL) > 1.0);
    sb_gate_case_free(c);
}
