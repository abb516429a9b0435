/* bound_delta.c - the gated delta rule, row by row: T-12.
 *
 * Element-wise majorants of the recurrence grow exponentially, but the recurrence itself does not:
 * I - beta k k^T has norm at most 1. So the error of the state is bounded by the 2-norm of each
 * column. */
#include "ref/base/root.h"
#include "tools/judge/bound/bound_chunk.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"

/* Columns of the state that are computed side by side, in vectors. */
enum { LANES = 8 };

/* With fewer products a second thread does not pay off. */
static const size_t ALONE = 200000;

/* One head between two rows: the real state, and for each side and column the distance of a
 * computed state from it. All sides have the same real state, because they have the same q, k, v, g
 * and beta. */
typedef struct head {
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    const sb_delta_side *sides;
    size_t side_count, index;
    size_t width;   /* dv, rounded up to whole lanes */
    double *S;      /* (dk, width) */
    double *delta;  /* (sides, width) 2-norm of the error of column j */
    double *values; /* (2, width) one row of v, and its radii */
} head;

/* One row of inputs. */
typedef struct row {
    const sb_ball *q, *k; /* (dk) */
    double *v, *v_error;  /* (width) centres and radii; 0 beyond dv */
    double g, beta, beta_error;
    double g_error;                          /* of exp(g), relative: from the radius of g */
    double k_norm, k_error, q_norm, q_error; /* 2-norms of computed vectors and of their errors */
} row;

static void norms(const sb_ball *x, size_t n, double *norm, double *error)
{
    double squares = 0.0, errors = 0.0;
    for (size_t i = 0; i < n; i++) {
        squares += x[i].mid * x[i].mid;
        errors += x[i].rad * x[i].rad;
    }
    *error = sb_sqrt64(errors);
    *norm = sb_sqrt64(squares) + *error;
}

/* dot(x, column j) of LANES columns in three sums: the real value, the magnitude, and the spread
 * from the radii of x. Also the sum of squares of each column. */
typedef struct dots {
    double sum[LANES], magnitude[LANES], spread[LANES], squares[LANES];
} dots;

static void column_dots(const head *h, const sb_ball *x, size_t first, dots *out)
{
    dots d = {.sum = {0}};
    const double *s = h->S + first;
    for (size_t i = 0; i < h->a->dk; i++, s += h->width) {
        double mid = x[i].mid, rad = x[i].rad, size = sb_wide_abs(mid) + rad;
#pragma omp simd
        for (int j = 0; j < LANES; j++) {
            double y = sb_wide_abs(s[j]);
            d.sum[j] += mid * s[j];
            d.spread[j] += rad * y;
            d.magnitude[j] += size * y;
            d.squares[j] += s[j] * s[j];
        }
    }
    *out = d;
}

static void decay_columns(const head *h, double decay, size_t first)
{
    double *s = h->S + first;
    for (size_t i = 0; i < h->a->dk; i++, s += h->width)
#pragma omp simd
        for (int j = 0; j < LANES; j++)
            s[j] *= decay;
}

static void correct_columns(const head *h, const sb_ball *k, const double *correction, size_t first,
                            double squares[LANES])
{
    double *s = h->S + first;
    for (size_t j = 0; j < LANES; j++)
        squares[j] = 0.0;
    for (size_t i = 0; i < h->a->dk; i++, s += h->width)
#pragma omp simd
        for (int j = 0; j < LANES; j++) {
            s[j] += k[i].mid * correction[j];
            squares[j] += s[j] * s[j];
        }
}

/* The ball of dot(x, column j). x_norm: the norm of x; error: the norm of the column's error. */
static sb_ball read_column(const head *h, const sb_arithmetic *ar, const dots *d, size_t j,
                           double x_norm, double error)
{
    const sb_reduction r = {.sum = d->sum[j],
                            .magnitude = d->magnitude[j] + x_norm * error,
                            .spread = d->spread[j] + x_norm * error,
                            .n = h->a->dk};
    return sb_ball_reduced(ar, &r);
}

