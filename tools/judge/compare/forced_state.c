/* forced_state.c - compares recorded states with the states that earlier recorded values gave, and
 * adopts the recorded ones. */
#include "tools/judge/compare/forced_parts.h"

#include <stdio.h>
#include <string.h>

#include "ref/state/piece.h"
#include "tools/judge/compare/state_place.h"
#include "tools/judge/bound/wide_fn.h"

/* A piece of a state whose elements all have bounds. */
typedef struct piece {
    sb_piece shape;
    const float *found;
    const float *expected;
    const double *apart; /* bounds; NULL: all are 0 */
    size_t room;         /* number of bounds; the rest are 0 */
    int spread;          /* T-91: values on the way to it were not recorded */
    sb_op op;            /* the op that made it; SB_OP_COUNT: a copy of recorded values */
} piece;

static forced_memory *memory_of(forced_sequence *s, const sb_piece *p)
{
    return &s->memory[p->layer];
}

/* True if the piece is known from the earlier calls; sets the op that made it. */
static int is_known(forced_sequence *s, piece *p)
{
    const forced_memory *m = memory_of(s, &p->shape);
    int which = p->shape.kind == SB_PIECE_values;
    p->op = SB_OP_COUNT;
    p->room = SIZE_MAX;
    switch (p->shape.kind) {
    case SB_PIECE_keys:
    case SB_PIECE_values:
        p->spread = m->cache_spread;
        p->apart = m->cache_spread ? m->cache_apart[which] : NULL;
        p->room = m->cache_room[which];
        return m->cache;
    case SB_PIECE_conv_state:
        p->op = SB_OP_conv;
        p->spread = m->conv_spread;
        p->apart = m->conv_spread ? m->conv_apart : NULL;
        return m->conv;
    case SB_PIECE_recurrent_state:
        p->op = m->form;
        p->spread = m->state_spread;
        p->apart = m->element;
        return m->recurrent;
    case SB_PIECE_hidden:
        return s->hidden;
    case SB_PIECE_states: /* traces have no entries of a drafter */
        break;
    }
    return 0;
}

static double bound_at(const piece *p, size_t i)
{
    return p->apart && i < p->room ? SB_BOUND_SLACK * p->apart[i] : 0.0;
}

/* last: the last failed element of the piece */
static void fail_at(sb_forced *f, forced_sequence *s, const piece *p, size_t i, size_t last,
                    uint64_t position)
{
    double bound = bound_at(p, i);
    sb_place place;
    sb_state_place(&f->model->config, &p->shape, s->id, position, i, &place);
    place.found = (double)p->found[i];
    place.expected = (double)p->expected[i];
    place.bound = bound;
    if (p->op < SB_OP_COUNT)
        snprintf(place.op, sizeof place.op, "%s", sb_op_name(p->op));
    sb_place_say(&place, " is %.9g, expected %.9g within %.3g", place.found, place.expected, bound);
    forced_failing(f, &place, p->op, p->shape.layer, (const uint64_t[2]){i, last},
                   sb_piece_elements(&p->shape), 1);
    if (!sb_verdicts_fail(f->options.verdicts, &place) || !f->options.bundle || f->broken)
        return;
    if (p->spread)
        forced_no_bundle(f, &place, "depends on values that were not recorded");
    else if (p->op < SB_OP_COUNT)
        f->broken =
            forced_bundle_state(f, &place, p->op, i, p->expected, p->found, p->apart, &f->why);
    else
        forced_no_bundle(
            f, &place, "is not computed by an op: it must be a copy of an earlier recorded value");
}

static void judge_piece(sb_forced *f, forced_sequence *s, const piece *p, uint64_t position)
{
    const forced_memory *m = memory_of(s, &p->shape);
    size_t count = (size_t)sb_piece_elements(&p->shape);
    size_t width = count / (size_t)p->shape.shape[0], failed = 0, first = 0, last = 0;
    int rows = p->shape.kind == SB_PIECE_keys || p->shape.kind == SB_PIECE_values;
    for (size_t i = 0; i < count; i++) {
        if (rows && forced_is_open(m, i / width))
            continue;
        double bound = bound_at(p, i);
        double apart = sb_wide_abs((double)p->found[i] - (double)p->expected[i]);
        int outside = !(apart <= bound);
        if (p->op < SB_OP_COUNT)
            outside = !(forced_count_element(f, p->op, p->found[i], p->expected[i], bound,
                                             !p->spread) <= 1.0);
        if (outside) {
            first = failed++ ? first : i;
            last = i;
        }
    }
    if (failed)
        fail_at(f, s, p, first, last, position);
}

