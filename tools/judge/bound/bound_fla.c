/* bound_fla.c - one chunk of the gated delta rule with the roundings of R-22: T-13. */
#include "ref/base/root.h"
#include "tools/judge/bound/bound_chunk.h"

#include <string.h>

static void round_all(const sb_chunk_balls *c, sb_ball *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = sb_ball_act(c->knobs, x[i]);
}

/* A, and R-22: "vb_i = R(beta_i v_i) and kg_i = R( RN(kb_i exp(G_i)) )"; "P_ij = R( RN( dot(q_i,
 * k_j) D_ij ) ) for j <= i" */
static void set_up(sb_chunk_balls *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        const sb_ball *k = sb_chunk_balls_row(c, c->k, i), *q = sb_chunk_balls_row(c, c->q, i);
        sb_ball beta = sb_chunk_balls_beta(c, i);
        sb_ball grown = sb_ball_exp(c->ar, c->G[i]);
        for (size_t a = 0; a < dk; a++) {
            c->row[a] = sb_ball_mul(c->ar, beta, k[a]);
            c->W[i * dk + a] = sb_ball_act(c->knobs, sb_ball_mul(c->ar, c->row[a], grown));
        }
        for (size_t j = 0; j < dv; j++)
            c->U[i * dv + j] =
                sb_ball_act(c->knobs, sb_ball_mul(c->ar, beta, sb_chunk_balls_value(c, i, j)));
        for (size_t j = 0; j < i; j++)
            c->A[i * c->rows + j] = sb_chunk_balls_product(c, c->row, i, j);
        for (size_t j = 0; j <= i; j++)
            c->scores[i * c->rows + j] = sb_ball_act(c->knobs, sb_chunk_balls_product(c, q, i, j));
    }
}

/* T-30: "Column n of its inverse is bounded as in T-13, as the solution with the right-hand side
 * e_n"
 */
void sb_chunk_balls_inverse(sb_chunk_balls *c)
{
    for (size_t i = 0; i < c->rows * c->rows; i++)
        c->X[i] = sb_ball_of(i / c->rows == i % c->rows ? 1.0f : 0.0f);
    for (size_t j = 0; j < c->m; j++) {
        sb_chunk_balls_substitute(c, c->X, j, c->rows);
        for (size_t i = 0; i < j; i++) /* nothing is computed above the diagonal */
            c->X[i * c->rows + j] = sb_ball_of(0.0f);
        c->X[j * c->rows + j] = sb_ball_of(1.0f);
    }
}

/* R-22: "U_i = R( dot over j <= i of X_ij with vb_j ) and W_i = R( dot over j <= i of X_ij with
 * kg_j
 * )" */
static void multiply(const sb_chunk_balls *c, sb_ball *x, size_t width)
{
    for (size_t i = c->m; i-- > 0;)
        for (size_t n = 0; n < width; n++) {
            sb_reduction r = {0};
            for (size_t j = 0; j <= i; j++)
                sb_reduce(&r, c->X[i * c->rows + j], x[j * width + n]);
            x[i * width + n] = sb_ball_act(c->knobs, sb_ball_reduced(c->ar, &r));
        }
}

/* R-22: "o_i = R( RN( RN( RN( dot(q_i, S') exp(G_i) ) s ) + RN( dot over j <= i of P_ij with
 * R(V_j), times s ) ) )" */
static void read_row(const sb_chunk_balls *c, size_t i, sb_ball *out)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    const sb_ball *q = sb_chunk_balls_row(c, c->q, i);
    double root = 1.0 / sb_sqrt64((double)dk);
    sb_ball grown = sb_ball_exp(c->ar, c->G[i]), scale = {root, root * SB_UNIT};
    for (size_t j = 0; j < dv; j++) {
        sb_reduction before = {0}, within = {0};
        for (size_t a = 0; a < dk; a++)
            sb_reduce(&before, q[a], c->copy[a * dv + j]);
        for (size_t l = 0; l <= i; l++)
            sb_reduce(&within, c->scores[i * c->rows + l], sb_ball_act(c->knobs, c->U[l * dv + j]));
        sb_ball x = sb_ball_mul(c->ar, sb_ball_reduced(c->ar, &before), grown);
        x = sb_ball_mul(c->ar, x, scale);
        sb_ball y = sb_ball_mul(c->ar, sb_ball_reduced(c->ar, &within), scale);
        out[j] = sb_ball_act(c->knobs, sb_ball_add(c->ar, x, y));
    }
}

/* R-22: "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of k_i[a] with R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) ) )" */
static void carry(sb_chunk_balls *c)
{
    size_t last = c->m - 1, dv = c->a->dv;
    sb_ball grown = sb_ball_exp(c->ar, c->G[last]);
    for (size_t i = 0; i < c->m; i++) {
        sb_ball shrunk = sb_chunk_balls_decay(c, last, i);
        for (size_t b = 0; b < dv; b++)
            c->U[i * dv + b] = sb_ball_act(c->knobs, sb_ball_mul(c->ar, c->U[i * dv + b], shrunk));
    }
    for (size_t a = 0; a < c->a->dk; a++)
        for (size_t b = 0; b < dv; b++) {
            sb_reduction r = {0};
            for (size_t i = 0; i < c->m; i++)
                sb_reduce(&r, sb_chunk_balls_row(c, c->k, i)[a], c->U[i * dv + b]);
            sb_ball *s = &c->S[a * dv + b];
            *s = sb_ball_add(c->ar, sb_ball_mul(c->ar, *s, grown), sb_ball_reduced(c->ar, &r));
        }
}

/* R-22: "S' = R(S); V_i = RN( U_i - dot(W_i, S') )". V replaces U. */
void sb_chunk_balls_fla(sb_chunk_balls *c, sb_ball *out, size_t out_stride)
{
    size_t size = c->a->dk * c->a->dv;
    sb_ball *S = c->S;
    set_up(c);
    sb_chunk_balls_invert(c);
    sb_chunk_balls_inverse(c);
    /* R-22: "the inverse, and all of it is rounded with R" */
    round_all(c, c->X, c->rows * c->rows);
    multiply(c, c->U, c->a->dv);
    multiply(c, c->W, c->a->dk);
    memcpy(c->copy, S, size * sizeof *S);
    round_all(c, c->copy, size);
    c->S = c->copy;
    sb_chunk_balls_correct(c);
    c->S = S;
    for (size_t i = 0; i < c->m; i++)
        read_row(c, i, out + i * out_stride);
    carry(c);
}
