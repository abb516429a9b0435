/* test_free_rounds.c - mistakes on the way back from a round, planted in an engine: with its states
 * they are named, and from its tokens alone they are a failure with the right side. */
#include "tests/lib/cmocka.h"

#include <string.h>

#include "tests/unit/free_play.h"
#include "tools/compare/ids.h"

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
    {"keys_of_rejected", "state", "layers.3.self_attn.keys", "keys and values of the last row"},
    {"counts_swapped", "position", "", "that of the round before"},
    {"bonus_counted", "position", "", "the bonus token counted"},
};

static void test_named_from_states(void **state)
{
    (void)state;
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

/* --- tokens alone --------------------------------------------------------------------------------
 * A model whose tokens a wrong state changes; its drafts are true ones, with every third changed.
 */

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

/* What was emitted and accepted is known, and no logits and no states. */
static void test_named_from_tokens(void **state)
{
    (void)state;
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

static void test_two_lists_of_tokens(void **state)
{
    sb_verdicts v;
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_from_states),
        cmocka_unit_test(test_named_from_tokens),
        cmocka_unit_test(test_two_lists_of_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, play_close_models);
}
