/* free_state.c - the recorded state of a sequence against the reference's own, piece by piece. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/state/piece.h"
#include "tools/compare/free_parts.h"
#include "tools/compare/wide_fn.h"

/* T-48: "one head of the recurrent states, one row of the others": elements that share a bound. */
static size_t group_of(const sb_piece *p, const sb_config *c)
{
    switch (p->kind) {
    case SB_PIECE_recurrent_state:
        return (size_t)c->lin_k_dim * c->lin_v_dim;
    case SB_PIECE_conv_state:
        return sb_config_conv_channels(c);
    case SB_PIECE_keys:
    case SB_PIECE_values:
        return sb_config_kv_width(c);
    case SB_PIECE_hidden:
        break;
    }
    return c->hidden_size;
}

static sb_state_part part_of(const sb_piece *p, const sb_config *c)
{
    if (p->layer >= c->layers || p->kind == SB_PIECE_hidden)
        return SB_STATE_mtp;
    if (p->kind == SB_PIECE_conv_state)
        return SB_STATE_conv;
    return p->kind == SB_PIECE_recurrent_state ? SB_STATE_recurrent : SB_STATE_kv;
}

/* The bound of each group of a piece, from how far the others are from the reference. */
static sb_status bounds_of(sb_free *f, const sb_free_sequence *s, size_t index, size_t group,
                           size_t groups, sb_error *err)
{
    const sb_piece ours =
        sb_state_piece(sb_session_state(sb_envelope_session(s->envelope, 0)), index);
    size_t lanes = sb_envelope_count(s->envelope);
    double factor = sb_envelope_factor(f->model, &f->knobs, group * groups);
    if (2 * groups > f->bounds_room) {
        double *more = sb_realloc(f->bounds, 2 * groups, sizeof *more);
        if (!more)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for bounds");
        f->bounds = more;
        f->bounds_room = 2 * groups;
    }
    for (size_t g = 0; g < groups; g++) {
        double squares[2] = {0};
        size_t count[2] = {0};
        for (size_t i = 1; i < lanes; i++) {
            size_t loose = sb_envelope_is_tight(s->envelope, i) ? 0 : 1;
            sb_piece other =
                sb_state_piece(sb_session_state(sb_envelope_session(s->envelope, i)), index);
            for (size_t e = g * group; e < (g + 1) * group; e++) {
                double d = (double)other.data[e] - (double)ours.data[e];
                squares[loose] += d * d;
            }
            count[loose] += group;
        }
        double tight = count[0] ? squares[0] / (double)count[0] : 0;
        double loose = count[1] ? squares[1] / (double)count[1] : 0;
        f->bounds[2 * g] = factor * sb_wide_sqrt(tight);
        f->bounds[2 * g + 1] = factor * sb_wide_sqrt(loose > tight ? loose : tight);
    }
    return SB_OK;
}

/* What was found in a piece. */
typedef struct apart {
    double worst; /* largest error / bound */
    int within_tight;
    int identical;
    uint64_t first; /* element beyond its bound, or else the worst */
    int beyond;
} apart;

static apart compare(const sb_piece *p, const float *theirs, size_t group, const double *bounds)
{
    apart a = {.within_tight = 1, .identical = 1};
    uint64_t n = sb_piece_elements(p);
    for (uint64_t e = 0; e < n; e++) {
        double error = sb_wide_abs((double)p->data[e] - (double)theirs[e]);
        double ratio = sb_free_ratio(error, bounds[2 * (e / group) + 1]);
        a.identical &= sb_bits_f32(p->data[e]) == sb_bits_f32(theirs[e]);
        a.within_tight &= error <= bounds[2 * (e / group)];
        if (ratio != ratio)
            ratio = INFINITY;
        if (ratio > a.worst) {
            a.worst = ratio;
            if (!a.beyond)
                a.first = e;
        }
        if (ratio > 1)
            a.beyond = 1;
    }
    return a;
}

static void describe(const sb_free *f, const sb_piece *p, const float *theirs, size_t group,
                     const apart *a, sb_place *place)
{
    sb_piece_place at = sb_piece_find(&f->model->config, p, a->first);
    *place = (sb_place){.layer = p->layer,
                        .op = "state",
                        .rank = SB_ELEMENT_RANK,
                        .element = {at.has_head ? at.head : 0, at.row, at.col},
                        .found = (double)theirs[a->first],
                        .expected = (double)p->data[a->first],
                        .bound = f->bounds[2 * (a->first / group) + 1]};
    snprintf(place->name, sizeof place->name, "%s", p->name);
    snprintf(place->words, sizeof place->words,
             "%s%s%s, head %llu, row %llu, column %llu: %.9g, expected %.9g within %.3g", p->name,
             at.part ? " " : "", at.part ? at.part : "", (unsigned long long)place->element[0],
             (unsigned long long)at.row, (unsigned long long)at.col, place->found, place->expected,
             place->bound);
}

