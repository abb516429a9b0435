/* test_bounds_engines.c - the bounds under the knobs of engines. A plain binary32 program that
 * rounds where the knobs demand lies in the ball of these knobs, in three orders of summation. A
 * program that rounds elsewhere does not. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/fast/fast.h"
#include "ref/formats/format.h"
#include "ref/ops/knob.h"
#include "tests/hf/drawn.h"
#include "tests/lib/plain.h"
#include "tests/lib/plain_dot.h"
#include "tools/judge/bound/bound.h"

enum { ORDERS = 3, FORMS = 5 };

/* Values as the layer before leaves them. */
static float *narrow(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = sb_round_to(SB_FORMAT_bf16, x[i]);
    return x;
}

static sb_matrix matrix(sb_format format, const float *values, size_t rows, size_t cols)
{
    unsigned char *data = hf_alloc(&hf_drawn, rows * cols, 4);
    for (size_t i = 0; i < rows * cols; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (size_t b = 0; b < sb_format_bytes(format); b++)
            data[i * sb_format_bytes(format) + b] =
                (unsigned char)(bits >> (8 * (b + 4 - sb_format_bytes(format))));
    }
    return (sb_matrix){
        .data = data, .format = format, .rows = (uint32_t)rows, .cols = (uint32_t)cols};
}

/* One op: its settings, a plain program of it, its bound, and the reference. */
typedef struct subject {
    const char *name;
    size_t count; /* of outputs */
    const char *settings[FORMS];
    void (*plain)(const sb_knobs *knobs, int order, float *out);
    sb_status (*bound)(const sb_arithmetic *ar, const sb_knobs *knobs, sb_ball *out);
    sb_status (*reference)(const sb_knobs *knobs, float *out);
    const char *covered; /* "ab": the results of settings[a] also lie in the ball of settings[b] */
    const char *either;  /* "ab": this pair is not checked, because the settings differ too
                          * little */
} subject;

/* The number of values outside; *most gets the largest distance from the centre, in radii. */
static size_t outside(const float *got, const sb_ball *in, size_t count, double *most)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - in[i].mid), radius = SB_BOUND_SLACK * in[i].rad;
        found += !(error <= radius);
        if (error > 0.0 && error <= radius)
            *most = fmax(*most, error / radius);
    }
    return found;
}

static int lists(const char *pairs, size_t program, size_t ball)
{
    const char pair[3] = {(char)('0' + program), (char)('0' + ball), '\0'};
    return pairs && strstr(pairs, pair) != NULL;
}

static void check_pair(const subject *s, size_t program, size_t ball)
{
    sb_knobs theirs = test_knobs(s->settings[program]), ours = test_knobs(s->settings[ball]);
    sb_ball *of = hf_alloc(&hf_drawn, s->count, sizeof *of);
    float *got = hf_floats(&hf_drawn, s->count);
    double most = 0;
    assert_int_equal(s->bound(&sb_arithmetic_library, &ours, of), SB_OK);
    for (int order = 0; order < ORDERS; order++) {
        s->plain(&theirs, order, got);
        size_t found = outside(got, of, s->count, &most);
        int inside = program == ball || lists(s->covered, program, ball);
        if (!lists(s->either, program, ball) && (inside ? found > 0 : found == 0))
            fail_msg("%s: %zu of %zu values of '%s' lie outside the balls of '%s'", s->name, found,
                     s->count, s->settings[program], s->settings[ball]);
    }
    if (program == ball) {
        printf("  %-12s %-50s worst %.4f of the bound\n", s->name, s->settings[ball], most);
        if (SB_IS(&ours, act,
                  f32)) /* in a narrow type nearly all values agree in every bit (T-4) */
            assert_true(most > 0x1p-13);
    }
}

