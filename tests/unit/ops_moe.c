/* ops_moe.c - tests of the router and of the sum over experts. */
#include "ref/ops/knob.h"
#include "tests/unit/ops.h"

#include <math.h>

/* probabilities of all experts, then a stable selection sort by descending logit. */
static void plain_router(const sb_knobs *k, const float *l, size_t E, size_t kept, int renormalise,
                         int rounds, uint32_t *ids, float *w)
{
    float e[64], p[64], most = -INFINITY, total;
    int taken[64] = {0};
    assert_true(E <= 64);
    for (size_t i = 0; i < E; i++)
        most = fmaxf(most, l[i]);
    for (size_t i = 0; i < E; i++)
        e[i] = plain_exp(l[i] - most);
    total = plain_sum(e, E);
    for (size_t i = 0; i < E; i++)
        p[i] = e[i] / total;
    for (size_t slot = 0; slot < kept; slot++) {
        size_t best = E;
        for (size_t i = E; i-- > 0;) /* from the last: among equals the lowest index wins */
            if (!taken[i] &&
                (best == E || l[i] > l[best] || (l[i] == l[best] && SB_IS(k, router_tie, lowest))))
                best = i;
        taken[best] = 1;
        ids[slot] = (uint32_t)best;
        w[slot] = p[best];
    }
    total = plain_sum(w, kept);
    for (size_t slot = 0; slot < kept; slot++) {
        w[slot] = renormalise ? w[slot] / total : w[slot];
        w[slot] = rounds ? sb_act(k, w[slot]) : w[slot];
    }
}

static void check_router(const char *setting, const float *logits, size_t T, size_t E, size_t kept,
                         int renormalise)
{
    sb_knobs k = test_knobs(setting);
    uint32_t *ids = test_ids(T * kept), want_ids[64];
    float *w = test_output(T * kept), want[64];
    int rounds = SB_IS(&k, router_weight, act);
    RUN(router, &k, .logits = logits, .rows = T, .experts = E, .kept = kept,
        .renormalise = renormalise, .ids = ids, .weights = w);
    for (size_t t = 0; t < T; t++) {
        plain_router(&k, logits + t * E, E, kept, renormalise, rounds, want_ids, want);
        assert_memory_equal(ids + t * kept, want_ids, kept * sizeof *want_ids);
        test_same("router weights", w + t * kept, want, kept);
    }
}

OP_TEST(router)
{
    static const char *const settings[] = {"", "act=bf16", "act=bf16 router_weight=act",
                                           "act=f16 router_weight=act", "router_weight=act"};
    static const size_t shapes[][3] = {{1, 1, 1}, {5, 16, 4}, {3, 33, 8}, {2, 7, 7}, {4, 64, 1}};
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(shapes); i++)
            for (int renormalise = 0; renormalise < 2; renormalise++) {
                size_t T = shapes[i][0], E = shapes[i][1], kept = shapes[i][2];
                check_router(settings[s], test_normal("logits", T * E, 0, 2), T, E, kept,
                             renormalise);
            }
    check_router("", test_hostile("logits", 9 * 16), 9, 16, 5, 1);
    check_router("", test_hostile("logits", 9 * 16), 9, 16, 5, 0);
}

/* "the lowest index first among equals, in descending order" */
OP_TEST(router_ties)
{
    enum { E = 8, KEPT = 3 };
    static const struct {
        float logits[E];
        uint32_t ids[KEPT];
    } cases[] = {
        {{1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 2}},
        {{0, 5, 0, 7, 0, 5, 5, 0}, {3, 1, 5}}, /* two places for three equals */
        {{-1, -2, -1, -1, -1, -9, -1, -1}, {0, 2, 3}},
        {{0, 0, 0, 0, 0, 0, 1, 2}, {7, 6, 0}},
        {{-0.0f, 0.0f, -0.0f, -1, -1, -1, -1, -1}, {0, 1, 2}}, /* zeros are equal */
    };
    sb_knobs exact = test_knobs("");
    sb_knobs highest = test_knobs("router_tie=highest");
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t *ids = test_ids(KEPT), *mirrored = test_ids(KEPT);
        float *w = test_output(KEPT), back[E];
        RUN(router, &exact, .logits = cases[i].logits, .rows = 1, .experts = E, .kept = KEPT,
            .renormalise = 1, .ids = ids, .weights = w);
        assert_memory_equal(ids, cases[i].ids, sizeof cases[i].ids);
        check_router("", cases[i].logits, 1, E, KEPT, 1);
        check_router("router_tie=highest", cases[i].logits, 1, E, KEPT, 1);
        for (size_t e = 0; e < E; e++) /* K-50 is R-15 with the experts in the opposite order */
            back[e] = cases[i].logits[E - 1 - e];
        RUN(router, &highest, .logits = back, .rows = 1, .experts = E, .kept = KEPT,
            .renormalise = 1, .ids = mirrored, .weights = w);
        for (size_t slot = 0; slot < KEPT; slot++)
            assert_int_equal(mirrored[slot], E - 1 - cases[i].ids[slot]);
    }
}

