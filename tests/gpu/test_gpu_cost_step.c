/* test_gpu_cost_step.c - B-16: what `samebit bench` says that the kernels of a step move is what
 * they move in one, counted on the emulator. */
#include "tests/lib/cmocka.h"

#include <math.h>
#include <stdio.h>

#include "ref/run/session.h"
#include "tests/gpu/step_counts.h"
#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"
#include "tools/bench/moves_kernels.h"

static step_counts said(const sb_moves_kernels *k, sb_cost_kernel kernel)
{
    step_counts sum = {0};
    for (uint32_t i = 0; i < k->count; i++)
        if (counted_together(k->row[i].kernel, kernel)) {
            sum.launches += k->row[i].launches;
            sum.weights += k->row[i].weights;
            sum.kept += k->row[i].kept;
            sum.activations += k->row[i].activations;
            sum.again += k->row[i].again;
        }
    return sum;
}

static char first[200]; /* of what differs */

static void is(const char *kernel, const char *what, double counted, double ledger)
{
    if (fabs(counted - ledger) > 1e-9 * ledger && !*first)
        snprintf(first, sizeof first, "%s: %.0f %s, and the ledger has %.0f", kernel, counted, what,
                 ledger);
}

/* An op converts its whole cache (kv), and positions may come in three streams (rope_table). */
static int alike(const sb_moves_kernels *k)
{
    *first = 0;
    for (unsigned i = 0; i < SB_COST_KERNELS; i++) {
        const sb_cost_kernel kernel = (sb_cost_kernel)i;
        const char *name = sb_cost_name(kernel);
        const step_counts have = counted_of(kernel), want = said(k, kernel);
        is(name, "launches", have.launches, want.launches);
        is(name, "bytes of weights", have.weights, want.weights);
        if (kernel != SB_COST_kv)
            is(name, "bytes that are kept", have.kept, want.kept);
        if (kernel != SB_COST_kv && kernel != SB_COST_rope_table)
            is(name, "bytes of activations", have.activations, want.activations);
        is(name, "bytes that blocks read again", have.again, want.again);
    }
    return !*first;
}

/* A preset, how its weights are stored, and a profile. */
typedef struct kind {
    const char *preset, *format, *profile;
} kind;

static void open_kind(const kind *of, sb_moves_model *ledger, sb_knobs *knobs, sb_model **model)
{
    const sb_moves_recipe recipe = {.name = of->format, .format = of->format};
    sb_error err;
    if (sb_knobs_profile(knobs, of->profile, &err) ||
        sb_moves_model_of(of->preset, &recipe, ledger, &err))
        fail_msg("%s", err.text);
    *model = test_model_open(
        test_checkpoint("test_gpu_cost_step", of->preset, NULL, of->format, "text"));
}

static sb_session *session_of(const sb_model *model, const sb_knobs *knobs, int mtp)
{
    const sb_session_options options = {.backend = counting_backend(), .knobs = knobs, .mtp = mtp};
    sb_error err;
    sb_session *session;
    if (sb_session_new(model, &options, &session, &err))
        fail_msg("%s", err.text);
    return session;
}

/* Behind three tokens of its own, a step and its logits; or, of the head, the draft. */
static void run(sb_session *session, int mtp)
{
    static float logits[1024];
    const uint32_t prompt[] = {1, 2, 3, 4};
    sb_error err;
    sb_status status = sb_session_feed(session, prompt, mtp ? 4 : 3, &err);
    counting_begins();
    if (!status)
        status = mtp ? sb_session_draft(session, 5, logits, &err)
                     : sb_session_feed(session, prompt + 3, 1, &err);
    if (!status && !mtp)
        status = sb_session_logits(session, 0, logits, &err);
    if (status)
        fail_msg("%s", err.text);
}

