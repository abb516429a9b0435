/* test_finite.c - NaN and infinite values of an engine. The first one is named, even if little is
 * recorded around it. It is never passed over because nothing could be computed from it. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/check_all.h"
#include "tests/lib/checkpoint.h"
#include "tools/judge/compare/differ.h"
#include "tools/judge/compare/finite.h"
#include "tools/judge/sim/sim.h"
#include "tools/judge/trace/capture.h"

enum { PROMPT = 5, DECODED = 2 };

/* An engine, what is recorded, and the values that are spoiled: row `row` of the prompt in every
 * matching tap from `from` on, in the way that a NaN spreads through a model. */
typedef struct played {
    const sb_model *model;
    const char *taps, *from;
    size_t row;
    float value;
    int forced, free; /* as in sb_differ_options */
    int of_state;     /* instead, the recurrent state of layer 0 after the prompt */
    sb_differ *differ;
    sb_verdicts v;
} played;

static void spoil_rows(const played *p, sb_step *step)
{
    const sb_config *c = &p->model->config;
    uint64_t from = sb_finite_order(c, p->from);
    for (size_t i = 0; i < step->taps.count; i++) {
        sb_step_value *v = &step->taps.items[i];
        long long row =
            strcmp(v->name, "logits") ? (long long)p->row : sb_step_logits_row(step, v, p->row);
        if (!v->data || sb_finite_order(c, v->name) < from || strncmp(v->name, "mtp.", 4) == 0 ||
            row < 0 || (size_t)row >= v->rows)
            continue;
        /* comparisons with NaN are false, so that the first experts are chosen */
        int ids = strstr(v->name, "router_ids") != NULL;
        for (size_t k = 0; k < v->cols; k++)
            v->data[(size_t)row * v->cols + k] = ids ? (float)k : p->value;
    }
}

static sb_status take(void *ctx, const sb_step *step, sb_error *err)
{
    played *p = ctx;
    sb_step *spoiled = (sb_step *)(uintptr_t)step;
    if (p->from && step->row_count == PROMPT)
        spoil_rows(p, spoiled);
    for (size_t i = 0; p->of_state && i < step->state_count; i++) {
        const sb_step_value *v =
            sb_step_find(&step->states[i].pieces, "layers.0.linear_attn.recurrent_state");
        if (v && v->data && step->states[i].position == PROMPT)
            v->data[3] = p->value;
    }
    return sb_differ_step(p->differ, step, err);
}

#define MUST(call)                                                                                 \
    do {                                                                                           \
        sb_error err = {""};                                                                       \
        if (call)                                                                                  \
            fail_msg("%s", err.text);                                                              \
    } while (0)

static void engine(const played *p, sb_session *s, sb_capture *c)
{
    float *logits = malloc(p->model->config.vocab_size * sizeof *logits);
    const uint32_t prompt[PROMPT] = {1, 2, 3, 4, 5};
    assert_non_null(logits);
    for (size_t i = 0; i <= DECODED; i++) {
        const uint32_t next = (uint32_t)(11 + i);
        size_t rows = i ? 1 : PROMPT;
        MUST(sb_session_feed(s, i ? &next : prompt, rows, &err));
        MUST(sb_session_logits(s, rows - 1, logits, &err));
        MUST(sb_capture_end(c, NULL, &err));
    }
    free(logits);
}

static void play(played *p)
{
    sb_knobs exact;
    sb_knobs_exact(&exact);
    sb_differ_options options;
    p->v = (sb_verdicts){0};
    sb_differ_defaults(&options, &exact, &sb_arithmetic_library, &p->v);
    options.with_forced = p->forced;
    options.with_free = p->free;
    MUST(sb_differ_new(p->model, &options, &p->differ, &err));
    const sb_capture_options recorded = {.taps = p->taps,
                                         .states = p->of_state ? SB_CAPTURE_ALL_STATES
                                                               : SB_CAPTURE_NO_STATES,
                                         .take = take,
                                         .take_ctx = p};
    sb_capture *capture = NULL;
    sb_session *session = NULL;
    const sb_sim *sim = NULL;
    MUST(sb_sim_find("pairwise", &sim, &err));
    sb_session_options of_engine = {.backend = &sim->backend, .knobs = &exact};
    MUST(sb_capture_new(&recorded, &capture, &err));
    sb_capture_join(capture, &of_engine);
    MUST(sb_session_new(p->model, &of_engine, &session, &err));
    sb_capture_follow(capture, session, 0, 0);
    engine(p, session, capture);
    MUST(sb_capture_finish(capture, &err));
    MUST(sb_differ_finish(p->differ, &err));
    sb_capture_free(capture);
    sb_session_free(session);
    sb_differ_free(p->differ);
}

static sb_model *model(void)
{
    const sb_make_options options = {
        .preset = "T1", .recipe = "mistakes", .format = "bf16", .dir = "finite", .layers = 4};
    return test_model_open(test_checkpoint_with("test_finite", &options));
}