/* The effect of a row on LANES columns, the same in every arithmetic. */
typedef struct change {
    dots read; /* dot products of k with the decayed columns */
    /* norm: of the decayed column; difference: v - m */
    double decay, norm[LANES], difference[LANES], v_error[LANES];
    double after[LANES]; /* norm of the corrected column */
} change;

/* T-12: "delta'' = |I - beta k k^T| (alpha delta + e0) + beta |dk| (|v - m| + |k| |s'|) + |k|
 * (beta |dv| + |d beta| |v - m|) + |k| e1 + e2" for one column of one side. before: its delta
 * before the row. */
static double advance_error(const head *h, const sb_arithmetic *ar, const row *x, const change *c,
                            size_t j, double before)
{
    double u = SB_UNIT, beta = x->beta + x->beta_error, tiny = ar->underflow, norm = c->norm[j];
    double least = x->beta - x->beta_error, brought = c->v_error[j];
    double dk = (double)h->a->dk, difference = c->difference[j], decayed = c->decay * before;
    double e0 = (sb_exp_error(ar, x->g) + x->g_error + u) * (norm + decayed) + dk * tiny;
    sb_ball m = read_column(h, ar, &c->read, j, x->k_norm, decayed + e0);
    double reach = sb_wide_abs(difference) + m.rad + brought;
    /* delta'' already contains the parts of m.rad from the radii of k and the error of the column
     */
    double reading = m.rad - c->read.spread[j] - x->k_norm * (decayed + e0);
    double e1 = beta * (reading + 2.0 * u * reach) + 2.0 * tiny;
    double correction = x->beta * difference;
    double correction_error =
        beta * (m.rad + brought) + x->beta_error * sb_wide_abs(difference) + 2.0 * u * beta * reach;
    double squared = x->k_norm * x->k_norm;
    double contraction = sb_wide_max(
        1.0, sb_wide_max(sb_wide_abs(1.0 - beta * squared), sb_wide_abs(1.0 - least * squared)));
    double delta = contraction * (decayed + e0) +
                   beta * x->k_error * (sb_wide_abs(difference) + x->k_norm * norm) +
                   x->k_norm * (beta * brought + x->beta_error * sb_wide_abs(difference)) +
                   x->k_norm * e1;
    double e2 =
        u * x->k_norm * (sb_wide_abs(correction) + correction_error) + u * (c->after[j] + delta);
    return delta + e2 + 0x1p-48 * (norm + sb_wide_abs(correction)) + 2.0 * dk * tiny;
}

/* Computes the real values of LANES columns after a row. */
static void advance_columns(const head *h, const row *x, double decay, size_t first, change *c)
{
    double correction[LANES], squares[LANES];
    c->decay = decay;
    decay_columns(h, decay, first);
    column_dots(h, x->k, first, &c->read);
    for (size_t j = 0; j < LANES; j++) {
        double v = x->v[first + j];
        c->v_error[j] = x->v_error[first + j];
        c->norm[j] = sb_sqrt64(c->read.squares[j]);
        c->difference[j] = v - c->read.sum[j];
        correction[j] = x->beta * c->difference[j];
    }
    correct_columns(h, x->k, correction, first, squares);
    for (size_t j = 0; j < LANES; j++)
        c->after[j] = sb_sqrt64(squares[j]);
}

/* K-16: "output leaves q unscaled, and the output of the rule is multiplied before R" */
sb_ball sb_ball_output(const sb_arithmetic *ar, const sb_knobs *knobs, int recurrent, size_t dk,
                       sb_ball o)
{
    double root = 1.0 / sb_sqrt64((double)dk);
    if (sb_scales_output(knobs, recurrent))
        o = sb_ball_mul(ar, o, (sb_ball){root, root * SB_UNIT});
    return sb_ball_act(knobs, o);
}

