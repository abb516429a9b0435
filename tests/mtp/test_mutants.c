/* test_mutants.c - every mistake of mutants.def is detected, and the first difference is exactly
 * where it is made. Harmless variants show no difference. */
#include "tests/lib/suite.h"

#include <stdio.h>
#include <string.h>

#include "tests/mtp/mutants.h"

static const char *const presets[] = {"T4", "T5"};
enum { PRESETS = sizeof presets / sizeof *presets };
static slip_run sound[PRESETS];

static const sb_model *model_of(size_t preset)
{
    return play_model("test_mtp_mutants", presets[preset], "mistakes");
}

TEST_FIXTURE(play_sound)
{
    for (size_t i = 0; i < PRESETS; i++)
        slip_play(model_of(i), NULL, &sound[i]);
    return 0;
}

/* True if the ids of drafts stay the same in the whole run. One entry at another position is too
 * small a change to move a draft; its keys, values and logits still show it. */
static int ids_stay(const sb_planted *s)
{
    return s->benign || strcmp(s->name, "boundary_hidden") == 0 ||
           strcmp(s->name, "entry_position") == 0;
}

static void check(const sb_planted *s, size_t preset)
{
    static slip_run run;
    size_t place;
    slip_play(model_of(preset), s, &run);
    const char *differing = slip_differing(&sound[preset], &run, &place);
    int moved = memcmp(run.drafted, sound[preset].drafted, sizeof run.drafted) != 0;
    printf("%-8s %-22s %s first differs in %s at place %zu; ids of drafts %s\n",
           s->benign ? "harmless" : "killed", s->name, presets[preset],
           *differing ? differing : "nothing", place, moved ? "move" : "stay");
    if (strcmp(differing, s->where) != 0)
        fail_msg("%s on %s (%s): \"%s\" differs first, at place %zu; expected \"%s\"", s->name,
                 presets[preset], s->words, differing, place, s->where);
    if (moved == ids_stay(s))
        fail_msg("%s on %s (%s): ids of drafts %s", s->name, presets[preset], s->words,
                 moved ? "move" : "stay");
}

TEST(test_mistakes_are_killed)
{
    for (size_t i = 0; slip_list[i].name; i++)
        for (size_t preset = 0; preset < PRESETS && !slip_list[i].benign; preset++)
            check(&slip_list[i], preset);
}

TEST(test_harmless_ways_pass)
{
    for (size_t i = 0; slip_list[i].name; i++)
        for (size_t preset = 0; preset < PRESETS && slip_list[i].benign; preset++)
            check(&slip_list[i], preset);
}

/* The mistakes that the list must have at least. */
TEST(test_list_is_complete)
{
    static const char *const names[] = {
        "stale_slot",        "slot_off_by_one",     "conv_forgotten",    "entries_not_rewound",
        "halves_of_fc",      "hidden_before_norm",  "draft_position",    "bonus_counted",
        "decay_of_rejected", "conv_shifted",        "last_hidden_stale", "recycled_before_norm",
        "head_not_primed",   "accepted_zero_wraps", "zero_draft_stale",  "boundary_hidden"};
    static const char *const faults[] = {"F06", "F07", "F08", "F09", "F10", "F11", "F12"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        size_t i = 0;
        while (slip_list[i].name && strcmp(slip_list[i].name, names[n]) != 0)
            i++;
        if (!slip_list[i].name || slip_list[i].benign || !*slip_list[i].where)
            fail_msg("mutants.def lacks %s", names[n]);
    }
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++) {
        size_t i = 0;
        while (slip_list[i].name && strcmp(slip_list[i].with, faults[n]) != 0)
            i++;
        if (!slip_list[i].name)
            fail_msg("mutants.def has nothing of %s", faults[n]);
    }
}

TEST_GROUP(play_sound, play_close_models)
