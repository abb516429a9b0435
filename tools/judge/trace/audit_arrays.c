/* audit_arrays.c - counts of arrays, their widths in a model, and the states. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/container/show.h"
#include "ref/state/piece.h"
#include "tools/judge/trace/audit_inside.h"
#include "tools/judge/trace/names.h"

static void check_width(sb_audit *a, const sb_step *step, const sb_step_value *v,
                        const sb_tap_name *tap)
{
    int exists = 0;
    uint32_t width = a->config ? sb_tap_width(tap, a->config, &exists) : 0;
    if (!a->config)
        return;
    if (!exists)
        sb_audit_add(a, "shape", step->number, 0, -1, "%s: this model has no such tap",
                     SB_SHOW(v->name));
    else if (width && v->cols != width)
        sb_audit_add(a, "shape", step->number, 0, -1, "%s has %zu columns, expected %u: %s",
                     SB_SHOW(v->name), v->cols, (unsigned)width, tap->words);
}

/* Checks that the experts of one row are distinct and below E. */
static void check_experts(sb_audit *a, const sb_step *step, const sb_step_value *v)
{
    for (size_t i = 0; i < v->rows * v->cols; i++) {
        size_t row = i / v->cols;
        for (size_t k = row * v->cols; k < i; k++)
            if (v->data[k] == v->data[i]) {
                sb_audit_add(a, "shape", step->number, 0, (long long)row,
                             "%s names expert %.0f twice", SB_SHOW(v->name), (double)v->data[i]);
                return;
            }
        if (a->config && v->data[i] >= (float)a->config->experts) {
            sb_audit_add(a, "shape", step->number, 0, (long long)row,
                         "%s names expert %.0f, expected an expert below %u", SB_SHOW(v->name),
                         (double)v->data[i], (unsigned)a->config->experts);
            return;
        }
    }
}

static void count_values(sb_audit *a, const sb_step_value *v)
{
    for (size_t i = 0; i < v->rows * v->cols; i++)
        a->counts.not_finite += !sb_is_finite_f32(v->data[i]);
}

/* Only for taps, because the state of an empty sequence is zero. */
static void count_constant(sb_audit *a, const sb_step_value *v)
{
    size_t n = v->rows * v->cols, same = 0;
    for (size_t i = 0; i < n; i++)
        same += sb_bits_f32(v->data[i]) == sb_bits_f32(v->data[0]);
    if (n < 2 || same < n)
        return;
    if (!a->counts.constant++)
        snprintf(a->counts.first_constant, sizeof a->counts.first_constant, "%s", v->name);
}

static void mark_kept(sb_audit *a, const sb_tap_name *tap)
{
    sb_tap_name row;
    for (size_t i = 0; i < SB_AUDIT_TAPS && sb_tap_row(i, &row); i++)
        if (strcmp(row.name, tap->name) == 0)
            a->counts.kept[i] = 1;
}

void sb_audit_arrays(sb_audit *a, const sb_step *step)
{
    if (step->unknown && !a->counts.unknown)
        snprintf(a->counts.first_unknown, sizeof a->counts.first_unknown, "%s",
                 step->first_unknown);
    a->counts.unknown += step->unknown;
    for (size_t i = 0; i < step->taps.count; i++) {
        const sb_step_value *v = &step->taps.items[i];
        sb_tap_name tap;
        a->counts.arrays++;
        a->counts.with_data += v->data != NULL;
        if (!sb_tap_find(v->name, &tap))
            continue;
        check_width(a, step, v, &tap);
        if (!v->data)
            continue;
        mark_kept(a, &tap);
        count_values(a, v);
        count_constant(a, v);
        if (tap.in_layer && sb_tap_is_ids(v->name))
            check_experts(a, step, v);
    }
}

/* --- states ----------------------------------------------------------------------------------- */

