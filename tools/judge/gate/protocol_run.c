/* protocol_run.c - the results of a round: by the reference functions, in real numbers, and the
 * bound of a correct kernel. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "ref/formats/format.h"
#include "ref/math/fn.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/bound/wide_fn.h"
#include "tools/judge/gate/protocol.h"

float sb_protocol_scale(const sb_protocol *p)
{
    const sb_protocol_layout *l = p->layout;
    return l->scaled ? 1.0f : l->scale != 0.0f ? l->scale : (float)(1.0 / sb_sqrt64((double)p->dk));
}

/* V-120: "A verify begins with the state after the last accepted row" */
size_t sb_protocol_slot(const sb_protocol_round *r, const sb_protocol_entry *e, int row)
{
    if (row < 0)
        return (size_t)e->slot[e->accepted - 1];
    return (size_t)e->slot[r->verify ? row : 0];
}

/* V-121: "history begins at column accepted - 1 of the window" */
size_t sb_protocol_window(const sb_protocol *p, const sb_protocol_round *r,
                          const sb_protocol_entry *e, int row)
{
    size_t column = row < 0 ? e->accepted - 1 : r->verify ? (size_t)row : 0;
    return (size_t)e->slot[0] * p->size + column * p->channels;
}

/* --- profile exact ---------------------------------------------------------------------------- */

/* The computation of a delta rule entry: inputs with q scaled, a state updated in place, a copy of
 * it after each row. */
typedef struct rule {
    sb_delta_rule_args args;
    float *q, *state, *trail;
} rule;

static void rule_free(rule *x)
{
    free(x->q);
    free(x->state);
    free(x->trail);
}

static int rule_set(const sb_protocol *p, const sb_protocol_round *r, const sb_protocol_entry *e,
                    rule *x)
{
    size_t keys = p->k_heads * p->dk, at = e->first, heads = p->v_heads;
    x->q = sb_alloc(e->rows * keys, sizeof *x->q);
    x->state = sb_alloc(p->size, sizeof *x->state);
    x->trail = sb_alloc(e->rows * p->size, sizeof *x->trail);
    x->args = (sb_delta_rule_args){.q = x->q,
                                   .k = r->in[1] + at * keys,
                                   .v = r->in[2] + at * heads * p->dv,
                                   .v_stride = heads * p->dv,
                                   .g = r->in[3] + at * heads,
                                   .beta = r->in[4] + at * heads,
                                   .rows = e->rows,
                                   .k_heads = p->k_heads,
                                   .v_heads = heads,
                                   .dk = p->dk,
                                   .dv = p->dv,
                                   .state = x->state,
                                   .trail = x->trail,
                                   .out = r->out + at * heads * p->dv};
    if (!x->q || !x->state || !x->trail)
        return 1;
    for (size_t i = 0; i < e->rows * keys; i++)
        x->q[i] = r->in[0][at * keys + i] * sb_protocol_scale(p);
    return 0;
}

static void leave(sb_protocol_round *r, size_t at, const float *values, size_t count)
{
    memcpy(r->after + at, values, count * sizeof *values);
    memset(r->written + at, 1, count);
}

static sb_status exact_rule(const sb_protocol *p, sb_protocol_round *r, const sb_protocol_entry *e,
                            const sb_knobs *knobs, const sb_op_table *ops)
{
    rule x;
    sb_status status = rule_set(p, r, e, &x) ? SB_ERR_MEMORY : SB_OK;
    if (!status) {
        if (e->started)
            memcpy(x.state, r->before + sb_protocol_slot(r, e, -1) * p->size,
                   p->size * sizeof *x.state);
        status = ops->delta_rule(knobs, &x.args);
    }
    for (size_t i = r->verify ? 0 : e->rows - 1; !status && i < e->rows; i++)
        leave(r, sb_protocol_slot(r, e, (int)i) * p->size, x.trail + i * p->size, p->size);
    rule_free(&x);
    return status;
}

/* The columns before an entry and the columns of its rows: (history + rows, channels). */
static float *columns_of(const sb_protocol *p, const sb_protocol_round *r,
                         const sb_protocol_entry *e)
{
    size_t c = p->channels, history = p->layout->history;
    float *u = sb_alloc((history + e->rows) * c, sizeof *u);
    if (u && e->started)
        memcpy(u, r->before + sb_protocol_window(p, r, e, -1), history * c * sizeof *u);
    if (u)
        memcpy(u + history * c, r->in[0] + e->first * c, e->rows * c * sizeof *u);
    return u;
}

