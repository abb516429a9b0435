/* bound_chunk.c - the gated delta rule in chunks of 64 rows: T-13, majorants element by element.
 *
 * The order of operations is that of R-10, which is transformers' torch_chunk_gated_delta_rule.
 * Real values of a chunk's matrices are computed in binary64 by the same formulas; every ball's
 * radius bounds what a binary32 evaluation of the formula adds, on top of what its inputs bring. */
#include "tools/compare/bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"

enum { CHUNK = 64 };

typedef struct chunk {
    const sb_arithmetic *ar;
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    const sb_ball *q, *k; /* row 0 of the chunk */
    size_t head, key_head, first, m;
    sb_ball G[CHUNK];    /* sums of g */
    sb_ball *S;          /* (dk, dv) */
    sb_ball *A, *scores; /* (CHUNK, CHUNK) */
    double *inverse;     /* (CHUNK, CHUNK) of I + A */
    sb_ball *U, *W;      /* (CHUNK, dv), (CHUNK, dk): right-hand sides, then solutions */
    sb_ball *row;        /* (max(dk, CHUNK)) */
} chunk;

static const sb_ball *row_of(const chunk *c, const sb_ball *x, size_t i)
{
    return x + (i * c->a->k_heads + c->key_head) * c->a->dk;
}

static float gate(const chunk *c, const float *x, size_t i)
{
    return x[(c->first + i) * c->a->v_heads + c->head];
}

/* "G_i = sum of g_0..g_i" */
static void prefix_sums(chunk *c)
{
    sb_reduction r = {0};
    for (size_t i = 0; i < c->m; i++) {
        sb_reduce(&r, sb_ball_of(gate(c, c->a->g, i)), sb_ball_of(1.0f));
        c->G[i] = sb_ball_reduced(c->ar, &r);
    }
}

/* "D_ij = exp( RN(G_i - G_j) )"; the difference of a number and itself is 0 */
static sb_ball decay(const chunk *c, size_t i, size_t j)
{
    if (i == j)
        return sb_ball_of(1.0f);
    return sb_ball_exp(c->ar, sb_ball_sub(c->ar, c->G[i], c->G[j]));
}

/* "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j", and with q_i in place of kb_i for i >= j */
static sb_ball product(const chunk *c, const sb_ball *left, size_t i, size_t j)
{
    sb_ball dot = sb_ball_dot(c->ar, left, row_of(c, c->k, j), c->a->dk);
    return sb_ball_mul(c->ar, dot, decay(c, i, j));
}

/* The matrix, the scores and the right-hand sides. R-10: "kb_i = RN(beta_i k_i); vb_i = RN(beta_i
 * v_i)", and for W "from RN(kb_i exp(G_i))" */
static void set_up(chunk *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        const sb_ball *k = row_of(c, c->k, i);
        const float *v = c->a->v + (c->first + i) * c->a->v_stride + c->head * dv;
        sb_ball beta = sb_ball_of(gate(c, c->a->beta, i)), grown = sb_ball_exp(c->ar, c->G[i]);
        for (size_t a = 0; a < dk; a++) {
            c->row[a] = sb_ball_mul(c->ar, beta, k[a]);
            c->W[i * dk + a] = sb_ball_mul(c->ar, c->row[a], grown);
        }
        for (size_t j = 0; j < dv; j++)
            c->U[i * dv + j] = sb_ball_mul(c->ar, beta, sb_ball_of(v[j]));
        for (size_t j = 0; j < i; j++)
            c->A[i * CHUNK + j] = product(c, c->row, i, j);
        for (size_t j = 0; j <= i; j++)
            c->scores[i * CHUNK + j] = product(c, row_of(c, c->q, i), i, j);
    }
}

/* The real inverse of I + A, by forward substitution. */
static void invert(chunk *c)
{
    memset(c->inverse, 0, sizeof(double) * CHUNK * CHUNK);
    for (size_t i = 0; i < c->m; i++) {
        double *row = c->inverse + i * CHUNK;
        row[i] = 1.0;
        for (size_t l = 0; l < i; l++)
            for (size_t j = 0; j <= l; j++)
                row[j] -= c->A[i * CHUNK + l].mid * c->inverse[l * CHUNK + j];
    }
}

/* T-13: "delta x = (I + A)^-1 e, where e_i is the error of b_i, of A_ij times the computed x_j, and
 * of the reduction of row i": replaces column n of the right-hand sides by the solutions. */
static void substitute(const chunk *c, sb_ball *x, size_t n, size_t width)
{
    double e[CHUNK];
    for (size_t i = 0; i < c->m; i++) {
        sb_reduction r = {0};
        sb_ball b = x[i * width + n];
        sb_reduce(&r, b, sb_ball_of(1.0f));
        double from_matrix = 0.0, inherited = 0.0;
        for (size_t j = 0; j < i; j++) {
            sb_ball a = c->A[i * CHUNK + j], known = x[j * width + n];
            sb_reduce(&r, (sb_ball){-a.mid, a.rad}, known);
            from_matrix += a.rad * (fabs(known.mid) + known.rad);
        }
        double rounding = sb_ball_reduced(c->ar, &r).rad - r.spread;
        e[i] = b.rad + from_matrix + rounding;
        for (size_t j = 0; j <= i; j++)
            inherited += fabs(c->inverse[i * CHUNK + j]) * e[j];
        x[i * width + n] = (sb_ball){r.sum, inherited};
    }
}

