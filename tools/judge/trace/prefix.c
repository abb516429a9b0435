#include "tools/judge/trace/prefix.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/judge/trace/names.h"

/* --- which rows ------------------------------------------------------------------------------- */

/* The call of a sequence in a step: its first row and the row after its last. 0: it has none. */
static int call_of(const sb_step *step, uint32_t sequence, size_t *first, size_t *end)
{
    *first = 0;
    while (*first < step->row_count &&
           (step->rows[*first].sequence != sequence || step->rows[*first].kind == SB_CALL_draft))
        ++*first;
    *end = *first;
    while (*end < step->row_count && step->rows[*end].sequence == sequence)
        ++*end;
    return *end > *first;
}

/* The parent of the sequence, if it begins in this step; else NULL. */
static const sb_step_prefix *begins_in(const sb_step *step, uint32_t sequence)
{
    for (size_t i = 0; i < step->prefix_count; i++)
        if (step->prefixes[i].sequence == sequence)
            return &step->prefixes[i];
    return NULL;
}

static void turn_round(sb_prefix_part *parts, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        sb_prefix_part other = parts[i];
        parts[i] = parts[count - 1 - i];
        parts[count - 1 - i] = other;
    }
}

/* Goes back from the last step. `before` is the position that the rows found so far begin at. */
sb_status sb_prefix_plan(const sb_step *steps, size_t count, const sb_step_prefix *prefix,
                         sb_prefix_part **out, size_t *parts, sb_error *err)
{
    uint32_t sequence = prefix->parent;
    uint64_t before = prefix->position;
    size_t room = 0, found = 0;
    sb_prefix_part *list = NULL;
    for (size_t i = count; i-- > 0 && before;) {
        size_t first, end;
        const sb_step_prefix *parent = begins_in(&steps[i], sequence);
        if (call_of(&steps[i], sequence, &first, &end) && steps[i].rows[first].position < before) {
            size_t rows = end - first, kept = sb_step_kept(&steps[i], sequence, rows);
            uint64_t at = steps[i].rows[first].position;
            sb_prefix_part *more = sb_grow(list, found, &room, sizeof *more);
            if (!more) {
                free(list);
                return sb_fail(err, SB_ERR_MEMORY, "out of memory for the steps of a prefix");
            }
            list = more;
            kept = before - at < kept ? (size_t)(before - at) : kept;
            list[found++] = (sb_prefix_part){
                i, first, kept, kept < rows && steps[i].rows[first].kind == SB_CALL_verify};
            before = at;
        }
        if (parent) {
            sequence = parent->parent;
            before = parent->position < before ? parent->position : before;
        }
    }
    turn_round(list, found);
    *out = list;
    *parts = found;
    return SB_OK;
}

/* --- a step of these rows --------------------------------------------------------------------- */

/* U-5: "In the first call of a sequence these are one fewer than its rows". Sets the first entry
 * of the part among the rows of an array of the head, and the number of its entries. */
static void entries_of(const sb_step *whole, const sb_prefix_part *part, size_t rows, size_t *first,
                       size_t *count)
{
    int fewer = rows < whole->row_count;
    *first = part->first;
    for (size_t i = 0; i < part->first && fewer; i++)
        *first -= whole->rows[i].position == 0;
    *count = part->rows - (size_t)(fewer && whole->rows[part->first].position == 0);
}

/* Adds the rows of a value to a list, without copying them. 0 if memory is out. */
static int add_rows(const sb_step_value *from, size_t first, size_t count, sb_step_values *to)
{
    sb_step_value *v;
    if (!from->data || !count || first > from->rows || count > from->rows - first)
        return 1;
    v = sb_step_add(to, from->name, count, from->cols, 0);
    if (v)
        v->data = from->data + first * from->cols;
    return v != NULL;
}

/* The logits of these rows, of which only some may be recorded. */
static int add_logits(const sb_step *whole, const sb_prefix_part *part, const sb_step_value *from,
                      sb_step *out)
{
    size_t first = 0, count = 0;
    for (size_t i = 0; i < part->rows; i++) {
        long long at = sb_step_logits_row(whole, from, part->first + i);
        if (at < 0)
            continue;
        first = count++ ? first : (size_t)at;
    }
    return add_rows(from, first, count, &out->taps);
}

static int add_logits_rows(const sb_step *whole, const sb_prefix_part *part, sb_step *out)
{
    if (!whole->logits_rows)
        return 1;
    out->logits_rows = sb_alloc(part->rows, sizeof *out->logits_rows);
    for (size_t i = 0; i < whole->logits_count && out->logits_rows; i++)
        if (whole->logits_rows[i] >= part->first &&
            whole->logits_rows[i] < part->first + part->rows)
            out->logits_rows[out->logits_count++] = whole->logits_rows[i] - part->first;
    return out->logits_rows != NULL;
}

static int add_taps(const sb_step *whole, const sb_prefix_part *part, sb_step *out)
{
    int whole_list = 1;
    for (size_t i = 0; i < whole->taps.count && whole_list; i++) {
        const sb_step_value *from = &whole->taps.items[i];
        size_t first = part->first, count = part->rows;
        if (sb_tap_is_of_logits(from->name)) {
            whole_list = add_logits(whole, part, from, out);
            continue;
        }
        if (strncmp(from->name, "mtp.", 4) == 0)
            entries_of(whole, part, from->rows, &first, &count);
        whole_list = add_rows(from, first, count, &out->taps);
    }
    return whole_list;
}

static int add_state(const sb_step *whole, uint32_t parent, uint32_t sequence, sb_step *out)
{
    for (size_t i = 0; i < whole->state_count; i++) {
        const sb_step_state *from = &whole->states[i];
        sb_step_state *to = from->sequence == parent ? sb_step_add_state(out) : NULL;
        if (from->sequence != parent)
            continue;
        if (!to)
            return 0;
        to->sequence = sequence;
        to->position = from->position;
        for (size_t k = 0; k < from->pieces.count; k++)
            if (!add_rows(&from->pieces.items[k], 0, from->pieces.items[k].rows, &to->pieces))
                return 0;
        return 1;
    }
    return 1;
}

sb_status sb_prefix_step(const sb_step *whole, const sb_prefix_part *part, uint32_t sequence,
                         sb_step *out, sb_error *err)
{
    int good = 1;
    *out = (sb_step){.number = whole->number,
                     .again = part->undone ? SB_STEP_AGAIN_UNDONE : SB_STEP_AGAIN};
    for (size_t i = 0; i < part->rows && good; i++) {
        sb_step_row *row = sb_step_add_row(out);
        good = row != NULL;
        if (good)
            *row = (sb_step_row){.sequence = sequence,
                                 .slot = SB_NO_SLOT,
                                 .position = whole->rows[part->first + i].position,
                                 .token = whole->rows[part->first + i].token,
                                 .kind = SB_CALL_prompt};
    }
    good = good && add_logits_rows(whole, part, out) && add_taps(whole, part, out) &&
           add_state(whole, whole->rows[part->first].sequence, sequence, out);
    if (good)
        return SB_OK;
    sb_prefix_step_free(out);
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for a step of a prefix");
}

/* The data are those of the whole step. */
static void forget_data(sb_step_values *values)
{
    for (size_t i = 0; i < values->count; i++)
        values->items[i].data = NULL;
}

void sb_prefix_step_free(sb_step *step)
{
    forget_data(&step->taps);
    for (size_t i = 0; i < step->state_count; i++)
        forget_data(&step->states[i].pieces);
    sb_step_clear(step);
}
