#include "tools/judge/trace/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"

const sb_step_value *sb_step_find(const sb_step_values *values, const char *name)
{
    for (size_t i = 0; i < values->count; i++)
        if (strcmp(values->items[i].name, name) == 0)
            return &values->items[i];
    return NULL;
}

static void clear_values(sb_step_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        free(values->items[i].data);
    free(values->items);
    *values = (sb_step_values){.count = 0};
}

void sb_step_clear(sb_step *step)
{
    for (size_t i = 0; i < step->state_count; i++)
        clear_values(&step->states[i].pieces);
    clear_values(&step->taps);
    for (size_t i = 0; i < step->prefix_count; i++)
        free(step->prefixes[i].tokens);
    free(step->prefixes);
    free(step->samplings);
    free(step->logits_rows);
    free(step->states);
    free(step->rounds);
    free(step->rows);
    free(step->ended);
    *step = (sb_step){.number = 0};
}

long long sb_step_logits_row(const sb_step *step, const sb_step_value *value, size_t row)
{
    if (!step->logits_rows)
        return row < value->rows ? (long long)row : -1;
    for (size_t i = 0; i < step->logits_count && i < value->rows; i++)
        if (step->logits_rows[i] == row)
            return (long long)i;
    return -1;
}

sb_step_value *sb_step_add(sb_step_values *values, const char *name, size_t rows, size_t cols,
                           int with_data)
{
    sb_step_value *more = sb_grow(values->items, values->count, &values->room, sizeof *more);
    if (!more)
        return NULL;
    values->items = more;
    sb_step_value *v = &values->items[values->count];
    *v = (sb_step_value){.rows = rows, .cols = cols};
    snprintf(v->name, sizeof v->name, "%s", name);
    if (with_data) {
        if (cols && rows > SIZE_MAX / cols)
            return NULL;
        v->data = sb_alloc(rows * cols, sizeof *v->data);
        if (!v->data)
            return NULL;
    }
    values->count++;
    return v;
}

size_t sb_step_kept(const sb_step *step, uint32_t sequence, size_t rows)
{
    for (size_t i = 0; i < step->round_count; i++)
        if (step->rounds[i].sequence == sequence && step->rounds[i].round.emitted < rows)
            return step->rounds[i].round.emitted;
    return rows;
}

/* Makes room for one more item after `count` items; doubles the room at powers of two. */
static void *one_more(void *items, size_t count, size_t size)
{
    if (items && (count & (count - 1)) != 0)
        return items;
    return sb_realloc(items, count ? 2 * count : 1, size);
}

sb_status sb_step_add_ended(sb_step *step, uint32_t sequence)
{
    uint32_t *more = sb_realloc(step->ended, step->ended_count + 1, sizeof *more);
    if (!more)
        return SB_ERR_MEMORY;
    step->ended = more;
    more[step->ended_count++] = sequence;
    return SB_OK;
}

sb_step_row *sb_step_add_row(sb_step *step)
{
    sb_step_row *more = one_more(step->rows, step->row_count, sizeof *more);
    if (!more)
        return NULL;
    step->rows = more;
    more[step->row_count] = (sb_step_row){.sequence = 0};
    return &more[step->row_count++];
}

sb_step_state *sb_step_add_state(sb_step *step)
{
    sb_step_state *more = one_more(step->states, step->state_count, sizeof *more);
    if (!more)
        return NULL;
    step->states = more;
    more[step->state_count] = (sb_step_state){.sequence = 0};
    return &more[step->state_count++];
}

sb_step_round *sb_step_add_round(sb_step *step)
{
    sb_step_round *more = one_more(step->rounds, step->round_count, sizeof *more);
    if (!more)
        return NULL;
    step->rounds = more;
    more[step->round_count] = (sb_step_round){.sequence = 0};
    return &more[step->round_count++];
}

sb_step_prefix *sb_step_add_prefix(sb_step *step)
{
    sb_step_prefix *more = one_more(step->prefixes, step->prefix_count, sizeof *more);
    if (!more)
        return NULL;
    step->prefixes = more;
    more[step->prefix_count] = (sb_step_prefix){.sequence = 0};
    return &more[step->prefix_count++];
}

sb_step_sampling *sb_step_add_sampling(sb_step *step)
{
    sb_step_sampling *more = one_more(step->samplings, step->sampling_count, sizeof *more);
    if (!more)
        return NULL;
    step->samplings = more;
    more[step->sampling_count] = (sb_step_sampling){.sequence = 0};
    return &more[step->sampling_count++];
}

sb_status sb_step_of_ids(uint32_t sequence, uint64_t position, const uint32_t *ids, size_t count,
                         sb_call_kind kind, sb_step *out, sb_error *err)
{
    *out = (sb_step){.rows = sb_alloc(count, sizeof *out->rows), .row_count = count};
    if (!out->rows) {
        *out = (sb_step){.number = 0};
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu rows", count);
    }
    for (size_t i = 0; i < count; i++)
        out->rows[i] = (sb_step_row){sequence, SB_NO_SLOT, position + i, ids[i], kind, 0};
    return SB_OK;
}

/* --- patterns --------------------------------------------------------------------------------- */

/* The usual algorithm: on a mismatch after a star, goes back and lets the star take one more byte.
 */
static int fits(const char *pattern, size_t length, const char *name)
{
    size_t p = 0, star = length, from = 0, i = 0;
    while (name[i]) {
        if (p < length && pattern[p] == '*') {
            star = p++;
            from = i;
        } else if (p < length && (pattern[p] == '?' || pattern[p] == name[i])) {
            p++;
            i++;
        } else if (star < length) {
            p = star + 1;
            i = ++from;
        } else {
            return 0;
        }
    }
    while (p < length && pattern[p] == '*')
        p++;
    return p == length;
}

int sb_tap_matches(const char *patterns, const char *name)
{
    while (*patterns) {
        size_t length = strcspn(patterns, ",");
        int all = length == 3 && sb_starts(patterns, "all") && !sb_starts(name, "state.");
        if (all || fits(patterns, length, name))
            return 1;
        patterns += length;
        patterns += *patterns == ',';
    }
    return 0;
}
