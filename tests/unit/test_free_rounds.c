/* test_free_rounds.c - mistakes in the rollback of a round, planted in an engine. With recorded
 * states they are named. From tokens alone the verdict is a failure that says which side is
 * right. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/unit/free_play.h"
#include "tools/judge/compare/ids.h"

#define PROGRAM "test_free_rounds"

static const sb_model *t4(void)
{
    return play_model(PROGRAM, "T4", "predictable");
}

static const struct {
    const char *slip, *op, *piece, *words;
} faults[] = {
    {"stale_slot", "state", "layers.0.linear_attn.recurrent_state", "from the first slot"},
    {"zero_draft_stale", "state", "layers.0.linear_attn.recurrent_state",
     "a round without drafts reads"},
    {"conv_forgotten", "state", "layers.0.linear_attn.conv_state",
     "conv states are not rolled back"},
    {"slot_off_by_one", "state", "layers.0.linear_attn.conv_state", "one slot too early"},
    {"crop_keeps_rejected", "state", "layers.0.linear_attn.conv_state",
     "neither conv nor recurrent states"},
    {"keys_of_rejected", "state", "layers.3.self_attn.keys",
     "the last kept row has the keys and values"},
    {"counts_swapped", "position", "", "from the previous round"},
    {"bonus_counted", "position", "", "the bonus token counted"},
};

TEST(test_named_from_states)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        free_play p = {.model = t4(),
                       .slip = faults[i].slip,
                       .level = 3,
                       .rounds = 8,
                       .drafts = 1,
                       .explain = 1,
                       .perturbed = 2};
        free_play_run(&p);
        const char *said = "";
        for (size_t r = p.v.round_count; r-- > 0;)
            if (p.v.rounds[r].hypothesis[0])
                said = p.v.rounds[r].hypothesis;
        assert_int_equal(p.v.verdict, SB_VERDICT_FAIL);
        if (strcmp(p.v.first_failure.op, faults[i].op) != 0 ||
            strcmp(p.v.first_failure.name, faults[i].piece) != 0 || !strstr(said, faults[i].words))
            fail_msg("%s: %s %s, \"%s\"", faults[i].slip, p.v.first_failure.op,
                     p.v.first_failure.name, said);
        sb_verdicts_free(&p.v);
    }
}

/* --- tokens alone ----------------------------------------------------------------------------- */
/* In this model a wrong state changes the tokens. Drafts are the true tokens, with every third one
 * changed. */

static const sb_model *random_model(void)
{
    return play_model(PROGRAM, "T4", "mistakes");
}

static const free_play *sound(void)
{
    static free_play p;
    if (p.count == 0) {
        p = (free_play){.model = random_model(), .rounds = 60};
        free_play_run(&p);
        sb_verdicts_free(&p.v);
    }
    return &p;
}

static free_play broken(const char *slip, size_t perturbed, int explain)
{
    free_play p = {.model = random_model(),
                   .slip = slip,
                   .rounds = 12,
                   .drafts = 1,
                   .oracle = sound()->tokens,
                   .explain = explain,
                   .perturbed = perturbed};
    free_play_run(&p);
    return p;
}

static const char *const changing[] = {"stale_slot", "zero_draft_stale", "conv_forgotten",
                                       "crop_keeps_rejected", "slot_off_by_one"};
static const char *const like[] = {"from the first slot", "a round without drafts reads",
                                   "conv states are not rolled back",
                                   "neither conv nor recurrent states", "one slot too early"};
enum { CHANGING = sizeof changing / sizeof *changing };

/* Only the emitted tokens and the accepted counts are known, no logits and no states. */
TEST(test_named_from_tokens)
{
    free_play p = broken(NULL, 2, 1);
    assert_int_equal(p.v.failures, 0);
    assert_true(p.v.verdict <= SB_VERDICT_NEAR_TIE);
    sb_verdicts_free(&p.v);
    for (size_t i = 0; i < CHANGING; i++) {
        p = broken(changing[i], 2, 1);
        const char *said = "";
        for (size_t r = p.v.round_count; r-- > 0;)
            if (p.v.rounds[r].hypothesis[0])
                said = p.v.rounds[r].hypothesis;
        if (p.v.verdict != SB_VERDICT_FAIL || !strstr(said, like[i]))
            fail_msg("%s: %s, \"%s\"", changing[i], sb_verdict_name(p.v.verdict), said);
        print_message("%s: %s\n", changing[i], p.v.first_failure.words);
        sb_verdicts_free(&p.v);
    }
}

/* --- drafts that are not the head's * --------------------------------------------------------- */

static void from_elsewhere(const char *slip, int external, sb_verdict least, sb_verdict most,
                           const char *words)
{
    free_play p = {.model = random_model(),
                   .slip = slip,
                   .level = 3,
                   .rounds = 8,
                   .drafts = 1,
                   .oracle = sound()->tokens,
                   .external = external,
                   .perturbed = 2};
    free_play_run(&p);
    if (p.v.verdict < least || p.v.verdict > most || !strstr(p.v.first_failure.words, words))
        fail_msg("%s: %s, \"%s\"", slip ? slip : "no slip", sb_verdict_name(p.v.verdict),
                 p.v.first_failure.words);
    sb_verdicts_free(&p.v);
}

