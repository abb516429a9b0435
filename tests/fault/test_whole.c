/* test_whole.c - more data never weakens a verdict. Engines with mistakes between their calls are
 * judged on complete recordings and on parts of them.
 *
 * T-70: "the verdict on all recorded data is never better than the verdict on a part of it" */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"
#include "tests/lib/plain.h"
#include "tests/lib/suite.h"
#include "tools/judge/compare/explain.h"
#include "tools/judge/fault/trial.h"

#define PROGRAM "test_whole"

/* Engines whose inputs become codes have other noise than the rest. */
static const struct {
    const char *preset, *format, *settings;
} vehicles[] = {
    {"T1", "nvfp4-ct", "act_fp4=ct"},
    {"T1", "bf16", ""},
    {"T1", "fp8-block", "act_fp8_group=vllm_cuda"},
    {"T1", "bf16", "kv_cache=fp8"},
    {"T4", "fp8-block", "act_fp8_group=vllm_cuda"},
};
enum { VEHICLES = sizeof vehicles / sizeof *vehicles };

static const char *const engines[] = {"pairwise", "lanes8", "fma", "flash"};
enum { ENGINES = sizeof engines / sizeof *engines };

/* The parts of a recording: the levels of docs/trace.md, and everything except one kind of
 * array. */
typedef enum part {
    WHOLE,
    TOKENS,      /* level 0 */
    LOGITS,      /* level 1 */
    CHOICES,     /* level 2: also the experts */
    STATES,      /* level 3: also the states */
    NO_LOGITS,   /* everything except one kind */
    NO_DRAFTS,   /* without logits of the MTP head */
    NO_EXPERTS,  /* without choices of experts */
    NO_STATES,   /* without states */
    NO_TRUNK_OPS /* without outputs of the layers' ops */
} part;
enum { PARTS = NO_TRUNK_OPS + 1 };
static const char *const part_names[PARTS] = {"all of it",      "tokens",
                                              "and logits",     "and experts",
                                              "and states",     "without logits",
                                              "without drafts", "without experts",
                                              "without states", "without ops of layers"};

typedef enum kind { KIND_logits, KIND_drafts, KIND_experts, KIND_trunk, KIND_head } kind;

static kind kind_of(const char *name)
{
    if (strcmp(name, "logits") == 0)
        return KIND_logits;
    if (strcmp(name, "mtp.logits") == 0)
        return KIND_drafts;
    if (strncmp(name, "layers.", 7) != 0)
        return KIND_head;
    return strstr(name, "mlp.router_ids") ? KIND_experts : KIND_trunk;
}

static int has(part p, kind k)
{
    switch (p) {
    case WHOLE:
    case NO_STATES:
        return 1;
    case TOKENS:
        return 0;
    case LOGITS:
        return k == KIND_logits;
    case CHOICES:
    case STATES:
        return k == KIND_logits || k == KIND_experts;
    case NO_LOGITS:
        return k != KIND_logits;
    case NO_DRAFTS:
        return k != KIND_drafts;
    case NO_EXPERTS:
        return k != KIND_experts;
    case NO_TRUNK_OPS:
        return k != KIND_trunk;
    }
    return 0;
}

/* A step with fewer arrays. The arrays still belong to the original step. */
static sb_step cut(const sb_step *step, part p)
{
    sb_step view = *step;
    view.taps.items = sb_alloc(step->taps.count + 1, sizeof *view.taps.items);
    assert_non_null(view.taps.items);
    view.taps.count = 0;
    for (size_t i = 0; i < step->taps.count; i++)
        if (has(p, kind_of(step->taps.items[i].name)))
            view.taps.items[view.taps.count++] = step->taps.items[i];
    if (p == NO_STATES || (p >= TOKENS && p <= CHOICES))
        view.state_count = 0;
    return view;
}

static sb_verdicts judged(const sb_model *model, const sb_knobs *knobs, const sb_keep *steps,
                          part p)
{
    sb_verdicts v = {0};
    sb_differ *differ = NULL;
    sb_differ_options o;
    sb_error err = {""};
    sb_differ_defaults(&o, knobs, &sb_arithmetic_library, &v);
    o.free.greedy = 1;
    assert_int_equal(sb_differ_new(model, &o, &differ, &err), SB_OK);
    sb_status status = SB_OK;
    for (size_t i = 0; i < steps->count && !status; i++) {
        sb_step view = cut(&steps->steps[i], p);
        status = sb_differ_step(differ, &view, &err);
        free(view.taps.items);
    }
    if (!status)
        status = sb_differ_finish(differ, &err);
    if (status)
        fail_msg("%s: %s", part_names[p], err.text);
    sb_differ_free(differ);
    return v;
}

static sb_status keep(void *ctx, const sb_step *step, sb_error *err)
{
    return sb_keep_step(ctx, step, err);
}

/* The mistake of the engine: a slip, or a draft that is the second-best token of the MTP head. */
typedef struct mistake {
    const char *name; /* NULL: no mistake */
    const sb_planted *slip;
} mistake;

