#include "tools/judge/trace/level.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/judge/trace/names.h"

/* Keeps the first thing that is missing. */
#define MISSING(level, number, ...)                                                                \
    do {                                                                                           \
        if (!(level)->missing[number][0])                                                          \
            snprintf((level)->missing[number], sizeof(level)->missing[number], __VA_ARGS__);       \
    } while (0)

static int is_last_of_sequence(const sb_step *step, size_t row)
{
    return row + 1 == step->row_count || step->rows[row + 1].sequence != step->rows[row].sequence;
}

static int has_logits(const sb_step *step, size_t row)
{
    const sb_step_value *logits = sb_step_find(&step->taps, "logits"),
                        *whole = sb_step_find(&step->taps, "logprobs"),
                        *ids = sb_step_find(&step->taps, "top_ids"),
                        *logprobs = sb_step_find(&step->taps, "top_logprobs");
    return (logits && sb_step_logits_row(step, logits, row) >= 0) ||
           (whole && sb_step_logits_row(step, whole, row) >= 0) ||
           (ids && logprobs && sb_step_logits_row(step, ids, row) >= 0 &&
            sb_step_logits_row(step, logprobs, row) >= 0);
}

static int has_round(const sb_step *step, const sb_step_row *row)
{
    for (size_t i = 0; i < step->round_count; i++)
        if (step->rounds[i].sequence == row->sequence && step->rounds[i].number == row->round)
            return 1;
    return 0;
}

/* U-6: "The state at position 0 is empty and needs no array" */
static int has_state(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->state_count; i++)
        if (step->states[i].sequence == sequence &&
            (step->states[i].has_target || step->states[i].pieces.count ||
             step->states[i].position == 0))
            return 1;
    return 0;
}

static int has_taps(const sb_step *step)
{
    for (size_t i = 0; i < step->taps.count; i++) {
        const char *name = step->taps.items[i].name;
        if (!sb_tap_is_of_logits(name) && !sb_tap_is_of_drafts(name))
            return 1;
    }
    return 0;
}

/* U-2: checks a step against the requirements of each level. */
void sb_level_add(sb_level *level, const sb_step *step)
{
    uint64_t n = step->number;
    int drafts_only = 1;
    level->steps++;
    for (size_t i = 0; i < step->row_count; i++) {
        const sb_step_row *row = &step->rows[i];
        unsigned s = (unsigned)row->sequence;
        int draft = row->kind == SB_CALL_draft;
        drafts_only &= draft;
        int with_logits = !draft && has_logits(step, i);
        level->rows += !draft;
        level->with_logits += (size_t)with_logits;
        if (!draft && is_last_of_sequence(step, i) && !with_logits)
            MISSING(level, 1,
                    "step %" PRIu64 " lacks the logits of row %zu (sequence %u, position %" PRIu64
                    ")",
                    n, i, s, row->position);
        if (row->slot == SB_NO_SLOT)
            MISSING(level, 2, "step %" PRIu64 " lacks the slot of row %zu", n, i);
        if (row->kind == SB_CALL_verify && !has_round(step, row))
            MISSING(level, 2, "step %" PRIu64 " lacks the round of row %zu", n, i);
        if (!draft && !has_state(step, s))
            MISSING(level, 3, "step %" PRIu64 " lacks the state of sequence %u", n, s);
    }
    if (!drafts_only && !has_taps(step))
        MISSING(level, 4, "step %" PRIu64 " has no taps", n);
}

unsigned sb_level_reached(const sb_level *level)
{
    unsigned reached = 0;
    while (level->steps && reached + 1 < SB_TRACE_LEVELS && !level->missing[reached + 1][0])
        reached++;
    return reached;
}

sb_level_words sb_level_next(const sb_level *level)
{
    sb_level_words out = {""};
    unsigned next = sb_level_reached(level) + 1;
    if (next < SB_TRACE_LEVELS)
        snprintf(out.text, sizeof out.text, "%s", level->missing[next]);
    if (next == 1 && level->with_logits) {
        size_t used = strlen(out.text);
        snprintf(out.text + used, sizeof out.text - used,
                 "; %zu of %zu rows have logits and can be compared", level->with_logits,
                 level->rows);
    }
    return out;
}

sb_level_words sb_level_lacks(const sb_level *level, unsigned says)
{
    sb_level_words out = {""};
    for (unsigned i = 1; i <= says && !*out.text; i++)
        if (level->missing[i][0])
            snprintf(out.text, sizeof out.text, "the trace claims level %u, but %s", says,
                     level->missing[i]);
    return out;
}