/* Renormalised weights sum to 1. Raw weights are the probabilities among all experts. */
OP_TEST(router_sums)
{
    enum { E = 16, KEPT = 4, T = 20 };
    sb_knobs exact = test_knobs("");
    const float *logits = test_normal("logits", T * E, 0, 1);
    for (int renormalise = 0; renormalise < 2; renormalise++) {
        uint32_t *ids = test_ids(T * KEPT);
        float *w = test_output(T * KEPT);
        RUN(router, &exact, .logits = logits, .rows = T, .experts = E, .kept = KEPT,
            .renormalise = renormalise, .ids = ids, .weights = w);
        for (size_t t = 0; t < T; t++) {
            double sum = 0;
            for (size_t i = 0; i < KEPT; i++) {
                sum += (double)w[t * KEPT + i];
                assert_true(i == 0 || w[t * KEPT + i] <= w[t * KEPT + i - 1]);
            }
            if (renormalise)
                assert_true(fabs(sum - 1) <= KEPT * 0x1p-24);
            else
                assert_true(sum < 0.95);
        }
    }
    static const float equal[4] = {3, 3, 3, 3}, raw[2] = {0.25f, 0.25f}, normed[2] = {0.5f, 0.5f};
    for (int renormalise = 0; renormalise < 2; renormalise++) {
        uint32_t *ids = test_ids(2);
        float *w = test_output(2);
        RUN(router, &exact, .logits = equal, .rows = 1, .experts = 4, .kept = 2,
            .renormalise = renormalise, .ids = ids, .weights = w);
        test_same("weights of equal experts", w, renormalise ? normed : raw, 2);
    }
}

OP_TEST(router_keeps_all)
{
    enum { E = 6 };
    static const float logits[E] = {2, -1, 2, 8, 0, 8};
    static const uint32_t expected[E] = {3, 5, 0, 2, 4, 1};
    sb_knobs exact = test_knobs("");
    uint32_t *ids = test_ids(E);
    float *w = test_output(E);
    RUN(router, &exact, .logits = logits, .rows = 1, .experts = E, .kept = E, .renormalise = 0,
        .ids = ids, .weights = w);
    assert_memory_equal(ids, expected, sizeof expected);
    test_written("weights", w, E);
}

/* Any bit patterns give ids that exist. The session refuses such logits (S-6). */
OP_TEST(router_of_nan)
{
    enum { E = 5, KEPT = 3 };
    static const float cases[][E] = {{NAN, NAN, NAN, NAN, NAN},
                                     {NAN, 1, 2, 3, 4},
                                     {4, NAN, 4, NAN, NAN},
                                     {INFINITY, INFINITY, 0, 0, 0},
                                     {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}};
    sb_knobs exact = test_knobs("");
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t *ids = test_ids(KEPT);
        float *w = test_output(KEPT);
        RUN(router, &exact, .logits = cases[i], .rows = 1, .experts = E, .kept = KEPT,
            .renormalise = 1, .ids = ids, .weights = w);
        for (size_t slot = 0; slot < KEPT; slot++)
            assert_true(ids[slot] < E && isnan(w[slot]));
        if (i < 3)
            assert_int_equal(sb_bits_f32(w[0]) & 0x7fffffffu, 0x7fc00000u);
    }
}

