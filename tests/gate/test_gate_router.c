/* test_gate_router.c - vectors of the router: plain binary32 kernels pass, broken ones fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "ref/base/bytes.h"
#include "tests/gate/held.h"
#include "tests/lib/suite.h"

/* Variants of the kernel: three right ones, then mistakes. */
enum {
    BY_LOGIT,
    BY_PROBABILITY, /* sums from last to first; probabilities can tie where logits do not */
    LAST_OF_EQUALS,
    RIGHT_ONES,
    BEST_FROM_0 = RIGHT_ONES, /* the search for the largest starts from 0 (F24) */
    MAXIMUM_FROM_0,           /* the search for the maximum to subtract starts from 0 */
    NO_MAXIMUM,               /* no maximum is subtracted */
    ALWAYS_RENORMALISED,      /* F25, in both directions */
    NEVER_RENORMALISED,
    EQUALS_SKIPPED, /* the next choice must be smaller than the last */
    EQUALS_AGAIN,   /* the next choice is another than the last and not larger */
    LAST_LOST,      /* the last expert is never chosen */
    ASCENDING,
    SIGMOID,
    WEIGHTS_OF_NEIGHBOURS,
    KERNELS
};

typedef struct kernel {
    int kind;
    size_t experts, kept;
    int renormalise;
    const float *logits; /* of one row */
    float *p;            /* (E) scratch */
    float *weights, *ids;
} kernel;

static void softmax(const kernel *k)
{
    size_t n = k->experts;
    float most = k->kind == MAXIMUM_FROM_0 ? 0.0f : -INFINITY, total = 0.0f;
    for (size_t e = 0; e < n; e++)
        most = k->kind == NO_MAXIMUM ? 0.0f : k->logits[e] > most ? k->logits[e] : most;
    for (size_t e = 0; e < n; e++) {
        size_t at = k->kind == BY_PROBABILITY ? n - 1 - e : e;
        total += k->p[at] = expf(k->logits[at] - most);
    }
    for (size_t e = 0; e < n; e++)
        k->p[e] = k->kind == SIGMOID ? 1.0f / (1.0f + expf(-k->logits[e])) : k->p[e] / total;
}

static int taken(const kernel *k, size_t slot, size_t e)
{
    float last = slot ? k->logits[(size_t)k->ids[slot - 1]] : INFINITY;
    if (k->kind == EQUALS_SKIPPED)
        return !(k->logits[e] < last);
    if (k->kind == EQUALS_AGAIN)
        return slot && (k->logits[e] > last || (float)e == k->ids[slot - 1]);
    for (size_t i = 0; i < slot; i++)
        if (k->ids[i] == (float)e)
            return 1;
    return 0;
}

static void choose(const kernel *k)
{
    const float *score = k->kind == BY_PROBABILITY ? k->p : k->logits;
    size_t n = k->kind == LAST_LOST ? k->experts - 1 : k->experts;
    for (size_t slot = 0; slot < k->kept; slot++) {
        float best = k->kind == BEST_FROM_0 ? 0.0f : -INFINITY;
        k->ids[slot] = 0.0f;
        for (size_t e = 0; e < n; e++)
            if (!taken(k, slot, e) &&
                (score[e] > best || (k->kind == LAST_OF_EQUALS && score[e] == best))) {
                best = score[e];
                k->ids[slot] = (float)e;
            }
    }
}

static void reverse(float *x, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        float other = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = other;
    }
}

static void run(const kernel *k)
{
    float total = 0.0f;
    int renormalise = k->renormalise;
    if (k->kind == ALWAYS_RENORMALISED || k->kind == NEVER_RENORMALISED)
        renormalise = k->kind == ALWAYS_RENORMALISED;
    softmax(k);
    choose(k);
    for (size_t i = 0; i < k->kept; i++)
        total += k->weights[i] = k->p[(size_t)k->ids[i]];
    for (size_t i = 0; i < k->kept && renormalise; i++)
        k->weights[i] /= total;
    if (k->kind == ASCENDING)
        reverse(k->ids, k->kept);
    if (k->kind == ASCENDING || k->kind == WEIGHTS_OF_NEIGHBOURS)
        reverse(k->weights, k->kept);
}

typedef struct verdict {
    double worst;
    size_t outside_bf16;
    held_choices ids;
} verdict;

