/* test_free.c - the free comparison: correct engines pass in all profiles, and every kind of
 * difference is found from the size of its bound on, and not below. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/free_play.h"
#include "ref/base/pool.h"
#include "tools/judge/sim/sim.h"

#define PROGRAM "test_free"

static const sb_model *model_of(const char *preset)
{
    return play_model(PROGRAM, preset, "predictable");
}

static sb_knobs profile(const char *name)
{
    sb_knobs knobs;
    assert_int_equal(sb_knobs_profile(&knobs, name, NULL), SB_OK);
    return knobs;
}

/* Levels, presets, profiles and orders of summation; with chunks, rounds roll back by replay. */
TEST(test_correct_engines_pass)
{
    static const struct {
        const char *preset, *profile, *sim;
        unsigned level;
        int drafts;
    } rows[] = {
        {"T1", "exact", "sequential", 4, 1}, {"T1", "exact", "pairwise", 0, 0},
        {"T3", "hf", "sequential", 3, 1},    {"T4", "exact", "fma", 3, 1},
        {"T5", "vllm", "lanes16", 1, 1},     {"T1", "sglang", "backward", 4, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sb_knobs knobs = profile(rows[i].profile);
        free_play p = {.model = model_of(rows[i].preset),
                       .knobs = &knobs,
                       .backend = free_play_sim(rows[i].sim),
                       .level = rows[i].level,
                       .rounds = 9,
                       .drafts = rows[i].drafts,
                       .perturbed = 4};
        free_play_run(&p);
        if (p.v.failures || p.v.verdict > SB_VERDICT_NEAR_TIE || p.v.verdict == SB_VERDICT_none)
            fail_msg("%s %s %s level %u: %s, %s %s", rows[i].preset, rows[i].profile, rows[i].sim,
                     rows[i].level, sb_verdict_name(p.v.verdict), p.v.reason,
                     p.v.first_failure.words);
        print_message("%s %s %s level %u: %s, worst %.3g\n", rows[i].preset, rows[i].profile,
                      rows[i].sim, rows[i].level, sb_verdict_name(p.v.verdict),
                      free_play_worst(&p.v));
        if (rows[i].level && strcmp(rows[i].profile, "exact") == 0)
            assert_true(free_play_worst(&p.v) > 1e-3);
        sb_verdicts_free(&p.v);
    }
}

TEST(test_the_reference_is_identical)
{
    free_play p = {.model = model_of("T4"),
                   .level = 3,
                   .rounds = 6,
                   .drafts = 1,
                   .perturbed = 2,
                   .explain = 1};
    free_play_run(&p);
    assert_int_equal(p.v.verdict, SB_VERDICT_IDENTICAL);
    for (size_t i = 0; i < p.v.round_count; i++) {
        assert_string_equal(p.v.rounds[i].hypothesis, "");
        assert_int_equal(p.v.rounds[i].accepted[0], p.v.rounds[i].accepted[1]);
        for (size_t part = 0; part < SB_STATE_PARTS; part++)
            assert_int_equal(p.v.rounds[i].state[part].verdict, SB_VERDICT_IDENTICAL);
    }
    sb_verdicts_free(&p.v);
}

/* --- one fault at a time ---------------------------------------------------------------------- */

enum { ROW = 12 }; /* the position of the spoiled row */

static sb_step_value *value_at(sb_step *step, const char *name, size_t *row)
{
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].position == ROW && step->rows[i].kind != SB_CALL_draft) {
            *row = i;
            return (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, name);
        }
    return NULL;
}

static void move_logit(free_play *p, sb_step *step)
{
    size_t row;
    sb_step_value *v = value_at(step, "logits", &row);
    long long at = v ? sb_step_logits_row(step, v, row) : -1;
    if (at >= 0)
        v->data[(size_t)at * v->cols + 17] += (float)p->amount;
}

static free_play spoiled(void (*spoil)(free_play *, sb_step *), double amount)
{
    free_play p = {.model = model_of("T4"),
                   .level = 1,
                   .rounds = 5,
                   .perturbed = 4,
                   .spoil = spoil,
                   .amount = amount};
    free_play_run(&p);
    return p;
}