static void expect(const played *p, const char *op, const char *name, uint32_t layer,
                   const char *words)
{
    const sb_place *f = &p->v.first_failure;
    if (p->v.verdict != SB_VERDICT_FAIL || !p->v.has_failure || strcmp(f->op, op) != 0 ||
        strcmp(f->name, name) != 0 || f->layer != layer || f->token != p->row ||
        !strstr(p->v.reason, words))
        fail_msg("taps %s, forced %d, free %d, spoiled from %s: %s, %s of layer %u: %s; expected "
                 "%s in layer %u at token %zu: %s",
                 p->taps, p->forced, p->free, p->from, sb_verdict_name(p->v.verdict), f->name,
                 (unsigned)f->layer, p->v.reason, name, (unsigned)layer, p->row, words);
}

/* For each set of recorded taps and each way of judging, the first tap that shows the value. */
TEST(test_the_first_is_named)
{
    static const char without[] = "embed,layers.*.input_layernorm,layers.*.mlp.*,layers.*.output";
    static const struct {
        const char *taps;
        int forced, free;
        const char *from, *op, *name;
        uint32_t layer;
        const char *words;
    } rows[] = {
        {"all", -1, 1, "layers.3.self_attn.core_out", "attention", "layers.3.self_attn.core_out", 3,
         "inf times the bound"},
        {"all", 0, 1, "layers.3.self_attn.core_out", "attention", "layers.3.self_attn.core_out", 3,
         "the last recorded values before it, layers.3.self_attn.k_rope, are finite"},
        {without, -1, 1, "layers.3.self_attn.core_out", "linear", "layers.3.mlp.gate", 3,
         "the fault lies between layers.3.input_layernorm and layers.3.mlp.gate"},
        {without, 1, 0, "layers.3.self_attn.core_out", "linear", "layers.3.mlp.gate", 3,
         "the fault lies between layers.3.input_layernorm and layers.3.mlp.gate"},
        {without, 0, 1, "layers.3.self_attn.core_out", "linear", "layers.3.mlp.gate", 3,
         "no values are recorded between"},
        {"layers.*.mlp.router_ids,logits", 0, 1, "logits", "linear", "logits", SB_NO_LAYER,
         "no values are recorded before it"},
        {"layers.*.mlp.router_ids,logits", 0, 1, "layers.1.mlp.gate", "linear", "logits",
         SB_NO_LAYER, "no values are recorded before it"},
        {"layers.*.output", -1, 1, "embed", "add", "layers.0.output", 0,
         "no values are recorded before it"},
    };
    static const float values[] = {NAN, INFINITY, -INFINITY};
    sb_model *m = model();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < (check_few() ? 1 : 3); k++) {
            played p = {.model = m,
                        .taps = rows[i].taps,
                        .from = rows[i].from,
                        .row = strcmp(rows[i].name, "logits") ? 2 : PROMPT - 1,
                        .value = values[k],
                        .forced = rows[i].forced,
                        .free = rows[i].free};
            play(&p);
            expect(&p, rows[i].op, rows[i].name, rows[i].layer, rows[i].words);
            for (size_t t = 0; t <= p.row; t++)
                assert_int_equal(p.v.tokens[t].verdict == SB_VERDICT_FAIL, t == p.row);
            sb_verdicts_free(&p.v);
            if (k > 0)
                continue;
            p.from = NULL; /* the same engine without the value passes, whichever it was */
            play(&p);
            if (p.v.has_failure || p.v.verdict == SB_VERDICT_FAIL)
                fail_msg("%s", p.v.reason);
            sb_verdicts_free(&p.v);
        }
    sb_model_close(m);
}

/* A state without any other recording of it. */
TEST(test_a_state)
{
    sb_model *m = model();
    for (int forced = 0; forced < 2; forced++) {
        played p = {.model = m,
                    .taps = forced ? "layers.*.mlp.gate" : "none",
                    .row = PROMPT - 1,
                    .value = NAN,
                    .forced = forced,
                    .free = !forced,
                    .of_state = 1};
        play(&p);
        expect(&p, forced ? "delta_rule" : "state", "layers.0.linear_attn.recurrent_state", 0,
               "nan");
        /* only what is computed from recorded values has an expected value */
        assert_int_equal(isnan(p.v.first_failure.expected), !forced);
        sb_verdicts_free(&p.v);
    }
    sb_model_close(m);
}

/* A state that is wrong and finite gets the same name, token and words in a forced and in a free
 * comparison. */
TEST(test_a_state_has_one_name)
{
    sb_model *m = model();
    for (int forced = 0; forced < 2; forced++) {
        played p = {.model = m,
                    .taps = "all",
                    .row = PROMPT - 1,
                    .value = 7,
                    .forced = forced,
                    .free = !forced,
                    .of_state = 1};
        play(&p);
        expect(&p, forced ? "delta_rule" : "state", "layers.0.linear_attn.recurrent_state", 0,
               "state after token 4 of sequence 0: layers.0.linear_attn.recurrent_state, head 0, "
               "row 0, column 3 is 7, expected ");
        sb_verdicts_free(&p.v);
    }
    sb_model_close(m);
}