/* External drafts are accepted as they are. The state after a rollback is judged as after any
 * drafts. */
TEST(test_drafts_from_elsewhere)
{
    from_elsewhere(NULL, 0, SB_VERDICT_FAIL, SB_VERDICT_FAIL, "the head gives");
    from_elsewhere(NULL, 1, SB_VERDICT_IDENTICAL, SB_VERDICT_NEAR_TIE, "");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        from_elsewhere(faults[i].slip, 1, SB_VERDICT_FAIL, SB_VERDICT_FAIL, "");
}

static sb_ids_verdict parting(const free_play *on, const free_play *off, size_t prompt,
                              sb_verdicts *v)
{
    const sb_ids_pair pair = {{on->tokens, off->tokens}, {on->count, off->count}};
    const sb_ids_options options = {
        .perturbed = 4, .seed = 1, .name = {"on.ids", "off.ids"}, .prompt = prompt};
    sb_ids_verdict out;
    sb_error err = {""};
    *v = (sb_verdicts){0};
    if (sb_ids_compare(random_model(), &options, &pair, 1, &out, v, &err))
        fail_msg("%s", err.text);
    print_message("%s: %s\n", sb_verdict_name(v->verdict), out.words);
    return out;
}

TEST(test_two_lists_of_tokens)
{
    sb_verdicts v;
    free_play right = broken(NULL, 0, 0);
    sb_verdicts_free(&right.v);
    sb_ids_verdict out = parting(&right, sound(), 9, &v);
    assert_int_equal(v.verdict, SB_VERDICT_WITHIN);
    assert_int_equal(out.parts, 0);
    sb_verdicts_free(&v);
    (void)parting(&right, sound(), 0, &v);
    assert_int_equal(v.verdict, SB_VERDICT_MISTRUSTED); /* nothing was judged */
    sb_verdicts_free(&v);
    for (size_t i = 0; i < CHANGING; i++) {
        free_play wrong = broken(changing[i], 0, 0);
        sb_verdicts_free(&wrong.v);
        for (size_t prompt = 0; prompt <= 9; prompt += 9) {
            out = parting(&wrong, sound(), prompt, &v);
            assert_int_equal(v.verdict, SB_VERDICT_FAIL);
            assert_int_equal(out.could[0], 0);
            assert_int_equal(out.could[1], 1);
            assert_int_equal(v.first_failure.token, out.common - 1);
            sb_verdicts_free(&v);
        }
        out = parting(&wrong, &wrong, 9, &v); /* both are wrong */
        assert_int_equal(v.verdict, SB_VERDICT_FAIL);
        sb_verdicts_free(&v);
    }
}

/* The second largest logit, where rounding to bfloat16 leaves the choice open. (A dense model: with
 * experts, equal router rows separate the sides in profile exact, too.) */
TEST(test_a_near_tie)
{
    sb_knobs knobs;
    sb_verdicts v = {0};
    sb_error err = {""};
    sb_ids_verdict out;
    uint32_t sides[2][10];
    float logits[384];
    assert_int_equal(sb_knobs_profile(&knobs, "sglang", NULL), SB_OK);
    const sb_model *model = random_model();
    sb_session *session = test_session(model, &knobs, NULL);
    test_draw_ids("tie 1", 300, sides[0], 9);
    test_feed(session, sides[0], 9);
    assert_int_equal(sb_session_logits(session, 8, logits, &err), SB_OK);
    sides[0][9] = sb_greedy(logits, 384);
    memcpy(sides[1], sides[0], sizeof sides[0]);
    logits[sides[0][9]] = -1e9f;
    sides[1][9] = sb_greedy(logits, 384);
    const sb_ids_pair pair = {{sides[0], sides[1]}, {10, 10}};
    sb_ids_options options = {.knobs = &knobs, .perturbed = 4, .seed = 1};
    assert_int_equal(sb_ids_compare(model, &options, &pair, 1, &out, &v, &err), SB_OK);
    print_message("%s\n", out.words);
    assert_int_equal(v.verdict, SB_VERDICT_NEAR_TIE);
    assert_int_equal(v.near_ties, 1);
    sb_verdicts_free(&v);
    options.knobs = NULL; /* in profile exact the choice is not open */
    assert_int_equal(sb_ids_compare(model, &options, &pair, 1, &out, &v, &err), SB_OK);
    assert_int_equal(v.verdict, SB_VERDICT_FAIL);
    sb_verdicts_free(&v);
    sb_session_free(session);
}

/* --- two sequences in a batch * --------------------------------------------------------------- */

typedef struct batch {
    sb_session *session[2];
    uint32_t token[2];
    sb_free *free;
    int swapped; /* conv and recurrent states are kept by the other sequence's count */
} batch;

static uint32_t greedy_at(sb_session *session, size_t row)
{
    float logits[384];
    assert_int_equal(sb_session_logits(session, row, logits, NULL), SB_OK);
    return sb_greedy(logits, 384);
}

