/* bound_chunk.c - the gated delta rule in chunks whose length the arithmetic sets (T-87). Inside a
 * chunk, majorants are element by element (T-13). The error of the incoming state is bounded by
 * norms of columns (T-66).
 *
 * The order of operations is that of R-10, which is transformers' torch_chunk_gated_delta_rule. The
 * real values of a chunk's matrices are computed in binary64 by the same formulas. Each ball's
 * radius bounds the error of its inputs plus that of a binary32 evaluation of the formula. */
#include "tools/judge/bound/bound_chunk.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/root.h"
#include "ref/ops/form.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/wide_fn.h"

const sb_ball *sb_chunk_balls_row(const sb_chunk_balls *c, const sb_ball *x, size_t i)
{
    return x + (i * c->a->k_heads + c->key_head) * c->a->dk;
}

/* The place of row i of the chunk among the gates. */
static size_t gate_at(const sb_chunk_balls *c, size_t i)
{
    return (c->first + i) * c->a->v_heads + c->head;
}

sb_ball sb_chunk_balls_beta(const sb_chunk_balls *c, size_t i)
{
    return sb_bound_at(c->beta, c->a->beta, gate_at(c, i));
}

sb_ball sb_chunk_balls_value(const sb_chunk_balls *c, size_t i, size_t j)
{
    const sb_delta_rule_args *a = c->a;
    if (c->v)
        return c->v[gate_at(c, i) * a->dv + j];
    return sb_ball_of(a->v[(c->first + i) * a->v_stride + c->head * a->dv + j]);
}

/* "G_i = sum of g_0..g_i" */
static void prefix_sums(sb_chunk_balls *c)
{
    sb_reduction r = {0};
    for (size_t i = 0; i < c->m; i++) {
        sb_reduce(&r, sb_bound_at(c->g, c->a->g, gate_at(c, i)), sb_ball_of(1.0f));
        c->G[i] = sb_ball_reduced(c->ar, &r);
    }
}

/* "D_ij = exp( RN(G_i - G_j) )". For i = j the difference is exactly 0. */
sb_ball sb_chunk_balls_decay(const sb_chunk_balls *c, size_t i, size_t j)
{
    if (i == j)
        return sb_ball_of(1.0f);
    return sb_ball_exp(c->ar, sb_ball_sub(c->ar, c->G[i], c->G[j]));
}

/* "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j", and with q_i in place of kb_i for i >= j */
sb_ball sb_chunk_balls_product(const sb_chunk_balls *c, const sb_ball *left, size_t i, size_t j)
{
    sb_ball dot = sb_ball_dot(c->ar, left, sb_chunk_balls_row(c, c->k, j), c->a->dk);
    return sb_ball_mul(c->ar, dot, sb_chunk_balls_decay(c, i, j));
}

/* The matrix, the scores and the right-hand sides. R-10: "kb_i = RN(beta_i k_i); vb_i = RN(beta_i
 * v_i)", and for W "from RN(kb_i exp(G_i))" */
static void set_up(sb_chunk_balls *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        const sb_ball *k = sb_chunk_balls_row(c, c->k, i);
        sb_ball beta = sb_chunk_balls_beta(c, i), grown = sb_ball_exp(c->ar, c->G[i]);
        for (size_t a = 0; a < dk; a++) {
            c->row[a] = sb_ball_mul(c->ar, beta, k[a]);
            c->W[i * dk + a] = sb_ball_mul(c->ar, c->row[a], grown);
        }
        for (size_t j = 0; j < dv; j++)
            c->U[i * dv + j] = sb_ball_mul(c->ar, beta, sb_chunk_balls_value(c, i, j));
        for (size_t j = 0; j < i; j++)
            c->A[i * c->rows + j] = sb_chunk_balls_product(c, c->row, i, j);
        for (size_t j = 0; j <= i; j++)
            c->scores[i * c->rows + j] =
                sb_chunk_balls_product(c, sb_chunk_balls_row(c, c->q, i), i, j);
    }
}

/* The real inverse of I + A, by forward substitution. */
void sb_chunk_balls_invert(sb_chunk_balls *c)
{
    memset(c->inverse, 0, sizeof(double) * c->rows * c->rows);
    for (size_t i = 0; i < c->m; i++) {
        double *row = c->inverse + i * c->rows;
        row[i] = 1.0;
        for (size_t l = 0; l < i; l++)
            for (size_t j = 0; j <= l; j++)
                row[j] -= c->A[i * c->rows + l].mid * c->inverse[l * c->rows + j];
    }
}

