/* test_trace_prefix.c - sequences that continue another one (U-11): what contradicts itself is
 * named, what does not passes; the rows that fed a prefix, and steps of these rows. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/judge/trace/audit.h"
#include "tools/judge/trace/history.h"
#include "tools/judge/trace/prefix.h"

#define PROMPT SB_CALL_prompt
#define DECODE SB_CALL_decode
#define VERIFY SB_CALL_verify

enum { STEPS = 6, ROWS = 6, PREFIXES = 2, MOST = 8 };

/* The content of a step, as a literal. */
typedef struct plan {
    size_t rows, rounds, states, prefixes;
    sb_step_row row[ROWS];
    sb_step_round round[1];
    sb_step_state state[2];
    sb_step_prefix prefix[PREFIXES];
    uint32_t tokens[MOST];
} plan;

/* Sequence 0: a prompt of four tokens in two calls; a round at position 4 that accepts one of two
 * drafts. Sequence 1 continues it at position 4, the end of a call, while sequence 0 goes on.
 * Sequence 2 continues sequence 1 at position 6, and sequence 5 at position 2, which is within the
 * part that sequence 1 has from sequence 0. */
static const plan sound[STEPS] = {
    {.rows = 2, .row = {{0, 3, 0, 10, PROMPT, 0}, {0, 3, 1, 11, PROMPT, 0}}},
    {.rows = 2, .row = {{0, 3, 2, 12, PROMPT, 0}, {0, 3, 3, 13, PROMPT, 0}}},
    {.rows = 3,
     .row = {{0, 3, 4, 14, VERIFY, 0}, {0, 3, 5, 15, VERIFY, 0}, {0, 3, 6, 99, VERIFY, 0}},
     .rounds = 1,
     .round =
         {{0,
           0,
           4,
           {.drafted = 2, .drafts = {15, 99}, .accepted = 1, .emitted = 2, .tokens = {15, 16}}}}},
    {.rows = 3,
     .row = {{0, 3, 6, 16, DECODE, 1}, {1, 4, 4, 24, PROMPT, 0}, {1, 4, 5, 25, PROMPT, 0}},
     .rounds = 1,
     .round = {{0, 1, 6, {.emitted = 1, .tokens = {17}}}},
     .states = 1,
     .state = {{.sequence = 1, .position = 4, .has_target = 1, .target = {"a"}}},
     .prefixes = 1,
     .prefix = {{.sequence = 1, .parent = 0, .position = 4}}},
    {.rows = 2,
     .row = {{2, 5, 6, 36, DECODE, 0}, {5, 6, 2, 52, PROMPT, 0}},
     .prefixes = 2,
     .prefix = {{.sequence = 2, .parent = 1, .position = 6},
                {.sequence = 5, .parent = 1, .position = 2}}},
    {.states = 1, .state = {{.sequence = 2, .position = 7, .has_target = 1, .target = {"c"}}}},
};

static sb_step step_of(plan *p, size_t i)
{
    return (sb_step){.number = i,
                     .rows = p->row,
                     .row_count = p->rows,
                     .rounds = p->round,
                     .round_count = p->rounds,
                     .states = p->state,
                     .state_count = p->states,
                     .prefixes = p->prefix,
                     .prefix_count = p->prefixes};
}

typedef struct outcome {
    char text[400]; /* the first finding as "check step row"; "" if there is none */
    size_t found;
    sb_audit_counts counts;
} outcome;

static outcome audit(plan *plans, const sb_trace_head *head)
{
    outcome out = {.found = 0};
    sb_audit *a = NULL;
    const sb_finding *f;
    assert_int_equal(sb_audit_new(NULL, head, &a, NULL), SB_OK);
    for (size_t i = 0; i < STEPS; i++) {
        sb_step step = step_of(&plans[i], i);
        assert_int_equal(sb_audit_step(a, &step, NULL), SB_OK);
    }
    out.found = sb_audit_findings(a, &f);
    out.counts = *sb_audit_count(a);
    if (out.found)
        snprintf(out.text, sizeof out.text, "%s %llu %u: %s", f->check, (unsigned long long)f->step,
                 (unsigned)f->sequence, f->words);
    sb_audit_free(a);
    return out;
}

