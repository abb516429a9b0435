/* test_gpu_hollow.c - models that consist only of shapes, with weights drawn by kernels. Their
 * values are finite, keep about the size of the values they are computed from, and differ for every
 * token. */
#include "tests/lib/suite.h"

#include <string.h>

#include "gpu/meter/meter.h"
#include "ref/run/session.h"
#include "tests/lib/check_all.h"
#include "tools/bench/hollow.h"
#include "tools/bench/moves.h"

enum { TOKENS = 6, EXPERTS = 1024, VOCABULARY = 4096 };

typedef struct watch {
    uint32_t chosen[EXPERTS];
    size_t layers, choices;
    size_t rows, alike; /* rows after the first; those with the first row's choice */
} watch;

typedef struct outcome {
    sb_digest digest;       /* of the logits of the last row */
    float square;           /* their mean square */
    size_t experts, chosen; /* experts of the model; those chosen by some row */
    size_t most;            /* choices of the most frequent expert */
    watch seen;
} outcome;

static int ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Inputs of these layers have a mean square of about 1. The weights are drawn so that the mean
 * square of the outputs is about 1, too. */
static void see_spread(const char *name, const float *data, size_t n)
{
    static const char *const of_norms[] = {".in_proj_qkv", ".in_proj_z", ".q_proj",
                                           ".k_proj",      ".v_proj",    "mlp.gate"};
    float square = 0;
    for (size_t i = 0; i < n; i++)
        square += data[i] * data[i] / (float)n;
    for (size_t i = 0; i < sizeof of_norms / sizeof *of_norms; i++)
        if (ends_with(name, of_norms[i]) && !(square > 0.1f && square < 10.0f))
            fail_msg("%s: the mean square is %g", name, (double)square);
}

static sb_status see(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                     sb_error *err)
{
    watch *w = ctx;
    (void)err;
    for (size_t i = 0; i < rows * cols; i++)
        if (!(data[i] - data[i] == 0))
            fail_msg("%s: element %zu is not finite", name, i);
    see_spread(name, data, rows * cols);
    if (!ends_with(name, "mlp.router_ids"))
        return SB_OK;
    w->layers++;
    w->choices += rows * cols;
    w->rows += rows - 1;
    for (size_t i = 1; i < rows; i++)
        w->alike += memcmp(data, data + i * cols, cols * sizeof *data) == 0;
    for (size_t i = 0; i < rows * cols; i++)
        w->chosen[(size_t)data[i]]++;
    return SB_OK;
}

static sb_hollow_options options_of(const char *preset, const char *name)
{
    const sb_moves_recipe *recipe;
    sb_error err;
    assert_int_equal(sb_moves_recipe_find(name, &recipe, &err), SB_OK);
    return (sb_hollow_options){.preset = preset,
                               .format = recipe->format,
                               .further = recipe->further,
                               .modules = recipe->modules,
                               .seed = 42,
                               .mtp = 1};
}

static outcome run(const sb_hollow_options *o, const char *profile, uint64_t seed)
{
    static const uint32_t tokens[TOKENS] = {3, 1, 4, 1, 5, 9};
    static watch seen;
    sb_error err = {""};
    sb_hollow hollow;
    sb_knobs knobs;
    sb_session *session = NULL;
    outcome out = {0};
    seen = (watch){.layers = 0};
    if (sb_hollow_new(o, &hollow, &err))
        fail_msg("%s", err.text);
    const sb_backend *emu = sb_backend_emu();
    assert_int_equal(sb_meter_draws(emu, hollow.first, hollow.bytes, seed, &err), SB_OK);
    assert_int_equal(sb_knobs_profile(&knobs, profile, &err), SB_OK);
    const sb_session_options session_options = {.backend = emu,
                                                .knobs = &knobs,
                                                .tap = see,
                                                .tap_ctx = &seen,
                                                .mtp = sb_model_has_mtp(hollow.model)};
    const size_t n = hollow.model->config.vocab_size;
    static float logits[VOCABULARY];
    assert_true(n <= VOCABULARY && hollow.model->config.experts <= EXPERTS);
    assert_int_equal(sb_session_new(hollow.model, &session_options, &session, &err), SB_OK);
    if (sb_session_feed(session, tokens, TOKENS - 1, &err) ||
        sb_session_feed(session, tokens + TOKENS - 1, 1, &err) ||
        sb_session_logits(session, 0, logits, &err))
        fail_msg("%s %s %s: %s", o->preset, o->format, profile, err.text);
    for (size_t i = 0; i < n; i++)
        out.square += logits[i] * logits[i] / (float)n;
    for (size_t e = 0; e < EXPERTS; e++) {
        out.chosen += seen.chosen[e] > 0;
        out.most = seen.chosen[e] > out.most ? seen.chosen[e] : out.most;
    }
    out.experts = hollow.model->config.experts;
    out.seen = seen;
    out.digest = sb_digest_f32(logits, n);
    sb_session_free(session);
    sb_gpu_forget(emu);
    assert_int_equal(sb_meter_draws(emu, NULL, 0, 0, &err), SB_OK);
    sb_hollow_free(&hollow);
    return out;
}

