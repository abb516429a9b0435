/* test_trace_audit.c - contradictions between steps are named; valid steps pass. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "tools/judge/trace/audit.h"

enum { STEPS = 8, ROWS = 8, ROUNDS = 2, STATES = 2 };

/* The content of a step, as a literal. */
typedef struct plan {
    size_t rows, rounds, states;
    sb_step_row row[ROWS];
    sb_step_round round[ROUNDS];
    sb_step_state state[STATES];
} plan;

#define PROMPT SB_CALL_prompt
#define DECODE SB_CALL_decode
#define VERIFY SB_CALL_verify
#define DRAFT SB_CALL_draft

/* Two sequences in one batch: prompts of 2 and 3 tokens; drafts; rounds of 2 and 1 drafts, with 2
 * and 0 accepted; a round without drafts and one with a draft; the final states. */
static const plan sound[STEPS] = {
    {.rows = 5,
     .row = {{0, 3, 0, 10, PROMPT, 0},
             {0, 3, 1, 11, PROMPT, 0},
             {1, 4, 0, 20, PROMPT, 0},
             {1, 4, 1, 21, PROMPT, 0},
             {1, 4, 2, 22, PROMPT, 0}},
     .states = 1,
     .state = {{.sequence = 1, .position = 0, .has_target = 1, .target = {"a"}}}},
    {.rows = 3, .row = {{0, 3, 2, 12, DRAFT, 0}, {0, 3, 3, 13, DRAFT, 0}, {1, 4, 3, 23, DRAFT, 0}}},
    {.rows = 5,
     .row = {{0, 3, 2, 12, VERIFY, 0},
             {0, 3, 3, 13, VERIFY, 0},
             {0, 3, 4, 14, VERIFY, 0},
             {1, 4, 3, 23, VERIFY, 0},
             {1, 4, 4, 24, VERIFY, 0}},
     .rounds = 2,
     .round =
         {{0,
           0,
           2,
           {.drafted = 2, .drafts = {13, 14}, .accepted = 2, .emitted = 3, .tokens = {13, 14, 15}}},
          {1, 0, 3, {.drafted = 1, .drafts = {24}, .accepted = 0, .emitted = 1, .tokens = {25}}}}},
    {.rows = 1, .row = {{1, 4, 4, 25, DRAFT, 1}}},
    {.rows = 3,
     .row = {{0, 3, 5, 15, DECODE, 1}, {1, 4, 4, 25, VERIFY, 1}, {1, 4, 5, 26, VERIFY, 1}},
     .rounds = 2,
     .round = {{0, 1, 5, {.drafted = 0, .accepted = 0, .emitted = 1, .tokens = {16}}},
               {1,
                1,
                4,
                {.drafted = 1, .drafts = {26}, .accepted = 1, .emitted = 2, .tokens = {26, 27}}}},
     .states = 1,
     .state = {{.sequence = 1, .position = 4, .has_target = 1, .target = {"b"}}}},
    {.rows = 1, .row = {{1, 4, 6, 27, DRAFT, 2}}},
    {.rows = 3,
     .row = {{0, 3, 6, 16, DECODE, 2}, {1, 4, 6, 27, VERIFY, 2}, {1, 4, 7, 28, VERIFY, 2}},
     .rounds = 2,
     .round = {{0, 2, 6, {.drafted = 0, .accepted = 0, .emitted = 1, .tokens = {17}}},
               {1,
                2,
                6,
                {.drafted = 1,
                 .drafts = {28},
                 .accepted = 1,
                 .emitted = 1,
                 .tokens = {28}}}}}, /* cut: sequence 1 ends */
    {.states = 2,
     .state = {{.sequence = 0, .position = 7, .has_target = 1, .target = {"c"}},
               {.sequence = 1, .position = 7, .has_target = 1, .target = {"d"}}}},
};