/* Lowers the largest logit of a draft to the smallest. */
static sb_status second_best(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                             sb_error *err)
{
    size_t *drafts = ctx, best = 0, least = 0;
    (void)err;
    if (strcmp(name, "mtp.logits") != 0 || rows != 1 || (*drafts)++ != 1)
        return SB_OK;
    for (size_t i = 1; i < cols; i++) {
        best = data[i] > data[best] ? i : best;
        least = data[i] < data[least] ? i : least;
    }
    data[best] = data[least];
    return SB_OK;
}

/* Records an engine with this mistake. */
static void record(const sb_model *model, const sb_knobs *knobs, const mistake *m,
                   const char *engine, sb_keep *to)
{
    const sb_sim *sim = NULL;
    size_t drafts = 0;
    sb_error err = {""};
    sb_outcome outcome;
    assert_int_equal(sb_sim_find(engine, &sim, &err), SB_OK);
    const sb_trial trial = {
        .reference = model,
        .knobs = *knobs,
        .engine_knobs = *knobs,
        .sim = sim,
        .slip = m->slip,
        .tap = m->name && !m->slip ? second_best : NULL,
        .tap_ctx = &drafts,
        .record = keep,
        .record_ctx = to,
        .script = {.prompt = 6, .decode = 1, .rounds = 3, .drafts = 2, .sequences = 1},
        .seed = 42};
    to->whole = 1;
    if (sb_trial_run(&trial, &outcome, &err))
        fail_msg("%s: %s", m->name ? m->name : "sound", err.text);
    assert_false(to->lost);
    sb_outcome_clear(&outcome);
}

/* Whether recording `outer` has all the data of `inner`. */
static int is_within(part inner, part outer)
{
    return outer == WHOLE || (outer == NO_STATES && inner >= TOKENS && inner <= CHOICES) ||
           (inner >= TOKENS && outer <= STATES && inner < outer) ||
           (outer == NO_DRAFTS && inner >= TOKENS && inner <= STATES) || (inner == TOKENS);
}

static int in_order(sb_verdict v)
{
    return v == SB_VERDICT_FAIL || (v >= SB_VERDICT_IDENTICAL && v <= SB_VERDICT_NEAR_TIE);
}

/* Returns whether the whole recording fails. */
static int check(const sb_model *model, const sb_knobs *knobs, const mistake *m, const char *engine,
                 size_t vehicle)
{
    sb_keep steps = {0};
    sb_verdict found[PARTS];
    record(model, knobs, m, engine, &steps);
    for (int p = 0; p < PARTS; p++) {
        sb_verdicts v = judged(model, knobs, &steps, (part)p);
        found[p] = v.verdict;
        if (!m->name && v.verdict == SB_VERDICT_FAIL)
            fail_msg("a sound engine on %s %s %s, %s: %s", vehicles[vehicle].preset,
                     vehicles[vehicle].format, vehicles[vehicle].settings, part_names[p], v.reason);
        sb_verdicts_free(&v);
    }
    for (int p = 0; p < PARTS; p++)
        for (int q = 0; q < PARTS; q++)
            if (p != q && is_within((part)p, (part)q) && in_order(found[p]) && in_order(found[q]) &&
                found[p] > found[q])
                fail_msg("%s on %s %s %s: %s is %s, %s is %s", m->name ? m->name : "sound",
                         vehicles[vehicle].preset, vehicles[vehicle].format,
                         vehicles[vehicle].settings, part_names[p], sb_verdict_name(found[p]),
                         part_names[q], sb_verdict_name(found[q]));
    sb_keep_free(&steps);
    return found[WHOLE] == SB_VERDICT_FAIL;
}

TEST(more_data_never_weakens_a_verdict)
{
    size_t failed = 0, planted = 0;
    for (size_t i = 0; i < VEHICLES; i += check_all() ? 1 : VEHICLES - 1) {
        const sb_make_options make = {.dir = vehicles[i].format,
                                      .preset = vehicles[i].preset,
                                      .format = vehicles[i].format,
                                      .recipe = "predictable",
                                      .layers = 4};
        sb_model *model = test_model_open(test_checkpoint_with(PROGRAM, &make));
        const sb_knobs knobs = test_knobs(vehicles[i].settings);
        for (size_t e = 0; e < (check_all() ? ENGINES : 1); e++)
            assert_false(check(model, &knobs, &(const mistake){NULL, NULL}, engines[e], i));
        assert_true(check(model, &knobs, &(const mistake){"the second draft", NULL}, *engines, i));
        for (size_t s = 0; sb_slips[s].name; s++) {
            const mistake m = {sb_slips[s].name, &sb_slips[s]};
            if (!check_all() && (s + i) % (2 * VEHICLES) != 0)
                continue;
            planted++;
            failed += (size_t)check(model, &knobs, &m, *engines, i);
        }
        sb_model_close(model);
    }
    print_message("%zu of %zu mistakes fail with all that was recorded\n", failed, planted);
    assert_true(4 * failed > 3 * planted);
}