static verdict held(const sb_gate_case *c, const char *arith, int kind)
{
    float *logits = sb_gate_values(c, "logits");
    kernel k = {.kind = kind,
                .experts = sb_gate_size(c, "experts"),
                .kept = sb_gate_size(c, "kept"),
                .renormalise = (int)sb_gate_size(c, "renormalise")};
    size_t rows = sb_gate_size(c, "rows");
    float *room = calloc(k.experts + 2 * rows * k.kept, sizeof *room);
    assert_true(logits && room);
    float *weights = room + k.experts, *ids = weights + rows * k.kept;
    for (size_t row = 0; row < rows; row++) {
        k.logits = logits + row * k.experts;
        k.p = room;
        k.weights = weights + row * k.kept;
        k.ids = ids + row * k.kept;
        run(&k);
    }
    const verdict found = {.worst = held_worst(c, arith, 0, weights),
                           .outside_bf16 = held_outside_bf16(c, arith, 0, weights),
                           .ids = held_choose(c, arith, 1, ids)};
    free(logits);
    free(room);
    return found;
}

static verdict one(const char *shape, const char *regime, sb_dtype input, int kind)
{
    sb_gate_case *c = held_case("router", shape, regime, input);
    const verdict found = held(c, "fp32", kind);
    sb_gate_case_free(c);
    return found;
}

static int fails(verdict v)
{
    return !(v.worst <= 1.0) || v.ids.wrong;
}

TEST(exact_lies_within_every_bound)
{
    held_everywhere("router", 0.7);
}

static void check_plain(const char *shape, const char *regime, sb_dtype input)
{
    for (int kind = 0; kind < RIGHT_ONES; kind++) {
        verdict v = one(shape, regime, input, kind);
        if (fails(v) || v.outside_bf16)
            fail_msg("%s %s: kernel %d is at %g, %zu ids are wrong, %zu weights in bf16", shape,
                     regime, kind, v.worst, v.ids.wrong, v.outside_bf16);
    }
}

TEST(plain_kernels_pass)
{
    const sb_gate_op *op = sb_gate_op_find("router");
    for (int g = 0; g < SB_GATE_REGIMES; g++)
        for (size_t s = 0; sb_gate_takes(op, (sb_gate_regime)g) && op->shapes[s]; s++) {
            check_plain(op->shapes[s], sb_gate_regime_name((sb_gate_regime)g), SB_DTYPE_BF16);
            check_plain(op->shapes[s], sb_gate_regime_name((sb_gate_regime)g), SB_DTYPE_F32);
        }
}

/* V-55: "Arithmetic exact leaves nothing open" */
TEST(equals_are_open_but_in_exact)
{
    sb_gate_case *c = held_case("router", NULL, "ties", SB_DTYPE_BF16);
    verdict loose = held(c, "fp32", LAST_OF_EQUALS), strict = held(c, "exact", LAST_OF_EQUALS);
    assert_true(loose.ids.open > 0 && loose.ids.wrong == 0);
    assert_true(strict.ids.open == 0 && strict.ids.wrong == loose.ids.open);
    assert_int_equal(held(c, "exact", BY_LOGIT).ids.wrong, 0);
    sb_gate_case_free(c);
    /* with 24 bits few logits are equal, so that few choices are open */
    assert_int_equal(one(NULL, "normal", SB_DTYPE_F32, LAST_OF_EQUALS).ids.open, 0);
}

/* V-55: "An expert that stands twice in a row never is", even if each of them alone would be
 * open. */
TEST(equals_do_not_stand_twice)
{
    sb_gate_case *c = held_case("router", "rows=1,experts=64,kept=4", "ties", SB_DTYPE_F32);
    float *logits = sb_gate_values(c, "logits"), *ids = c->output[1].exact;
    float got[4] = {ids[0], ids[1], ids[2], ids[3]};
    assert_non_null(logits);
    assert_true(logits[(size_t)ids[0]] == logits[(size_t)ids[1]]);
    got[0] = ids[1];
    got[1] = ids[0];
    assert_int_equal(held_choose(c, "fp32", 1, got).open, 2);
    got[0] = ids[0];
    held_choices found = held_choose(c, "fp32", 1, got);
    assert_int_equal(found.open, 0);
    assert_int_equal(found.wrong, 1);
    free(logits);
    sb_gate_case_free(c);
}

/* The next expert is not open for any of the 800 slots. */
TEST(neighbours_are_not_open)
{
    sb_gate_case *c = held_case("router", "rows=100", "normal", SB_DTYPE_F32);
    const sb_gate_output *ids = &c->output[1];
    sb_gate_arith ar;
    size_t open = 0;
    assert_int_equal(sb_gate_arith_of("fp32", &ar, NULL), SB_OK);
    for (size_t i = 0; i + 1 < ids->count; i++)
        if (i % 8 != 7)
            open += c->op->open(c, &ar, 1, i, (double)ids->exact[i + 1]) != 0;
    assert_int_equal(open, 0);
    sb_gate_case_free(c);
}