/* "V_i = RN( U_i - dot(W_i, S) )", in the place of U */
static void correct(chunk *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++)
        for (size_t j = 0; j < dv; j++) {
            sb_reduction r = {0};
            for (size_t a = 0; a < dk; a++)
                sb_reduce(&r, c->W[i * dk + a], c->S[a * dv + j]);
            sb_ball *u = &c->U[i * dv + j];
            *u = sb_ball_sub(c->ar, *u, sb_ball_reduced(c->ar, &r));
        }
}

/* "o_i = R( RN( dot(RN(q_i exp(G_i)), S) + dot over j <= i of RN( dot(q_i, k_j) D_ij ) with
 * V_j ) )" */
static void read_row(chunk *c, size_t i, sb_ball *out)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    sb_ball grown = sb_ball_exp(c->ar, c->G[i]);
    for (size_t a = 0; a < dk; a++)
        c->row[a] = sb_ball_mul(c->ar, row_of(c, c->q, i)[a], grown);
    for (size_t j = 0; j < dv; j++) {
        sb_reduction before = {0}, within = {0};
        for (size_t a = 0; a < dk; a++)
            sb_reduce(&before, c->row[a], c->S[a * dv + j]);
        for (size_t l = 0; l <= i; l++)
            sb_reduce(&within, c->scores[i * CHUNK + l], c->U[l * dv + j]);
        sb_ball sum =
            sb_ball_add(c->ar, sb_ball_reduced(c->ar, &before), sb_ball_reduced(c->ar, &within));
        out[j] = sb_ball_act(c->knobs, sum);
    }
}

/* "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of RN( k_i[a] exp(RN(G_last - G_i)) )
 * with V_i[b] )" */
static void carry(chunk *c)
{
    size_t last = c->m - 1, dv = c->a->dv;
    sb_ball grown = sb_ball_exp(c->ar, c->G[last]), decays[CHUNK];
    for (size_t i = 0; i < c->m; i++)
        decays[i] = decay(c, last, i);
    for (size_t a = 0; a < c->a->dk; a++) {
        for (size_t i = 0; i < c->m; i++)
            c->row[i] = sb_ball_mul(c->ar, row_of(c, c->k, i)[a], decays[i]);
        for (size_t b = 0; b < dv; b++) {
            sb_reduction r = {0};
            for (size_t i = 0; i < c->m; i++)
                sb_reduce(&r, c->row[i], c->U[i * dv + b]);
            sb_ball *s = &c->S[a * dv + b];
            *s = sb_ball_add(c->ar, sb_ball_mul(c->ar, *s, grown), sb_ball_reduced(c->ar, &r));
        }
    }
}

static void run_head(chunk *c, const sb_ball *q, const sb_ball *k, sb_ball *out)
{
    const sb_delta_rule_args *a = c->a;
    c->key_head = c->head / (a->v_heads / a->k_heads);
    for (c->first = 0; c->first < a->rows; c->first += CHUNK) {
        c->m = a->rows - c->first < CHUNK ? a->rows - c->first : CHUNK;
        c->q = q + c->first * a->k_heads * a->dk;
        c->k = k + c->first * a->k_heads * a->dk;
        prefix_sums(c);
        set_up(c);
        invert(c);
        for (size_t j = 0; j < a->dv; j++)
            substitute(c, c->U, j, a->dv);
        for (size_t j = 0; j < a->dk; j++)
            substitute(c, c->W, j, a->dk);
        correct(c);
        for (size_t i = 0; i < c->m; i++)
            read_row(c, i, out + ((c->first + i) * a->v_heads + c->head) * a->dv);
        carry(c);
    }
}

sb_status sb_bound_delta_rule_chunk_of(const sb_arithmetic *ar, const sb_knobs *knobs,
                                       const sb_delta_rule_args *a, const sb_ball *q,
                                       const sb_ball *k, sb_ball *out, sb_ball *state)
{
    size_t size = a->dk * a->dv, width = a->dk > CHUNK ? a->dk : CHUNK, square = CHUNK * CHUNK;
    sb_ball *block = sb_alloc(size + 2 * square + CHUNK * (a->dk + a->dv) + width, sizeof *block);
    double *inverse = sb_alloc(square, sizeof *inverse);
    if (!block || !inverse) {
        free(block);
        free(inverse);
        return SB_ERR_MEMORY;
    }
    chunk c = {.ar = ar, .knobs = knobs, .a = a, .S = block, .A = block + size, .inverse = inverse};
    c.scores = c.A + square;
    c.U = c.scores + square;
    c.W = c.U + CHUNK * a->dv;
    c.row = c.W + CHUNK * a->dk;
    for (c.head = 0; c.head < a->v_heads; c.head++) {
        sb_balls_of(a->state + c.head * size, size, c.S);
        run_head(&c, q, k, out);
        if (state)
            memcpy(state + c.head * size, c.S, size * sizeof *c.S);
    }
    free(block);
    free(inverse);
    return SB_OK;
}