/* The first finding as "check step row"; "" if there is none. */
static const char *audit(plan *plans)
{
    static char text[400];
    sb_audit *a = NULL;
    const sb_finding *f;
    assert_int_equal(sb_audit_new(NULL, NULL, &a, NULL), SB_OK);
    for (size_t i = 0; i < STEPS; i++) {
        const sb_step step = {.number = i,
                              .rows = plans[i].row,
                              .row_count = plans[i].rows,
                              .rounds = plans[i].round,
                              .round_count = plans[i].rounds,
                              .states = plans[i].state,
                              .state_count = plans[i].states};
        assert_int_equal(sb_audit_step(a, &step, NULL), SB_OK);
    }
    text[0] = '\0';
    if (sb_audit_findings(a, &f))
        snprintf(text, sizeof text, "%s %llu %lld: %s", f->check, (unsigned long long)f->step,
                 f->row, f->words);
    sb_audit_free(a);
    return text;
}

/* --- faults ----------------------------------------------------------------------------------- */

static void swap_accepted(plan *p) /* each has the other's accepted count */
{
    p[2].round[0].round.accepted = 0;
    p[2].round[0].round.emitted = 1;
    p[2].round[0].round.tokens[0] = 13;
    p[2].round[1].round.accepted = 1;
    p[2].round[1].round.emitted = 2;
    p[2].round[1].round.tokens[0] = 24;
    p[2].round[1].round.tokens[1] = 25;
}

static void accept_one_more(plan *p)
{
    p[2].round[1].round.accepted = 1;
}

static void emit_a_rejected(plan *p)
{
    p[2].round[0].round.tokens[1] = 99;
}

static void lose_the_bonus(plan *p)
{
    p[2].round[0].round.emitted = 2;
}

static void feed_another(plan *p)
{
    p[4].row[0].token = 99;
}

static void skip_a_position(plan *p)
{
    p[0].row[4].position = 3;
}

static void keep_a_rejected(plan *p) /* the next call begins one position too late */
{
    p[3].row[0].position = 5;
    p[4].row[1].position = 5;
    p[4].row[2].position = 6;
    p[4].round[1].position = 5;
    p[4].state[0].position = 5;
}

static void verify_another(plan *p)
{
    p[2].row[1].token = 99;
}

static void draft_another(plan *p)
{
    p[1].row[1].token = 99;
}

static void draft_too_far(plan *p)
{
    p[1].row[1].position = 4;
}

static void draft_behind_another(plan *p)
{
    p[3].row[0].token = 24;
}

static void drop_a_row(plan *p)
{
    p[2].rows = 4;
}

static void miscount_rounds(plan *p)
{
    p[4].round[1].number = 2;
    p[4].row[1].round = p[4].row[2].round = 2;
}

static void other_round(plan *p)
{
    p[2].row[1].round = 7;
}

static void two_rounds(plan *p)
{
    p[2].round[1] = p[2].round[0];
}

static void round_of_nobody(plan *p)
{
    p[2].round[1].sequence = 9;
}

static void move_a_round(plan *p)
{
    p[2].round[1].position = 4;
}

static void share_a_slot(plan *p)
{
    p[0].row[2].slot = p[0].row[3].slot = p[0].row[4].slot = 3;
}

static void steal_a_slot(plan *p) /* sequence 1 uses the slot of sequence 0, which then reads it */
{
    p[4].rows = 2;
    memmove(&p[4].row[0], &p[4].row[1], 2 * sizeof p[4].row[0]);
    p[4].rounds = 1;
    p[4].round[0] = p[4].round[1];
    p[4].row[0].slot = p[4].row[1].slot = 3;
    p[6].row[0] = (sb_step_row){0, 3, 5, 15, DECODE, 1};
    p[6].round[0].number = 1;
    p[6].round[0].position = 5;
    p[7].state[0].position = 6;
}

static void mix_kinds(plan *p)
{
    p[2].row[1].kind = DECODE;
}

static void mix_drafts(plan *p)
{
    p[1].row[2].kind = DECODE;
}

static void tear_apart(plan *p)
{
    sb_step_row row = p[0].row[1];
    memmove(&p[0].row[1], &p[0].row[2], 3 * sizeof row);
    p[0].row[4] = row;
}

static void move_a_state(plan *p)
{
    p[4].state[0].position = 5;
}

static void stale_state(plan *p)
{
    memcpy(p[7].state[1].target.hex, "b", 2);
}

static void two_states(plan *p)
{
    p[7].state[0].sequence = 1;
}

