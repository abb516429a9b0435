/* test_invariants_values.c - what must hold for the values inside a call (docs/invariants.md). */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/fast/fast.h"
#include "tests/lib/plain.h"
#include "tests/mtp/play.h"

#define PROGRAM "test_mtp_values"
#define GDN "layers.0.linear_attn."

enum { N = 12 };

static const sb_model *t5(void)
{
    return play_model(PROGRAM, "T5", "mistakes");
}

static void draw(const char *name, uint32_t *ids, size_t n)
{
    test_draw_ids(name, 384, ids, n);
}

/* A session with these taps, ended by NULL. sb_session_free() releases it. */
static sb_session *start(const sb_model *model, const char *settings, const sb_backend *backend,
                         play_tap *taps)
{
    sb_knobs knobs = test_knobs(settings);
    return play_session(
        model, &(sb_session_options){
                   .knobs = &knobs, .backend = backend, .tap = play_keep_taps, .tap_ctx = taps});
}

static double worst(const float *a, const float *b, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static double largest(const float *a, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)a[i]));
    return most;
}

/* The largest |sum of g| over a chunk of 64 rows: the largest exponent of the chunk form. */
static double largest_sum(const play_tap *g)
{
    double most = 0;
    for (size_t h = 0; h < g->cols; h++) {
        double sum = 0;
        for (size_t t = 0; t < g->rows; t++) {
            sum =
                t % 64 ? sum + (double)g->data[t * g->cols + h] : (double)g->data[t * g->cols + h];
            most = fmax(most, fabs(sum));
        }
    }
    return most;
}

/* The distance between the first layer's state and outputs in two forms of the delta rule, in units
 * of what rounding can explain: 2^-24 of the largest value for each of 64 steps, and for the
 * exponents, whose error grows with their size. */
static double apart(size_t rows, size_t cut, const char *form, const sb_backend *backend)
{
    uint32_t ids[200];
    play_tap a[] = {{.name = GDN "g"}, {.name = GDN "core_out"}, {.name = NULL}};
    play_tap b[] = {{.name = GDN "g"}, {.name = GDN "core_out"}, {.name = NULL}};
    draw("forms", ids, rows);
    sb_session *one = start(t5(), "", NULL, a), *two = start(t5(), form, backend, b);
    test_feed(one, ids, rows);
    if (cut)
        test_feed(two, ids, cut);
    test_feed(two, ids + cut, rows - cut);
    const sb_config *c = &t5()->config;
    size_t n = sb_state_recurrent_size(c), outs = (rows - cut) * b[1].cols;
    const float *x = sb_session_state(one)->layers[0].recurrent;
    const float *y = sb_session_state(two)->layers[0].recurrent;
    double unit = (64 + largest_sum(&a[0])) * 0x1p-24;
    double found = worst(x, y, n) / (largest(x, n) * unit);
    const float *last = a[1].data + cut * a[1].cols;
    found =
        fmax(found, worst(last, b[1].data, outs) / (largest(a[1].data, rows * a[1].cols) * unit));
    play_free_taps(a);
    play_free_taps(b);
    sb_session_free(one);
    sb_session_free(two);
    return found;
}

/* The chunk form, with the state of the last chunk lost. */
static sb_status chunk_without_state(const sb_knobs *knobs, const sb_delta_rule_chunk_args *a)
{
    memset(a->state, 0, a->v_heads * a->dk * a->dv * sizeof *a->state);
    return sb_delta_rule_chunk_fast(knobs, a);
}

/* 1: within rounding, at lengths around a chunk and with a cut inside one. */
TEST(test_01_chunks_are_the_recurrent_form)
{
    static const size_t cases[][2] = {{1, 0},  {2, 0},   {63, 0},  {64, 0},
                                      {65, 0}, {130, 0}, {100, 37}};
    sb_backend lost = *sb_backend_ref();
    double most = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double found = apart(cases[i][0], cases[i][1], "delta_rule=chunk64", NULL);
        most = fmax(most, found);
        if (!(found <= 1))
            fail_msg("%zu rows, cut at %zu: %.3g times what rounding explains", cases[i][0],
                     cases[i][1], found);
    }
    lost.ops.delta_rule_chunk = chunk_without_state;
    double faulty = apart(100, 37, "delta_rule=chunk64", &lost);
    printf("chunks: at most %.3f of the tolerance; with a lost state %.0f times it\n", most,
           faulty);
    assert_true(faulty > 100);
    assert_true(apart(100, 37, "", NULL) == 0); /* the same form, cut in two: no bit differs */
}

/* 8: the conv state is the last three rows of in_proj_qkv, to the bit: after calls, after rejected
 * drafts, and after kept drafts. */