static const sb_token_verdict *token_at(const sb_verdicts *v, uint64_t position)
{
    for (size_t i = 0; i < v->token_count; i++)
        if (v->tokens[i].position == position)
            return &v->tokens[i];
    fail_msg("no token %llu", (unsigned long long)position);
    return NULL;
}

TEST(test_one_logit)
{
    free_play p = spoiled(NULL, 0);
    double bound = token_at(&p.v, ROW)->envelope / sqrt(2);
    sb_verdicts_free(&p.v);
    p = spoiled(move_logit, 0.9 * bound);
    assert_int_equal(p.v.verdict, SB_VERDICT_WITHIN);
    sb_verdicts_free(&p.v);
    p = spoiled(move_logit, 1.1 * bound);
    assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
    assert_int_equal(p.v.failures, 1);
    assert_int_equal(p.v.first_failure.token, ROW);
    assert_int_equal(p.v.first_failure.element[0], 17);
    assert_string_equal(p.v.first_failure.op, "logits");
    sb_verdicts_free(&p.v);
    p = spoiled(move_logit, NAN);
    assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
    assert_true(isinf(token_at(&p.v, ROW)->worst_ratio));
    sb_verdicts_free(&p.v);
}

/* Replaces the logits by the log-probabilities of the largest five, the first of which is moved. */
static void shorten(free_play *p, sb_step *step)
{
    enum { TOP = 5 };
    sb_step_value *v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    if (!v)
        return;
    sb_step_value *ids = sb_step_add(&step->taps, "top_ids", v->rows, TOP, 1);
    assert_non_null(ids);
    sb_step_value *logprobs = sb_step_add(&step->taps, "top_logprobs", v->rows, TOP, 1);
    assert_non_null(logprobs);
    ids = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "top_ids");
    v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    for (size_t r = 0; r < v->rows; r++) {
        float *row = v->data + r * v->cols;
        double sum = 0;
        for (size_t i = 0; i < v->cols; i++)
            sum += exp((double)row[i]);
        for (size_t k = 0; k < TOP; k++) {
            uint32_t id = sb_greedy(row, v->cols);
            ids->data[r * TOP + k] = (float)id;
            logprobs->data[r * TOP + k] = (float)((double)row[id] - log(sum));
            row[id] = -1e30f;
        }
        logprobs->data[r * TOP] += (float)p->amount;
    }
    free(v->data);
    v->data = NULL;
}

/* The list lacks the largest, or has it twice. All log-probabilities are right. */
static void shorten_wrongly(free_play *p, sb_step *step)
{
    shorten(&(free_play){.amount = 0}, step);
    sb_step_value *ids = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "top_ids");
    sb_step_value *logprobs = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "top_logprobs");
    if (!ids || !logprobs)
        return;
    for (size_t r = 0; r < ids->rows; r++) {
        size_t to = r * ids->cols + (p->amount < 0 ? 0 : 1);
        size_t from = r * ids->cols + (p->amount < 0 ? 1 : 0);
        ids->data[to] = ids->data[from];
        logprobs->data[to] = logprobs->data[from];
    }
}

TEST(test_the_largest_only)
{
    free_play p = spoiled(shorten, 0);
    assert_int_equal(p.v.verdict, SB_VERDICT_WITHIN);
    assert_int_equal(p.v.tokens[p.v.token_count - 1].kl_is_lower, 1);
    assert_true(p.v.tokens[p.v.token_count - 1].kl < 1e-6);
    sb_verdicts_free(&p.v);
    p = spoiled(shorten, 0.01);
    assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
    assert_string_equal(p.v.first_failure.name, "top_logprobs");
    sb_verdicts_free(&p.v);
    for (double way = -1; way <= 1; way += 2) {
        p = spoiled(shorten_wrongly, way);
        assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
        assert_string_equal(p.v.first_failure.name, "top_logprobs");
        sb_verdicts_free(&p.v);
    }
}

/* Replaces the last expert of a row by another one. */
static void swap_expert(free_play *p, sb_step *step)
{
    size_t row;
    sb_step_value *v = value_at(step, "layers.2.mlp.router_ids", &row);
    (void)p;
    if (!v)
        return;
    float *ids = v->data + row * v->cols, other = 0;
    for (size_t i = 0; i < v->cols;)
        if (ids[i] == other) {
            other++;
            i = 0;
        } else {
            i++;
        }
    ids[v->cols - 1] = other;
}

