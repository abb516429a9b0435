/* free_state.c - compares the recorded state of a sequence with the reference's own, piece by
 * piece. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "ref/ops/knob.h"
#include "ref/state/piece.h"
#include "tools/judge/compare/free_parts.h"
#include "tools/judge/compare/state_place.h"
#include "tools/judge/bound/wide_fn.h"

/* T-48: a piece as matrices: one per head for a recurrent state, else one. */
typedef struct shape {
    size_t count, rows, cols;
} shape;

static shape shape_of(const sb_piece *p, const sb_config *c)
{
    size_t n = (size_t)sb_piece_elements(p), cols = c->hidden_size;
    if (p->kind == SB_PIECE_recurrent_state)
        return (shape){c->lin_v_heads, c->lin_k_dim, c->lin_v_dim};
    if (p->kind == SB_PIECE_conv_state)
        cols = sb_config_conv_channels(c);
    if (p->kind == SB_PIECE_keys || p->kind == SB_PIECE_values)
        cols = sb_config_kv_width(c);
    return (shape){1, n / cols, cols};
}

static sb_state_part part_of(const sb_piece *p, const sb_config *c)
{
    if (p->layer >= c->layers || p->kind == SB_PIECE_hidden)
        return SB_STATE_mtp;
    if (p->kind == SB_PIECE_conv_state)
        return SB_STATE_conv;
    return p->kind == SB_PIECE_recurrent_state ? SB_STATE_recurrent : SB_STATE_kv;
}

/* Mean squares of the noise of a matrix, of its rows, and of its columns. */
typedef struct means {
    double *all, *row, *col;
} means;

static means means_at(double *base, const shape *m)
{
    return (means){base, base + m->count, base + m->count + m->count * m->rows};
}

static size_t means_size(const shape *m)
{
    return m->count * (1 + m->rows + m->cols);
}

static void add_squares(const means *to, const shape *m, const float *a, const float *b)
{
    double one = 1 / (double)(m->rows * m->cols);
    for (size_t i = 0; i < m->count; i++)
        for (size_t r = 0; r < m->rows; r++)
            for (size_t c = 0; c < m->cols; c++) {
                size_t e = (i * m->rows + r) * m->cols + c;
                double d = (double)a[e] - (double)b[e];
                to->all[i] += d * d * one;
                to->row[i * m->rows + r] += d * d / (double)m->cols;
                to->col[i * m->cols + c] += d * d / (double)m->rows;
            }
}

/* T-48: "For keys and values that a cache keeps as codes, the values before the code count" */
static const float *values_of(const sb_envelope *e, size_t i, size_t index)
{
    const float *before = sb_envelope_uncoded(e, i, index);
    return before ? before
                  : sb_state_piece(sb_session_state(sb_envelope_session(e, i)), index).data;
}

/* Computes the noise of a piece as means over the tight and over the loose sequences (T-43).
 * f->bounds receives the tight noise, and after it the larger of both. */
static sb_status measure_piece(sb_free *f, const sb_free_sequence *s, size_t index, const shape *m,
                               sb_error *err)
{
    const sb_envelope *e = s->envelope;
    size_t size = means_size(m), lanes[2] = {0};
    if (2 * size > f->bounds_room) {
        double *more = sb_realloc(f->bounds, 2 * size, sizeof *more);
        if (!more)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for bounds");
        f->bounds = more;
        f->bounds_room = 2 * size;
    }
    memset(f->bounds, 0, 2 * size * sizeof *f->bounds);
    for (size_t i = 1; i < sb_envelope_count(e); i++) {
        size_t loose = sb_envelope_is_tight(e, i) ? 0 : 1;
        means to = means_at(f->bounds + loose * size, m);
        add_squares(&to, m, values_of(e, i, index), values_of(e, 0, index));
        lanes[loose]++;
    }
    for (size_t i = 0; i < size; i++) {
        double tight = lanes[0] ? f->bounds[i] / (double)lanes[0] : 0;
        double loose = lanes[1] ? f->bounds[size + i] / (double)lanes[1] : 0;
        f->bounds[i] = tight;
        f->bounds[size + i] = sb_envelope_loose(e, tight, loose);
    }
    return SB_OK;
}