/* The arguments of the convolution of these columns; bytes holds the weight. */
static sb_conv_args conv_args(const sb_protocol *p, const sb_protocol_entry *e, float *u,
                              sb_matrix *weight, unsigned char *bytes)
{
    sb_encode(SB_FORMAT_f32, p->weight, p->channels * p->taps, bytes);
    *weight = (sb_matrix){.data = bytes,
                          .format = SB_FORMAT_f32,
                          .rows = (uint32_t)p->channels,
                          .cols = (uint32_t)p->taps};
    size_t history = p->layout->history;
    return (sb_conv_args){.in = u + history * p->channels,
                          .weight = weight,
                          .rows = e->rows,
                          .state = u + (history - p->taps + 1) * p->channels};
}

/* V-121: "the window then holds the history without its oldest column, and the rows" */
static sb_status exact_conv(const sb_protocol *p, sb_protocol_round *r, const sb_protocol_entry *e,
                            const sb_knobs *knobs, const sb_op_table *ops)
{
    size_t c = p->channels, history = p->layout->history;
    float *u = columns_of(p, r, e), *scratch = columns_of(p, r, e);
    unsigned char *bytes = sb_alloc(c * p->taps, 4);
    sb_status status = u && scratch && bytes ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        sb_matrix weight;
        sb_conv_args a = conv_args(p, e, scratch, &weight, bytes);
        a.form = r->verify ? SB_FORM_verify : SB_FORM_prompt;
        a.out = r->out + e->first * c;
        status = ops->conv(knobs, &a);
        size_t from = r->verify ? 1 : e->rows;
        leave(r, (size_t)e->slot[0] * p->size, u + from * c, (history + e->rows - from) * c);
    }
    free(bytes);
    free(scratch);
    free(u);
    return status;
}

sb_status sb_protocol_exact(const sb_protocol *p, sb_protocol_round *r, const sb_op_table *ops)
{
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    memcpy(r->after, r->before, p->slots * p->size * sizeof *r->after);
    sb_status status = SB_OK;
    for (size_t n = 0; n < r->entries && !status; n++)
        if (r->entry[n].runs)
            status = (p->conv ? exact_conv : exact_rule)(p, r, &r->entry[n], &knobs, ops);
    return status;
}

/* --- real numbers ----------------------------------------------------------------------------- */

/* R-9 without any rounding: one row of head h, S (dk, dv). */
static void real_step(const sb_protocol *p, const rule *x, size_t t, size_t h, sb_dd *S, sb_dd *out)
{
    const sb_delta_rule_args *a = &x->args;
    size_t key = t * a->k_heads + h / (a->v_heads / a->k_heads), at = t * a->v_heads + h;
    const float *q = a->q + key * a->dk, *k = a->k + key * a->dk, *v = a->v + at * a->dv;
    sb_dd decay = p->layout->alpha ? sb_dd_of((double)sb_exp(a->g[at]))
                                   : sb_dd_exp(sb_dd_of((double)a->g[at]));
    for (size_t j = 0; j < a->dv; j++) {
        sb_dd read = sb_dd_of(0.0), y = sb_dd_of(0.0);
        for (size_t i = 0; i < a->dk; i++) {
            sb_dd *s = &S[i * a->dv + j];
            *s = sb_dd_mul(*s, decay);
            read = sb_dd_fma(read, *s, sb_dd_of((double)k[i]));
        }
        sb_dd d = sb_dd_sub(sb_dd_of((double)v[j]), read);
        d = sb_dd_mul(d, sb_dd_of((double)a->beta[at]));
        for (size_t i = 0; i < a->dk; i++) {
            sb_dd *s = &S[i * a->dv + j];
            *s = sb_dd_fma(*s, d, sb_dd_of((double)k[i]));
            y = sb_dd_fma(y, *s, sb_dd_of((double)q[i]));
        }
        out[at * a->dv + j] = y;
    }
}