/* --- contradictions --------------------------------------------------------------------------- */

static void leave_it(plan *p)
{
    (void)p;
}

static void no_such_parent(plan *p)
{
    p[3].prefix[0].parent = 7;
}

static void later_parent(plan *p) /* a cycle: each would continue the other */
{
    p[3].prefix[0].parent = 2;
    p[4].prefix[0].parent = 1;
}

static void itself(plan *p)
{
    p[3].prefix[0].parent = 1;
}

static void too_far(plan *p) /* the row of the rejected draft does not count */
{
    p[3].prefix[0].position = 7;
    p[3].row[1].position = 7;
    p[3].row[2].position = 8;
    p[3].state[0].position = 7;
}

static void one_late(plan *p)
{
    p[3].prefix[0].position = 5;
}

static void one_early(plan *p)
{
    p[3].prefix[0].position = 3;
}

static void twice(plan *p)
{
    p[4].prefix[1].sequence = 2;
    p[4].rows = 1;
}

static void begun(plan *p)
{
    p[4].prefix[1].sequence = 0;
    p[4].rows = 1;
}

static void unused(plan *p)
{
    p[4].rows = 1;
}

static void other_tokens(plan *p)
{
    static const uint32_t tokens[] = {10, 11, 99, 13};
    memcpy(p[3].tokens, tokens, sizeof tokens);
    p[3].prefix[0].tokens = p[3].tokens;
}

static void own_tokens(plan *p)
{
    static const uint32_t tokens[] = {10, 11, 12, 13}, further[] = {10, 11, 12, 13, 24, 25};
    memcpy(p[3].tokens, tokens, sizeof tokens);
    memcpy(p[4].tokens, further, sizeof further);
    p[3].prefix[0].tokens = p[3].tokens;
    p[4].prefix[0].tokens = p[4].tokens;
}

/* The tokens of sequence 0, which sequence 1 does not have behind position 4. */
static void tokens_of_another(plan *p)
{
    static const uint32_t tokens[] = {10, 11, 12, 13, 14, 15};
    memcpy(p[4].tokens, tokens, sizeof tokens);
    p[4].prefix[0].tokens = p[4].tokens;
}

static void other_state(plan *p)
{
    p[3].state[0].position = 3;
}

static void slot_in_use(plan *p)
{
    p[3].row[1].slot = p[3].row[2].slot = 3;
}

