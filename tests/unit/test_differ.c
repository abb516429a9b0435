/* The verdict of a whole run from its parts, and the steps that an explanation keeps. */
#include <stdlib.h>
#include <string.h>

#include "ref/ops/knob.h"
#include "tests/lib/suite.h"
#include "tools/judge/compare/explain.h"

/* --- the verdict of a run * ------------------------------------------------------------------- */

/* A run whose tokens have these verdicts, without any op. */
static sb_verdicts make(const sb_verdict *tokens, size_t count)
{
    sb_verdicts v = {0};
    for (size_t i = 0; i < count; i++) {
        sb_token_verdict *t = sb_verdicts_token(&v);
        assert_non_null(t);
        t->verdict = tokens[i];
    }
    return v;
}

#define MAKE(...)                                                                                  \
    make((const sb_verdict[]){__VA_ARGS__}, sizeof(sb_verdict[]){__VA_ARGS__} / sizeof(sb_verdict))

static void expect(sb_verdicts *v, int required, sb_verdict verdict, const char *words)
{
    sb_differ_judge(v, required, 0.25);
    if (v->verdict != verdict || !strstr(v->reason, words))
        fail_msg("%s (%s), expected %s (%s)", sb_verdict_name(v->verdict), v->reason,
                 sb_verdict_name(verdict), words);
    sb_verdicts_free(v);
}

TEST(the_heaviest_counts)
{
    sb_verdicts v = MAKE(SB_VERDICT_IDENTICAL, SB_VERDICT_IDENTICAL);
    expect(&v, 0, SB_VERDICT_IDENTICAL, "");
    v = MAKE(SB_VERDICT_IDENTICAL, SB_VERDICT_WITHIN);
    expect(&v, 0, SB_VERDICT_WITHIN, "");
    v = MAKE(SB_VERDICT_WITHIN, SB_VERDICT_FAIL, SB_VERDICT_MISTRUSTED);
    expect(&v, 0, SB_VERDICT_FAIL, "beyond its bound");
    v = MAKE(SB_VERDICT_WITHIN, SB_VERDICT_MISTRUSTED);
    expect(&v, 0, SB_VERDICT_MISTRUSTED, "could not reveal");
    v = MAKE(SB_VERDICT_WITHIN);
    v.ops[SB_OP_linear] = (sb_op_verdict){.compared = 9, .verdict = SB_VERDICT_FAIL};
    expect(&v, 0, SB_VERDICT_FAIL, "");
    v = MAKE(SB_VERDICT_WITHIN);
    sb_round_verdict *r = sb_verdicts_round(&v);
    assert_non_null(r);
    r->verdict = SB_VERDICT_WITHIN;
    r->state[SB_STATE_conv].verdict = SB_VERDICT_FAIL;
    expect(&v, 0, SB_VERDICT_FAIL, "");
}

TEST(nothing_is_no_success)
{
    sb_verdicts v = {0};
    expect(&v, 0, SB_VERDICT_MISTRUSTED, "there are no rows");
    v = MAKE(SB_VERDICT_SKIPPED, SB_VERDICT_SKIPPED);
    expect(&v, 0, SB_VERDICT_SKIPPED, "SKIPPED");
    v = MAKE(SB_VERDICT_INHERITED);
    expect(&v, 0, SB_VERDICT_INHERITED, "INHERITED");
    /* skipped parts do not count next to compared ones, unless every op is required */
    v = MAKE(SB_VERDICT_WITHIN, SB_VERDICT_INHERITED, SB_VERDICT_SKIPPED);
    v.ops[SB_OP_router] = (sb_op_verdict){.values.not_judged = 1, .verdict = SB_VERDICT_SKIPPED};
    expect(&v, 0, SB_VERDICT_WITHIN, "");
    v = MAKE(SB_VERDICT_WITHIN);
    v.ops[SB_OP_router] = (sb_op_verdict){.values.not_judged = 1, .verdict = SB_VERDICT_SKIPPED};
    expect(&v, 1, SB_VERDICT_SKIPPED, "op router could not be judged");
}

/* Tokens after the point where a sequence was lost were not judged. */
TEST(what_is_lost_does_not_pass)
{
    for (int required = 0; required < 2; required++) {
        sb_verdicts v = MAKE(SB_VERDICT_IDENTICAL, SB_VERDICT_WITHIN);
        v.lost = 1;
        expect(&v, required, SB_VERDICT_SKIPPED, "could not be followed");
        v = MAKE(SB_VERDICT_WITHIN, SB_VERDICT_FAIL);
        v.lost = 1;
        expect(&v, required, SB_VERDICT_FAIL, "beyond its bound");
    }
}

TEST(near_ties_are_few)
{
    sb_verdicts v =
        MAKE(SB_VERDICT_NEAR_TIE, SB_VERDICT_WITHIN, SB_VERDICT_WITHIN, SB_VERDICT_WITHIN);
    expect(&v, 0, SB_VERDICT_NEAR_TIE, "");
    v = MAKE(SB_VERDICT_NEAR_TIE, SB_VERDICT_NEAR_TIE, SB_VERDICT_WITHIN, SB_VERDICT_WITHIN);
    expect(&v, 0, SB_VERDICT_MISTRUSTED, "2 of 4 tokens are near ties");
}

/* --- the kept steps * ------------------------------------------------------------------------- */

