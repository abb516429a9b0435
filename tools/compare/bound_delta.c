/* bound_delta.c - the gated delta rule, row by row: T-12.
 *
 * Element by element, majorants of the recurrence grow exponentially, although the recurrence
 * itself does not: I - beta k k^T has norm at most 1. So the error of the state is measured by one
 * number per column, the 2-norm. */
#include "tools/compare/bound_chunk.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/form.h"
#include "tools/compare/wide_fn.h"

/* One head between two rows: the real state (dk, dv), and per column j how far a computed one is.
 */
typedef struct head {
    const sb_arithmetic *ar;
    size_t dk, dv;
    double *S;     /* (dk, dv) */
    double *delta; /* (dv) 2-norm of the error of column j */
} head;

/* One row of inputs. */
typedef struct row {
    const sb_ball *q, *k; /* (dk) */
    const float *v;       /* (dv) */
    double g, beta;
    double k_norm, k_error, q_norm, q_error; /* 2-norms: of a computed vector, and of its error */
} row;

static void norms(const sb_ball *x, size_t n, double *norm, double *error)
{
    double squares = 0.0, errors = 0.0;
    for (size_t i = 0; i < n; i++) {
        squares += x[i].mid * x[i].mid;
        errors += x[i].rad * x[i].rad;
    }
    *error = sb_wide_sqrt(errors);
    *norm = sb_wide_sqrt(squares) + *error;
}

/* dot(x, column j) in three sums: its real value, its magnitude, and what the radii of x add. */
static sb_reduction column_dot(const head *h, const sb_ball *x, size_t j, double *norm)
{
    sb_reduction r = {0};
    double squares = 0.0;
    for (size_t i = 0; i < h->dk; i++) {
        double s = h->S[i * h->dv + j];
        sb_reduce(&r, x[i], (sb_ball){s, 0.0});
        squares += s * s;
    }
    *norm = sb_wide_sqrt(squares);
    return r;
}

/* The ball of the dot of x, of norm x_norm, with column j, of which only norm and error are known.
 */
static sb_ball read_column(const head *h, const sb_ball *x, double x_norm, size_t j, double error,
                           double *norm)
{
    sb_reduction r = column_dot(h, x, j, norm);
    r.spread += x_norm * error;
    r.magnitude += x_norm * error;
    return sb_ball_reduced(h->ar, &r);
}

/* T-12: "delta'' = |I - beta k k^T| (alpha delta + e0) + beta |dk| (|v - m| + |k| |s'|) + |k| e1 +
 * e2" for column j, whose real values are advanced too. */
static void advance_column(head *h, const row *x, size_t j)
{
    double norm, decay = sb_wide_exp(x->g), u = SB_UNIT, beta = x->beta, tiny = h->ar->underflow;
    for (size_t i = 0; i < h->dk; i++)
        h->S[i * h->dv + j] *= decay;
    sb_reduction plain = column_dot(h, x->k, j, &norm);
    double decayed = decay * h->delta[j];
    double e0 = (h->ar->function + 1.0) * u * (norm + decayed) + (double)h->dk * tiny;
    sb_ball m = read_column(h, x->k, x->k_norm, j, decayed + e0, &norm);
    double difference = (double)x->v[j] - plain.sum, reach = sb_wide_abs(difference) + m.rad;
    /* of m.rad, what the radii of k and the error of the column contribute is in delta'' already */
    double reading = m.rad - plain.spread - x->k_norm * (decayed + e0);
    double e1 = beta * (reading + 2.0 * u * reach) + 2.0 * tiny;
    double correction = beta * difference, correction_error = beta * m.rad + 2.0 * u * beta * reach;
    double contraction = sb_wide_max(1.0, sb_wide_abs(1.0 - beta * x->k_norm * x->k_norm));
    double delta = contraction * (decayed + e0) +
                   beta * x->k_error * (sb_wide_abs(difference) + x->k_norm * norm) +
                   x->k_norm * e1;
    double squares = 0.0;
    for (size_t i = 0; i < h->dk; i++) {
        double *s = &h->S[i * h->dv + j];
        *s += x->k[i].mid * correction;
        squares += *s * *s;
    }
    double e2 = u * x->k_norm * (sb_wide_abs(correction) + correction_error) +
                u * (sb_wide_sqrt(squares) + delta);
    h->delta[j] =
        delta + e2 + 0x1p-48 * (norm + sb_wide_abs(correction)) + 2.0 * (double)h->dk * tiny;
}