TEST(test_08_conv_state_is_three_rows)
{
    enum { ROOM = 64 };
    play_tap taps[] = {{.name = GDN "in_proj_qkv"}, {.name = NULL}};
    uint32_t ids[N];
    draw("conv", ids, N);
    sb_session *s = start(t5(), "", NULL, taps);
    size_t C = sb_config_conv_channels(&t5()->config);
    float *rows = calloc((ROOM + 3) * C, sizeof *rows); /* three rows of zeros in front */
    assert_non_null(rows);
    for (size_t n = 1, fed = 0; n <= 5; n++) {
        size_t kept = n == 1 ? 1 : n / 2;
        assert_int_equal(sb_session_verify(s, ids, n, SB_ROLLBACK_snapshots, NULL), SB_OK);
        memcpy(rows + (3 + fed) * C, taps[0].data, n * C * sizeof *rows);
        assert_int_equal(sb_session_keep(s, kept, NULL), SB_OK);
        fed += kept;
        assert_true(sb_session_state(s)->position == fed);
        assert_memory_equal(sb_session_state(s)->layers[0].conv, rows + fed * C,
                            3 * C * sizeof *rows);
        if (kept < n) /* one row later it is not */
            assert_memory_not_equal(sb_session_state(s)->layers[0].conv, rows + (fed + 1) * C,
                                    3 * C * sizeof *rows);
    }
    free(rows);
    play_free_taps(taps);
    sb_session_free(s);
}

static double norm_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* Norms of the queries (scaled) and keys of one row: |x| = 1 up to eps = 1e-6 beside |u|^2. */
static void check_norms(const sb_config *c, const float *u, const float *k, double scale)
{
    for (size_t h = 0; h < c->lin_k_heads; h++) {
        double raw = norm_of(u + h * c->lin_k_dim, c->lin_k_dim);
        double expected = scale * raw / sqrt(raw * raw + 1e-6);
        double got = norm_of(k + h * c->lin_k_dim, c->lin_k_dim);
        if (fabs(got - expected) > 1e-6 * scale)
            fail_msg("head %zu: norm %.9g; expected %.9g", h, got, expected);
        assert_true(got <= scale * (1 + 1e-6));
    }
}

/* 12: no step enlarges the state by more than beta |v|. */
static void check_growth(const sb_config *c, const float *before, const float *after,
                         const float *beta, const float *v)
{
    size_t cells = (size_t)c->lin_k_dim * c->lin_v_dim;
    for (size_t h = 0; h < c->lin_v_heads; h++) {
        double bound = norm_of(before + h * cells, cells) +
                       (double)beta[h] * norm_of(v + h * c->lin_v_dim, c->lin_v_dim);
        assert_true(norm_of(after + h * cells, cells) <= bound * (1 + 1e-5));
    }
}

TEST(test_12_gates_and_norms)
{
    play_tap taps[] = {{.name = GDN "g"}, {.name = GDN "beta"}, {.name = GDN "q"},
                       {.name = GDN "k"}, {.name = GDN "conv"}, {.name = NULL}};
    const sb_config *c = &t5()->config;
    size_t n = sb_state_recurrent_size(c), key = sb_config_key_width(c);
    float *before = calloc(n, sizeof *before);
    uint32_t ids[N];
    assert_non_null(before);
    draw("gates", ids, N);
    sb_session *s = start(t5(), "", NULL, taps);
    for (size_t t = 0; t < N; t++) {
        test_feed(s, ids + t, 1);
        for (size_t h = 0; h < c->lin_v_heads; h++) {
            double decay = exp((double)taps[0].data[h]), beta = (double)taps[1].data[h];
            assert_true(decay >= 0 && decay <= 1);
            assert_true(beta >= 0 && beta <= 1);
        }
        check_norms(c, taps[4].data, taps[2].data, 1 / sqrt(c->lin_k_dim));
        check_norms(c, taps[4].data + key, taps[3].data, 1);
        const float *after = sb_session_state(s)->layers[0].recurrent;
        check_growth(c, before, after, taps[1].data, taps[4].data + 2 * key);
        memcpy(before, after, n * sizeof *before);
    }
    free(before);
    play_free_taps(taps);
    sb_session_free(s);
}

/* Sums of the router's weights of a model, per row; the ids of a row are distinct. */
static void router_sums(const sb_model *model, double *low, double *high)
{
    play_tap taps[] = {{.name = "layers.1.mlp.router_ids"},
                       {.name = "layers.1.mlp.router_weights"},
                       {.name = NULL}};
    uint32_t ids[N];
    draw("router", ids, N);
    sb_session *s = start(model, "", NULL, taps);
    test_feed(s, ids, N);
    size_t k = model->config.experts_per_token;
    assert_int_equal(taps[0].rows, N);
    assert_int_equal(taps[0].cols, k);
    *low = 1e9;
    *high = 0;
    for (size_t t = 0; t < N; t++) {
        double sum = 0;
        for (size_t i = 0; i < k; i++) {
            float id = taps[0].data[t * k + i];
            assert_true(id >= 0 && id < (float)model->config.experts);
            sum += (double)taps[1].data[t * k + i];
            for (size_t j = 0; j < i; j++)
                assert_true(taps[0].data[t * k + j] != id);
        }
        *low = fmin(*low, sum);
        *high = fmax(*high, sum);
    }
    play_free_taps(taps);
    sb_session_free(s);
}

/* 14: the sum is 1 up to k roundings of at most 2^-25 each and that of the divisor; without
 * norm_topk_prob the sum is less. */