static void real_row(const sb_protocol *p, const rule *x, size_t t, sb_dd *S, sb_dd *out)
{
    for (size_t h = 0; h < p->v_heads; h++)
        real_step(p, x, t, h, S + h * p->dk * p->dv, out);
}

/* Of a chained protocol: the states from which a kernel continues, in real numbers, and for each
 * column the largest 2-norm of the difference between the kernel's state and the real one. */
typedef struct world {
    sb_dd *state;   /* (slots, size) */
    double *column; /* (slots, nV dv) */
} world;

static double bound_of(sb_ball ball, sb_dd real)
{
    double error = sb_wide_abs((ball.mid - real.hi) - real.lo) + ball.rad;
    return error * SB_BOUND_SLACK;
}

/* T-12 for the first `rows` rows of an entry, from a state with errors `from` and `element`. */
static sb_status bound_rows(const sb_protocol_round *r, const rule *x, size_t rows,
                            const sb_gate_arith *ar, const double *from, const double *element,
                            sb_ball *out, sb_ball *state, double *column)
{
    sb_delta_rule_args a = x->args;
    size_t keys = rows * a.k_heads * a.dk;
    sb_ball *balls = sb_alloc(2 * keys, sizeof *balls);
    if (!balls)
        return SB_ERR_MEMORY;
    sb_balls_of(a.q, keys, balls);
    sb_balls_of(a.k, keys, balls + keys);
    a.rows = rows;
    const sb_delta_error error = {from, element};
    const sb_delta_side side = {.ar = &ar->ar,
                                .q = balls,
                                .k = balls + keys,
                                .from = &error,
                                .out = out,
                                .state = state,
                                .column = column};
    sb_status status = r->verify ? sb_bound_delta_rule_sides(&ar->knobs, &a, &side, 1)
                                 : sb_bound_delta_rule_any_form(&ar->knobs, &a, &side);
    free(balls);
    return status;
}

/* The buffers of a delta rule entry between its rows. */
typedef struct bench {
    rule x;
    sb_dd *S;              /* (size) */
    sb_ball *out, *state;  /* balls */
    double *from, *column; /* (nV dv) */
    double *element;       /* (size): at most the norm of its column */
} bench;

static void bench_free(bench *b)
{
    rule_free(&b->x);
    free(b->S);
    free(b->out);
    free(b->state);
    free(b->from);
    free(b->column);
    free(b->element);
}

static int bench_set(const sb_protocol *p, const sb_protocol_round *r, const sb_protocol_entry *e,
                     bench *b)
{
    size_t columns = p->v_heads * p->dv;
    int failed = rule_set(p, r, e, &b->x);
    failed |= !(b->S = sb_alloc(p->size, sizeof *b->S));
    failed |= !(b->out = sb_alloc(e->rows * columns, sizeof *b->out));
    failed |= !(b->state = sb_alloc(p->size, sizeof *b->state));
    failed |= !(b->from = sb_alloc(columns, sizeof *b->from));
    failed |= !(b->column = sb_alloc(columns, sizeof *b->column));
    failed |= !(b->element = sb_alloc(p->size, sizeof *b->element));
    return failed;
}

/* S becomes the real initial state, and x.state its rounding to binary32. `from` (per column) and
 * `element` become bounds of the difference between a kernel's state and x.state. */
static void begin(const sb_protocol *p, const sb_protocol_round *r, const sb_protocol_entry *e,
                  const world *w, bench *b)
{
    size_t slot = e->started ? sb_protocol_slot(r, e, -1) : 0, columns = p->v_heads * p->dv;
    for (size_t i = 0; e->started && i < p->size; i++) {
        b->S[i] =
            w ? w->state[slot * p->size + i] : sb_dd_of((double)r->before[slot * p->size + i]);
        b->x.state[i] = (float)b->S[i].hi;
        double rest = (b->S[i].hi - (double)b->x.state[i]) + b->S[i].lo;
        b->from[i / (p->dk * p->dv) * p->dv + i % p->dv] += rest * rest;
    }
    for (size_t j = 0; j < columns; j++) {
        b->from[j] = sb_sqrt64(b->from[j]) * SB_BOUND_SLACK;
        if (w && e->started)
            b->from[j] += w->column[slot * columns + j];
    }
    for (size_t i = 0; i < p->size; i++)
        b->element[i] = b->from[i / (p->dk * p->dv) * p->dv + i % p->dv];
}