/* The reference lies in its own ball. */
static void check_reference(const subject *s, size_t form)
{
    sb_knobs knobs = test_knobs(s->settings[form]);
    sb_ball *of = hf_alloc(&hf_drawn, s->count, sizeof *of);
    float *got = hf_floats(&hf_drawn, s->count);
    double most = 0;
    assert_int_equal(s->bound(&sb_arithmetic_reference, &knobs, of), SB_OK);
    assert_int_equal(s->reference(&knobs, got), SB_OK);
    size_t found = outside(got, of, s->count, &most);
    if (found)
        fail_msg("%s: %zu values of the reference lie outside '%s'", s->name, found,
                 s->settings[form]);
}

static void check(const subject *s)
{
    for (size_t a = 0; a < FORMS && s->settings[a]; a++) {
        check_reference(s, a);
        for (size_t b = 0; b < FORMS && s->settings[b]; b++)
            check_pair(s, a, b);
    }
}

/* --- attention -------------------------------------------------------------------------------- */

enum { ROWS = 6, FIRST = 60, HEADS = 2, HD = 64, POSITIONS = FIRST + ROWS, BLOCK = 16 };

static float cache_scale; /* of keys and values; 0: none */

static sb_attention_args attention_inputs(float *out)
{
    return (sb_attention_args){
        .q = narrow(hf_normal("q", ROWS * HEADS * HD, 0, 1), ROWS * HEADS * HD),
        .keys = narrow(hf_normal("keys", POSITIONS * HD, 0, 1), POSITIONS * HD),
        .values = narrow(hf_normal("values", POSITIONS * HD, 0.5f, 1), POSITIONS * HD),
        .rows = ROWS,
        .first = FIRST,
        .heads = HEADS,
        .kv_heads = 1,
        .hd = HD,
        .key_scale = cache_scale,
        .value_scale = cache_scale,
        .out = out};
}

static float act_if(int rounds, const sb_knobs *k, float x)
{
    return rounds ? sb_act(k, x) : x;
}

/* Flash attention as in kernels: blocks of positions, a running maximum, a running sum. */
static void flash(const sb_knobs *k, const float *s, const float *values, size_t n, int order,
                  float *out)
{
    float most = -INFINITY, sum = 0.0f, acc[HD] = {0};
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t m = n - first < BLOCK ? n - first : BLOCK;
        float before = most, e[BLOCK], one = 1.0f;
        for (size_t u = 0; u < m; u++)
            most = fmaxf(most, s[first + u]);
        for (size_t u = 0; u < m; u++)
            e[u] = expf(s[first + u] - most);
        sum = sum * expf(before - most) + dot(e, 1, &one, 0, m, order);
        for (size_t u = 0; u < m; u++)
            e[u] = sb_act(k, e[u]);
        for (size_t i = 0; i < HD; i++)
            acc[i] =
                acc[i] * expf(before - most) + dot(e, 1, values + first * HD + i, HD, m, order);
    }
    for (size_t i = 0; i < HD; i++)
        out[i] = sb_act(k, acc[i] / sum);
}

static void attend(const sb_knobs *k, const sb_attention_args *a, size_t row, int order, float *out)
{
    size_t n = FIRST + row / HEADS + 1;
    int inner = SB_IS(k, scores, act), f16 = SB_IS(k, scores, f16);
    float s[POSITIONS], q[HD], one = 1.0f, most = -INFINITY;
    for (size_t i = 0; i < HD; i++)
        q[i] = f16 ? sb_round_to(SB_FORMAT_f16, a->q[row * HD + i]) : a->q[row * HD + i];
    for (size_t u = 0; u < n; u++) {
        float score = act_if(inner, k, dot(q, 1, a->keys + u * HD, 1, HD, order));
        s[u] = act_if(inner, k, score * 0.125f);
        most = fmaxf(most, s[u]);
    }
    if (SB_IS(k, scores, flash)) {
        flash(k, s, a->values, n, order, out);
        return;
    }
    for (size_t u = 0; u < n; u++)
        s[u] = expf(s[u] - most);
    float total = dot(s, 1, &one, 0, n, order);
    for (size_t u = 0; u < n; u++) {
        s[u] = act_if(inner, k, s[u] / total);
        s[u] = f16 ? sb_round_to(SB_FORMAT_f16, s[u]) : s[u];
    }
    for (size_t i = 0; i < HD; i++)
        out[i] = sb_act(k, dot(s, 1, a->values + i, HD, n, order));
}