/* The bound of a piece. */
typedef struct bound {
    shape shape;
    means means;
    double factor;
    int codes;           /* the piece is kept as codes */
    const float *before; /* values before they became codes; NULL: not known */
} bound;

/* T-48: "the largest of four numbers. They are the mean of its matrix, the mean of its row, the
 * mean of its column, and the product of the last two divided by the first" */
static double bound_at(const bound *b, size_t e)
{
    const shape *m = &b->shape;
    size_t c = e % m->cols, r = e / m->cols, i = r / m->rows;
    double all = b->means.all[i], row = b->means.row[r], col = b->means.col[i * m->cols + c];
    double most = row > all ? row : all;
    most = col > most ? col : most;
    if (all > 0 && row * col / all > most)
        most = row * col / all;
    return b->factor * sb_sqrt64(most);
}

/* Element e of a piece before it became a code, with its bound. */
static sb_free_code code_at(const bound *b, const sb_piece *p, size_t e)
{
    return b->before ? (sb_free_code){(double)b->before[e], bound_at(b, e)}
                     : sb_free_code_unknown((double)p->data[e], bound_at(b, e));
}

/* error / bound */
static double ratio_at(const bound *b, const sb_piece *p, size_t e, float theirs)
{
    double error = sb_wide_abs((double)p->data[e] - (double)theirs);
    if (error == 0)
        return 0;
    if (!b->codes)
        return sb_free_ratio(error, bound_at(b, e));
    sb_free_code code = code_at(b, p, e);
    return sb_free_code_ratio(&code, (double)theirs);
}

/* The result for a piece. */
typedef struct apart {
    double worst; /* largest error / bound */
    int identical;
    uint64_t first; /* first element beyond its bound, else the worst */
    int beyond;
} apart;

