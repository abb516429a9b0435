/* test_gpu_cost_step.c - B-16: the traffic that `samebit bench` gives for the kernels of a step
 * equals the traffic counted in the emulator. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>

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

static char first[200]; /* the first difference */

static void is(const char *kernel, const char *what, double counted, double ledger)
{
    if (fabs(counted - ledger) > 1e-9 * ledger && !*first)
        snprintf(first, sizeof first, "%s: %.0f %s, and the ledger has %.0f", kernel, counted, what,
                 ledger);
}

/* A preset, the format of its weights, and a profile. */
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

/* Every kind of quantization in the profiles: codes with a scale per tensor, channel or block, and
 * E2M1. Each profile leaves some layers of these formats unquantized. */
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

/* Compares kernel by kernel. Every launch belongs to a kernel of the ledger. */
static int is_alike(const sb_moves_kernels *k, double launches)
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

/* "One pass": matrices are read once for any number of rows, each byte by one launch and one block.
 * For a model in BF16 without experts, these are all packed bytes, except that only some rows of
 * the embedding are read. The frequencies of rotations are not included. */
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
        assert_true(p->read <= matrices && p->read > 0.99 * matrices); /* the rest are factors of
                                                                        * experts */
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
    const step_part part = {.kind = STEP_VERIFY, .context = context, .rows = rows, .fused = 1};
    if (counting_part(model, &knobs, &part, &passes, &err))
        fail_msg("%s", err.text);
    const sb_config *c = &ledger.config;
    const sb_kernel_call call = {.rows = rows,
                                 .trail = 1,
                                 .fused = 1,
                                 .experts = c->experts ? passes.experts / c->layers : 0,
                                 .knobs = &knobs};
    sb_moves_kernels_of(&ledger, &options, &call, &k);
    if (!is_alike(&k, passes.launches))
        fail_msg("%s in %s, %s, %u rows: %s", of->preset, of->format, of->profile, rows, first);
    is_one_pass(&k, &passes, c, of->format);
    assert_true((said(&k, SB_COST_attention_parts).launches > 0) == (context + rows > 256));
    k.row[0].launches++;
    assert_false(is_alike(&k, passes.launches));
    sb_model_close(model);
}