/* T-13: "delta x = (I + A)^-1 e, where e_i is the sum of the errors of b_i, of A_ij times the
 * computed x_j, and of the reduction of row i". Replaces column n of the right-hand sides by the
 * solution. */
void sb_chunk_balls_substitute(const sb_chunk_balls *c, sb_ball *x, size_t n, size_t width)
{
    double e[SB_CHUNK_LONGEST];
    for (size_t i = 0; i < c->m; i++) {
        sb_reduction r = {0};
        sb_ball b = x[i * width + n];
        sb_reduce(&r, b, sb_ball_of(1.0f));
        double from_matrix = 0.0, inherited = 0.0;
        for (size_t j = 0; j < i; j++) {
            sb_ball a = c->A[i * c->rows + j], known = x[j * width + n];
            sb_reduce(&r, (sb_ball){-a.mid, a.rad}, known);
            from_matrix += a.rad * (sb_wide_abs(known.mid) + known.rad);
        }
        double rounding = sb_ball_reduced(c->ar, &r).rad - r.spread;
        e[i] = b.rad + from_matrix + rounding;
        for (size_t j = 0; j <= i; j++)
            inherited += sb_wide_abs(c->inverse[i * c->rows + j]) * e[j];
        x[i * width + n] = (sb_ball){r.sum, inherited};
    }
}

/* mid: the 2-norm of n centres. all: that norm plus the norm of the radii, an upper bound for any
 * values in the balls. all - mid is the norm of the radii. */
static void norms(const sb_ball *x, size_t n, double *mid, double *all)
{
    double mids = 0.0, radii = 0.0;
    for (size_t i = 0; i < n; i++) {
        mids += x[i].mid * x[i].mid;
        radii += x[i].rad * x[i].rad;
    }
    *mid = sb_sqrt64(mids);
    *all = *mid + sb_sqrt64(radii);
}

/* dot(x, column j of S) with the effect of that column's error; `all` is the norm of x. */
static sb_reduction with_state(const sb_chunk_balls *c, const sb_ball *x, double all, size_t j)
{
    sb_reduction r = {0};
    for (size_t a = 0; a < c->a->dk; a++)
        sb_reduce(&r, x[a], c->S[a * c->a->dv + j]);
    if (c->before) {
        double more = all * c->before[j];
        r.magnitude += more;
        r.spread += more;
        r.peak += more;
        r.largest += more;
    }
    return r;
}

/* "V_i = RN( U_i - dot(W_i, S) )". V replaces U. */
void sb_chunk_balls_correct(sb_chunk_balls *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        double all;
        norms(c->W + i * dk, dk, &c->reach[i], &all);
        for (size_t j = 0; j < dv; j++) {
            const sb_reduction r = with_state(c, c->W + i * dk, all, j);
            sb_ball *u = &c->U[i * dv + j];
            *u = sb_ball_sub(c->ar, *u, sb_ball_reduced(c->ar, &r));
        }
    }
}

/* T-66: "Only the norm of the error is kept, multiplied by the decays and by the norms of I - beta
 * k k^T". Computes that product up to each row of the chunk. */
static void contract(sb_chunk_balls *c)
{
    double norm = 1.0;
    for (size_t i = 0; i < c->m; i++) {
        double k, all;
        norms(sb_chunk_balls_row(c, c->k, i), c->a->dk, &k, &all);
        double beta = sb_chunk_balls_beta(c, i).mid;
        norm *= sb_wide_max(1.0, sb_wide_abs(1.0 - beta * k * k));
        c->left[i] = norm * sb_wide_exp(c->G[i].mid);
    }
}

/* "o_i = R( RN( dot(RN(q_i exp(G_i)), S) + dot over j <= i of RN( dot(q_i, k_j) D_ij ) with
 * V_j ) )" */