static void plain_attention(const sb_knobs *k, int order, float *out)
{
    sb_attention_args a = attention_inputs(NULL);
    float *keys = hf_floats(&hf_drawn, POSITIONS * HD),
          *values = hf_floats(&hf_drawn, POSITIONS * HD);
    float scale = cache_scale == 0.0f ? 1.0f : cache_scale;
    for (size_t i = 0; i < POSITIONS * HD; i++) { /* decodes first */
        keys[i] = a.keys[i] * scale;
        values[i] = a.values[i] * scale;
    }
    a.keys = keys;
    a.values = values;
    for (size_t row = 0; row < ROWS * HEADS; row++)
        attend(k, &a, row, order, out + row * HD);
}

static sb_status bound_attention(const sb_arithmetic *ar, const sb_knobs *k, sb_ball *out)
{
    const sb_attention_args a = attention_inputs(NULL);
    return sb_bound_attention(ar, k, &a, out, NULL);
}

static sb_status reference_attention(const sb_knobs *k, float *out)
{
    const sb_attention_args a = attention_inputs(out);
    return sb_attention_fast(k, &a);
}

/* The ball of flash contains all programs that round each probability once, or not at all
 * (T-21). */
TEST_WITH(test_attention, NULL, hf_release_drawn)
{
    static const struct {
        const char *settings[FORMS], *covered, *either;
    } rows[] = {
        {{"act=bf16", "act=bf16 scores=act", "act=bf16 scores=flash", "act=bf16 scores=f16"},
         "02 32",
         "12"},
        {{"act=f16", "act=f16 scores=act", "act=f16 scores=flash"}, "02", "12"},
        {{"", "scores=f16"}, NULL, NULL}};
    for (int scaled = 0; scaled < 2; scaled++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            subject s = {.name = "attention",
                         .count = ROWS * HEADS * HD,
                         .plain = plain_attention,
                         .bound = bound_attention,
                         .reference = reference_attention,
                         .covered = rows[i].covered,
                         .either = rows[i].either};
            memcpy(s.settings, rows[i].settings, sizeof s.settings);
            cache_scale = scaled ? 0.37f : 0.0f;
            check(&s);
        }
}

/* --- rotary positions ------------------------------------------------------------------------- */

enum { RD = 32 };
static const uint32_t position[3] = {1, 77, 5000};

static sb_rope_args rope_inputs(float *x)
{
    return (sb_rope_args){.x = x,
                          .rows = 3,
                          .heads = 4,
                          .hd = RD,
                          .rd = RD,
                          .theta = 1e7,
                          .position = {position, position, position}};
}

static void plain_rope(const sb_knobs *k, int order, float *out)
{
    const float *x = hf_normal("x", 3 * 4 * RD, 0, 1);
    const float step = powf(1e7f, -2.0f / RD);
    for (size_t row = 0; row < 12; row++) {
        float angle = (float)position[row / 4];
        for (size_t f = 0; f < RD / 2; f++) {
            float frequency = powf(1e7f, -2.0f * (float)f / RD);
            float by = SB_IS(k, rope_freq, chain) ? angle : (float)position[row / 4] * frequency;
            float turn[2] = {cosf(by), sinf(by)};
            float a = x[row * RD + f], b = x[row * RD + f + RD / 2];
            float one[2] = {a, -b}, two[2] = {b, a};
            out[row * RD + f] = sb_act(k, dot(one, 1, turn, 1, 2, order));
            out[row * RD + f + RD / 2] = sb_act(k, dot(two, 1, turn, 1, 2, order));
            angle *= step;
        }
    }
}