TEST(test_14_router_weights)
{
    double low, high, tolerance = 5 * 0x1p-24;
    router_sums(t5(), &low, &high);
    assert_true(low >= 1 - tolerance && high <= 1 + tolerance);
    router_sums(play_model(PROGRAM, "T5-raw", "mistakes"), &low, &high);
    assert_true(low > 0 && low < 1 - tolerance && high <= 1 + tolerance);
}

/* The rows of a tensor (each of its first dimension) in another order. */
static void permute(test_tensor *t, const size_t *order)
{
    size_t size = (size_t)t->size / (size_t)t->shape[0];
    unsigned char *bytes = malloc((size_t)t->size);
    assert_non_null(bytes);
    for (size_t i = 0; i < t->shape[0]; i++)
        memcpy(bytes + i * size, t->bytes + order[i] * size, size);
    memcpy(t->bytes, bytes, (size_t)t->size);
    free(bytes);
}

/* 15: experts and rows of the router in another order: no bit differs, because no sum has an order.
 * (Equal router rows would make a difference, because a tie goes to the lowest id; the recipe has
 * none.) */
TEST(test_15_order_of_experts)
{
    enum { E = 8 };
    static const size_t order[E] = {5, 2, 7, 0, 1, 6, 3, 4};
    const char *sound = test_checkpoint(PROGRAM, "T3", "plain", "bf16", NULL);
    sb_model *a = test_model_open(sound);
    sb_state *states[3];
    for (int way = 0; way < 3; way++) { /* as it is, permuted, and without the router */
        test_folder f = test_folder_load(sound);
        size_t changed = 0;
        for (size_t i = 0; way && i < f.count; i++)
            if (strstr(f.tensors[i].name, ".mlp.experts.") ||
                (way == 1 && strstr(f.tensors[i].name, ".mlp.gate.weight"))) {
                assert_int_equal(f.tensors[i].shape[0], E);
                permute(&f.tensors[i], order);
                changed++;
            }
        assert_int_equal(changed, way == 0 ? 0 : way == 1 ? 5 * 3 : 5 * 2);
        sb_model *m = test_model_open(test_folder_save(&f, PROGRAM, "permuted"));
        sb_session *s = play_session(m, NULL);
        play_prompt(s, "experts", N);
        states[way] = play_copy(sb_session_state(s));
        states[way]->config = &a->config; /* the same values, and this one outlives the model */
        sb_session_free(s);
        sb_model_close(m);
        test_folder_free(&f);
    }
    play_same("permuted experts", states[1], states[0]);
    assert_non_null(play_difference(states[2], states[0]));
    for (int way = 0; way < 3; way++)
        sb_state_free(states[way]);
    sb_model_close(a);
}

enum { SHIFT = 1000 };
static int shift_queries_only;

static sb_status rope_shifted(const sb_knobs *knobs, const sb_rope_args *a)
{
    sb_rope_args shifted = *a;
    uint32_t position[N];
    assert_true(a->rows <= N);
    for (size_t t = 0; t < a->rows; t++)
        position[t] =
            a->position[0][t] + (shift_queries_only && a->heads != t5()->config.heads ? 0 : SHIFT);
    for (int i = 0; i < 3; i++)
        shifted.position[i] = position;
    return sb_rope_fast(knobs, &shifted);
}

/* 16: all positions shifted by a constant. The layers before the first attention do not use
 * positions, and attention sees only their differences. Only the rounding of an angle of SHIFT + N
 * is left. */
TEST(test_16_shifted_positions)
{
    play_tap a[] = {
        {.name = "layers.2.output"}, {.name = "layers.3.self_attn.core_out"}, {.name = NULL}};
    play_tap b[] = {
        {.name = "layers.2.output"}, {.name = "layers.3.self_attn.core_out"}, {.name = NULL}};
    sb_backend backend = *sb_backend_ref();
    uint32_t ids[N];
    double apart_by[2];
    draw("shift", ids, N);
    backend.ops.rope = rope_shifted;
    sb_session *plain = start(t5(), "", NULL, a), *late = start(t5(), "", &backend, b);
    test_feed(plain, ids, N);
    for (shift_queries_only = 0; shift_queries_only < 2; shift_queries_only++) {
        sb_session_reset(late);
        test_feed(late, ids, N);
        assert_memory_equal(a[0].data, b[0].data, a[0].rows * a[0].cols * sizeof(float));
        size_t n = a[1].rows * a[1].cols;
        apart_by[shift_queries_only] = worst(a[1].data, b[1].data, n) / largest(a[1].data, n);
    }
    /* an angle is wrong by half a unit in its last place, a score by that for each of its terms */
    double tolerance = (SHIFT + N) * 0x1p-24 * t5()->config.rotary_dim;
    printf("shift: %.3g apart of %.3g; of queries only %.3g\n", apart_by[0], tolerance,
           apart_by[1]);
    assert_true(apart_by[0] <= tolerance);
    assert_true(apart_by[1] > 10 * tolerance);
    play_free_taps(a);
    play_free_taps(b);
    sb_session_free(plain);
    sb_session_free(late);
}

TEST_GROUP(NULL, play_close_models)