/* B-18: "the outputs of layers stay about as large as their inputs" - and experts
 * differ. */
static void held(const char *preset, const char *recipe, const char *profile, const outcome *x)
{
    if (!(x->square > 0.25f && x->square < 4.0f))
        fail_msg("%s %s %s: the mean square of the logits is %g", preset, recipe, profile,
                 (double)x->square);
    if (!x->experts)
        return;
    if (!x->seen.layers || x->chosen * 2 < x->experts || x->most * 4 > x->seen.choices)
        fail_msg("%s %s %s: %zu of %zu experts in %zu choices, one of them in %zu", preset, recipe,
                 profile, x->chosen, x->experts, x->seen.choices, x->most);
    if (x->seen.alike * 2 > x->seen.rows)
        fail_msg("%s %s %s: of %zu rows %zu chose what the first one chose", preset, recipe,
                 profile, x->seen.rows, x->seen.alike);
}

TEST(test_finite)
{
    static const char *const presets[] = {"T1", "T2", "T3", "T4"};
    static const char *const recipes[] = {"nvidia-mix", "nvfp4-all", "fp8", "bf16"};
    static const char *const profiles[] = {"sm121", "sm121-w8a8", "sm121-w4a4"};
    sb_backend_emu_history(0);
    for (size_t p = 0; p < 4; p++)
        for (size_t r = 0; r < (p == 0 ? 4 : 1); r++)
            for (size_t k = 0; k < (p + r == 0 ? 3 : 1); k++) {
                sb_hollow_options o = options_of(presets[p], recipes[r]);
                o.layers = p + r + k == 0 || check_all() ? 0 : 4;
                const outcome x = run(&o, profiles[k], 42);
                held(presets[p], recipes[r], profiles[k], &x);
            }
}

/* The seed determines everything, and the drawing kernels have no race. */
TEST(test_seed)
{
    sb_hollow_options o = options_of("T1", "nvidia-mix");
    o.layers = check_all() ? 0 : 4;
    sb_backend_emu_history(0);
    const outcome x = run(&o, "sm121", 42), other = run(&o, "sm121", 43);
    sb_backend_emu_history(1);
    const outcome again = run(&o, "sm121", 42);
    assert_memory_equal(&x.digest, &again.digest, sizeof x.digest);
    assert_memory_not_equal(&x.digest, &other.digest, sizeof x.digest);
}

/* As deep as the published model: 40 layers. */
TEST(test_deep)
{
    sb_hollow_options o = options_of("T1", "nvidia-mix");
    o.layers = 40;
    sb_backend_emu_history(0);
    const outcome x = run(&o, "sm121", 7);
    held("T1 of 40 layers", "nvidia-mix", "sm121", &x);
}

/* B-18: "never made, written or copied to the device" - only shapes
 * alone; and the bytes are those of the ledger. */
TEST(test_large)
{
    static const char *const recipes[] = {"nvidia-mix", "nvfp4-all", "fp8", "bf16"};
    static sb_moves_model ledger;
    for (size_t r = 0; r < 4; r++) {
        const sb_hollow_options o = options_of("35b-a3b", recipes[r]);
        const sb_moves_recipe *recipe;
        sb_hollow hollow;
        sb_error err = {""};
        uint64_t bytes = 0;
        assert_int_equal(sb_moves_recipe_find(recipes[r], &recipe, &err), SB_OK);
        assert_int_equal(sb_moves_model_of("35b-a3b", recipe, &ledger, &err), SB_OK);
        if (sb_hollow_new(&o, &hollow, &err))
            fail_msg("%s", err.text);
        for (unsigned i = 0; i < SB_MOVES_OPS; i++)
            bytes += ledger.trunk[i].stored + ledger.mtp[i].stored;
        assert_int_equal(sb_checkpoint_bytes(hollow.model->checkpoint), bytes);
        sb_hollow_free(&hollow);
    }
}