typedef struct fault {
    const char *name;
    void (*plant)(plan *p);
    const char *words; /* how the first finding begins */
} fault;

static const fault faults[] = {
    {"swap_accepted", swap_accepted, "position 3 0: drafts at position 4, expected 5"},
    {"accept_one_more", accept_one_more,
     "round 2 -1: round 0 accepted 1 drafts, but its emitted token 0"},
    {"emit_a_rejected", emit_a_rejected,
     "round 2 -1: round 0 accepted 2 drafts, but its emitted token 1"},
    {"lose_the_bonus", lose_the_bonus, "round 4 0: round 0 accepted 2 drafts and emitted 2"},
    {"feed_another", feed_another, "token 4 0: feeds token 99 at position 5, expected 15"},
    {"skip_a_position", skip_a_position, "position 0 4: is at position 3, expected 2"},
    {"keep_a_rejected", keep_a_rejected, "position 3 0: drafts at position 5, expected 4"},
    {"verify_another", verify_another, "draft 2 1: verifies token 99, but draft 0"},
    {"draft_another", draft_another, "draft 2 0: draft 0 is 13, but the head continued from 99"},
    {"draft_too_far", draft_too_far, "position 1 1: drafts at position 4, expected 3"},
    {"draft_behind_another", draft_behind_another, "token 3 0: drafts after token 24"},
    {"drop_a_row", drop_a_row, "round 2 3: round 0 has 1 drafts and 1 rows"},
    {"miscount_rounds", miscount_rounds, "round 4 1: is round 2, but the previous one was round 0"},
    {"other_round", other_round, "round 2 1: belongs to round 7"},
    {"two_rounds", two_rounds, "round 2 -1: round 0 is the second of this sequence"},
    {"round_of_nobody", round_of_nobody, "round 2 -1: round 0 has no rows in this step"},
    {"move_a_round", move_a_round, "round 2 3: round 0 is at position 4, but its rows are at 3"},
    {"share_a_slot", share_a_slot, "slot 0 2: slot 3 is also read by sequence 0"},
    {"steal_a_slot", steal_a_slot, "slot 6 0: slot 3 was read by sequence 1 in step 4"},
    {"mix_kinds", mix_kinds, "kind 2 1: is of kind decode, but the previous row"},
    {"mix_drafts", mix_drafts, "kind 1 -1: mixes rows of kind draft with other rows"},
    {"tear_apart", tear_apart, "rows 0 4: is separated from row 0"},
    {"move_a_state", move_a_state, "state 4 -1: is a state at position 5, expected 4"},
    {"stale_state", stale_state,
     "state 7 -1: the state at position 7 has the same digest as the state"},
    {"two_states", two_states, "state 7 -1: the step lists two states"},
};

/* --- valid steps * ---------------------------------------------------------------------------- */

static void leave_it(plan *p)
{
    (void)p;
}

static void no_rounds(plan *p) /* level 0: accepted counts are not recorded */
{
    for (size_t i = 0; i < STEPS; i++)
        p[i].rounds = p[i].states = 0;
}

static void no_drafts(plan *p)
{
    p[1].rows = p[3].rows = p[5].rows = 0;
}

static void no_slots(plan *p)
{
    for (size_t i = 0; i < STEPS; i++)
        for (size_t k = 0; k < p[i].rows; k++)
            p[i].row[k].slot = SB_NO_SLOT;
}

static void begin_later(plan *p) /* sequences that continue from a state */
{
    for (size_t i = 0; i < STEPS; i++) {
        for (size_t k = 0; k < p[i].rows; k++)
            p[i].row[k].position += 100;
        for (size_t k = 0; k < p[i].rounds; k++)
            p[i].round[k].position += 100;
        for (size_t k = 0; k < p[i].states; k++)
            p[i].state[k].position += 100;
    }
}

static void verify_one(plan *p) /* a round without drafts may be recorded as a verify call */
{
    p[4].row[0].kind = VERIFY;
}

static void move_slots(plan *p) /* a sequence may read another slot in every call */
{
    p[4].row[1].slot = p[4].row[2].slot = 9;
    p[6].row[0].slot = 5;
}