static void check_step(const kind *of, int mtp)
{
    static sb_moves_kernels k;
    static sb_moves_model ledger;
    const sb_floor_options options = {.kv_bytes = 2, .state_bytes = 4, .context = 3};
    sb_knobs knobs;
    sb_model *model;
    open_kind(of, &ledger, &knobs, &model);
    sb_session *session = session_of(model, &knobs, mtp);
    run(session, mtp);
    assert_null(counted_unknown());
    const sb_kernel_call call = {.in_mtp = mtp, .rows = 1, .knobs = &knobs};
    sb_moves_kernels_of(&ledger, &options, &call, &k);
    if (!alike(&k))
        fail_msg("%s in %s, %s: %s", of->preset, of->format, of->profile, first);
    k.row[0].launches++;
    assert_false(alike(&k));
    sb_session_free(session);
    counting_forgets_weights();
    sb_model_close(model);
}

static void steps(void **state)
{
    (void)state;
    static const char *const formats[] = {"bf16",  "nvfp4-modelopt", "nvidia-mix", "fp8-block",
                                          "mxfp4", "int4-gptq",      "int8-gptq",  "fp8-channel"};
    for (unsigned f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int mtp = 0; mtp < 2; mtp++) {
            if ((f < 4 && f % 2 == 0) || check_all())
                check_step(&(kind){"T1", formats[f], "sm121"}, mtp);
            if ((f < 4 && f % 2 != 0) || check_all())
                check_step(&(kind){"T4", formats[f], "sm121"}, mtp);
        }
}

/* What the profiles quantize: codes with a scale for each tensor, channel or block, and E2M1; and
 * what each leaves to the other, or to none. */
static const kind coded[] = {
    {"T1", "nvidia-mix", "sm121-w8a8"},      {"T1", "nvidia-mix", "sm121-w4a4"},
    {"T4", "fp8-block", "sm121-w8a8"},       {"T4", "nvfp4-ct", "sm121-w4a4"},
    {"T1", "fp8-block", "sm121-w8a8"},       {"T1", "nvfp4-modelopt", "sm121-w4a4"},
    {"T4", "fp8-channel", "sm121-w8a8"},     {"T4", "nvidia-mix", "sm121-w4a4"},
    {"T1", "fp8-tensor", "sm121-w8a8"},      {"T1", "nvfp4-ct", "sm121-w4a4"},
    {"T4", "nvfp4a16-ct", "sm121-w4a4"},     {"T3", "fp8-channel", "sm121-w8a8"},
    {"T1", "int4-fp8-hybrid", "sm121-w8a8"}, {"T3", "nvidia-mix", "sm121-w4a4"},
};
enum { CODED = sizeof coded / sizeof *coded, USUAL = 4 };

static void coded_steps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < (check_all() ? CODED : USUAL); i++)
        for (int mtp = 0; mtp < 2; mtp++)
            check_step(&coded[i], mtp);
}

/* --- by fused kernels --------------------------------------------------------------------------
 */
/* Kernel by kernel; and no launch is of a kernel that the ledger lacks. */
static int fused_alike(const sb_moves_kernels *k, double launches)
{
    *first = 0;
    for (unsigned i = 0; i < SB_COST_KERNELS; i++) {
        const sb_cost_kernel kernel = (sb_cost_kernel)i;
        const char *name = sb_cost_name(kernel);
        const step_counts have = counted_of_step(kernel), want = said(k, kernel);
        is(name, "launches", have.launches, want.launches);
        is(name, "bytes of weights", have.weights, want.weights);
        is(name, "bytes that are kept", have.kept, want.kept);
        is(name, "bytes of activations", have.activations, want.activations);
        is(name, "bytes that blocks read again", have.again, want.again);
    }
    is("all kernels", "launches", launches, k->total.launches);
    return !*first;
}

static int multiplies(sb_cost_kernel kernel)
{
    return kernel == SB_COST_linear || counted_together(kernel, SB_COST_tile) ||
           counted_together(kernel, SB_COST_tile_fp8);
}

/* "One pass": matrices are read once, whatever the rows, each byte by one launch and one block. Of
 * a model in BF16 without experts that is all that was packed, but of the embedding its rows alone;
 * the frequencies of rotations are no part of it. */
