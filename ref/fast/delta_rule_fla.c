/* delta_rule_fla.c - one chunk of the gated delta rule with the roundings of the Triton kernels
 * that vLLM and SGLang run for a prompt: a matrix that is the result of one product and an operand
 * of the next is rounded to the activation type. */
#include "ref/fast/dot/dot.h"
#include "ref/math/fn.h"
#include "ref/fast/chunk.h"

#include <string.h>

static void round_all(const sb_knobs *knobs, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = sb_act(knobs, x[i]);
}

/* Computes the right-hand sides. R-22: "vb_i = R(beta_i v_i) and kg_i = R( RN(kb_i exp(G_i)) )" */
static void right_hand_sides(const sb_knobs *knobs, sb_chunk *c, size_t i)
{
    float beta = c->beta[i * c->gate_stride], grown = sb_exp(c->G[i]);
    for (size_t a = 0; a < c->dk; a++) {
        float key = c->row[a] * grown;
        c->W[i * c->dk + a] = sb_act(knobs, key);
    }
    for (size_t j = 0; j < c->dv; j++) {
        float value = beta * c->v[i * c->v_stride + j];
        c->U[i * c->dv + j] = sb_act(knobs, value);
    }
}

/* R-22: "row by row X_i = dot of (1, -A_i0, .., -A_i,i-1) with (e_i, X_0, .., X_i-1), the inverse,
 * and all of it is rounded with R" */
static void invert(const sb_knobs *knobs, sb_chunk *c)
{
    memset(c->X, 0, sizeof(float) * SB_CHUNK * SB_CHUNK);
    for (size_t i = 0; i < c->m; i++) {
        sb_chunk_coefficients(c, i);
        right_hand_sides(knobs, c, i);
        c->X[i * SB_CHUNK + i] = 1.0f;
        sb_chunk_substitute(c, c->X, i, SB_CHUNK);
    }
    round_all(knobs, c->X, SB_CHUNK * SB_CHUNK);
}

/* R-22: "U_i = R( dot over j <= i of X_ij with vb_j ) and W_i = R( dot over j <= i of X_ij with
 * kg_j )", overwriting the right-hand sides, from the last row to the first. */
static void multiply(const sb_knobs *knobs, const sb_chunk *c, float *x, size_t width)
{
    for (size_t i = c->m; i-- > 0;) {
        sb_dot_columns(c->X + i * SB_CHUNK, 1, x, width, i + 1, width, x + i * width);
        round_all(knobs, x + i * width, width);
    }
}

/* R-22: "P_ij = R( RN( dot(q_i, k_j) D_ij ) ) for j <= i; o_i = R( RN( RN( RN( dot(q_i, S')
 * exp(G_i) ) s ) + RN( dot over j <= i of P_ij with R(V_j), times s ) ) )" for row i; U holds R(V).
 */
static void read_row(const sb_knobs *knobs, sb_chunk *c, size_t i, float *out)
{
    const float *q = c->q + i * c->k_stride;
    float grown = sb_exp(c->G[i]);
    for (size_t j = 0; j <= i; j++) {
        float score = sb_dot(q, c->k + j * c->k_stride, c->dk) * sb_chunk_decay(c, i, j);
        c->A[j] = sb_act(knobs, score);
    }
    sb_dot_columns(q, 1, c->S, c->dv, c->dk, c->dv, out);
    sb_dot_columns(c->A, 1, c->U, c->dv, i + 1, c->dv, c->within);
    for (size_t j = 0; j < c->dv; j++) {
        float before = out[j] * grown;
        float within = c->within[j] * c->scale;
        float scaled = before * c->scale;
        out[j] = sb_act(knobs, scaled + within);
    }
}

/* R-22: "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of k_i[a] with R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) ) )" */
static void carry(const sb_knobs *knobs, sb_chunk *c, float *S)
{
    size_t last = c->m - 1, dv = c->dv;
    float grown = sb_exp(c->G[last]);
    for (size_t i = 0; i < c->m; i++) {
        float shrunk = sb_chunk_decay(c, last, i);
        for (size_t b = 0; b < dv; b++) {
            float value = c->V[i * dv + b] * shrunk;
            c->V[i * dv + b] = sb_act(knobs, value);
        }
    }
    for (size_t a = 0; a < c->dk; a++) {
        sb_dot_columns(c->k + a, c->k_stride, c->V, dv, c->m, dv, c->within);
        for (size_t b = 0; b < dv; b++) {
            float kept = S[a * dv + b] * grown;
            S[a * dv + b] = kept + c->within[b];
        }
    }
}

/* R-22: "S' = R(S); V_i = RN( U_i - dot(W_i, S') )" */
void sb_chunk_fla(const sb_knobs *knobs, sb_chunk *c, float *S, float *out, size_t out_stride)
{
    invert(knobs, c);
    multiply(knobs, c, c->U, c->dv);
    multiply(knobs, c, c->W, c->dk);
    memcpy(c->S, S, c->dk * c->dv * sizeof *S);
    round_all(knobs, c->S, c->dk * c->dv);
    sb_chunk_correct(c, c->S);
    memcpy(c->U, c->V, c->m * c->dv * sizeof *c->U);
    round_all(knobs, c->U, c->m * c->dv);
    for (size_t i = 0; i < c->m; i++)
        read_row(knobs, c, i, out + i * out_stride);
    carry(knobs, c, S);
}