static void read_row(sb_chunk_balls *c, size_t i, sb_ball *out)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    const sb_ball *q = sb_chunk_balls_row(c, c->q, i), *scores = c->scores + i * c->rows;
    sb_ball grown = sb_ball_exp(c->ar, c->G[i]);
    double mid, all, asked, unused, brought = 0.0;
    for (size_t a = 0; a < dk; a++)
        c->row[a] = sb_ball_mul(c->ar, q[a], grown);
    norms(c->row, dk, &mid, &all);
    norms(q, dk, &asked, &unused);
    for (size_t l = 0; l <= i; l++)
        brought += sb_wide_abs(scores[l].mid) * c->reach[l];
    for (size_t j = 0; j < dv; j++) {
        sb_reduction before = with_state(c, c->row, all, j), within = {0};
        for (size_t l = 0; l <= i; l++)
            sb_reduce(&within, scores[l], c->U[l * dv + j]);
        sb_ball sum =
            sb_ball_add(c->ar, sb_ball_reduced(c->ar, &before), sb_ball_reduced(c->ar, &within));
        sum.rad += (asked * c->left[i] - mid - brought) * c->before[j];
        out[j] = sb_ball_output(c->ar, c->knobs, 0, dk, sum);
    }
}

/* "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of RN( k_i[a] exp(RN(G_last - G_i)) )
 * with V_i[b] )". The effect of the incoming error on V is subtracted. */
static void carry(sb_chunk_balls *c)
{
    size_t last = c->m - 1, dv = c->a->dv;
    sb_ball grown = sb_ball_exp(c->ar, c->G[last]), decays[SB_CHUNK_LONGEST];
    for (size_t i = 0; i < c->m; i++)
        decays[i] = sb_chunk_balls_decay(c, last, i);
    for (size_t a = 0; a < c->a->dk; a++) {
        double brought = 0.0;
        for (size_t i = 0; i < c->m; i++) {
            c->row[i] = sb_ball_mul(c->ar, sb_chunk_balls_row(c, c->k, i)[a], decays[i]);
            brought += sb_wide_abs(c->row[i].mid) * c->reach[i];
        }
        for (size_t b = 0; b < dv; b++) {
            sb_reduction r = {0};
            for (size_t i = 0; i < c->m; i++)
                sb_reduce(&r, c->row[i], c->U[i * dv + b]);
            sb_ball *s = &c->S[a * dv + b];
            *s = sb_ball_add(c->ar, sb_ball_mul(c->ar, *s, grown), sb_ball_reduced(c->ar, &r));
            s->rad -= brought * c->before[b];
        }
    }
}

/* T-66: "delta' = |P| delta + (rad exp(G_last) + 2 u exp(G_last)) delta + |e|" for each column. e
 * are the radii of the state's balls, which become 0. */
static void settle_chunk(sb_chunk_balls *c)
{
    size_t dv = c->a->dv, last = c->m - 1;
    sb_ball grown = sb_ball_exp(c->ar, c->G[last]);
    double kept = c->left[last] + grown.rad + 2.0 * SB_UNIT * (grown.mid + grown.rad);
    for (size_t j = 0; j < dv; j++) {
        double squares = 0.0;
        for (size_t a = 0; a < c->a->dk; a++) {
            double e = c->S[a * dv + j].rad;
            squares += e * e;
        }
        c->after[j] = kept * c->before[j];
        c->before[j] = c->after[j] + sb_sqrt64(squares);
    }
}

/* T-33: "under by_rows the ball of the library contains both ways". Solves for column n. */
static void solve(const sb_chunk_balls *c, sb_ball *x, size_t n, size_t width)
{
    sb_ball right[SB_CHUNK_LONGEST];
    for (size_t i = 0; i < c->m; i++)
        right[i] = x[i * width + n];
    sb_chunk_balls_substitute(c, x, n, width);
    for (size_t i = 0; c->X && i < c->m; i++) {
        sb_reduction r = {0};
        for (size_t j = 0; j <= i; j++)
            sb_reduce(&r, c->X[i * c->rows + j], right[j]);
        x[i * width + n] = sb_ball_hull(x[i * width + n], sb_ball_reduced(c->ar, &r));
    }
}

/* R-10 for one chunk, or R-22 if K-15 selects it. */
static void run_chunk(sb_chunk_balls *c, sb_ball *out, size_t out_stride)
{
    prefix_sums(c);
    if (sb_chunks_are_fla(c->knobs)) {
        sb_chunk_balls_fla(c, out, out_stride);
        return;
    }
    set_up(c);
    sb_chunk_balls_invert(c);
    if (c->X)
        sb_chunk_balls_inverse(c);
    for (size_t j = 0; j < c->a->dv; j++)
        solve(c, c->U, j, c->a->dv);
    for (size_t j = 0; j < c->a->dk; j++)
        solve(c, c->W, j, c->a->dk);
    for (size_t i = 0; i < c->a->dk * c->a->dv; i++)
        c->S[i].rad = 0.0; /* c->before has the error of the state */
    contract(c);
    sb_chunk_balls_correct(c);
    for (size_t i = 0; i < c->m; i++)
        read_row(c, i, out + i * out_stride);
    carry(c);
    settle_chunk(c);
}