/* Advances by one row and writes row `at` of the outputs; `at` counts rows and heads. */
static void advance(const head *h, const row *x, size_t at)
{
    double decay = sb_wide_exp(x->g);
    for (size_t first = 0; first < h->a->dv; first += LANES) {
        size_t left = h->a->dv - first, count = left < LANES ? left : LANES;
        change c;
        dots read;
        advance_columns(h, x, decay, first, &c);
        column_dots(h, x->q, first, &read);
        for (size_t i = 0; i < h->side_count; i++) {
            const sb_arithmetic *ar = sb_arithmetic_vector(h->sides[i].ar);
            double *delta = h->delta + i * h->width + first;
            for (size_t j = 0; j < count; j++) {
                delta[j] = advance_error(h, ar, x, &c, j, delta[j]);
                sb_ball o = read_column(h, ar, &read, j, x->q_norm, delta[j]);
                h->sides[i].out[at * h->a->dv + first + j] =
                    sb_ball_output(ar, h->knobs, 1, h->a->dk, o);
            }
        }
    }
}

/* One row of values of the head. */
static void values_of(const head *h, size_t t, row *x)
{
    const sb_delta_rule_args *a = h->a;
    const sb_ball *balls = h->sides[0].v;
    for (size_t j = 0; j < a->dv; j++) {
        sb_ball v = balls ? balls[(t * a->v_heads + h->index) * a->dv + j]
                          : sb_ball_of(a->v[t * a->v_stride + h->index * a->dv + j]);
        x->v[j] = v.mid;
        x->v_error[j] = v.rad;
    }
}

static void run_rows(const head *h)
{
    const sb_delta_rule_args *a = h->a;
    size_t key_head = h->index / (a->v_heads / a->k_heads);
    for (size_t t = 0; t < a->rows; t++) {
        size_t at = t * a->v_heads + h->index, from = (t * a->k_heads + key_head) * a->dk;
        sb_ball g = sb_bound_at(h->sides[0].g, a->g, at);
        sb_ball beta = sb_bound_at(h->sides[0].beta, a->beta, at);
        row x = {.q = h->sides[0].q + from,
                 .k = h->sides[0].k + from,
                 .v = h->values,
                 .v_error = h->values + h->width,
                 .g = g.mid,
                 .g_error = g.rad * sb_wide_exp(g.rad),
                 .beta = beta.mid,
                 .beta_error = beta.rad};
        values_of(h, t, &x);
        norms(x.q, a->dk, &x.q_norm, &x.q_error);
        norms(x.k, a->dk, &x.k_norm, &x.k_error);
        advance(h, &x, at);
    }
}

/* K-35: "act rounds every state that a call leaves" */
sb_ball sb_ball_kept(const sb_knobs *knobs, sb_ball x)
{
    return SB_IS(knobs, delta_state, act) ? sb_ball_act(knobs, x) : x;
}

static int run_head(const sb_knobs *knobs, const sb_delta_rule_args *a, const sb_delta_side *sides,
                    size_t count, size_t index)
{
    size_t width = (a->dv + LANES - 1) / LANES * LANES, size = a->dk * a->dv;
    double *block = sb_alloc((a->dk + count + 2) * width, sizeof *block);
    if (!block)
        return 1;
    head h = {.knobs = knobs,
              .a = a,
              .sides = sides,
              .side_count = count,
              .index = index,
              .width = width,
              .S = block,
              .delta = block + a->dk * width,
              .values = block + (a->dk + count) * width};
    for (size_t e = 0; e < size; e++)
        h.S[e / a->dv * width + e % a->dv] = (double)a->state[index * size + e];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; sides[i].from && j < a->dv; j++)
            h.delta[i * width + j] = sides[i].from->column[index * a->dv + j];
    run_rows(&h);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; sides[i].column && j < a->dv; j++)
            sides[i].column[index * a->dv + j] = h.delta[i * width + j];
    for (size_t i = 0; i < count; i++)
        for (size_t e = 0; sides[i].state && e < size; e++) {
            size_t j = e % a->dv;
            sb_ball kept = {h.S[e / a->dv * width + j], h.delta[i * width + j]};
            sides[i].state[index * size + e] = sb_ball_kept(knobs, kept);
        }
    free(block);
    return 0;
}