TEST(fused_steps)
{
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

TEST(fused_coded_steps)
{
    for (unsigned i = 0; i < (check_all() ? CODED : USUAL); i++)
        for (uint32_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows++)
            if (rows == 4 * (i % 2) + 1 || check_all())
                check_fused(&coded[i], 3, rows);
}

/* After so many tokens that parts of the cache have their own blocks (Y-97). */
TEST(split_steps)
{
    static const kind all[] = {{"T4", "bf16", "sm121"},
                               {"T4", "nvfp4-ct", "sm121-w4a4"},
                               {"T1", "nvidia-mix", "sm121"},
                               {"T1", "nvidia-mix", "sm121-w8a8"}};
    for (unsigned i = 0; i < (check_all() ? 4 : 1); i++)
        for (uint32_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows += 4)
            if (rows == 5 || check_all())
                check_fused(&all[i], 256, rows);
}

/* --- prompts and the MTP head ----------------------------------------------------------------- */
static void join(sb_moves_kernels *to, const sb_moves_kernels *more)
{
    for (uint32_t i = 0; i < more->count; i++) {
        assert_true(to->count < SB_MOVES_LAUNCHES);
        to->row[to->count++] = more->row[i];
    }
    to->total.launches += more->total.launches;
}

/* In a draft, each row of the head goes with the hidden vector before it, so that the rows come
 * after one token less. */
static void check_part(const kind *of, const step_part *part)
{
    static sb_moves_kernels k, entries;
    static sb_moves_model ledger;
    static const sb_moves_part parts[] = {
        [STEP_ACCEPT] = SB_MOVES_ACCEPTED, [STEP_DRAFT] = SB_MOVES_DRAFT};
    const int draft = part->kind == STEP_DRAFT;
    const sb_floor_options options = {
        .kv_bytes = 2, .state_bytes = 4, .context = part->context - (uint64_t)draft};
    step_passes passes;
    sb_error err;
    sb_knobs knobs;
    sb_model *model;
    open_kind(of, &ledger, &knobs, &model);
    if (counting_part(model, &knobs, part, &passes, &err))
        fail_msg("%s", err.text);
    const sb_config *c = &ledger.config;
    sb_kernel_call call = {.part = parts[part->kind],
                           .rows = (uint32_t)part->rows,
                           .prompt = part->kind == STEP_PROMPT,
                           .trail = part->kind == STEP_VERIFY,
                           .fused = part->fused && part->rows <= SB_MOVES_FUSED_ROWS,
                           .knobs = &knobs};
    if (c->experts && passes.used > 0) {
        const double layers = draft ? 1 : c->layers, in = call.fused ? 1 : 3;
        call.sets = passes.experts / layers / in;
        call.experts = call.fused ? call.sets : passes.used / layers / in;
    }
    sb_moves_kernels_of(&ledger, &options, &call, &k);
    if (part->mtp && call.part == SB_MOVES_CALL) {
        call.part = SB_MOVES_ENTRIES;
        sb_moves_kernels_of(&ledger, &options, &call, &entries);
        join(&k, &entries);
    }
    if (!is_alike(&k, passes.launches))
        fail_msg("%s in %s, %s, part %d, %zu rows: %s", of->preset, of->format, of->profile,
                 (int)part->kind, part->rows, first);
    k.row[k.count / 2].launches++;
    assert_false(is_alike(&k, passes.launches));
    k.row[k.count / 2].launches--;
    k.row[k.count / 2].activations++;
    assert_false(is_alike(&k, passes.launches));
    sb_model_close(model);
}

TEST(prompts)
{
    static const kind all[] = {
        {"T1", "bf16", "sm121"},       {"T4", "nvidia-mix", "sm121"}, {"T6", "nvfp4-ct", "sm121"},
        {"T1", "nvidia-mix", "sm121"}, {"T2", "nvidia-mix", "sm121"}, {"T4", "bf16", "sm121"},
        {"T6", "bf16", "sm121"},       {"T1", "mxfp4", "sm121"},      {"T4", "int4-gptq", "sm121"},
        {"T1", "int8-gptq", "sm121"},  {"T4", "fp8-channel", "sm121"}};
    static const size_t rows[] = {10, 17, 70, 2, 9, 140, 300};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
            if ((i < 2 && r < 2) || i + r == 3 || (check_all() && (r < 5 || i < 2)))
                check_part(&all[i], &(step_part){.rows = rows[r], .fused = 1});
            if (r == 0 && (i == 0 || check_all()))
                check_part(&all[i], &(step_part){.context = 5, .rows = rows[r], .fused = 1});
        }
}

TEST(coded_prompts)
{
    for (unsigned i = 0; i < (check_all() ? CODED : USUAL); i++) {
        check_part(&coded[i], &(step_part){.rows = 10 + 7 * i, .fused = 1});
        if (check_all())
            check_part(&coded[i], &(step_part){.rows = 140, .context = 4, .fused = 1});
    }
}

/* A call that also feeds the head, a draft, and a round that is accepted. */
static void check_head(const kind *of, size_t rows)
{
    check_part(of, &(step_part){STEP_VERIFY, 3, rows, 1, 1});
    check_part(of, &(step_part){STEP_DRAFT, 3 + rows, 1, 1, 1});
    check_part(of, &(step_part){STEP_PROMPT, 4, 10 + rows, 1, 1});
    if (rows > 1)
        check_part(of, &(step_part){STEP_ACCEPT, 3, rows, 1, 1});
}

TEST(heads)
{
    static const kind all[] = {{"T1", "bf16", "sm121"},           {"T4", "nvidia-mix", "sm121"},
                               {"T4", "bf16", "sm121"},           {"T1", "nvidia-mix", "sm121"},
                               {"T2", "nvidia-mix", "sm121"},     {"T6", "nvfp4-ct", "sm121"},
                               {"T1", "fp8-block", "sm121-w8a8"}, {"T1", "nvfp4-ct", "sm121-w4a4"}};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t rows = 1; rows <= SB_MOVES_FUSED_ROWS; rows++)
            if ((i < 2 && rows == 4) || check_all())
                check_head(&all[i], rows);
    if (check_all())
        check_part(&all[2], &(step_part){STEP_DRAFT, 257, 1, 1, 1});
}
