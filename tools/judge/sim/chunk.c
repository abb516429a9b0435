/* chunk.c - the gated delta rule in chunks, as on matrix units: computes whole matrices of
 * coefficients, then products of matrices. */
#include "tools/judge/sim/arith.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/ops/form.h"

typedef struct chunk {
    const sb_sim_arith *s;
    const sb_knobs *knobs;
    const sb_delta_rule_args *a;
    size_t h, hk, first, m; /* head, its key head, first row, rows */
    size_t rows;            /* rows of a whole chunk, at most the rows of the call */
    float G[SB_SIM_CHUNK], grow[SB_SIM_CHUNK]; /* sums of g, and their exp */
    float *A;         /* (rows, rows) minus the coefficients, below the diagonal */
    float *P;         /* (rows, rows) scores, up to the diagonal */
    float *K, *U, *W; /* beta k (rows, dk); (rows, dv); (rows, dk) */
    float *S;         /* (dk, dv) */
    float scale;      /* scale of the outputs (K-16), or 1 */
} chunk;

static const float *key(const chunk *c, size_t i)
{
    return c->a->k + ((c->first + i) * c->a->k_heads + c->hk) * c->a->dk;
}

static const float *query(const chunk *c, size_t i)
{
    return c->a->q + ((c->first + i) * c->a->k_heads + c->hk) * c->a->dk;
}

static size_t gate(const chunk *c, size_t i)
{
    return (c->first + i) * c->a->v_heads + c->h;
}

/* "G_i = sum of g_0..g_i; D_ij = exp( RN(G_i - G_j) ); kb_i = RN(beta_i k_i)" */
static void coefficients(chunk *c)
{
    size_t dk = c->a->dk;
    for (size_t i = 0; i < c->m; i++) {
        c->G[i] = (i ? c->G[i - 1] : 0.0f) + c->a->g[gate(c, i)];
        c->grow[i] = sb_sim_exp(c->s, c->G[i]);
        for (size_t x = 0; x < dk; x++)
            c->K[i * dk + x] = c->a->beta[gate(c, i)] * key(c, i)[x];
    }
    for (size_t i = 0; i < c->m; i++)
        for (size_t j = 0; j <= i; j++) {
            float decay = sb_sim_exp(c->s, c->G[i] - c->G[j]);
            float alike = sb_sim_product(c->s, c->K + i * dk, 1, key(c, j), 1, dk);
            float score = sb_sim_product(c->s, query(c, i), 1, key(c, j), 1, dk);
            c->A[i * c->rows + j] = j < i ? -(alike * decay) : 0.0f;
            c->P[i * c->rows + j] = score * decay;
        }
}

/* "row by row U_i = dot of (1, -A_i0, .., -A_i,i-1) with (vb_i, U_0, .., U_i-1)". x holds the
 * right-hand sides and receives the solutions. */
static void substitute(const chunk *c, float *x, size_t width)
{
    for (size_t i = 1; i < c->m; i++)
        for (size_t n = 0; n < width; n++)
            x[i * width + n] += sb_sim_product(c->s, c->A + i * c->rows, 1, x + n, width, i);
}

/* "V_i = RN( U_i - dot(W_i, S) )", which replaces U */
static void solve(chunk *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        const float *v = c->a->v + (c->first + i) * c->a->v_stride + c->h * dv;
        for (size_t x = 0; x < dk; x++)
            c->W[i * dk + x] = c->K[i * dk + x] * c->grow[i];
        for (size_t j = 0; j < dv; j++)
            c->U[i * dv + j] = c->a->beta[gate(c, i)] * v[j];
    }
    substitute(c, c->U, dv);
    substitute(c, c->W, dk);
    for (size_t i = 0; i < c->m; i++)
        for (size_t j = 0; j < dv; j++)
            c->U[i * dv + j] -= sb_sim_product(c->s, c->W + i * dk, 1, c->S + j, dv, dk);
}