/* R-17 in both forms, with the terms in the opposite order. */
static float plain_combine(const sb_knobs *k, const sb_moe_combine_args *a, size_t i)
{
    float f[17], w[17], gate = plain_sigmoid(a->shared_logit);
    assert_true(a->kept <= 16);
    f[0] = a->shared_out[i];
    w[0] = gate;
    for (size_t e = 0; e < a->kept; e++) {
        f[a->kept - e] = a->expert_out[e * a->n + i];
        w[a->kept - e] = a->weights[e];
    }
    if (SB_IS(k, moe_sum, dot))
        return sb_act(k, plain_dot(f, 1, w, 1, a->kept + 1));
    for (size_t e = 1; e <= a->kept; e++) {
        f[e] = f[e] * w[e];
        if (!SB_IS(k, moe_sum, wide) && (SB_IS(k, router_weight, act) || !SB_IS(k, moe_sum, slots)))
            f[e] = sb_act(k, f[e]);
    }
    float routed = sb_act(k, plain_sum(f + 1, a->kept));
    if (SB_IS(k, moe_sum, eager)) {
        routed = 0.0f;
        for (uint32_t id = 0; id < 64; id++)
            for (size_t e = 0; e < a->kept; e++)
                if (a->ids[e] == id)
                    routed = sb_act(k, routed + f[a->kept - e]);
    }
    if (SB_IS(k, shared_gate, fused)) {
        float pair[2] = {f[0], routed}, turn[2] = {gate, 1.0f};
        return sb_act(k, plain_dot(pair, 1, turn, 1, 2));
    }
    float shared = sb_act(k, sb_act(k, gate) * f[0]);
    return sb_act(k, routed + shared);
}

OP_TEST(moe_combine)
{
    static const char *const settings[] = {"",
                                           "act=bf16",
                                           "moe_sum=slots",
                                           "act=bf16 moe_sum=slots",
                                           "act=f16 moe_sum=slots router_weight=act",
                                           "act=bf16 router_weight=act",
                                           "act=bf16 moe_sum=slots router_weight=act",
                                           "act=bf16 moe_sum=slots shared_gate=fused",
                                           "act=bf16 moe_sum=after",
                                           "act=bf16 moe_sum=wide router_weight=act",
                                           "act=bf16 moe_sum=epilogue shared_gate=fused",
                                           "act=bf16 moe_sum=eager router_weight=act",
                                           "act=f16 moe_sum=eager shared_gate=fused",
                                           "moe_sum=eager"};
    static const size_t kept_of[] = {1, 2, 8, 10};
    static const uint32_t ids[10] = {40, 7, 63, 0, 8, 21, 3, 62, 9, 1};
    enum { N = 37 };
    for (size_t s = 0; s < COUNT(settings); s++)
        for (size_t i = 0; i < COUNT(kept_of); i++) {
            sb_knobs k = test_knobs(settings[s]);
            size_t kept = kept_of[i];
            float *out = test_output(N), want[N];
            sb_moe_combine_args a = {.expert_out = test_normal("f", kept * N, 0, 2),
                                     .weights = test_normal("w", kept, 0.2f, 0.05f),
                                     .ids = ids,
                                     .shared_out = test_normal("shared", N, 0, 2),
                                     .shared_logit = 0.3f * (float)i - 0.5f,
                                     .kept = kept,
                                     .n = N,
                                     .out = out};
            assert_int_equal(sb_backend_ref()->ops.moe_combine(&k, &a), SB_OK);
            for (size_t j = 0; j < N; j++)
                want[j] = plain_combine(&k, &a, j);
            test_written("moe_combine", out, N);
            test_same(settings[s], out, want, N);
        }
}

/* One exact sum loses nothing; slots round between the terms. sigmoid(0) = 1/2. */
OP_TEST(moe_dot_and_slots)
{
    static const float f[3] = {0x1p30f, 1.0f, -0x1p30f}, w[3] = {1, 1, 1}, shared = 0x1p-20f;
    static const float nan_f[3] = {1, NAN, 1};
    sb_knobs dot = test_knobs(""), slots = test_knobs("moe_sum=slots");
    float *out = test_output(1);
    RUN(moe_combine, &dot, .expert_out = f, .weights = w, .shared_out = &shared, .kept = 3, .n = 1,
        .out = out);
    assert_true(*out == 1.0f + 0x1p-21f);
    static const float small[2] = {1.0f, 0x1p-24f}, tiny = 0x1p-23f;
    RUN(moe_combine, &dot, .expert_out = small, .weights = w, .shared_out = &tiny, .kept = 2,
        .n = 1, .out = out);
    assert_true(*out == 1.0f + 0x1p-23f); /* 2^-24 + 2^-24 */
    RUN(moe_combine, &slots, .expert_out = small, .weights = w, .shared_out = &tiny, .kept = 2,
        .n = 1, .out = out);
    assert_true(*out == 1.0f); /* each half-way case alone goes to even */
    RUN(moe_combine, &dot, .expert_out = nan_f, .weights = w, .shared_out = &shared, .kept = 3,
        .n = 1, .out = out);
    assert_int_equal(sb_bits_f32(*out), 0x7fc00000u);
}