static int never_together(const sb_gate_case *c, const sb_gate_arith *ar, size_t output,
                          size_t first, const double *got)
{
    (void)c, (void)ar, (void)output, (void)first, (void)got;
    return 0;
}

/* V-55: "Choices that are open one by one must also be possible together". Each of three experts
 * may be swapped with its neighbour. If the first is certainly above the last, the last two are no
 * valid choice. */
TEST(neighbours_of_neighbours)
{
    sb_gate_case *c = held_case("router", "rows=1,experts=3,kept=2", "normal", SB_DTYPE_F32);
    sb_gate_arith ar;
    int found = 0;
    assert_int_equal(sb_gate_arith_of("fp32", &ar, NULL), SB_OK);
    for (float apart = 0x1p-23f; apart < 0.5f; apart *= 1.25f) {
        const double best[] = {0, 1}, swapped[] = {1, 0}, last[] = {0, 2}, without[] = {1, 2};
        for (size_t e = 0; e < 3; e++)
            sb_store_u32(c->array[0].data + 4 * e, sb_bits_f32(1.0f - (float)e * apart));
        assert_true(c->op->together(c, &ar, 1, 0, best));
        if (!c->op->open(c, &ar, 1, 0, 1.0) || !c->op->open(c, &ar, 1, 1, 2.0))
            break;
        assert_true(c->op->together(c, &ar, 1, 0, swapped));
        assert_true(c->op->together(c, &ar, 1, 0, last));
        int far = !c->op->open(c, &ar, 1, 0, 2.0);
        assert_int_equal(c->op->together(c, &ar, 1, 0, without), !far);
        found += far;
    }
    assert_true(found > 0);
    sb_gate_case_free(c);
}

/* The judge calls `together`: in regime ties, a choice that `together` rejects fails as a whole. */
TEST(judged_together)
{
    sb_gate_case *c = held_case("router", "rows=1,experts=64,kept=4", "ties", SB_DTYPE_F32);
    float *ids = c->output[1].exact, got[4] = {ids[1], ids[0], ids[2], ids[3]};
    assert_int_equal(held_choose(c, "fp32", 1, got).wrong, 0);
    sb_gate_op never = *c->op;
    never.together = never_together;
    c->op = &never;
    assert_int_equal(held_choose(c, "fp32", 1, got).wrong, 2);
    sb_gate_case_free(c);
}

TEST(mistakes_fail)
{
    sb_gate_case *c = held_case("router", NULL, "normal", SB_DTYPE_BF16);
    assert_true(held_mistake(c, "bf16_mma+bf16", "no_renormalisation") > 1.0);
    sb_gate_case_free(c);
    static const struct {
        int kind;
        const char *shape, *fails, *passes;
    } broken[] = {
        {BEST_FROM_0, NULL, "negative", "normal"},
        {MAXIMUM_FROM_0, NULL, "negative", "normal"},
        {NO_MAXIMUM, NULL, "huge", "normal"},
        {ALWAYS_RENORMALISED, "renormalise=0", "normal", NULL},
        {NEVER_RENORMALISED, NULL, "normal", NULL},
        {EQUALS_SKIPPED, NULL, "ties", NULL},
        {EQUALS_AGAIN, "experts=32,kept=4", "ties", NULL},
        {LAST_LOST, "rows=33,experts=16,kept=8", "normal", NULL},
        {ASCENDING, NULL, "normal", NULL},
        {SIGMOID, NULL, "normal", NULL},
        {WEIGHTS_OF_NEIGHBOURS, NULL, "normal", NULL},
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        if (!fails(one(broken[i].shape, broken[i].fails, SB_DTYPE_F32, broken[i].kind)))
            fail_msg("kernel %d passes %s", broken[i].kind, broken[i].fails);
        if (broken[i].passes &&
            fails(one(broken[i].shape, broken[i].passes, SB_DTYPE_F32, broken[i].kind)))
            fail_msg("kernel %d fails %s", broken[i].kind, broken[i].passes);
    }
    /* without equal logits, skipping or repeating equal ones cannot show */
    assert_false(fails(one(NULL, "normal", SB_DTYPE_F32, EQUALS_SKIPPED)));
    assert_false(fails(one(NULL, "normal", SB_DTYPE_F32, EQUALS_AGAIN)));
}