static const fault benign[] = {
    {"leave_it", leave_it, ""},       {"no_rounds", no_rounds, ""},
    {"no_drafts", no_drafts, ""},     {"no_slots", no_slots, ""},
    {"begin_later", begin_later, ""}, {"verify_one", verify_one, ""},
    {"move_slots", move_slots, ""},
};

static void run(const fault *f)
{
    plan plans[STEPS];
    memcpy(plans, sound, sizeof plans);
    f->plant(plans);
    const char *found = audit(plans);
    if (f->words[0] ? strncmp(found, f->words, strlen(f->words)) != 0 : found[0] != '\0')
        fail_msg("%s: expected \"%s\", found \"%s\"", f->name, f->words, found);
}

TEST(test_faults)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        run(&faults[i]);
}

TEST(test_benign)
{
    for (size_t i = 0; i < sizeof benign / sizeof *benign; i++)
        run(&benign[i]);
}

/* --- widths and levels ------------------------------------------------------------------------ */

static const sb_config config = {.hidden_size = 8,
                                 .vocab_size = 16,
                                 .layers = 2,
                                 .kv_heads = 1,
                                 .head_dim = 4,
                                 .heads = 2,
                                 .attn_output_gate = 1,
                                 .conv_kernel = 4,
                                 .lin_k_heads = 1,
                                 .lin_v_heads = 2,
                                 .lin_k_dim = 2,
                                 .lin_v_dim = 2,
                                 .experts = 4,
                                 .experts_per_token = 2,
                                 .moe_intermediate = 3,
                                 .shared_intermediate = 3,
                                 .mtp_layers = 1,
                                 .layer_is_full = {0, 1}};

/* Audits one row of kind decode at position 1, with one array or one piece. */
static const char *audit_one(const char *name, size_t rows, size_t cols, const float *values,
                             int is_piece)
{
    static char text[400];
    sb_audit *a = NULL;
    const sb_finding *f;
    sb_step step = {.number = 0};
    sb_step_row *row = sb_step_add_row(&step);
    sb_step_state *s = sb_step_add_state(&step);
    *row = (sb_step_row){0, 0, 2, 1, DECODE, 0};
    s->position = 2;
    sb_step_value *v = sb_step_add(is_piece ? &s->pieces : &step.taps, name, rows, cols, 1);
    for (size_t i = 0; values && i < rows * cols; i++)
        v->data[i] = values[i];
    assert_int_equal(sb_audit_new(&config, NULL, &a, NULL), SB_OK);
    assert_int_equal(sb_audit_step(a, &step, NULL), SB_OK);
    text[0] = '\0';
    if (sb_audit_findings(a, &f))
        snprintf(text, sizeof text, "%s: %s", f->check, f->words);
    sb_audit_free(a);
    sb_step_clear(&step);
    return text;
}