static void add_rows(sb_step *step, uint32_t sequence, uint64_t position, const uint32_t *tokens,
                     size_t n, sb_call_kind kind)
{
    for (size_t i = 0; i < n; i++) {
        sb_step_row *row = sb_step_add_row(step);
        assert_non_null(row);
        *row = (sb_step_row){
            .sequence = sequence, .position = position + i, .token = tokens[i], .kind = kind};
    }
}

/* A round of one sequence. The first `right` of its three drafts are true. */
static sb_round one_round(batch *b, size_t i, size_t right, sb_step *step)
{
    sb_session *session = b->session[i];
    uint64_t position = sb_session_state(session)->position;
    sb_round round = {.position = position, .drafted = 3};
    uint32_t fed[4] = {b->token[i]};
    for (size_t j = 0; j < 3; j++) { /* finds the true token, then rolls back */
        assert_int_equal(sb_session_verify(session, fed, j + 1, SB_ROLLBACK_snapshots, NULL),
                         SB_OK);
        fed[j + 1] = (greedy_at(session, j) + (j >= right)) % 384;
        assert_int_equal(sb_session_keep(session, 0, NULL), SB_OK);
        round.drafts[j] = fed[j + 1];
    }
    assert_int_equal(sb_session_verify(session, fed, 4, SB_ROLLBACK_snapshots, NULL), SB_OK);
    round.accepted = right;
    for (size_t j = 0; j <= right; j++)
        round.tokens[round.emitted++] = greedy_at(session, j);
    add_rows(step, (uint32_t)i, position, fed, 4, SB_CALL_verify);
    sb_step_round *recorded = sb_step_add_round(step);
    assert_non_null(recorded);
    *recorded = (sb_step_round){(uint32_t)i, 0, position, round};
    b->token[i] = round.tokens[right];
    return round;
}

static void keep(sb_session *session, size_t kept, size_t taken)
{
    sb_state *right = NULL, *wrong = NULL;
    assert_int_equal(sb_session_state_at(session, kept, &right, NULL), SB_OK);
    assert_int_equal(sb_session_state_at(session, taken, &wrong, NULL), SB_OK);
    const sb_config *c = right->config;
    for (uint32_t i = 0; i < c->layers; i++)
        if (!sb_state_is_full(right, i)) {
            memcpy(right->layers[i].conv, wrong->layers[i].conv,
                   sb_state_conv_size(c) * sizeof(float));
            memcpy(right->layers[i].recurrent, wrong->layers[i].recurrent,
                   sb_state_recurrent_size(c) * sizeof(float));
        }
    play_set(session, right);
    sb_state_free(right);
    sb_state_free(wrong);
}

static void play_batch(batch *b, sb_verdicts *v)
{
    sb_error err = {""};
    sb_step step = {0};
    const sb_free_options options = {
        .perturbed = 2, .verdicts = v, .greedy = 1, .explain = 1, .seed = 3};
    assert_int_equal(sb_free_new(random_model(), &options, &b->free, &err), SB_OK);
    for (size_t i = 0; i < 2; i++) {
        uint32_t ids[5];
        test_draw_ids(i ? "batch 1" : "batch 0", 300, ids, 5);
        b->session[i] = test_session(random_model(), NULL, NULL);
        test_feed(b->session[i], ids, 5);
        b->token[i] = greedy_at(b->session[i], 4);
        add_rows(&step, (uint32_t)i, 0, ids, 5, SB_CALL_prompt);
    }
    assert_int_equal(sb_free_step(b->free, &step, &err), SB_OK);
    sb_step_clear(&step);
    for (size_t n = 0; n < 4; n++) {
        size_t right[2] = {n % 3, (n + 1) % 3};
        for (size_t i = 0; i < 2; i++)
            (void)one_round(b, i, right[i], &step);
        for (size_t i = 0; i < 2; i++)
            keep(b->session[i], right[i] + 1, right[b->swapped ? 1 - i : i] + 1);
        assert_int_equal(sb_free_step(b->free, &step, &err), SB_OK);
        sb_step_clear(&step);
    }
    assert_int_equal(sb_free_finish(b->free, &err), SB_OK);
    sb_free_free(b->free);
    for (size_t i = 0; i < 2; i++)
        sb_session_free(b->session[i]);
}

TEST(test_counts_of_another_sequence)
{
    sb_verdicts v = {0};
    const char *said = "";
    batch b = {.swapped = 0};
    play_batch(&b, &v);
    assert_int_equal(v.failures, 0);
    assert_int_equal(v.round_count, 8);
    sb_verdicts_free(&v);
    b = (batch){.swapped = 1};
    play_batch(&b, &v);
    for (size_t r = v.round_count; r-- > 0;)
        if (v.rounds[r].hypothesis[0])
            said = v.rounds[r].hypothesis;
    print_message("%s\n%s\n", v.first_failure.words, said);
    assert_int_equal(v.verdict, SB_VERDICT_FAIL);
    assert_non_null(strstr(said, "another sequence of the batch"));
    sb_verdicts_free(&v);
}

TEST_GROUP(NULL, play_close_models)