TEST(test_another_expert)
{
    free_play p = {
        .model = model_of("T1"), .level = 4, .rounds = 5, .perturbed = 4, .spoil = swap_expert};
    free_play_run(&p);
    assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
    assert_string_equal(p.v.first_failure.op, "router");
    assert_int_equal(p.v.first_failure.token, ROW);
    assert_int_equal(p.v.first_failure.layer, 2);
    sb_verdicts_free(&p.v);
}

static void flatten(free_play *p, sb_step *step)
{
    sb_step_value *v = (sb_step_value *)(uintptr_t)sb_step_find(&step->taps, "logits");
    (void)p;
    for (size_t i = 0; v && i < v->rows * v->cols; i++)
        v->data[i] = 1;
}

static void skip_row(free_play *p, sb_step *step)
{
    (void)p;
    for (size_t i = 0; i < step->row_count; i++)
        step->rows[i].position += step->rows[i].position >= ROW;
}

/* Feeds one token again and again, with the reference's own logits. */
static void feed_same(sb_free *f, sb_session *session)
{
    sb_error err = {""};
    size_t V = sb_session_model(session)->config.vocab_size;
    for (uint64_t i = 0; i < 4; i++) {
        sb_step step = {.number = i};
        sb_step_row *row = sb_step_add_row(&step);
        sb_step_value *logits = sb_step_add(&step.taps, "logits", 1, V, 1);
        const uint32_t token = 5;
        assert_non_null(row);
        assert_non_null(logits);
        *row = (sb_step_row){.position = i, .token = token, .kind = SB_CALL_decode};
        test_feed(session, &token, 1);
        assert_int_equal(sb_session_logits(session, 0, logits->data, &err), SB_OK);
        assert_int_equal(sb_free_step(f, &step, &err), SB_OK);
        sb_step_clear(&step);
    }
}

static const char *untrusted(sb_session *session, sb_verdicts *v)
{
    sb_free *f = NULL;
    sb_error err = {""};
    sb_free_options options = {.perturbed = 2, .verdicts = v};
    *v = (sb_verdicts){0};
    assert_int_equal(sb_free_new(model_of("T4"), &options, &f, &err), SB_OK);
    if (session)
        feed_same(f, session);
    assert_int_equal(sb_free_finish(f, &err), SB_OK);
    assert_int_equal(v->verdict, SB_VERDICT_MISTRUSTED);
    sb_free_free(f);
    return v->reason;
}

TEST(test_what_cannot_be_trusted)
{
    free_play p = spoiled(flatten, 0);
    assert_int_equal(p.v.verdict, SB_VERDICT_FAIL); /* far from the reference */
    sb_verdicts_free(&p.v);
    p = spoiled(skip_row, 0);
    assert_true(p.v.verdict >= SB_VERDICT_SKIPPED);
    sb_verdicts_free(&p.v);
    sb_verdicts v;
    assert_non_null(strstr(untrusted(NULL, &v), "no row was compared"));
    sb_verdicts_free(&v);
    sb_session *session = test_session(model_of("T4"), NULL, NULL);
    assert_non_null(strstr(untrusted(session, &v), "all tokens are the same"));
    sb_verdicts_free(&v);
    sb_session_free(session);
}

/* The verdicts are the same to the last bit, for any number of threads. */
TEST(test_threads_change_nothing)
{
    sb_knobs knobs = profile("sglang");
    double ratio[2], envelope[2];
    for (int i = 0; i < 2; i++) {
        sb_threads_set((size_t)i + 1);
        free_play p = {.model = model_of("T1"),
                       .knobs = &knobs,
                       .backend = free_play_sim("sequential"),
                       .level = 1,
                       .rounds = 3,
                       .drafts = 1,
                       .perturbed = 4};
        free_play_run(&p);
        ratio[i] = free_play_worst(&p.v);
        envelope[i] = p.v.tokens[p.v.token_count - 1].envelope;
        sb_verdicts_free(&p.v);
    }
    sb_threads_set(1);
    assert_memory_equal(&ratio[0], &ratio[1], sizeof *ratio);
    assert_memory_equal(&envelope[0], &envelope[1], sizeof *envelope);
}

TEST_GROUP(NULL, play_close_models)