typedef struct job {
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    const sb_delta_side *sides;
    size_t count;
    atomic_int failed;
} job;

static void one_head(void *ctx, size_t index, size_t worker)
{
    job *j = ctx;
    (void)worker;
    if (run_head(j->knobs, j->a, j->sides, j->count, index))
        atomic_store(&j->failed, 1);
}

/* Of both sides, or of none. */
static int same_balls(const sb_ball *a, const sb_ball *b, size_t count)
{
    for (size_t i = 0; a && i < count; i++)
        if (a[i].mid != b[i].mid || a[i].rad != b[i].rad)
            return 0;
    return 1;
}

sb_status sb_bound_delta_rule_sides(const sb_knobs *knobs, const sb_delta_rule_args *a,
                                    const sb_delta_side *sides, size_t count)
{
    size_t keys = a->rows * a->k_heads * a->dk, gates = a->rows * a->v_heads;
    if (count > 1 &&
        !(same_balls(sides[0].q, sides[1].q, keys) && same_balls(sides[0].k, sides[1].k, keys) &&
          same_balls(sides[0].v, sides[1].v, gates * a->dv) &&
          same_balls(sides[0].g, sides[1].g, gates) &&
          same_balls(sides[0].beta, sides[1].beta, gates))) {
        sb_status status = sb_bound_delta_rule_sides(knobs, a, sides, 1);
        return status ? status : sb_bound_delta_rule_sides(knobs, a, sides + 1, 1);
    }
    job j = {.knobs = knobs, .a = a, .sides = sides, .count = count};
    sb_parallel_for(a->v_heads, a->rows * a->v_heads * a->dk * a->dv > ALONE, one_head, &j);
    return j.failed ? SB_ERR_MEMORY : SB_OK;
}

sb_status sb_bound_delta_rule_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                 const sb_delta_rule_args *a, const sb_ball *q, const sb_ball *k,
                                 sb_ball *out, sb_ball *state)
{
    const sb_delta_side side = {.ar = ar, .q = q, .k = k, .out = out, .state = state};
    return sb_bound_delta_rule_sides(knobs, a, &side, 1);
}

/* The inputs of a delta rule, in the order of args.def. */
enum { Q, K, V, G, BETA };

static sb_status of_inputs(int chunks, const sb_arithmetic *ar, const sb_knobs *knobs,
                           const sb_delta_rule_args *a, const sb_ball *const *in, sb_ball *out,
                           sb_ball *state)
{
    size_t count = a->rows * a->k_heads * a->dk;
    sb_ball *q = sb_alloc(2 * count, sizeof *q), *k = q ? q + count : NULL;
    if (!q)
        return SB_ERR_MEMORY;
    sb_bound_row(in[Q], a->q, 0, count, q);
    sb_bound_row(in[K], a->k, 0, count, k);
    const sb_delta_side side = {.ar = ar,
                                .q = q,
                                .k = k,
                                .v = in[V],
                                .g = in[G],
                                .beta = in[BETA],
                                .out = out,
                                .state = state};
    sb_status status = chunks ? sb_bound_delta_rule_chunk_side(knobs, a, &side)
                              : sb_bound_delta_rule_sides(knobs, a, &side, 1);
    free(q);
    return status;
}

sb_status sb_bound_delta_rule_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                 const sb_delta_rule_args *a, const sb_ball *const *in,
                                 sb_ball *out, sb_ball *second)
{
    return of_inputs(0, ar, knobs, a, in, out, second);
}

sb_status sb_bound_delta_rule_chunk_in(const sb_arithmetic *ar, const sb_knobs *knobs,
                                       const sb_delta_rule_args *a, const sb_ball *const *in,
                                       sb_ball *out, sb_ball *second)
{
    return of_inputs(1, ar, knobs, a, in, out, second);
}
