#include "tools/judge/compare/finite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/run/session.h"
#include "ref/state/piece.h"
#include "tools/judge/compare/state_place.h"
#include "tools/judge/trace/names.h"

/* The index of the first element that is not finite; count if all are finite. */
static size_t first_of(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!sb_is_finite_f32(x[i]))
            return i;
    return count;
}

static int is_spoiled(const sb_step_value *v)
{
    return v->data && first_of(v->data, v->rows * v->cols) < v->rows * v->cols;
}

/* False for log-probabilities, which are infinite for a probability of 0, and for ids, which are no
 * values of an op. */
static int find_tap(const sb_finite *f, const char *name, sb_tap_name *tap)
{
    return sb_tap_find(name, tap) && !sb_tap_is_ids(name) && (f->mtp || !tap->is_head) &&
           !tap->is_drafter && (!sb_tap_is_of_logits(name) || strcmp(name, "logits") == 0);
}

int sb_finite_any(const sb_finite *f)
{
    sb_tap_name tap;
    for (size_t i = 0; i < f->step->taps.count; i++)
        if (find_tap(f, f->step->taps.items[i].name, &tap) && is_spoiled(&f->step->taps.items[i]))
            return 1;
    for (size_t i = 0; i < f->step->state_count; i++)
        for (size_t k = 0; k < f->step->states[i].pieces.count; k++)
            if (is_spoiled(&f->step->states[i].pieces.items[k]))
                return 1;
    return 0;
}

/* --- the order of the flow -------------------------------------------------------------------- */

/* Stages: the trunk's embedding, its layers, the ops after them; then the same for the head. */
static uint64_t stage_of(const sb_config *c, const sb_tap_name *tap)
{
    uint64_t head = tap->is_drafter ? (uint64_t)c->layers + 5
                    : tap->is_head  ? (uint64_t)c->layers + 2
                                    : 0;
    int behind = strcmp(tap->name, "mtp.norm") == 0 || tap->where == SB_TAP_draft ||
                 strcmp(tap->name, "drafter.norm") == 0 || sb_tap_is_of_drafts(tap->name) ||
                 (tap->where == SB_TAP_call && strcmp(tap->name, "embed") != 0);
    if (tap->in_layer)
        return head + 1 + tap->layer;
    return behind ? head + 1 + (head ? 1 : c->layers) : head;
}

/* The row of taps.def, which is in the order of the flow. */
static uint64_t index_of(const sb_tap_name *tap)
{
    sb_tap_name row;
    uint64_t i = 0;
    while (sb_tap_row(i, &row) && strcmp(row.name, tap->name) != 0)
        i++;
    return i;
}

uint64_t sb_finite_order(const sb_config *config, const char *name)
{
    sb_tap_name tap;
    return sb_tap_find(name, &tap) ? stage_of(config, &tap) << 16 | index_of(&tap) : UINT64_MAX;
}

/* --- a row ------------------------------------------------------------------------------------ */

/* The call of a row: rows [first, first + count) of the step, and entries [entry, entry + entries)
 * in the head's taps. */
typedef struct call {
    size_t first, count, entry, entries;
} call;

static call next_call(const sb_finite *f, const call *before)
{
    const sb_step *s = f->step;
    call c = {.first = before->first + before->count,
              .count = 1,
              .entry = before->entry + before->entries,
              .entries = 1};
    const sb_step_row *row = &s->rows[c.first];
    if (row->kind == SB_CALL_draft)
        return c;
    while (c.first + c.count < s->row_count &&
           s->rows[c.first + c.count].sequence == row->sequence &&
           s->rows[c.first + c.count].kind != SB_CALL_draft)
        c.count++;
    c.entries = (size_t)(sb_session_mtp_entries(f->knobs, row->position + c.count) -
                         sb_session_mtp_entries(f->knobs, row->position));
    return c;
}

/* The row of a value for row `row` of the step, or NULL. */
static const float *row_of(const sb_finite *f, const sb_step_value *v, const sb_tap_name *tap,
                           size_t row)
{
    long long at = (long long)row;
    if (sb_tap_is_of_logits(v->name))
        at = sb_step_logits_row(f->step, v, row);
    if (tap->is_head) {
        call c = next_call(f, &(call){0});
        while (c.first + c.count <= row)
            c = next_call(f, &c);
        at = (long long)(c.entry + c.entries + row) - (long long)(c.first + c.count);
        if (at < (long long)c.entry)
            return NULL;
    }
    return v->data && at >= 0 && (size_t)at < v->rows ? v->data + (size_t)at * v->cols : NULL;
}

static sb_op op_of(const sb_config *c, const sb_tap_name *tap)
{
    const uint32_t layer = tap->is_head ? c->layers : tap->layer;
    return tap->op == SB_OP_moe_combine && !sb_config_layer_experts(c, layer) ? SB_OP_linear
                                                                              : tap->op;
}

static void say_kind(sb_place *place, float found, char *kind, size_t room)
{
    place->found = (double)found;
    snprintf(kind, room, "%s", found > 0 ? "inf" : found < 0 ? "-inf" : "nan");
}

/* The last recorded tap of the row before `order`; NULL if there is none. */
static const char *last_before(const sb_finite *f, size_t row, uint64_t order)
{
    const char *last = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < f->step->taps.count; i++) {
        const sb_step_value *v = &f->step->taps.items[i];
        sb_tap_name tap;
        uint64_t at = sb_finite_order(f->config, v->name);
        if (at >= order || (last && at < most) || !find_tap(f, v->name, &tap) ||
            !row_of(f, v, &tap, row))
            continue;
        last = v->name;
        most = at;
    }
    return last;
}