/* K-16: "output leaves q unscaled, and the output of the rule is multiplied before R" */
sb_ball sb_ball_output(const sb_arithmetic *ar, const sb_knobs *knobs, int recurrent, size_t dk,
                       sb_ball o)
{
    double root = 1.0 / sb_wide_sqrt((double)dk);
    if (sb_scales_output(knobs, recurrent))
        o = sb_ball_mul(ar, o, (sb_ball){root, root * SB_UNIT});
    return sb_ball_act(knobs, o);
}

static void advance(head *h, const row *x, const sb_knobs *knobs, sb_ball *out)
{
    double norm;
    for (size_t j = 0; j < h->dv; j++) {
        advance_column(h, x, j);
        sb_ball o = read_column(h, x->q, x->q_norm, j, h->delta[j], &norm);
        out[j] = sb_ball_output(h->ar, knobs, 1, h->dk, o);
    }
}

static void run_head(head *h, const sb_knobs *knobs, const sb_delta_rule_args *a, const sb_ball *q,
                     const sb_ball *k, size_t index, sb_ball *out)
{
    size_t key_head = index / (a->v_heads / a->k_heads);
    for (size_t t = 0; t < a->rows; t++) {
        size_t at = t * a->v_heads + index;
        row x = {.q = q + (t * a->k_heads + key_head) * a->dk,
                 .k = k + (t * a->k_heads + key_head) * a->dk,
                 .v = a->v + t * a->v_stride + index * a->dv,
                 .g = (double)a->g[at],
                 .beta = (double)a->beta[at]};
        norms(x.q, a->dk, &x.q_norm, &x.q_error);
        norms(x.k, a->dk, &x.k_norm, &x.k_error);
        advance(h, &x, knobs, out + at * a->dv);
    }
}

/* K-35: "act to round every state that a call leaves" */
sb_ball sb_ball_kept(const sb_knobs *knobs, sb_ball x)
{
    return SB_IS(knobs, delta_state, act) ? sb_ball_act(knobs, x) : x;
}

sb_status sb_bound_delta_rule_from(const sb_arithmetic *ar, const sb_knobs *knobs,
                                   const sb_delta_rule_args *a, const sb_ball *q, const sb_ball *k,
                                   const sb_delta_error *from, sb_ball *out, sb_ball *state)
{
    ar = sb_arithmetic_vector(ar);
    size_t size = a->dk * a->dv;
    double *block = sb_alloc(size + a->dv, sizeof *block);
    if (!block)
        return SB_ERR_MEMORY;
    head h = {.ar = ar, .dk = a->dk, .dv = a->dv, .S = block, .delta = block + size};
    for (size_t index = 0; index < a->v_heads; index++) {
        for (size_t i = 0; i < size; i++)
            h.S[i] = (double)a->state[index * size + i];
        for (size_t j = 0; j < a->dv; j++)
            h.delta[j] = from ? from->column[index * a->dv + j] : 0.0;
        run_head(&h, knobs, a, q, k, index, out);
        for (size_t i = 0; state && i < size; i++)
            state[index * size + i] = sb_ball_kept(knobs, (sb_ball){h.S[i], h.delta[i % a->dv]});
    }
    free(block);
    return SB_OK;
}

sb_status sb_bound_delta_rule_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                 const sb_delta_rule_args *a, const sb_ball *q, const sb_ball *k,
                                 sb_ball *out, sb_ball *state)
{
    return sb_bound_delta_rule_from(ar, knobs, a, q, k, NULL, out, state);
}

/* Of exact q and k. */
typedef sb_status (*bound_of)(const sb_arithmetic *, const sb_knobs *, const sb_delta_rule_args *,
                              const sb_ball *, const sb_ball *, sb_ball *, sb_ball *);

static sb_status of_exact(bound_of bound, const sb_arithmetic *ar, const sb_knobs *knobs,
                          const sb_delta_rule_args *a, sb_ball *out, sb_ball *state)
{
    size_t count = a->rows * a->k_heads * a->dk;
    sb_ball *q = sb_alloc(2 * count, sizeof *q);
    if (!q)
        return SB_ERR_MEMORY;
    sb_balls_of(a->q, count, q);
    sb_balls_of(a->k, count, q + count);
    sb_status status = bound(ar, knobs, a, q, q + count, out, state);
    free(q);
    return status;
}

sb_status sb_bound_delta_rule(const sb_arithmetic *ar, const sb_knobs *knobs,
                              const sb_delta_rule_args *a, sb_ball *out, sb_ball *second)
{
    return of_exact(sb_bound_delta_rule_of, ar, knobs, a, out, second);
}

sb_status sb_bound_delta_rule_chunk(const sb_arithmetic *ar, const sb_knobs *knobs,
                                    const sb_delta_rule_args *a, sb_ball *out, sb_ball *second)
{
    return of_exact(sb_bound_delta_rule_chunk_of, ar, knobs, a, out, second);
}
