/* test_gpu_experts_model.c - grouped experts in a backend: Y-60, for weights of every container,
 * and for a whole model. */
#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/formats/format.h"
#include "tests/gpu/plant.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/record.h"

enum { MOST_ROWS = 145, MOST_KEPT = 8 };

static size_t grouped; /* the calls that the backend accepted */

static sb_status counted(const sb_knobs *knobs, const sb_expert_linear_args *args, size_t n)
{
    sb_status status = sb_backend_emu()->experts(knobs, args, n);
    grouped += status == SB_OK;
    return status;
}

static sb_knobs knobs_of(const char *profile)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, profile, NULL), SB_OK);
    return knobs;
}

/* --- one layer -------------------------------------------------------------------------------- */

/* kind 0: any expert; 1: all rows choose one; 2: the next ones in turn. */
static void draw_ids(uint32_t *ids, size_t count, size_t kept, size_t experts, unsigned kind)
{
    uint64_t key = sb_rng_key(count * 7 + kind, "ids");
    for (size_t i = 0; i < count; i++) {
        uint32_t any = sb_rng_below(key, i / kept, (uint32_t)experts);
        ids[i] = kind == 1   ? 2
                 : kind == 0 ? (uint32_t)((any + i % kept * 3) % experts)
                             : (uint32_t)(i % experts);
    }
}

/* Computes the pairs of one expert in one call of the op `linear`. */
static void one_expert(const sb_knobs *knobs, const sb_expert_linear_args *a, uint32_t expert,
                       float *out)
{
    size_t n = a->weight->rows, k = a->weight->cols, pairs = a->rows * a->kept, count = 0;
    float *in = sb_alloc(pairs * k, sizeof *in), *all = sb_alloc(pairs * n, sizeof *all);
    assert_true(in && all);
    for (size_t i = 0; i < pairs; i++)
        if (a->ids[i] == expert)
            memcpy(in + count++ * k, a->in + i / a->each * k, k * sizeof *in);
    sb_linear_args one = {.weight = sb_expert_weight(a, expert),
                          .kind = a->kind,
                          .in = in,
                          .rows = count,
                          .out = all};
    if (count && sb_backend_emu()->ops.linear(knobs, &one))
        fail_msg("%s", sb_backend_emu()->why());
    count = 0;
    for (size_t i = 0; i < pairs; i++)
        if (a->ids[i] == expert)
            memcpy(out + i * n, all + count++ * n, n * sizeof *out);
    free(in);
    free(all);
}

/* Whether calls with 1 to 17 rows (or some of these), and with many rows, have the bits of single
 * calls. */
static int is_the_same(const sb_knobs *knobs, const sb_expert_linear_args *of, size_t rows,
                       unsigned kind, uint64_t seed)
{
    static uint32_t ids[MOST_ROWS * MOST_KEPT];
    sb_expert_linear_args a = *of;
    size_t inputs, outputs;
    a.rows = rows;
    a.ids = ids;
    inputs = rows * a.kept / a.each * a.weight->cols;
    outputs = rows * a.kept * a.weight->rows;
    float *in = sb_alloc(inputs, sizeof *in), *want = sb_alloc(outputs, sizeof *want);
    a.out = sb_alloc(outputs, sizeof *a.out);
    a.in = in;
    assert_true(in && want && a.out);
    for (size_t i = 0; i < inputs; i++)
        in[i] = sb_round_to(SB_FORMAT_bf16, sb_rng_normal(seed + rows, i));
    draw_ids(ids, rows * a.kept, a.kept, a.experts, kind);
    sb_backend_emu_seed(seed);
    sb_status status = sb_backend_emu()->experts(knobs, &a, 1);
    if (status && !*planted)
        fail_msg("%zu rows: status %d, %s", rows, (int)status, sb_backend_emu()->why());
    const char *fault = planted;
    plant("");
    for (uint32_t e = 0; e < a.experts; e++)
        one_expert(knobs, &a, e, want);
    plant(fault);
    int same = !status && memcmp(want, a.out, outputs * sizeof *want) == 0;
    free(in);
    free(want);
    free(a.out);
    return same;
}

static sb_expert_linear_args projection(const sb_expert *experts, const sb_config *c, int down)
{
    return (sb_expert_linear_args){.weight = down ? &experts->down : &experts->gate,
                                   .stride = sizeof *experts,
                                   .experts = c->experts,
                                   .kept = c->experts_per_token,
                                   .each = down ? 1 : c->experts_per_token,
                                   .kind = down ? SB_LINEAR_expert_down : SB_LINEAR_layer};
}

TEST(test_rows)
{
    sb_model *m = test_model_open(test_checkpoint("gpu_experts", "T1", NULL, "bf16", "text"));
    sb_knobs knobs = knobs_of("sm121");
    for (int down = 0; down < 2; down++) {
        sb_expert_linear_args a = projection(m->weights->layers[0].experts, &m->config, down);
        for (size_t rows = 1; rows <= 17; rows++)
            assert_true(is_the_same(&knobs, &a, rows, (unsigned)rows % 3, rows));
        assert_true(is_the_same(&knobs, &a, 64, 0, 1));
        assert_true(is_the_same(&knobs, &a, 65, 1, 2)); /* 64 pairs per set */
    }
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(m);
}