/* True if the model has a tap between two places of the flow that is not recorded. */
static int has_gap(const sb_finite *f, uint64_t after, uint64_t before)
{
    sb_tap_name row, tap;
    for (uint32_t layer = 0; layer <= f->config->layers; layer++)
        for (size_t i = 0; sb_tap_row(i, &row); i++) {
            char name[96];
            int exists = 0;
            if (layer == f->config->layers)
                snprintf(name, sizeof name, row.in_layer ? "mtp.layers.0.%s" : "%s", row.name);
            else
                snprintf(name, sizeof name, "layers.%u.%s", (unsigned)layer, row.name);
            uint64_t at = sb_finite_order(f->config, name);
            if (at <= after || at >= before || !find_tap(f, name, &tap))
                continue;
            sb_tap_width(&tap, f->config, &exists);
            const sb_step_value *v = sb_step_find(&f->step->taps, name);
            if (exists && !(v && v->data))
                return 1;
        }
    return 0;
}

/* Describes where the value may have arisen. */
static void say_birth(const sb_finite *f, size_t row, const char *name, char *words, size_t room)
{
    uint64_t order = sb_finite_order(f->config, name);
    const char *last = last_before(f, row, order);
    if (last && has_gap(f, sb_finite_order(f->config, last), order))
        snprintf(words, room, "no values are recorded between it and %.60s, which is finite", last);
    else if (last)
        snprintf(words, room, "the last recorded values before it, %.60s, are finite", last);
    else
        snprintf(words, room, "no values are recorded before it");
}

static void fill(const sb_finite *f, size_t row, const sb_step_value *v, size_t column,
                 sb_place *place)
{
    const sb_step_row *r = &f->step->rows[row];
    sb_tap_name tap;
    char kind[8], birth[128];
    sb_tap_find(v->name, &tap);
    *place = (sb_place){.sequence = r->sequence,
                        .token = r->position,
                        .layer = tap.is_head    ? f->config->layers
                                 : tap.in_layer ? tap.layer
                                                : SB_NO_LAYER,
                        .rank = 1,
                        .element = {column},
                        .expected = (double)NAN, /* not compared */
                        .bound = (double)NAN};
    say_kind(place, row_of(f, v, &tap, row)[column], kind, sizeof kind);
    say_birth(f, row, v->name, birth, sizeof birth);
    snprintf(place->op, sizeof place->op, "%s", sb_op_name(op_of(f->config, &tap)));
    snprintf(place->name, sizeof place->name, "%s", v->name);
    snprintf(
        place->words, sizeof place->words,
        "%.60s: sequence %u, token %llu, column %zu is %s, the first value of this row that is "
        "not finite; %.120s",
        v->name, (unsigned)r->sequence, (unsigned long long)r->position, column, kind, birth);
}

int sb_finite_row(const sb_finite *f, size_t row, sb_place *place)
{
    const sb_step_value *first = NULL;
    size_t column = 0;
    uint64_t order = UINT64_MAX;
    for (size_t i = 0; i < f->step->taps.count; i++) {
        const sb_step_value *v = &f->step->taps.items[i];
        sb_tap_name tap;
        uint64_t at = sb_finite_order(f->config, v->name);
        if (at >= order || !find_tap(f, v->name, &tap))
            continue;
        const float *data = row_of(f, v, &tap, row);
        size_t bad = data ? first_of(data, v->cols) : v->cols;
        if (bad == v->cols)
            continue;
        first = v;
        column = bad;
        order = at;
    }
    if (first)
        fill(f, row, first, column, place);
    return first != NULL;
}

/* --- a state ---------------------------------------------------------------------------------- */

static void fill_state(const sb_finite *f, const sb_step_state *state, const sb_piece *piece,
                       const float *data, size_t at, sb_place *place)
{
    int cache = piece->kind == SB_PIECE_keys || piece->kind == SB_PIECE_values;
    char kind[8];
    sb_state_place(f->config, piece, state->sequence, state->position, at, place);
    if (cache)
        place->token = place->element[1];
    say_kind(place, data[at], kind, sizeof kind);
    place->expected = place->bound = (double)NAN; /* not compared */
    sb_place_say(place, " is %s: not finite", kind);
}

int sb_finite_state(const sb_finite *f, const sb_step_state *state, sb_place *place)
{
    const sb_state sizes = {.config = f->config,
                            .position = state->position,
                            .has_mtp = f->mtp,
                            .mtp_entries = sb_session_mtp_entries(f->knobs, state->position)};
    int found = 0;
    for (size_t i = 0; i < sb_state_pieces(&sizes); i++) {
        sb_piece piece = sb_state_piece(&sizes, i);
        const sb_step_value *v = sb_step_find(&state->pieces, piece.name);
        size_t count = (size_t)sb_piece_elements(&piece);
        if (!v || !v->data || v->rows * v->cols != count)
            continue;
        size_t bad = first_of(v->data, count);
        sb_place here;
        if (bad == count)
            continue;
        fill_state(f, state, &piece, v->data, bad, &here);
        if (!found || here.token < place->token)
            *place = here;
        found = 1;
    }
    return found;
}
