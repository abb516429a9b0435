/* test_free_kept.c - rows of a cache that an earlier state contained stay equal to the bit (T-85):
 * a row that changes by less than any noise is found even without the outputs of ops. */
#include "tests/lib/suite.h"

#include <string.h>

#include "tests/unit/free_play.h"

static const char *piece;
static uint64_t from;          /* the first step whose state is changed */
enum { ELEMENT = 2 * 64 + 7 }; /* an element of an early token */

static void spoil(free_play *p, sb_step *step)
{
    for (size_t i = 0; i < step->state_count && step->number >= from; i++) {
        sb_step_values *pieces = &step->states[i].pieces;
        for (size_t k = 0; k < pieces->count; k++) {
            sb_step_value *v = &pieces->items[k];
            if (strcmp(v->name, piece) == 0 && ELEMENT < v->rows * v->cols)
                v->data[ELEMENT] *= 1 + (float)p->amount;
        }
    }
}

static free_play play(uint64_t first)
{
    free_play p = {.model = play_model("test_free_kept", "T4", "predictable"),
                   .backend = free_play_sim("batched"),
                   .spoil = spoil,
                   .amount = 0x1p-23,
                   .level = 3,
                   .rounds = 8,
                   .drafts = 1,
                   .perturbed = 2};
    from = first;
    free_play_run(&p);
    return p;
}

static const char *const pieces[] = {"layers.3.self_attn.keys", "layers.3.self_attn.values",
                                     "mtp.layers.0.self_attn.keys",
                                     "mtp.layers.0.self_attn.values"};

TEST(test_rows_before_a_round_stay)
{
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        piece = pieces[i];
        free_play p = play(9);
        const sb_place *first = &p.v.first_failure;
        if (p.v.verdict != SB_VERDICT_FAIL || strcmp(first->name, piece) != 0 ||
            !strstr(first->words, "in an earlier recorded state"))
            fail_msg("%s: %s %s", piece, sb_verdict_name(p.v.verdict), first->words);
        assert_true(first->found != first->expected);
        sb_verdicts_free(&p.v);
    }
}

/* An engine with this value in every state passes: it is within the noise, and does not change. */
TEST(test_the_same_value_from_the_first_state_on_passes)
{
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        piece = pieces[i];
        free_play p = play(0);
        if (p.v.verdict != SB_VERDICT_WITHIN)
            fail_msg("%s: %s: %s", piece, sb_verdict_name(p.v.verdict), p.v.first_failure.words);
        sb_verdicts_free(&p.v);
    }
}

TEST_GROUP(NULL, play_close_models)