/* The position of a sequence at the beginning of this step's call. */
static int position_of(const sb_step *step, uint32_t sequence, const sb_course *c, uint64_t *out)
{
    for (size_t i = 0; i < step->row_count; i++)
        if (step->rows[i].sequence == sequence && step->rows[i].kind != SB_CALL_draft) {
            *out = step->rows[i].position;
            return 1;
        }
    *out = c->next;
    return (c->seen || c->continues) && !c->open;
}

static int is_of_rows(const char *name)
{
    return strstr(name, "self_attn.") != NULL;
}

/* Keys and values of the head have as many entries as tokens, or one fewer (K-27). */
static void check_piece(sb_audit *a, const sb_step *step, const sb_step_state *s,
                        const sb_step_value *v, const sb_state *sizes)
{
    for (size_t i = 0; i < sb_state_pieces(sizes); i++) {
        sb_piece p = sb_state_piece(sizes, i);
        if (strcmp(p.name, v->name) != 0)
            continue;
        uint64_t elements = sb_piece_elements(&p);
        uint64_t found = (uint64_t)v->rows * v->cols;
        uint64_t row = p.rank > 1 && p.shape[0] ? elements / p.shape[0] : elements;
        int one_less =
            p.layer == a->config->layers && is_of_rows(v->name) && found + row == elements;
        if (found != elements && !one_less)
            sb_audit_add(a, "state", step->number, s->sequence, -1,
                         "%s has %zu x %zu values, expected %" PRIu64 " at position %" PRIu64,
                         SB_SHOW(v->name), v->rows, v->cols, elements, s->position);
        return;
    }
    sb_audit_add(a, "state", step->number, s->sequence, -1, "%s: this model has no such piece",
                 SB_SHOW(v->name));
}

static void check_pieces(sb_audit *a, const sb_step *step, const sb_step_state *s)
{
    const sb_state sizes = {.config = a->config,
                            .position = s->position,
                            .has_mtp = a->config && a->config->mtp_layers,
                            .mtp_entries = s->position};
    for (size_t i = 0; i < s->pieces.count; i++) {
        const sb_step_value *v = &s->pieces.items[i];
        a->counts.pieces++;
        a->counts.pieces_with_data += v->data != NULL;
        if (v->data)
            count_values(a, v);
        if (is_of_rows(v->name) && v->rows > s->position)
            sb_audit_add(a, "state", step->number, s->sequence, -1,
                         "%s has %zu rows at position %" PRIu64, SB_SHOW(v->name), v->rows,
                         s->position);
        else if (a->config)
            check_piece(a, step, s, v, &sizes);
    }
}

/* Different positions must have different states, because the tokens between change the state. */
static void check_changed(sb_audit *a, const sb_step *step, const sb_step_state *s, sb_course *c)
{
    if (!s->has_target)
        return;
    if (c->has_digest && c->digest_position != s->position &&
        strcmp(c->digest.hex, s->target.hex) == 0)
        sb_audit_add(a, "state", step->number, s->sequence, -1,
                     "the state at position %" PRIu64
                     " has the same digest as the state at %" PRIu64,
                     s->position, c->digest_position);
    c->has_digest = 1;
    c->digest = s->target;
    c->digest_position = s->position;
}

/* U-6: "the state that the call reads" */
void sb_audit_states(sb_audit *a, const sb_step *step)
{
    for (size_t i = 0; i < step->state_count; i++) {
        const sb_step_state *s = &step->states[i];
        sb_course *c = &a->courses[s->sequence];
        uint64_t expected = 0;
        a->counts.states++;
        for (size_t k = 0; k < i; k++)
            if (step->states[k].sequence == s->sequence)
                sb_audit_add(a, "state", step->number, s->sequence, -1,
                             "the step lists two states of this sequence");
        if (position_of(step, s->sequence, c, &expected) && s->position != expected)
            sb_audit_add(a, "state", step->number, s->sequence, -1,
                         "is a state at position %" PRIu64 ", expected %" PRIu64, s->position,
                         expected);
        check_pieces(a, step, s);
        sb_audit_digests(a, step, s);
        check_changed(a, step, s, c);
    }
}