static sb_step make_step(uint64_t position, size_t rows, size_t entries)
{
    sb_step step = {0};
    for (size_t i = 0; i < rows; i++) {
        sb_step_row *row = sb_step_add_row(&step);
        assert_non_null(row);
        row->position = position + i;
    }
    assert_non_null(sb_step_add(&step.taps, "layers.0.mlp.out", rows, 2, 1));
    assert_non_null(sb_step_add(&step.taps, "logits", rows, 3, 1));
    assert_non_null(sb_step_add(&step.taps, "mtp.fc", entries, 2, 1));
    return step;
}

static void keep(sb_keep *k, sb_step step)
{
    assert_int_equal(sb_keep_step(k, &step, NULL), SB_OK);
    sb_step_clear(&step);
}

static void add_state(sb_step *step, uint64_t position, int with_data)
{
    sb_step_state *state = sb_step_add_state(step);
    assert_non_null(state);
    state->position = position;
    assert_non_null(sb_step_add(&state->pieces, "layers.0.keys", 1, 4, with_data));
}

TEST(the_last_complete_step_is_kept)
{
    sb_keep k = {0};
    keep(&k, make_step(0, 3, 2));
    keep(&k, make_step(3, 1, 1)); /* a step without a state needs the steps before it */
    assert_int_equal(k.count, 2);
    sb_step step = make_step(4, 1, 1);
    add_state(&step, 4, 0); /* a state of digests is not enough */
    keep(&k, step);
    assert_int_equal(k.count, 3);
    step = make_step(5, 1, 1);
    add_state(&step, 5, 1);
    keep(&k, step);
    assert_int_equal(k.count, 4);
    assert_int_equal(k.from, 3);
    /* where there are too many rows, the steps that did not make the last state are dropped */
    keep(&k, make_step(6, 44, 44));
    assert_int_equal(k.count, 5);
    step = make_step(50, 1, 1);
    add_state(&step, 50, 1);
    keep(&k, step);
    assert_int_equal(k.count, 3);
    assert_int_equal(k.prior, 0);
    assert_int_equal(k.from, 2);
    assert_int_equal(k.dropped, 3);
    assert_int_equal(k.steps[0].rows[0].position, 5);
    assert_non_null(k.steps[0].states[0].pieces.items[0].data);
    /* steps behind the failure are kept, too, but not many */
    sb_keep_failed(&k);
    keep(&k, make_step(51, 40, 40));
    assert_int_equal(k.count, 4);
    assert_int_equal(k.failed, 3);
    assert_int_equal(sb_keep_end(&k), 90);
    assert_false(k.more);
    keep(&k, make_step(91, 40, 40));
    keep(&k, make_step(131, 1, 1));
    assert_int_equal(k.count, 4);
    assert_true(k.more);
    sb_keep_free(&k);
    k.whole = 1;
    keep(&k, make_step(0, 100, 0));
    keep(&k, make_step(0, 100, 0));
    assert_int_equal(k.count, 2);
    sb_keep_free(&k);
}

/* A failed step that was too large stays lost: no later step is taken for it. */
TEST(a_failed_step_that_was_too_large_is_lost)
{
    sb_keep k = {.bytes = (size_t)1 << 60};
    keep(&k, make_step(0, 3, 2));
    assert_true(k.lost);
    sb_keep_failed(&k);
    k.bytes = 0;
    keep(&k, make_step(0, 3, 2));
    sb_keep_failed(&k);
    assert_true(k.lost);
    assert_int_equal(k.count, 0);
    assert_int_equal(k.failed, 0);
    sb_keep_free(&k);
}

static size_t rows_of(const sb_step *step, const char *name)
{
    const sb_step_value *v = sb_step_find(&step->taps, name);
    assert_non_null(v);
    return v->rows;
}

static size_t cut(const sb_step *step, uint64_t position, sb_step *view)
{
    assert_true(sb_keep_cut(step, position, view));
    return view->row_count;
}

static void drop_view(const sb_step *step, const sb_step *view)
{
    if (view->taps.items != step->taps.items)
        free(view->taps.items);
}

TEST(rows_behind_the_failure_are_cut)
{
    sb_step step = make_step(0, 6, 5), view;
    assert_int_equal(cut(&step, 2, &view), 3);
    assert_int_equal(rows_of(&view, "layers.0.mlp.out"), 3);
    assert_int_equal(rows_of(&view, "logits"), 3);
    assert_int_equal(rows_of(&view, "mtp.fc"), 2);
    assert_int_equal(rows_of(&step, "logits"), 6);
    drop_view(&step, &view);
    assert_int_equal(cut(&step, 0, &view), 2); /* a call of several rows stays one */
    drop_view(&step, &view);
    assert_int_equal(cut(&step, 77, &view), 6); /* a failure after all rows */
    drop_view(&step, &view);
    /* rows of two sequences stay together */
    step.rows[2].sequence = step.rows[3].sequence = 1;
    assert_int_equal(cut(&step, 0, &view), 6);
    drop_view(&step, &view);
    sb_step_clear(&step);
}

/* --- words ------------------------------------------------------------------------------------ */

TEST(every_change_has_words)
{
    size_t bare = 0;
    for (int i = 0; i < SB_VALUE_COUNT; i++) {
        char words[SB_WORDS];
        sb_knob_words((sb_knob_value)i, words);
        assert_true(strlen(words) > 7);
        bare += strchr(words, '=') != NULL;
    }
    /* activation quantizers keep the names of their libraries, with "knob=value" in the text */
    if (bare > 25)
        fail_msg("%zu values have no words in explain.def", bare);
}
