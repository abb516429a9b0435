#include "tests/lib/forced_run.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/ops/knob.h"
#include "tests/lib/cmocka.h"

typedef struct at_work {
    forced_run *run;
    sb_forced *forced;
} at_work;

static sb_status take(void *ctx, const sb_step *step, sb_error *err)
{
    at_work *w = ctx;
    double *worst = calloc(step->row_count + 1, sizeof *worst);
    assert_non_null(worst);
    if (w->run->spoil)
        w->run->spoil(w->run->ctx, (sb_step *)(uintptr_t)step);
    sb_status status = sb_forced_step(w->forced, step, worst, err);
    for (size_t i = 0; i < step->row_count; i++)
        w->run->worst = worst[i] > w->run->worst ? worst[i] : w->run->worst;
    free(worst);
    return status;
}

static void check(sb_status status, const sb_error *err)
{
    if (status)
        fail_msg("%s", err->text);
}

static uint32_t token_at(const forced_run *run, size_t i)
{
    return (uint32_t)(1 + 7 * i * i % (run->model->config.vocab_size - 1));
}

static void ask_all(sb_session *s, size_t rows, float *logits)
{
    sb_error err = {{0}};
    for (size_t i = 0; i < rows; i++)
        check(sb_session_logits(s, i, logits, &err), &err);
}

static void run_engine(forced_run *run, sb_capture *c, sb_session *s)
{
    sb_error err = {{0}};
    size_t V = run->model->config.vocab_size, fed = run->prompt;
    uint32_t *tokens = calloc(run->prompt + 1, sizeof *tokens);
    float *logits = calloc(V, sizeof *logits);
    for (size_t i = 0; i < run->prompt; i++)
        tokens[i] = token_at(run, i);
    check(sb_session_feed(s, tokens, run->prompt, &err), &err);
    ask_all(s, run->prompt, logits);
    for (size_t i = 0; i < run->decoded; i++) {
        uint32_t token = token_at(run, fed++);
        check(sb_session_feed(s, &token, 1, &err), &err);
        ask_all(s, 1, logits);
    }
    check(sb_capture_end(c, NULL, &err), &err);
    const sb_round_options options = {.rollback = SB_IS(sb_session_knobs(s), delta_rule, recurrent)
                                                      ? SB_ROLLBACK_snapshots
                                                      : SB_ROLLBACK_replay};
    sb_rounds *rounds = NULL;
    check(sb_rounds_new(s, &options, &rounds, &err), &err);
    uint32_t last = token_at(run, fed);
    for (size_t i = 0; i < run->rounds; i++) {
        const uint32_t given[2] = {3, 5};
        const sb_round_ask ask = {
            .token = last, .drafts = 2, .given = run->mtp ? NULL : given, .forced = (int)(i % 3)};
        sb_round round;
        sb_capture_round(c, i);
        check(sb_rounds_next(rounds, &ask, &round, &err), &err);
        check(sb_capture_end(c, &round, &err), &err);
        last = round.tokens[round.emitted - 1];
    }
    sb_rounds_free(rounds);
    free(tokens);
    free(logits);
}

void forced_run_all(forced_run *run)
{
    sb_error err = {{0}};
    sb_knobs exact;
    sb_knobs_exact(&exact);
    const sb_knobs *knobs = run->knobs ? run->knobs : &exact;
    sb_backend backend = *sb_backend_ref();
    if (run->ops)
        backend.ops = *run->ops;
    run->verdicts = (sb_verdicts){0};
    run->worst = 0.0;
    const sb_forced_options options = {
        .knobs = run->judge ? run->judge : knobs,
        .arithmetic = run->arithmetic ? run->arithmetic : &sb_arithmetic_library,
        .verdicts = &run->verdicts,
        .bundle = run->bundle,
        .declared = run->declared,
        .any_form = run->any_form,
        .twin = run->twin,
        .rollback = SB_IS(knobs, delta_rule, recurrent) ? SB_TRACE_ROLLBACK_snapshots
                                                        : SB_TRACE_ROLLBACK_replay,
        .mtp = run->mtp};
    at_work w = {.run = run};
    check(sb_forced_new(run->model, &options, &w.forced, &err), &err);
    const sb_capture_options recorded = {
        .taps = run->taps ? run->taps : "all", .states = run->states, .take = take, .take_ctx = &w};
    sb_capture *capture = NULL;
    sb_session *session = NULL;
    sb_session_options engine = {.backend = &backend, .knobs = knobs, .mtp = run->mtp};
    engine.hook = run->hook;
    engine.hook_ctx = run->ctx;
    check(sb_capture_new(&recorded, &capture, &err), &err);
    sb_capture_join(capture, &engine);
    check(sb_session_new(run->model, &engine, &session, &err), &err);
    sb_capture_follow(capture, session, 0, 0);
    run_engine(run, capture, session);
    check(sb_capture_finish(capture, &err), &err);
    check(sb_forced_finish(w.forced, &err), &err);
    sb_capture_free(capture);
    sb_session_free(session);
    sb_forced_free(w.forced);
}

void forced_run_print(const forced_run *run)
{
    for (size_t op = 0; op < SB_OP_COUNT; op++) {
        const sb_op_verdict *v = &run->verdicts.ops[op];
        if (v->compared || v->values.not_judged)
            printf("  %-18s %-10s %8zu compared %8zu identical %8zu open %4zu inside %4zu not "
                   "judged, worst %.3g, median %.3g, %zu near ties\n",
                   sb_op_name(op), sb_verdict_name(v->verdict), v->compared, v->identical, v->open,
                   v->values.inside, v->values.not_judged, v->worst, v->median, v->near_ties);
    }
    printf("  %s: %s\n", sb_verdict_name(run->verdicts.verdict), run->verdicts.reason);
}