static void is_one_pass(const sb_moves_kernels *k, const step_passes *p, const sb_config *c,
                        const char *format)
{
    const double table = 2.0 * c->vocab_size * c->hidden_size;
    double matrices = 0;
    for (uint32_t i = 0; i < k->count; i++)
        if (multiplies(k->row[i].kernel))
            matrices += k->row[i].weights;
    assert_true(p->by_blocks == p->read);
    if (c->experts || strcmp(format, "bf16") != 0) {
        assert_true(p->read <= matrices && p->read > 0.99 * matrices); /* factors of experts */
        return;
    }
    assert_true(p->read == matrices);
    const double rows = 2.0 * counted_of_step(SB_COST_embed).weights;
    const double frequencies = 2.0 * c->rotary_dim;
    assert_true(k->total.weights - rows / 2 - frequencies == p->stays - table);
}

static void check_fused(const kind *of, uint64_t context, uint32_t rows)
{
    static sb_moves_kernels k;
    static sb_moves_model ledger;
    const sb_floor_options options = {.kv_bytes = 2, .state_bytes = 4, .context = context};
    step_passes passes;
    sb_error err;
    sb_knobs knobs;
    sb_model *model;
    open_kind(of, &ledger, &knobs, &model);
    if (counting_step(model, &knobs, context, rows, &passes, &err))
        fail_msg("%s", err.text);
    const sb_config *c = &ledger.config;
    const sb_kernel_call call = {.rows = rows,
                                 .trail = 1,
                                 .fused = 1,
                                 .experts = c->experts ? passes.experts / c->layers : 0,
                                 .knobs = &knobs};
    sb_moves_kernels_of(&ledger, &options, &call, &k);
    if (!fused_alike(&k, passes.launches))
        fail_msg("%s in %s, %s, %u rows: %s", of->preset, of->format, of->profile, rows, first);
    is_one_pass(&k, &passes, c, of->format);
    assert_true((said(&k, SB_COST_attention_parts).launches > 0) == (context + rows > 256));
    k.row[0].launches++;
    assert_false(fused_alike(&k, passes.launches));
    sb_model_close(model);
}

static void fused_steps(void **state)
{
    (void)state;
    static const kind plain[] = {{"T4", "bf16", "sm121"}, {"T1", "bf16", "sm121"}},
                      mixed[] = {{"T4", "nvidia-mix", "sm121"}, {"T1", "nvidia-mix", "sm121"}};
    for (uint32_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows++) {
        check_fused(&plain[0], 3, rows);
        if (rows == 4 || check_all())
            check_fused(&plain[1], 3, rows);
        if (rows == 4 || check_all())
            check_fused(&mixed[0], 3, rows);
        if (rows == 1 || rows == 4 || check_all())
            check_fused(&mixed[1], 3, rows);
    }
}

static void fused_coded_steps(void **state)
{
    (void)state;
    for (unsigned i = 0; i < (check_all() ? CODED : USUAL); i++)
        for (uint32_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows++)
            if (rows == 4 * (i % 2) + 1 || check_all())
                check_fused(&coded[i], 3, rows);
}

/* Behind so many tokens that parts of the cache are blocks of their own (Y-97). */
static void split_steps(void **state)
{
    (void)state;
    static const kind all[] = {{"T4", "bf16", "sm121"},
                               {"T4", "nvfp4-ct", "sm121-w4a4"},
                               {"T1", "nvidia-mix", "sm121"},
                               {"T1", "nvidia-mix", "sm121-w8a8"}};
    for (unsigned i = 0; i < (check_all() ? 4 : 1); i++)
        for (uint32_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows += 4)
            if (rows == 5 || check_all())
                check_fused(&all[i], 256, rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps), cmocka_unit_test(coded_steps), cmocka_unit_test(fused_steps),
        cmocka_unit_test(fused_coded_steps), cmocka_unit_test(split_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