/* Marks a piece that is not finite as unknown, so that it is not used further. */
static void mark_unknown(forced_sequence *s, const sb_piece *p)
{
    forced_memory *m = memory_of(s, p);
    if (p->kind == SB_PIECE_keys || p->kind == SB_PIECE_values)
        m->cache = 0;
    else if (p->kind == SB_PIECE_conv_state)
        m->conv = 0;
    else if (p->kind == SB_PIECE_recurrent_state)
        m->recurrent = 0;
    else
        s->hidden = 0;
}

static void mark_known(forced_sequence *s, const sb_config *c, const sb_piece *p)
{
    forced_memory *m = memory_of(s, p);
    size_t columns = (size_t)c->lin_v_heads * c->lin_v_dim;
    switch (p->kind) {
    case SB_PIECE_keys:
        break; /* keys and values are marked together, after the values */
    case SB_PIECE_values:
        m->cache = 1;
        forced_cache_known(m);
        forced_close(m);
        break;
    case SB_PIECE_conv_state:
        m->conv = 1;
        m->conv_spread = 0;
        break;
    case SB_PIECE_recurrent_state:
        m->recurrent = 1;
        m->state_spread = 0;
        memset(m->column, 0, columns * sizeof *m->column);
        memset(m->element, 0, columns * c->lin_k_dim * sizeof *m->element);
        break;
    case SB_PIECE_hidden:
        s->hidden = 1;
        break;
    case SB_PIECE_states:
        break;
    }
}

/* The recorded data of that piece; NULL if there are none. */
static const float *recorded(const sb_step_state *state, const sb_piece *p)
{
    const sb_step_value *v = sb_step_find(&state->pieces, p->name);
    return v && v->data && v->rows * v->cols == sb_piece_elements(p) ? v->data : NULL;
}

static void adopt(sb_forced *f, forced_sequence *s, const sb_step_state *state, sb_state *to,
                  int judged)
{
    int keys = 0;
    for (size_t i = 0; i < sb_state_pieces(to); i++) {
        piece p = {.shape = sb_state_piece(to, i)};
        size_t count = (size_t)sb_piece_elements(&p.shape);
        p.found = recorded(state, &p.shape);
        p.expected = p.shape.data;
        if (p.shape.kind == SB_PIECE_keys)
            keys = p.found != NULL;
        if (!p.found || count == 0)
            continue;
        if (judged && is_known(s, &p) && forced_is_judged(f, p.op, p.shape.layer))
            judge_piece(f, s, &p, state->position);
        if (!forced_all_finite(p.found, count)) {
            mark_unknown(s, &p.shape);
            keys = 0;
            continue;
        }
        memcpy(p.shape.data, p.found, count * sizeof *p.found);
        if (p.shape.kind != SB_PIECE_values || keys)
            mark_known(s, &f->model->config, &p.shape);
    }
}

/* Copies the session's state, with room for the recorded position. */
static sb_status state_for(sb_forced *f, const forced_sequence *s, const sb_step_state *state,
                           sb_state **out, sb_error *err)
{
    const sb_state *old = sb_session_state(s->session);
    if (old->position == state->position)
        return sb_state_copy(old, out, err);
    sb_status status = sb_state_new(&f->model->config, old->has_mtp, out, err);
    if (!status)
        status = sb_state_reserve(*out, state->position, err);
    if (status)
        return status;
    (*out)->position = state->position;
    (*out)->mtp_entries = old->has_mtp ? sb_session_mtp_entries(&f->knobs, state->position) : 0;
    return SB_OK;
}

void forced_forget(const sb_forced *f, forced_sequence *s)
{
    s->follows = 0; /* no state has the entries of a drafter */
    for (uint32_t i = 0; i <= f->model->config.layers + 1; i++) {
        forced_memory *m = &s->memory[i];
        m->cache = m->conv = m->recurrent = 0;
        m->drafted = 1;
        forced_close(m);
    }
    s->hidden = 0;
}

static int has_data(const sb_step_state *state)
{
    for (size_t i = 0; i < state->pieces.count; i++)
        if (state->pieces.items[i].data)
            return 1;
    return 0;
}

sb_status forced_state(sb_forced *f, forced_sequence *s, const sb_step_state *state, sb_error *err)
{
    if (!has_data(state))
        return SB_OK;
    const sb_state *old = sb_session_state(s->session);
    int goes_on = s->alive && old->position == state->position;
    sb_state *to = NULL;
    sb_status status = state_for(f, s, state, &to, err);
    if (!status) {
        if (!goes_on)
            forced_forget(f, s);
        adopt(f, s, state, to, goes_on && state->position > 0);
        status = sb_session_set_state(s->session, to, err);
    }
    sb_state_free(to);
    s->alive = s->alive || !status;
    s->verified = 0;
    s->drafts = 0;
    return status;
}