TEST(test_shapes)
{
    static const float twice[] = {3, 3}, high[] = {3, 4}, good[] = {3, 0};
    static const struct {
        const char *name;
        size_t rows, cols;
        const float *values;
        int is_piece;
        const char *words;
    } cases[] = {
        {"layers.0.linear_attn.g", 1, 2, NULL, 0, ""},
        {"layers.0.linear_attn.g", 1, 3, NULL, 0,
         "shape: layers.0.linear_attn.g has 3 columns, "
         "expected 2: nV"},
        {"layers.1.linear_attn.g", 1, 2, NULL, 0, "shape: layers.1.linear_attn.g: this model has"},
        {"layers.2.output", 1, 8, NULL, 0, "shape: layers.2.output: this model has no such tap"},
        {"layers.1.mlp.up_proj", 1, 8, NULL, 0, "shape: layers.1.mlp.up_proj: this model"},
        {"mtp.layers.0.self_attn.q_proj", 1, 16, NULL, 0, ""},
        {"logits", 1, 16, NULL, 0, ""},
        {"layers.0.mlp.router_ids", 1, 2, good, 0, ""},
        {"layers.0.mlp.router_ids", 1, 2, twice, 0,
         "shape: layers.0.mlp.router_ids names expert 3 "
         "twice"},
        {"layers.0.mlp.router_ids", 1, 2, high, 0,
         "shape: layers.0.mlp.router_ids names expert 4, "
         "expected an expert below 4"},
        {"layers.0.linear_attn.conv_state", 3, 8, NULL, 1, ""},
        {"layers.0.linear_attn.conv_state", 4, 8, NULL, 1,
         "state: layers.0.linear_attn.conv_state "
         "has 4 x 8 values, expected 24"},
        {"layers.0.linear_attn.recurrent_state", 2, 4, NULL, 1, ""},
        {"layers.1.self_attn.keys", 2, 4, NULL, 1, ""},
        {"layers.1.self_attn.keys", 1, 4, NULL, 1, "state: layers.1.self_attn.keys has 1 x 4"},
        {"layers.1.self_attn.keys", 3, 4, NULL, 1,
         "state: layers.1.self_attn.keys has 3 rows at "
         "position 2"},
        {"layers.0.self_attn.keys", 2, 4, NULL, 1, "state: layers.0.self_attn.keys: this model"},
        {"mtp.layers.0.self_attn.values", 1, 4, NULL, 1, ""},
        {"mtp.layers.0.self_attn.values", 2, 4, NULL, 1, ""},
        {"mtp.hidden", 1, 8, NULL, 1, ""},
        {"mtp.hidden", 1, 7, NULL, 1, "state: mtp.hidden has 1 x 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = audit_one(cases[i].name, cases[i].rows, cases[i].cols, cases[i].values,
                                      cases[i].is_piece);
        if (cases[i].words[0] ? strncmp(found, cases[i].words, strlen(cases[i].words)) != 0
                              : found[0] != '\0')
            fail_msg("case %zu: expected \"%s\", found \"%s\"", i, cases[i].words, found);
    }
}

/* Arrays with NaN or infinity and arrays of equal values are counted. */
TEST(test_counts)
{
    sb_audit *a = NULL;
    sb_step step = {.number = 0};
    sb_step_value *v = sb_step_add(&step.taps, "norm", 1, 2, 1);
    v->data[1] = -0.0f; /* -0 differs in bits */
    v = sb_step_add(&step.taps, "embed", 1, 2, 1);
    v->data[0] = v->data[1] = sb_f32_from_bits(0x7fc00000);
    (void)sb_step_add(&step.taps, "layers.0.mlp.shared_expert_gate", 1, 1, 1);
    assert_int_equal(sb_audit_new(NULL, NULL, &a, NULL), SB_OK);
    assert_int_equal(sb_audit_step(a, &step, NULL), SB_OK);
    const sb_audit_counts *c = sb_audit_count(a);
    assert_int_equal(c->arrays, 3);
    assert_int_equal(c->with_data, 3);
    assert_int_equal(c->not_finite, 2);
    assert_int_equal(c->constant, 1);
    assert_string_equal(c->first_constant, "embed");
    sb_audit_free(a);
    sb_step_clear(&step);
}

/* Each addition raises the level by one. */
TEST(test_levels)
{
    sb_step step = {.number = 0};
    sb_step_row *row = sb_step_add_row(&step);
    *row = (sb_step_row){0, SB_NO_SLOT, 0, 1, VERIFY, 0};
    for (unsigned level = 0; level < SB_TRACE_LEVELS; level++) {
        sb_level seen = {0};
        sb_level_add(&seen, &step);
        assert_int_equal(sb_level_reached(&seen), level);
        if (level == 0) {
            sb_step_add(&step.taps, "top_ids", 1, 3, 0);
            sb_step_add(&step.taps, "top_logprobs", 1, 3, 0);
        } else if (level == 1) {
            step.rows[0].slot = 0;
            sb_step_add_round(&step);
        } else if (level == 2) {
            sb_step_state *s = sb_step_add_state(&step);
            s->position = 1;
            sb_level without = {0};
            sb_level_add(&without, &step);
            assert_int_equal(sb_level_reached(&without), 2);
            s->position = 0; /* the empty state needs no data */
        } else {
            sb_step_add(&step.taps, "norm", 1, 3, 0);
        }
    }
    sb_step_clear(&step);
    sb_level empty = {0};
    assert_int_equal(sb_level_reached(&empty), 0);
}