static sb_status bound_rope(const sb_arithmetic *ar, const sb_knobs *k, sb_ball *out)
{
    const sb_rope_args a = rope_inputs(hf_normal("x", 3 * 4 * RD, 0, 1));
    return sb_bound_rope(ar, k, &a, out, NULL);
}

static sb_status reference_rope(const sb_knobs *k, float *out)
{
    const sb_rope_args a = rope_inputs(out);
    memcpy(out, hf_normal("x", 3 * 4 * RD, 0, 1), 3 * 4 * RD * sizeof *out);
    return sb_rope_fast(k, &a);
}

TEST_WITH(test_rope, NULL, hf_release_drawn)
{
    /* a chain has a wider ball around the same centre, and its results partly lie in the narrow
     * one */
    static const subject exact = {"rope",     3 * 4 * RD, {"", "rope_freq=chain"},
                                  plain_rope, bound_rope, reference_rope,
                                  "01",       "10"};
    check(&exact);
}

/* --- norm, linear, swiglu --------------------------------------------------------------------- */

enum { T = 4, N = 96, WIDE = 200 };

static sb_rmsnorm_args norm_inputs(const sb_matrix *weight, float *out)
{
    return (sb_rmsnorm_args){.in = hf_normal("x", T * N, 0, 3),
                             .weight = weight,
                             .eps = 1e-6f,
                             .rows = T,
                             .n = N,
                             .out = out};
}

static void plain_norm(const sb_knobs *k, int order, float *out)
{
    const float *x = hf_normal("x", T * N, 0, 3), *w = hf_normal("w", N, 0, 0.3f);
    for (size_t t = 0; t < T; t++) {
        float mean = dot(x + t * N, 1, x + t * N, 1, N, order) / N, r = 1.0f / sqrtf(mean + 1e-6f);
        for (size_t i = 0; i < N; i++) {
            float factor = act_if(SB_IS(k, norm_weight, act), k, 1.0f + w[i]);
            out[t * N + i] = sb_act(k, x[t * N + i] * r * factor);
        }
    }
}

static sb_status bound_norm(const sb_arithmetic *ar, const sb_knobs *k, sb_ball *out)
{
    const sb_matrix w = matrix(SB_FORMAT_f32, hf_normal("w", N, 0, 0.3f), 1, N);
    const sb_rmsnorm_args a = norm_inputs(&w, NULL);
    return sb_bound_rmsnorm(ar, k, &a, out, NULL);
}

static sb_status reference_norm(const sb_knobs *k, float *out)
{
    const sb_matrix w = matrix(SB_FORMAT_f32, hf_normal("w", N, 0, 0.3f), 1, N);
    const sb_rmsnorm_args a = norm_inputs(&w, out);
    return sb_rmsnorm_fast(k, &a);
}

static sb_linear_kind kind; /* of the linear layer being tested */
static sb_mlp_kind mlp;     /* of the swiglu */

static sb_linear_args linear_inputs(const sb_matrix *weight, float *out)
{
    return (sb_linear_args){.weight = weight,
                            .kind = kind,
                            .in = hf_normal("x", T * WIDE, 0, 1),
                            .rows = T,
                            .out = out};
}

static sb_matrix linear_weight(void)
{
    return matrix(SB_FORMAT_bf16, narrow(hf_normal("w", N * WIDE, 0, 1), N * WIDE), N, WIDE);
}

static void plain_linear(const sb_knobs *k, int order, float *out)
{
    const float *w = narrow(hf_normal("w", N * WIDE, 0, 1), N * WIDE);
    float *x = hf_normal("x", T * WIDE, 0, 1);
    int kept = kind == SB_LINEAR_router || kind == SB_LINEAR_shared_gate;
    int stays = (kind == SB_LINEAR_router && SB_IS(k, router_logits, f32)) ||
                (kind == SB_LINEAR_head && SB_IS(k, logits, f32)) ||
                (kind == SB_LINEAR_expert_down && SB_IS(k, moe_sum, epilogue));
    if (SB_IS(k, linear_input, weight) && !kept)
        narrow(x, T * WIDE);
    for (size_t i = 0; i < T * N; i++)
        out[i] = act_if(!stays, k, dot(w + i % N * WIDE, 1, x + i / N * WIDE, 1, WIDE, order));
}