static void run_head(sb_chunk_balls *c, const sb_ball *q, const sb_ball *k, sb_ball *out)
{
    const sb_delta_rule_args *a = c->a;
    c->key_head = c->head / (a->v_heads / a->k_heads);
    for (c->first = 0; c->first < a->rows; c->first += c->rows) {
        c->m = a->rows - c->first < c->rows ? a->rows - c->first : c->rows;
        c->q = q + c->first * a->k_heads * a->dk;
        c->k = k + c->first * a->k_heads * a->dk;
        run_chunk(c, out + (c->first * a->v_heads + c->head) * a->dv, a->v_heads * a->dv);
    }
}

/* The state of one head before the call, with its error. */
static void begin_head(sb_chunk_balls *c, const sb_delta_error *from)
{
    size_t size = c->a->dk * c->a->dv, first = c->head * c->a->dv;
    sb_balls_of(c->a->state + c->head * size, size, c->S);
    for (size_t i = 0; from && i < size; i++)
        c->S[i].rad = from->element[c->head * size + i];
    for (size_t j = 0; c->before && j < c->a->dv; j++)
        c->before[j] = from ? from->column[first + j] : 0.0;
}

static void end_head(const sb_chunk_balls *c, const sb_delta_side *side)
{
    size_t dk = c->a->dk, dv = c->a->dv, size = dk * dv;
    for (size_t j = 0; j < dv; j++) {
        double squares = 0.0;
        for (size_t a = 0; a < dk; a++) {
            sb_ball *s = &c->S[a * dv + j];
            squares += s->rad * s->rad;
            s->rad += c->after ? c->after[j] : 0.0;
            if (side->state)
                side->state[c->head * size + a * dv + j] = sb_ball_kept(c->knobs, *s);
        }
        if (side->column)
            side->column[c->head * dv + j] = c->before ? c->before[j] : sb_sqrt64(squares);
    }
}

sb_status sb_bound_delta_rule_chunk_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                       const sb_delta_rule_args *a, const sb_ball *q,
                                       const sb_ball *k, sb_ball *out, sb_ball *state)
{
    const sb_delta_side side = {.ar = ar, .q = q, .k = k, .out = out, .state = state};
    return sb_bound_delta_rule_chunk_side(knobs, a, &side);
}

sb_status sb_bound_delta_rule_chunk_side(const sb_knobs *knobs, const sb_delta_rule_args *a,
                                         const sb_delta_side *side)
{
    size_t chunk = sb_arithmetic_chunk(side->ar), rows = a->rows < chunk ? a->rows : chunk;
    size_t size = a->dk * a->dv, width = a->dk > rows ? a->dk : rows, square = rows * rows;
    int fla = sb_chunks_are_fla(knobs);
    int inverts = fla || (side->ar->any_order && SB_IS(knobs, delta_rule, by_rows));
    sb_ball *block = sb_alloc(size + 2 * square + rows * (a->dk + a->dv) + width, sizeof *block);
    double *inverse = sb_alloc(square + 2 * a->dv, sizeof *inverse);
    sb_ball *more = inverts ? sb_alloc(square + size, sizeof *more) : NULL;
    if (block && inverse && (more || !inverts)) {
        sb_chunk_balls c = {.ar = side->ar,
                            .knobs = knobs,
                            .a = a,
                            .v = side->v,
                            .g = side->g,
                            .beta = side->beta,
                            .rows = rows,
                            .S = block,
                            .A = block + size,
                            .inverse = inverse,
                            .before = fla ? NULL : inverse + square,
                            .after = fla ? NULL : inverse + square + a->dv};
        c.scores = c.A + square;
        c.U = c.scores + square;
        c.W = c.U + rows * a->dv;
        c.row = c.W + rows * a->dk;
        c.X = more;
        c.copy = more ? more + square : NULL;
        for (c.head = 0; c.head < a->v_heads; c.head++) {
            begin_head(&c, side->from);
            run_head(&c, side->q, side->k, side->out);
            end_head(&c, side);
        }
    }
    int failed = !block || !inverse || (inverts && !more);
    free(more);
    free(block);
    free(inverse);
    return failed ? SB_ERR_MEMORY : SB_OK;
}