static const struct {
    const char *name;
    void (*plant)(plan *plans);
    sb_trace_prefix prefix;
    uint32_t block;
    const char *words; /* "": nothing is wrong */
} cases[] = {
    {"leave_it", leave_it, SB_TRACE_PREFIX_unknown, 0, ""},
    {"full", leave_it, SB_TRACE_PREFIX_full, 0, ""},
    {"block 2", leave_it, SB_TRACE_PREFIX_block, 2, ""},
    {"block 4", leave_it, SB_TRACE_PREFIX_block, 4,
     "prefix 4 2: continues sequence 1 at position 6, expected a multiple of prefix_block 4"},
    {"checkpoint", leave_it, SB_TRACE_PREFIX_checkpoint, 0, ""},
    {"checkpoint 2", leave_it, SB_TRACE_PREFIX_checkpoint, 2, ""},
    {"checkpoint 3", leave_it, SB_TRACE_PREFIX_checkpoint, 3,
     "prefix 3 1: continues sequence 0 at position 4, expected a multiple of prefix_block 3"},
    {"own_tokens", own_tokens, SB_TRACE_PREFIX_full, 0, ""},
    {"no_such_parent", no_such_parent, SB_TRACE_PREFIX_unknown, 0,
     "prefix 3 1: continues sequence 7, which no earlier step feeds"},
    {"later_parent", later_parent, SB_TRACE_PREFIX_unknown, 0,
     "prefix 3 1: continues sequence 2, which no earlier step feeds"},
    {"itself", itself, SB_TRACE_PREFIX_unknown, 0, "prefix 3 1: continues itself"},
    {"too_far", too_far, SB_TRACE_PREFIX_unknown, 0,
     "prefix 3 1: continues sequence 0 at position 7, but that sequence was fed 6 tokens"},
    {"one_late", one_late, SB_TRACE_PREFIX_full, 0,
     "position 3 1: begins at position 4, but continues its parent at 5"},
    {"one_late, kept", one_late, SB_TRACE_PREFIX_checkpoint, 0,
     "prefix 3 1: continues sequence 0 at position 5, where no call of that sequence ended"},
    {"one_early", one_early, SB_TRACE_PREFIX_full, 0,
     "position 3 1: begins at position 4, but continues its parent at 3"},
    {"twice", twice, SB_TRACE_PREFIX_unknown, 0,
     "prefix 4 2: is listed twice in the prefixes of this step"},
    {"begun", begun, SB_TRACE_PREFIX_unknown, 0,
     "prefix 4 0: continues sequence 1 here, but it has begun in an earlier step"},
    {"unused", unused, SB_TRACE_PREFIX_unknown, 0,
     "prefix 4 5: continues sequence 1, but it has neither rows nor a state in this step"},
    {"other_tokens", other_tokens, SB_TRACE_PREFIX_unknown, 0,
     "prefix 3 1: has token 99 at position 2, but sequence 0, which it continues, was fed 12"},
    {"tokens_of_another", tokens_of_another, SB_TRACE_PREFIX_unknown, 0,
     "prefix 4 2: has token 14 at position 4, but sequence 1, which it continues, was fed 24"},
    {"other_state", other_state, SB_TRACE_PREFIX_unknown, 0,
     "state 3 1: is a state at position 3, expected 4"},
    {"slot_in_use", slot_in_use, SB_TRACE_PREFIX_unknown, 0,
     "slot 3 1: slot 3 is also read by sequence 0 in this step"},
};

TEST(test_contradictions)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan plans[STEPS];
        const sb_trace_head head = {.prefix = cases[i].prefix, .prefix_block = cases[i].block};
        memcpy(plans, sound, sizeof plans);
        cases[i].plant(plans);
        outcome out = audit(plans, &head);
        int right = cases[i].words[0]
                        ? strncmp(out.text, cases[i].words, strlen(cases[i].words)) == 0
                        : !out.found;
        if (!right)
            fail_msg("%s: expected \"%s\", found \"%s\"", cases[i].name, cases[i].words, out.text);
    }
}

/* A sequence that begins behind position 0 and names no parent is counted; it is no contradiction.
 */
TEST(test_orphans)
{
    plan plans[STEPS];
    memcpy(plans, sound, sizeof plans);
    outcome out = audit(plans, NULL);
    assert_int_equal(out.counts.prefixes, 3);
    assert_int_equal(out.counts.orphans, 0);
    plans[3].prefixes = 0;
    out = audit(plans, NULL);
    assert_int_equal(out.found, 0);
    assert_int_equal(out.counts.orphans, 1);
    assert_int_equal(out.counts.first_orphan, 1);
    assert_int_equal(out.counts.first_orphan_position, 4);
}

/* --- the rows of a prefix * ------------------------------------------------------------------- */

static void planned(const plan *plans, uint32_t parent, uint64_t position, size_t before,
                    const char *expected)
{
    static plan copy[STEPS];
    sb_step steps[STEPS];
    const sb_step_prefix prefix = {.sequence = 9, .parent = parent, .position = position};
    sb_prefix_part *parts = NULL;
    size_t count = 0, used = 0;
    char text[200] = "";
    memcpy(copy, plans, sizeof copy);
    for (size_t i = 0; i < STEPS; i++)
        steps[i] = step_of(&copy[i], i);
    assert_int_equal(sb_prefix_plan(steps, before, &prefix, &parts, &count, NULL), SB_OK);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%zu:%zu+%zu%s ", parts[i].step,
                                 parts[i].first, parts[i].rows, parts[i].undone ? "u" : "");
    free(parts);
    assert_string_equal(text, expected);
}