static sb_status bound_linear(const sb_arithmetic *ar, const sb_knobs *k, sb_ball *out)
{
    const sb_matrix w = linear_weight();
    const sb_linear_args a = linear_inputs(&w, NULL);
    return sb_bound_linear(ar, k, &a, out, NULL);
}

static sb_status reference_linear(const sb_knobs *k, float *out)
{
    const sb_matrix w = linear_weight();
    const sb_linear_args a = linear_inputs(&w, out);
    return sb_linear_fast(k, &a);
}

static void plain_swiglu(const sb_knobs *k, int order, float *out)
{
    const float *gate = hf_normal("gate", T * N, 0, 2), *up = hf_normal("up", T * N, 0, 1);
    int spared = SB_IS(k, swiglu_dense, shared_f32)  ? mlp != SB_MLP_expert
                 : SB_IS(k, swiglu_dense, dense_f32) ? mlp == SB_MLP_dense
                                                     : 0;
    (void)order;
    for (size_t i = 0; i < T * N; i++) {
        float silu = gate[i] / (1.0f + expf(-gate[i]));
        out[i] = sb_act(k, act_if(SB_IS(k, swiglu, act) && !spared, k, silu) * up[i]);
    }
}

static sb_swiglu_args swiglu_inputs(float *out)
{
    return (sb_swiglu_args){.gate = hf_normal("gate", T * N, 0, 2),
                            .up = hf_normal("up", T * N, 0, 1),
                            .count = T * N,
                            .kind = mlp,
                            .out = out};
}

static sb_status bound_swiglu(const sb_arithmetic *ar, const sb_knobs *k, sb_ball *out)
{
    const sb_swiglu_args a = swiglu_inputs(NULL);
    return sb_bound_swiglu(ar, k, &a, out, NULL);
}

static sb_status reference_swiglu(const sb_knobs *k, float *out)
{
    const sb_swiglu_args a = swiglu_inputs(out);
    return sb_swiglu_fast(k, &a);
}

TEST_WITH(test_norm_and_linear, NULL, hf_release_drawn)
{
    static const subject norm = {"rmsnorm",  T * N,      {"act=bf16", "act=bf16 norm_weight=act"},
                                 plain_norm, bound_norm, reference_norm,
                                 NULL,       NULL};
    static const subject input = {"linear",     T * N,        {"", "linear_input=weight"},
                                  plain_linear, bound_linear, reference_linear,
                                  NULL,         NULL};
    static const struct {
        sb_linear_kind kind;
        const char *knob, *covered;
    } wide[] = {{SB_LINEAR_router, "act=bf16 router_logits=f32", ""},
                {SB_LINEAR_head, "act=bf16 logits=f32", ""},
                {SB_LINEAR_expert_down, "act=bf16 moe_sum=epilogue", ""},
                {SB_LINEAR_layer, "act=bf16 moe_sum=epilogue logits=f32", "01 10"},
                {SB_LINEAR_router, "act=bf16 linear_input=weight", "01 10"}};
    check(&norm);
    kind = SB_LINEAR_layer;
    check(&input);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        subject s = {"linear",        T * N,        {"act=bf16", wide[i].knob},
                     plain_linear,    bound_linear, reference_linear,
                     wide[i].covered, NULL};
        kind = wide[i].kind;
        check(&s);
    }
}

