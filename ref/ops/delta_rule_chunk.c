/* delta_rule_chunk.c - the gated delta rule in chunks of 64 rows: mathematically the recurrent
 * form, with other roundings. Engines prefill this way; profile `exact` never does. */
#include "ref/base/mem.h"
#include "ref/math/dot.h"
#include "ref/math/fn.h"
#include "ref/ops/op.h"

#include <stdlib.h>

enum { CHUNK = 64 };

/* One chunk of one head: its operands, and the matrices of the clause. */
typedef struct chunk {
    const float *q, *k, *v, *g, *beta;         /* row 0; rows are a stride apart */
    size_t k_stride, v_stride, gate_stride, m; /* m <= CHUNK rows */
    size_t dk, dv;
    float G[CHUNK];                /* sums of g */
    float A[CHUNK], scaled[CHUNK]; /* one row of A or of the scores; one row of weights */
    float *U, *V;                  /* (CHUNK, dv) */
    float *W, *row;                /* (CHUNK, dk), (CHUNK * dk) scratch */
} chunk;

/* "D_ij = exp( RN(G_i - G_j) )" */
static float decay(const chunk *c, size_t i, size_t j)
{
    return sb_exp(c->G[i] - c->G[j]);
}

/* "G_i = sum of g_0..g_i" */
static void prefix_sums(chunk *c)
{
    for (size_t i = 0; i < c->m; i++)
        c->scaled[i] = c->g[i * c->gate_stride];
    for (size_t i = 0; i < c->m; i++)
        c->G[i] = sb_sum(c->scaled, i + 1);
}

/* x_i[n] = dot of (-A_i0, .., -A_i,i-1, 1) with (x_0[n], .., x_i[n]): one step of the substitution;
 * row i of x holds the right-hand side and receives the solution. */
static void substitute(const float *coefficients, float *x, size_t i, size_t width)
{
    for (size_t n = 0; n < width; n++)
        x[i * width + n] = sb_dot_strided(coefficients, 1, x + n, width, i + 1);
}

/* "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j; row by row U_i = dot of (1, -A_i0, ..,
 * -A_i,i-1) with (vb_i, U_0, .., U_i-1) and W_i likewise from RN(kb_i exp(G_i))" */
static void solve(chunk *c)
{
    for (size_t i = 0; i < c->m; i++) {
        const float *k = c->k + i * c->k_stride, *v = c->v + i * c->v_stride;
        float beta = c->beta[i * c->gate_stride], grown = sb_exp(c->G[i]);
        for (size_t a = 0; a < c->dk; a++) {
            c->row[a] = beta * k[a];
            c->W[i * c->dk + a] = c->row[a] * grown;
        }
        for (size_t j = 0; j < c->dv; j++)
            c->U[i * c->dv + j] = beta * v[j];
        for (size_t j = 0; j < i; j++)
            c->A[j] = -(sb_dot(c->row, c->k + j * c->k_stride, c->dk) * decay(c, i, j));
        c->A[i] = 1.0f;
        substitute(c->A, c->U, i, c->dv);
        substitute(c->A, c->W, i, c->dk);
    }
}

/* "V_i = RN( U_i - dot(W_i, S) )" */
static void correct(chunk *c, const float *S)
{
    for (size_t i = 0; i < c->m; i++)
        for (size_t j = 0; j < c->dv; j++) {
            float predicted = sb_dot_strided(c->W + i * c->dk, 1, S + j, c->dv, c->dk);
            c->V[i * c->dv + j] = c->U[i * c->dv + j] - predicted;
        }
}

/* "o_i = R( RN( dot(RN(q_i exp(G_i)), S) + dot over j <= i of RN( dot(q_i, k_j) D_ij ) with
 * V_j ) )" for row i */
static void read_row(const sb_knobs *knobs, chunk *c, const float *S, size_t i, float *out)
{
    const float *q = c->q + i * c->k_stride;
    float grown = sb_exp(c->G[i]);
    for (size_t a = 0; a < c->dk; a++)
        c->row[a] = q[a] * grown;
    for (size_t j = 0; j <= i; j++)
        c->A[j] = sb_dot(q, c->k + j * c->k_stride, c->dk) * decay(c, i, j);
    for (size_t j = 0; j < c->dv; j++) {
        float before = sb_dot_strided(c->row, 1, S + j, c->dv, c->dk);
        float within = sb_dot_strided(c->A, 1, c->V + j, c->dv, i + 1);
        out[j] = sb_act(knobs, before + within);
    }
}

/* "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of RN( k_i[a] exp(RN(G_last - G_i)) )
 * with V_i[b] )" */
static void carry(chunk *c, float *S)
{
    size_t last = c->m - 1;
    float grown = sb_exp(c->G[last]);
    for (size_t i = 0; i < c->m; i++)
        c->scaled[i] = decay(c, last, i);
    for (size_t a = 0; a < c->dk; a++) {
        for (size_t i = 0; i < c->m; i++)
            c->row[i] = c->k[i * c->k_stride + a] * c->scaled[i];
        for (size_t b = 0; b < c->dv; b++) {
            float kept = S[a * c->dv + b] * grown;
            S[a * c->dv + b] = kept + sb_dot_strided(c->row, 1, c->V + b, c->dv, c->m);
        }
    }
}

static sb_status run_head(const sb_knobs *knobs, const sb_delta_rule_args *a, size_t h)
{
    size_t hk = h / (a->v_heads / a->k_heads), width = a->dk > CHUNK ? a->dk : CHUNK;
    float *S = a->state + h * a->dk * a->dv;
    float *scratch = sb_alloc(CHUNK, (2 * a->dv + a->dk) * sizeof *scratch);
    float *row = sb_alloc(width, sizeof *row);
    if (!scratch || !row) {
        free(scratch);
        free(row);
        return SB_ERR_MEMORY;
    }
    chunk c = {.k_stride = a->k_heads * a->dk,
               .v_stride = a->v_stride,
               .gate_stride = a->v_heads,
               .dk = a->dk,
               .dv = a->dv,
               .U = scratch,
               .V = scratch + CHUNK * a->dv,
               .W = scratch + 2 * CHUNK * a->dv,
               .row = row};
    for (size_t t = 0; t < a->rows; t += CHUNK) {
        c.m = a->rows - t < CHUNK ? a->rows - t : CHUNK;
        c.q = a->q + (t * a->k_heads + hk) * a->dk;
        c.k = a->k + (t * a->k_heads + hk) * a->dk;
        c.v = a->v + t * a->v_stride + h * a->dv;
        c.g = a->g + t * a->v_heads + h;
        c.beta = a->beta + t * a->v_heads + h;
        prefix_sums(&c);
        solve(&c);
        correct(&c, S);
        for (size_t i = 0; i < c.m; i++)
            read_row(knobs, &c, S, i, a->out + ((t + i) * a->v_heads + h) * a->dv);
        carry(&c, S);
    }
    free(scratch);
    free(row);
    return SB_OK;
}

/* "the call is cut into chunks of 64 rows from its own start" */
sb_status sb_delta_rule_chunk_ref(const sb_knobs *knobs, const sb_delta_rule_chunk_args *a)
{
    int failed = 0;
    int64_t heads = (int64_t)a->v_heads;
#pragma omp parallel for schedule(static) reduction(| : failed) if (a->rows > 8)
    for (int64_t head = 0; head < heads; head++)
        failed |= run_head(knobs, a, (size_t)head) != SB_OK;
    return failed ? SB_ERR_MEMORY : SB_OK;
}