TEST(test_plan)
{
    planned(sound, 0, 4, 3, "0:0+2 1:0+2 ");
    planned(sound, 0, 3, 3, "0:0+2 1:0+1 ");
    planned(sound, 0, 6, 3, "0:0+2 1:0+2 2:0+2u ");
    planned(sound, 0, 5, 3, "0:0+2 1:0+2 2:0+1u ");
    planned(sound, 0, 7, 4, "0:0+2 1:0+2 2:0+2u 3:0+1 ");
    planned(sound, 1, 6, 4, "0:0+2 1:0+2 3:1+2 ");
    planned(sound, 1, 5, 4, "0:0+2 1:0+2 3:1+1 ");
    planned(sound, 1, 3, 4, "0:0+2 1:0+1 ");
    planned(sound, 2, 7, 5, "0:0+2 1:0+2 3:1+2 4:0+1 ");
    planned(sound, 5, 3, 5, "0:0+2 4:1+1 ");
    planned(sound, 7, 3, 5, "");
    /* as far as the steps go */
    planned(sound, 0, 99, 2, "0:0+2 1:0+2 ");
    planned(sound, 0, 99, 3, "0:0+2 1:0+2 2:0+2u ");
}

TEST(test_history)
{
    plan plans[STEPS];
    sb_history *h = sb_history_new();
    static const uint32_t of_2[] = {10, 11, 12, 13, 24, 25, 36}, of_5[] = {10, 11, 52},
                          of_0[] = {10, 11, 12, 13, 14, 15, 16};
    uint32_t token;
    assert_non_null(h);
    memcpy(plans, sound, sizeof plans);
    for (size_t i = 0; i < STEPS; i++) {
        sb_step step = step_of(&plans[i], i);
        assert_int_equal(sb_history_step(h, &step, NULL), SB_OK);
    }
    for (uint64_t i = 0; i < 7; i++) {
        assert_true(sb_history_token(h, 2, i, &token) && token == of_2[i]);
        assert_true(sb_history_token(h, 0, i, &token) && token == of_0[i]);
        assert_int_equal(sb_history_token(h, 5, i, &token), i < 3);
        assert_true(i >= 3 || token == of_5[i]);
    }
    assert_int_equal(sb_history_end(h, 0), 7);
    assert_int_equal(sb_history_end(h, 1), 6);
    assert_int_equal(sb_history_end(h, 2), 7);
    assert_int_equal(sb_history_end(h, 3), 0);
    assert_int_equal(sb_history_token(h, 2, 7, &token), 0);
    assert_true(sb_history_ended_at(h, 1, 4) && sb_history_ended_at(h, 1, 6));
    assert_true(sb_history_ended_at(h, 0, 6) && !sb_history_ended_at(h, 0, 5));
    assert_int_equal(sb_history_ended_at(h, 1, 5), 0);
    assert_int_equal(sb_history_count(h), 4);
    assert_int_equal(sb_history_at(h, 3), 5);
    /* without its round, the next row of the sequence tells which rows were kept */
    sb_history_free(h);
    h = sb_history_new();
    assert_non_null(h);
    for (size_t i = 0; i < STEPS; i++) {
        sb_step step = step_of(&plans[i], i);
        step.round_count = 0;
        assert_int_equal(sb_history_step(h, &step, NULL), SB_OK);
        assert_true(i != 2 || sb_history_end(h, 0) == 7);
    }
    assert_int_equal(sb_history_end(h, 0), 7);
    assert_true(sb_history_token(h, 0, 6, &token) && token == 16);
    assert_int_equal(sb_history_ended_at(h, 0, 6), 0);
    sb_history_free(h);
}