/* "o_i = R( RN( dot(RN(q_i exp(G_i)), S) + dot over j <= i of RN( dot(q_i, k_j) D_ij ) with
 * V_j ) )" */
static void read_rows(chunk *c)
{
    size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        float *grown = c->W; /* no longer needed */
        for (size_t x = 0; x < dk; x++)
            grown[x] = query(c, i)[x] * c->grow[i];
        for (size_t j = 0; j < dv; j++) {
            float before = sb_sim_product(c->s, grown, 1, c->S + j, dv, dk);
            float within = sb_sim_product(c->s, c->P + i * c->rows, 1, c->U + j, dv, i + 1);
            c->a->out[gate(c, i) * dv + j] = sb_act(c->knobs, (before + within) * c->scale);
        }
    }
}

/* "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of RN( k_i[a] exp(RN(G_last - G_i)) )
 * with V_i[b] )" */
static void carry(chunk *c)
{
    size_t dk = c->a->dk, dv = c->a->dv, last = c->m - 1;
    for (size_t x = 0; x < dk; x++) {
        float decayed[SB_SIM_CHUNK];
        for (size_t i = 0; i < c->m; i++)
            decayed[i] = key(c, i)[x] * sb_sim_exp(c->s, c->G[last] - c->G[i]);
        for (size_t j = 0; j < dv; j++) {
            float *to = c->S + x * dv + j;
            float added = sb_sim_product(c->s, decayed, 1, c->U + j, dv, c->m);
            *to = sb_sim_multiply_add(c->s, *to, c->grow[last], added);
        }
    }
}

static sb_status run_head(const sb_sim_arith *s, const sb_knobs *knobs, const sb_delta_rule_args *a,
                          size_t h)
{
    size_t rows = a->rows < s->chunk ? a->rows : s->chunk;
    chunk *c = sb_alloc(1, sizeof *c);
    float *room = sb_alloc(rows, (2 * rows + 2 * a->dk + a->dv) * sizeof *room);
    if (!c || !room) {
        free(c);
        free(room);
        return SB_ERR_MEMORY;
    }
    *c = (chunk){
        .s = s, .knobs = knobs, .a = a, .h = h, .hk = h / (a->v_heads / a->k_heads), .rows = rows};
    c->A = room;
    c->P = c->A + rows * rows;
    c->K = c->P + rows * rows;
    c->W = c->K + rows * a->dk;
    c->U = c->W + rows * a->dk;
    c->S = a->state + h * a->dk * a->dv;
    c->scale = sb_scales_output(knobs, 0) ? sb_sim_root((double)a->dk, -0.5) : 1.0f;
    for (c->first = 0; c->first < a->rows; c->first += rows) {
        c->m = a->rows - c->first < rows ? a->rows - c->first : rows;
        coefficients(c);
        solve(c);
        read_rows(c);
        carry(c);
    }
    sb_keep_state(knobs, c->S, a->dk * a->dv, c->S);
    free(c);
    free(room);
    return SB_OK;
}

typedef struct job {
    const sb_sim_arith *s;
    const sb_knobs *knobs;
    const sb_delta_rule_chunk_args *a;
    atomic_int failed;
} job;

static void one_head(void *ctx, size_t h, size_t worker)
{
    job *j = ctx;
    (void)worker;
    if (run_head(j->s, j->knobs, j->a, h))
        atomic_store(&j->failed, 1);
}

/* "the call is cut into chunks of 64 rows from its own start"; a sim's row sets another
 * length */
sb_status sb_sim_delta_rule_chunk(const sb_sim_arith *s, const sb_knobs *knobs,
                                  const sb_delta_rule_chunk_args *a)
{
    job j = {.s = s, .knobs = knobs, .a = a};
    sb_parallel_for(a->v_heads, a->rows > 8, one_head, &j);
    return j.failed ? SB_ERR_MEMORY : SB_OK;
}