static const struct {
    const char *preset, *format, *profile;
    unsigned group;
} layers[] = {
    {"T3", "int4-autoround", "sm121", 0}, {"T3", "nvfp4-ct", "sm121", 0},
    {"T3", "nvfp4-ct", "sm121-w4a4", 0},  {"T3", "nvfp4-modelopt", "sm121", 0},
    {"T6", "fp8-block", "sm121", 0},      {"T6", "fp8-block", "sm121-w8a8", 0},
    {"T3", "fp8-channel", "sm121", 0},    {"T6", "fp8-channel", "sm121-w8a8", 0},
    {"T3", "fp8-tensor", "sm121", 0},     {"T3", "fp8-tensor", "sm121-w8a8", 0},
    {"T3", "mxfp4", "sm121", 0},          {"T3", "mxfp8", "sm121", 0},
    {"T6", "int4-gptq", "sm121", 16},     {"T3", "int4-awq", "sm121", 0},
    {"T3", "int8-gptq", "sm121", 0},      {"T3", "int4-ct", "sm121", 0},
};

static sb_model *open_layer(size_t i)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", layers[i].preset, layers[i].format);
    return test_model_open(
        test_checkpoint_with("gpu_experts", &(sb_make_options){.dir = name,
                                                               .preset = layers[i].preset,
                                                               .format = layers[i].format,
                                                               .group_size = layers[i].group,
                                                               .layers = 1,
                                                               .no_mtp = 1,
                                                               .replace = 1}));
}

/* Every kind of weight and of input. */
TEST(test_formats)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        sb_model *m = open_layer(i);
        sb_knobs knobs = knobs_of(layers[i].profile);
        for (int down = 0; down < 2; down++) {
            sb_expert_linear_args a = projection(m->weights->layers[0].experts, &m->config, down);
            for (size_t rows = 1; rows <= 20; rows += 18)
                if (!is_the_same(&knobs, &a, rows, (unsigned)(i + rows) % 3, i))
                    fail_msg("%s %s, %zu rows: other bits", layers[i].format, layers[i].profile,
                             rows);
        }
        sb_gpu_forget(sb_backend_emu());
        sb_model_close(m);
    }
}

/* More than 32 pairs per expert on average, for each kind of quantized inputs: blocks of 128. */
TEST(test_many)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (!strcmp(layers[i].profile, "sm121"))
            continue;
        sb_model *m = open_layer(i);
        sb_knobs knobs = knobs_of(layers[i].profile);
        sb_expert_linear_args a = projection(m->weights->layers[0].experts, &m->config, 0);
        if (!is_the_same(&knobs, &a, MOST_ROWS, 0, i))
            fail_msg("%s %s: other bits", layers[i].format, layers[i].profile);
        plant("wide_rows");
        assert_false(is_the_same(&knobs, &a, MOST_ROWS, 0, i));
        plant("");
        sb_gpu_forget(sb_backend_emu());
        sb_model_close(m);
    }
}

/* --- refused calls ---------------------------------------------------------------------------- */
TEST(test_refusals)
{
    uint32_t ids[2] = {0, 16};
    float in[128] = {0}, out[256];
    sb_model *m = test_model_open(test_checkpoint("gpu_experts", "T1", NULL, "bf16", "text"));
    const sb_config *c = &m->config;
    sb_knobs knobs = knobs_of("sm121"), exact;
    sb_knobs_exact(&exact);
    sb_expert_linear_args a = projection(m->weights->layers[0].experts, c, 0);
    a.ids = ids;
    a.rows = 1;
    a.kept = a.each = 2;
    a.in = in;
    a.out = out;
    assert_int_equal(sb_backend_emu()->experts(&knobs, &a, 1), SB_ERR_USAGE);
    assert_string_equal(sb_backend_emu()->why(), "row 0 has kept expert 16, expected one below 16");
    ids[1] = 15;
    assert_int_equal(sb_backend_emu()->experts(&knobs, &a, 1), SB_OK);
    assert_int_equal(sb_backend_emu()->experts(&exact, &a, 1), SB_ERR_UNSUPPORTED);
    in[3] = 0x1.000002p0f; /* not a bfloat16 value */
    assert_int_equal(sb_backend_emu()->experts(&knobs, &a, 1), SB_ERR_UNSUPPORTED);
    in[3] = 1.0f;
    a.rows = 0;
    assert_int_equal(sb_backend_emu()->experts(&knobs, &a, 1), SB_OK);
    a.rows = 1;
    sb_expert *others = sb_alloc(c->experts, sizeof *others);
    assert_non_null(others);
    memcpy(others, m->weights->layers[0].experts, c->experts * sizeof *others);
    a.weight = &others->gate;
    assert_int_equal(sb_backend_emu()->experts(&knobs, &a, 1), SB_OK);
    others[9].gate.quant.factor = (sb_factor){SB_DIVISOR, 2.0f};
    assert_int_equal(sb_backend_emu()->experts(&knobs, &a, 1), SB_ERR_UNSUPPORTED);
    free(others);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(m);
}