static sb_status expect_rule(const sb_protocol *p, sb_protocol_round *r, const sb_protocol_entry *e,
                             const sb_gate_arith *ar, world *w)
{
    bench b = {.S = NULL};
    size_t columns = p->v_heads * p->dv, at = e->first * columns;
    sb_status status = bench_set(p, r, e, &b) ? SB_ERR_MEMORY : SB_OK;
    if (!status)
        begin(p, r, e, w, &b);
    for (size_t t = 0; t < e->rows && !status; t++) {
        real_row(p, &b.x, t, b.S, r->real_out + at);
        if (!r->verify && t + 1 < e->rows)
            continue;
        status = bound_rows(r, &b.x, t + 1, ar, b.from, b.element, b.out, b.state, b.column);
        size_t slot = sb_protocol_slot(r, e, (int)t);
        for (size_t i = 0; i < p->size && !status; i++) {
            r->real_after[slot * p->size + i] = b.S[i];
            r->bound_after[slot * p->size + i] = bound_of(b.state[i], b.S[i]);
            if (w)
                w->state[slot * p->size + i] = b.S[i];
        }
        for (size_t j = 0; j < columns && w && !status; j++)
            w->column[slot * columns + j] = b.column[j] * SB_BOUND_SLACK;
    }
    for (size_t i = 0; i < e->rows * columns && !status; i++)
        r->bound_out[at + i] = bound_of(b.out[i], r->real_out[at + i]);
    bench_free(&b);
    return status;
}

/* R-4 without any rounding. Columns are copies: their bound is 0. */
static sb_status expect_conv(const sb_protocol *p, sb_protocol_round *r, const sb_protocol_entry *e,
                             const sb_gate_arith *ar, world *w)
{
    size_t c = p->channels, at = e->first * c, skipped = p->layout->history - p->taps + 1;
    float *u = columns_of(p, r, e);
    sb_ball *out = sb_alloc(e->rows * c, sizeof *out);
    unsigned char *bytes = sb_alloc(c * p->taps, 4);
    sb_status status = u && out && bytes ? SB_OK : SB_ERR_MEMORY;
    if (!status) {
        sb_matrix weight;
        sb_conv_args a = conv_args(p, e, u, &weight, bytes);
        a.form = r->verify ? SB_FORM_verify : SB_FORM_prompt;
        status = sb_bound_conv(&ar->ar, &ar->knobs, &a, out, NULL);
    }
    for (size_t i = 0; i < e->rows * c && !status; i++) {
        sb_dd sum = sb_dd_of(0.0);
        for (size_t j = 0; j < p->taps; j++)
            sum = sb_dd_fma(sum, sb_dd_of((double)p->weight[i % c * p->taps + j]),
                            sb_dd_of((double)u[(skipped + j) * c + i]));
        r->real_out[at + i] = sb_dd_silu(sum);
        r->bound_out[at + i] = bound_of(out[i], r->real_out[at + i]);
    }
    free(bytes);
    free(out);
    free(u);
    (void)w;
    return status;
}

sb_status sb_protocol_expect(sb_protocol *p, const sb_gate_arith *ar, sb_error *err)
{
    int chained = p->chained && !p->conv;
    world w = {.state = sb_alloc(p->slots * p->size, sizeof *w.state),
               .column = sb_alloc(p->slots * p->v_heads * p->dv, sizeof *w.column)};
    sb_status status = w.state && w.column ? SB_OK : SB_ERR_MEMORY;
    for (size_t n = 0; n < p->rounds && !status; n++) {
        sb_protocol_round *r = &p->round[n];
        for (size_t i = 0; i < p->slots * p->size; i++)
            r->real_after[i] = sb_dd_of((double)r->after[i]);
        for (size_t k = 0; k < r->entries && !status; k++)
            if (r->entry[k].runs)
                status = (p->conv ? expect_conv : expect_rule)(p, r, &r->entry[k], ar,
                                                               chained ? &w : NULL);
    }
    free(w.state);
    free(w.column);
    return status ? sb_fail(err, status, "out of memory for a protocol") : SB_OK;
}