static apart compare(const sb_piece *p, const float *theirs, const bound *b)
{
    apart a = {.identical = 1};
    uint64_t n = sb_piece_elements(p);
    for (uint64_t e = 0; e < n; e++) {
        double ratio = ratio_at(b, p, (size_t)e, theirs[e]);
        a.identical &= sb_bits_f32(p->data[e]) == sb_bits_f32(theirs[e]);
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

static void describe(const sb_free *f, const sb_free_sequence *s, const sb_piece *p,
                     const float *theirs, const bound *b, const apart *a, sb_place *place)
{
    sb_state_place(&f->model->config, p, s->number, s->position + s->rows, a->first, place);
    place->found = (double)theirs[a->first];
    place->expected = (double)p->data[a->first];
    place->bound = bound_at(b, (size_t)a->first);
    if (b->codes) {
        sb_free_code code = code_at(b, p, (size_t)a->first);
        place->bound = sb_free_code_reach(&code, place->expected);
    }
    sb_place_say(place, " is %.9g, expected %.9g within %.3g", place->found, place->expected,
                 place->bound);
}

/* Notes the distance of each trial's piece (rollback.h). Trials have no head. */
static void see_piece(sb_free_sequence *s, size_t index, const float *theirs, const bound *b,
                      double ratio)
{
    bound of_trial = *b;
    of_trial.before = NULL;
    sb_trials_see_reference(s->trials, ratio);
    for (size_t i = 0; i < sb_trials_count(s->trials); i++) {
        sb_piece p = sb_state_piece(sb_trial_state(s->trials, i), index);
        sb_trial_see(s->trials, i, compare(&p, theirs, &of_trial).worst);
    }
}

static sb_state_verdict *verdict_of(sb_free *f, sb_free_sequence *s, const sb_piece *p,
                                    sb_state_verdict *none)
{
    sb_state_verdict *part = sb_free_part(f, s, part_of(p, &f->model->config));
    return part ? part : none;
}

static void fail_state(sb_free *f, sb_free_sequence *s, sb_state_verdict *out, sb_place *place)
{
    out->verdict = SB_VERDICT_FAIL;
    sb_free_fail(f, s, sb_state_token(s->position + s->rows), place);
    if (!out->has_first) {
        out->first = *place;
        out->has_first = 1;
    }
    sb_free_fail_origin(f, s);
}

/* T-85: "Keys, values and entries before the round must stay as they were, bit by bit" */
static void judge_kept(sb_free *f, sb_free_sequence *s, size_t index, const sb_piece *p,
                       const float *theirs, sb_state_verdict *out)
{
    size_t at;
    const float *was = sb_free_changed(s, index, theirs, (size_t)sb_piece_elements(p), &at);
    if (!was)
        return;
    sb_place place;
    sb_state_place(&f->model->config, p, s->number, s->position + s->rows, at, &place);
    place.found = (double)theirs[at];
    place.expected = (double)*was;
    sb_place_say(
        &place, " is %.9g, but was %.9g in an earlier recorded state: written rows must not change",
        place.found, place.expected);
    fail_state(f, s, out, &place);
}

static sb_status judge_piece(sb_free *f, sb_free_sequence *s, size_t index,
                             const sb_step_value *value, sb_error *err)
{
    const sb_config *c = &f->model->config;
    sb_piece p = sb_state_piece(sb_session_state(sb_envelope_session(s->envelope, 0)), index);
    size_t n = (size_t)sb_piece_elements(&p);
    sb_state_verdict none = {0}, *out = verdict_of(f, s, &p, &none);
    if (value->data && value->rows * value->cols != n) {
        sb_place place = {.layer = p.layer,
                          .op = "state",
                          .found = (double)(value->rows * value->cols),
                          .expected = (double)n};
        snprintf(place.name, sizeof place.name, "%s", p.name);
        snprintf(place.words, sizeof place.words, "%s has %zu elements; expected %zu", p.name,
                 value->rows * value->cols, n);
        fail_state(f, s, out, &place);
        return SB_OK;
    }
    if (!value->data) {
        sb_free_digest_of_piece(f, s, &p, &value->digest, out);
        return SB_OK;
    }
    if (n == 0)
        return SB_OK;
    bound b = {.shape = shape_of(&p, c),
               .factor = sb_envelope_factor(f->model, &f->knobs, f->options.arithmetic, n),
               .codes = sb_free_is_cache(&p) && SB_IS(&f->knobs, kv_cache, fp8),
               .before = sb_envelope_uncoded(s->envelope, 0, index)};
    sb_status status = measure_piece(f, s, index, &b.shape, err);
    if (status)
        return status;
    b.means = means_at(f->bounds, &b.shape);
    s->flipped |= s->anew && compare(&p, value->data, &b).beyond;
    b.means = means_at(f->bounds + means_size(&b.shape), &b.shape);
    apart a = compare(&p, value->data, &b);
    f->compared++;
    f->other_bits += !a.identical;
    if (s->trials && part_of(&p, c) != SB_STATE_mtp)
        see_piece(s, index, value->data, &b, a.worst);
    if (a.beyond) {
        sb_place place;
        describe(f, s, &p, value->data, &b, &a, &place);
        fail_state(f, s, out, &place);
    } else {
        out->verdict =
            sb_verdict_worse(out->verdict, a.identical ? SB_VERDICT_IDENTICAL : SB_VERDICT_WITHIN);
        judge_kept(f, s, index, &p, value->data, out);
    }
    return sb_free_is_cache(&p) ? sb_free_keep_rows(s, index, value->data, n, err) : SB_OK;
}

sb_status sb_free_state(sb_free *f, sb_free_sequence *s, const sb_step_state *recorded,
                        sb_error *err)
{
    const sb_state *ours = sb_session_state(sb_envelope_session(s->envelope, 0));
    size_t failures = f->v->failures, with_data = 0;
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_state_pieces(ours) && !status; i++) {
        sb_piece p = sb_state_piece(ours, i);
        const sb_step_value *value = sb_step_find(&recorded->pieces, p.name);
        if (!value)
            continue;
        with_data += value->data != NULL;
        status = judge_piece(f, s, i, value, err);
    }
    /* with data of every piece, the digest adds nothing */
    if (!status && with_data < sb_state_pieces(ours))
        status = sb_free_digest_of_whole(f, s, recorded, err);
    if (f->v->failures > failures)
        sb_free_explain(f, s);
    return status;
}