/* Y-62: each expert has its own factor for its input. */
TEST(test_input_factors)
{
    sb_model *m = test_model_open(test_checkpoint("gpu_experts", "T3", NULL, "nvfp4-ct", "text"));
    const sb_config *c = &m->config;
    sb_knobs knobs = knobs_of("sm121-w4a4");
    sb_expert *others = sb_alloc(c->experts, sizeof *others);
    assert_non_null(others);
    memcpy(others, m->weights->layers[0].experts, c->experts * sizeof *others);
    for (uint32_t e = 0; e < c->experts; e++) {
        others[e].gate.quant.input.value *= 1.0f + 0.3f * (float)e;
        others[e].down.quant.input.value *= 1.0f + 0.3f * (float)e;
    }
    for (int down = 0; down < 2; down++) {
        sb_expert_linear_args a = projection(others, c, down);
        for (size_t rows = 1; rows <= 9; rows += 4)
            assert_true(is_the_same(&knobs, &a, rows, 0, rows));
    }
    free(others);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(m);
}

/* --- a whole model ---------------------------------------------------------------------------- */
static sb_status pass_on(void *ctx, const sb_op_call *call)
{
    (void)ctx;
    return sb_op_run(call);
}

/* A prompt and a step, with all taps and the state. Returns 0 on failure. */
static int travel(const sb_model *m, const sb_session_options *options, test_record *taps,
                  sb_digest *end)
{
    enum { PROMPT = 2 };
    uint32_t ids[PROMPT + 1];
    float *logits = sb_alloc(m->config.vocab_size, sizeof *logits);
    sb_session_options own = *options;
    sb_session *session;
    sb_error err;
    own.tap = test_record_tap;
    own.tap_ctx = taps;
    assert_non_null(logits);
    test_draw_ids("experts", m->config.vocab_size, ids, PROMPT + 1);
    assert_int_equal(sb_session_new(m, &own, &session, &err), SB_OK);
    sb_status status = sb_session_feed(session, ids, PROMPT, &err);
    if (!status)
        status = sb_session_logits(session, PROMPT - 1, logits, &err);
    if (!status)
        status = sb_session_feed(session, ids + PROMPT, 1, &err);
    if (!status)
        status = sb_session_logits(session, 0, logits, &err);
    if (status && !*planted)
        fail_msg("%s", err.text);
    *end = test_state_digest(session);
    sb_session_free(session);
    free(logits);
    return !status;
}

/* Whether all values equal those of `single`. */
static int agrees(const sb_model *m, const sb_session_options *options, const test_record *single,
                  const sb_digest *state)
{
    test_record taps = {0};
    sb_digest end;
    int same = travel(m, options, &taps, &end) && taps.count == single->count &&
               strcmp(end.hex, state->hex) == 0;
    for (size_t i = 0; same && i < taps.count; i++)
        same = strcmp(taps.taps[i].name, single->taps[i].name) == 0 &&
               strcmp(taps.taps[i].digest.hex, single->taps[i].digest.hex) == 0;
    test_record_free(&taps);
    return same;
}

static void check_model(const char *preset, const char *format, const char *profile, int faults)
{
    char name[64];
    snprintf(name, sizeof name, "model-%s-%s", preset, format);
    sb_make_options make = {
        .dir = name, .preset = preset, .format = format, .layers = 4, .no_mtp = 1, .replace = 1};
    sb_model *m = test_model_open(test_checkpoint_with("gpu_experts", &make));
    const size_t calls = 3 * 2 * (size_t)m->config.layers;
    sb_knobs knobs = knobs_of(profile);
    sb_backend single = *sb_backend_emu(), together = single;
    single.experts = NULL;
    together.experts = counted;
    sb_session_options options = {.backend = &single, .knobs = &knobs};
    test_record taps = {0};
    sb_digest end;
    sb_backend_emu_seed(1);
    assert_true(travel(m, &options, &taps, &end));
    options.backend = &together;
    sb_backend_emu_seed(2);
    grouped = 0;
    assert_true(agrees(m, &options, &taps, &end));
    assert_int_equal(grouped, calls);
    if (faults) {
        options.hook = pass_on;
        assert_true(agrees(m, &options, &taps, &end));
        assert_int_equal(grouped, calls);
        options.hook_skips_experts = 1;
        assert_true(agrees(m, &options, &taps, &end));
        assert_int_equal(grouped, 2 * calls);
        plant("experts_tile");
        assert_false(agrees(m, &options, &taps, &end));
        plant("experts_order");
        assert_false(agrees(m, &options, &taps, &end));
        plant("");
    }
    test_record_free(&taps);
    sb_gpu_forget(sb_backend_emu());
    sb_model_close(m);
}

TEST(test_models)
{
    check_model("T1", "bf16", "sm121", 1);
    check_model("T2", "bf16", "sm121", 0);
    check_model("T5", "nvfp4-ct", "sm121-w4a4", 0);
}