/* What the hypotheses have in its place. */
static void see_piece(sb_free *f, sb_free_sequence *s, size_t index, const float *theirs,
                      size_t group, double ratio)
{
    uint64_t n = 0;
    if (!s->trials)
        return;
    sb_trials_see_reference(s->trials, ratio);
    for (size_t i = 0; i < sb_trials_count(s->trials); i++) {
        const sb_state *state = sb_trial_state(s->trials, i);
        if (index >= sb_state_pieces(state))
            continue; /* of the head, which they have not */
        sb_piece p = sb_state_piece(state, index);
        n = sb_piece_elements(&p);
        if (n)
            sb_trial_see(s->trials, i, compare(&p, theirs, group, f->bounds).worst);
    }
}

static sb_state_verdict *verdict_of(sb_free *f, sb_free_sequence *s, const sb_piece *p,
                                    sb_state_verdict *none)
{
    return s->has_round ? &f->v->rounds[s->round].state[part_of(p, &f->model->config)] : none;
}

static void fail_state(sb_free *f, sb_free_sequence *s, sb_state_verdict *out, sb_place *place)
{
    out->verdict = SB_VERDICT_FAIL;
    sb_free_fail(f, s, s->position + s->rows, place);
    if (!out->has_first) {
        out->first = *place;
        out->has_first = 1;
    }
    if (s->has_round)
        f->v->rounds[s->round].verdict = SB_VERDICT_FAIL;
}

/* A piece of which there is a digest only. */
static void judge_digest(sb_free *f, sb_free_sequence *s, const sb_piece *p,
                         const sb_step_value *value, sb_state_verdict *out)
{
    sb_digest ours = sb_digest_f32(p->data, (size_t)sb_piece_elements(p));
    if (!value->has_digest || strcmp(ours.hex, value->digest.hex) == 0) {
        out->verdict = sb_verdict_worse(out->verdict, value->has_digest ? SB_VERDICT_IDENTICAL
                                                                        : SB_VERDICT_SKIPPED);
    } else if (!f->options.same_arithmetic) {
        out->verdict = sb_verdict_worse(out->verdict, SB_VERDICT_SKIPPED);
    } else {
        sb_place place = {.layer = p->layer, .op = "state"};
        snprintf(place.name, sizeof place.name, "%s", p->name);
        snprintf(place.words, sizeof place.words, "the digest of %s differs; there is no data",
                 p->name);
        fail_state(f, s, out, &place);
    }
}

static sb_status judge_piece(sb_free *f, sb_free_sequence *s, size_t index,
                             const sb_step_value *value, sb_error *err)
{
    const sb_config *c = &f->model->config;
    sb_piece p = sb_state_piece(sb_session_state(sb_envelope_session(s->envelope, 0)), index);
    size_t n = (size_t)sb_piece_elements(&p), group = group_of(&p, c);
    sb_state_verdict none = {0}, *out = verdict_of(f, s, &p, &none);
    if (value->data && value->rows * value->cols != n) {
        sb_place place = {.layer = p.layer, .op = "state"};
        snprintf(place.name, sizeof place.name, "%s", p.name);
        snprintf(place.words, sizeof place.words, "%s has %zu elements; expected %zu", p.name,
                 value->rows * value->cols, n);
        fail_state(f, s, out, &place);
        return SB_OK;
    }
    if (!value->data) {
        judge_digest(f, s, &p, value, out);
        return SB_OK;
    }
    if (n == 0)
        return SB_OK;
    sb_status status = bounds_of(f, s, index, group, n / group, err);
    if (status)
        return status;
    apart a = compare(&p, value->data, group, f->bounds);
    f->compared++;
    see_piece(f, s, index, value->data, group, a.worst);
    if (a.beyond) {
        sb_place place;
        describe(f, &p, value->data, group, &a, &place);
        fail_state(f, s, out, &place);
    } else {
        out->verdict =
            sb_verdict_worse(out->verdict, a.identical ? SB_VERDICT_IDENTICAL : SB_VERDICT_WITHIN);
    }
    return SB_OK;
}

/* D-3 and D-9 of the whole, where the pieces are not there. */
static sb_status judge_whole(sb_free *f, sb_free_sequence *s, const sb_step_state *recorded,
                             sb_error *err)
{
    const sb_state *ours = sb_session_state(sb_envelope_session(s->envelope, 0));
    sb_digest digest;
    if (!f->options.same_arithmetic || !recorded->has_target)
        return SB_OK;
    sb_status status = sb_state_digest(ours, &digest, err);
    if (!status && strcmp(digest.hex, recorded->target.hex) != 0) {
        sb_place place = {.layer = SB_NO_LAYER, .op = "state", .name = "target"};
        sb_state_verdict none = {0};
        snprintf(place.words, sizeof place.words, "the digest of the state differs");
        fail_state(f, s, &none, &place);
    }
    f->compared++;
    return status;
}

sb_status sb_free_state(sb_free *f, sb_free_sequence *s, const sb_step_state *recorded,
                        sb_error *err)
{
    const sb_state *ours = sb_session_state(sb_envelope_session(s->envelope, 0));
    size_t failures = f->v->failures, known = 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_state_pieces(ours) && !status; i++) {
        sb_piece p = sb_state_piece(ours, i);
        const sb_step_value *value = sb_step_find(&recorded->pieces, p.name);
        if (!value)
            continue;
        known++;
        status = judge_piece(f, s, i, value, err);
    }
    if (!status && known == 0)
        status = judge_whole(f, s, recorded, err);
    if (f->v->failures > failures)
        sb_free_explain(f, s);
    return status;
}