TEST_WITH(test_swiglu, NULL, hf_release_drawn)
{
    static const char *const covered[] = {"12 21 13 31 23 32", "03 30 12 21", "02 20 03 30 23 32"};
    for (int i = 0; i <= SB_MLP_dense; i++) {
        subject s = {"swiglu",
                     T * N,
                     {"act=bf16", "act=bf16 swiglu=act",
                      "act=bf16 swiglu=act swiglu_dense=dense_f32",
                      "act=bf16 swiglu=act swiglu_dense=shared_f32"},
                     plain_swiglu,
                     bound_swiglu,
                     reference_swiglu,
                     covered[i],
                     NULL};
        mlp = (sb_mlp_kind)i;
        check(&s);
    }
}

/* --- the sum over the experts ----------------------------------------------------------------- */

enum { KEPT = 8, H = 384 };

/* The outputs of experts may be any results of down_proj. All settings get the same unrounded
 * ones. */
static sb_moe_combine_args combine_inputs(float *out)
{
    static const uint32_t ids[KEPT] = {40, 7, 63, 0, 8, 21, 3, 62};
    return (sb_moe_combine_args){.expert_out = hf_normal("f", KEPT * H, 0.3f, 1),
                                 .weights = hf_normal("weights", KEPT, 0.125f, 0.03f),
                                 .ids = ids,
                                 .shared_out = narrow(hf_normal("shared", H, 0, 1), H),
                                 .shared_logit = 0.7f,
                                 .kept = KEPT,
                                 .n = H,
                                 .out = out};
}

static float routed(const sb_knobs *k, const sb_moe_combine_args *a, size_t i, int order)
{
    static const size_t ascending[KEPT] = {3, 6, 1, 4, 5, 0, 7, 2};
    float t[KEPT], sum = 0.0f, one = 1.0f;
    for (size_t e = 0; e < KEPT; e++)
        t[e] = act_if(!SB_IS(k, moe_sum, slots), k, a->expert_out[e * H + i] * a->weights[e]);
    if (!SB_IS(k, moe_sum, eager))
        return sb_act(k, dot(t, 1, &one, 0, KEPT, order));
    for (size_t e = 0; e < KEPT; e++)
        sum = sb_act(k, sum + t[ascending[e]]);
    return sum;
}

static void plain_combine(const sb_knobs *k, int order, float *out)
{
    const sb_moe_combine_args a = combine_inputs(NULL);
    float open = 1.0f / (1.0f + expf(-a.shared_logit));
    for (size_t i = 0; i < H; i++) {
        float f[KEPT + 1], w[KEPT + 1], shared = a.shared_out[i];
        for (size_t e = 0; e < KEPT; e++) {
            f[e] = a.expert_out[e * H + i];
            w[e] = a.weights[e];
        }
        f[KEPT] = shared;
        w[KEPT] = open;
        if (SB_IS(k, moe_sum, dot))
            out[i] = sb_act(k, dot(f, 1, w, 1, KEPT + 1, order));
        else if (SB_IS(k, shared_gate, fused))
            out[i] = sb_act(k, order ? fmaf(open, shared, routed(k, &a, i, order))
                                     : routed(k, &a, i, order) + open * shared);
        else
            out[i] = sb_act(k, routed(k, &a, i, order) + sb_act(k, sb_act(k, open) * shared));
    }
}

static sb_status bound_combine(const sb_arithmetic *ar, const sb_knobs *k, sb_ball *out)
{
    const sb_moe_combine_args a = combine_inputs(NULL);
    return sb_bound_moe_combine(ar, k, &a, out, NULL);
}

static sb_status reference_combine(const sb_knobs *k, float *out)
{
    const sb_moe_combine_args a = combine_inputs(out);
    return sb_moe_combine_fast(k, &a);
}

TEST_WITH(test_combine, NULL, hf_release_drawn)
{
    static const subject forms = {"moe_combine",
                                  H,
                                  {"act=bf16", "act=bf16 moe_sum=slots", "act=bf16 moe_sum=after",
                                   "act=bf16 moe_sum=eager",
                                   "act=bf16 moe_sum=epilogue shared_gate=fused"},
                                  plain_combine,
                                  bound_combine,
                                  reference_combine,
                                  NULL,
                                  NULL};
    check(&forms);
}