/* A step of two sequences, the second at position 2; rows are numbered by their values. */
static sb_step filled(int fewer_entries)
{
    sb_step step = {.number = 4};
    static const sb_step_row rows[] = {
        {0, 3, 0, 10, PROMPT, 0}, {0, 3, 1, 11, PROMPT, 0}, {1, 4, 2, 20, PROMPT, 0},
        {1, 4, 3, 21, PROMPT, 0}, {1, 4, 4, 22, PROMPT, 0},
    };
    static const struct {
        const char *name;
        size_t rows;
    } taps[] = {{"embed", 5}, {"mtp.fc", 5}, {"logits", 3}};
    for (size_t i = 0; i < 5; i++)
        *sb_step_add_row(&step) = rows[i];
    for (size_t i = 0; i < 3; i++) {
        size_t n = taps[i].rows - (size_t)(i == 1 && fewer_entries);
        sb_step_value *v = sb_step_add(&step.taps, taps[i].name, n, 2, 1);
        for (size_t e = 0; e < 2 * n; e++)
            v->data[e] = (float)e / 2;
    }
    step.logits_rows = calloc(3, sizeof *step.logits_rows);
    step.logits_rows[0] = 1;
    step.logits_rows[1] = 3;
    step.logits_rows[2] = 4;
    step.logits_count = 3;
    sb_step_state *state = sb_step_add_state(&step);
    state->sequence = 1;
    state->position = 2;
    sb_step_add(&state->pieces, "mtp.hidden", 1, 2, 1)->data[0] = 7;
    return step;
}

static void cut(int fewer, const sb_prefix_part *part, const char *expected)
{
    sb_step whole = filled(fewer), step;
    char text[400] = "";
    size_t used = 0;
    assert_int_equal(sb_prefix_step(&whole, part, 9, &step, NULL), SB_OK);
    for (size_t i = 0; i < step.row_count; i++) {
        assert_int_equal(step.rows[i].sequence, 9);
        assert_int_equal(step.rows[i].kind, PROMPT);
        used += (size_t)snprintf(text + used, sizeof text - used, "%u@%d ",
                                 (unsigned)step.rows[i].token, (int)step.rows[i].position);
    }
    for (size_t i = 0; i < step.taps.count; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s %g+%zu ", step.taps.items[i].name,
                             (double)step.taps.items[i].data[0], step.taps.items[i].rows);
    for (size_t i = 0; i < step.logits_count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "l%zu ", step.logits_rows[i]);
    for (size_t i = 0; i < step.state_count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "s%u@%d=%g ",
                                 (unsigned)step.states[i].sequence, (int)step.states[i].position,
                                 (double)step.states[i].pieces.items[0].data[0]);
    assert_int_equal(step.again, part->undone ? SB_STEP_AGAIN_UNDONE : SB_STEP_AGAIN);
    sb_prefix_step_free(&step);
    sb_step_clear(&whole);
    assert_string_equal(text, expected);
}

/* The first entry of a sequence that begins at position 0 is missing (S-7), or it is not. */
TEST(test_step)
{
    cut(1, &(sb_prefix_part){4, 2, 2, 1}, "20@2 21@3 embed 2+2 mtp.fc 1+2 logits 1+1 l1 s9@2=7 ");
    cut(0, &(sb_prefix_part){4, 2, 2, 0}, "20@2 21@3 embed 2+2 mtp.fc 2+2 logits 1+1 l1 s9@2=7 ");
    cut(1, &(sb_prefix_part){4, 0, 2, 0}, "10@0 11@1 embed 0+2 mtp.fc 0+1 logits 0+1 l1 ");
    cut(1, &(sb_prefix_part){4, 0, 1, 0}, "10@0 embed 0+1 ");
    cut(1, &(sb_prefix_part){4, 2, 3, 0},
        "20@2 21@3 22@4 embed 2+3 mtp.fc 1+3 logits 1+2 l1 l2 s9@2=7 ");
}
