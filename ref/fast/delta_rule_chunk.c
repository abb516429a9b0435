/* delta_rule_chunk.c - the gated delta rule in chunks of 64 rows: in exact arithmetic it equals the
 * recurrent form, but it rounds at other places. Engines prefill this way; profile `exact` never
 * does. */
#include "ref/base/mem.h"
#include "ref/base/threads.h"
#include "ref/fast/dot/dot.h"
#include "ref/math/fn.h"
#include "ref/fast/chunk.h"
#include "ref/fast/fast.h"
#include "ref/ops/form.h"

#include <stdatomic.h>
#include <stdlib.h>

/* "D_ij = exp( RN(G_i - G_j) )" */
float sb_chunk_decay(const sb_chunk *c, size_t i, size_t j)
{
    return sb_exp(c->G[i] - c->G[j]);
}

/* "G_i = sum of g_0..g_i" */
static void prefix_sums(sb_chunk *c)
{
    for (size_t i = 0; i < c->m; i++)
        c->scaled[i] = c->g[i * c->gate_stride];
    for (size_t i = 0; i < c->m; i++)
        c->G[i] = sb_sum(c->scaled, i + 1);
}

void sb_chunk_substitute(const sb_chunk *c, float *x, size_t i, size_t width)
{
    sb_dot_columns(c->A, 1, x, width, i + 1, width, x + i * width);
}

/* "kb_i = RN(beta_i k_i)"; "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j" */
void sb_chunk_coefficients(sb_chunk *c, size_t i)
{
    const float *k = c->k + i * c->k_stride;
    float beta = c->beta[i * c->gate_stride];
    for (size_t a = 0; a < c->dk; a++)
        c->row[a] = beta * k[a];
    for (size_t j = 0; j < i; j++)
        c->A[j] = -(sb_dot(c->row, c->k + j * c->k_stride, c->dk) * sb_chunk_decay(c, i, j));
    c->A[i] = 1.0f;
}

/* "row by row U_i = dot of (1, -A_i0, .., -A_i,i-1) with (vb_i, U_0, .., U_i-1) and W_i
 * likewise from RN(kb_i exp(G_i))" */
static void solve(sb_chunk *c)
{
    for (size_t i = 0; i < c->m; i++) {
        const float *v = c->v + i * c->v_stride;
        float beta = c->beta[i * c->gate_stride], grown = sb_exp(c->G[i]);
        sb_chunk_coefficients(c, i);
        for (size_t a = 0; a < c->dk; a++)
            c->W[i * c->dk + a] = c->row[a] * grown;
        for (size_t j = 0; j < c->dv; j++)
            c->U[i * c->dv + j] = beta * v[j];
        sb_chunk_substitute(c, c->U, i, c->dv);
        sb_chunk_substitute(c, c->W, i, c->dk);
    }
}

/* "V_i = RN( U_i - dot(W_i, S) )" */
void sb_chunk_correct(sb_chunk *c, const float *S)
{
    for (size_t i = 0; i < c->m; i++) {
        float *V = c->V + i * c->dv;
        sb_dot_columns(c->W + i * c->dk, 1, S, c->dv, c->dk, c->dv, V);
        for (size_t j = 0; j < c->dv; j++)
            V[j] = c->U[i * c->dv + j] - V[j];
    }
}

/* "o_i = R( RN( dot(RN(q_i exp(G_i)), S) + dot over j <= i of RN( dot(q_i, k_j) D_ij ) with
 * V_j ) )" for row i */
static void read_row(const sb_knobs *knobs, sb_chunk *c, const float *S, size_t i, float *out)
{
    const float *q = c->q + i * c->k_stride;
    float grown = sb_exp(c->G[i]);
    for (size_t a = 0; a < c->dk; a++)
        c->row[a] = q[a] * grown;
    for (size_t j = 0; j <= i; j++)
        c->A[j] = sb_dot(q, c->k + j * c->k_stride, c->dk) * sb_chunk_decay(c, i, j);
    sb_dot_columns(c->row, 1, S, c->dv, c->dk, c->dv, out);
    sb_dot_columns(c->A, 1, c->V, c->dv, i + 1, c->dv, c->within);
    for (size_t j = 0; j < c->dv; j++) {
        float sum = out[j] + c->within[j];
        out[j] = sb_act(knobs, sum * c->scale);
    }
}

/* "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of RN( k_i[a] exp(RN(G_last - G_i)) )
 * with V_i[b] )" */
static void carry(sb_chunk *c, float *S)
{
    size_t last = c->m - 1;
    float grown = sb_exp(c->G[last]);
    for (size_t i = 0; i < c->m; i++)
        c->scaled[i] = sb_chunk_decay(c, last, i);
    for (size_t a = 0; a < c->dk; a++) {
        for (size_t i = 0; i < c->m; i++)
            c->row[i] = c->k[i * c->k_stride + a] * c->scaled[i];
        sb_dot_columns(c->row, 1, c->V, c->dv, c->m, c->dv, c->within);
        for (size_t b = 0; b < c->dv; b++) {
            float kept = S[a * c->dv + b] * grown;
            S[a * c->dv + b] = kept + c->within[b];
        }
    }
}

/* Runs the chunks of one head; c has the operands that they share. */
static void run_chunks(const sb_knobs *knobs, sb_chunk *c, const sb_delta_rule_args *a, size_t h)
{
    size_t hk = h / (a->v_heads / a->k_heads), out_stride = a->v_heads * a->dv;
    float *S = a->state + h * a->dk * a->dv;
    for (size_t t = 0; t < a->rows; t += SB_CHUNK) {
        float *out = a->out + t * out_stride + h * a->dv;
        c->m = a->rows - t < SB_CHUNK ? a->rows - t : SB_CHUNK;
        c->q = a->q + (t * a->k_heads + hk) * a->dk;
        c->k = a->k + (t * a->k_heads + hk) * a->dk;
        c->v = a->v + t * a->v_stride + h * a->dv;
        c->g = a->g + t * a->v_heads + h;
        c->beta = a->beta + t * a->v_heads + h;
        prefix_sums(c);
        if (sb_chunks_are_fla(knobs)) {
            sb_chunk_fla(knobs, c, S, out, out_stride);
            continue;
        }
        solve(c);
        sb_chunk_correct(c, S);
        for (size_t i = 0; i < c->m; i++)
            read_row(knobs, c, S, i, out + i * out_stride);
        carry(c, S);
    }
    sb_keep_state(knobs, S, a->dk * a->dv, S);
}

static sb_status run_head(const sb_knobs *knobs, const sb_delta_rule_args *a, size_t h)
{
    size_t width = a->dk > SB_CHUNK ? a->dk : SB_CHUNK, dk = a->dk, dv = a->dv;
    size_t for_fla = sb_chunks_are_fla(knobs) ? SB_CHUNK * SB_CHUNK + dk * dv : 0;
    float *scratch = sb_alloc(SB_CHUNK * (2 * dv + dk) + dv + width + for_fla, sizeof *scratch);
    if (!scratch)
        return SB_ERR_MEMORY;
    sb_chunk c = {.k_stride = a->k_heads * dk,
                  .v_stride = a->v_stride,
                  .gate_stride = a->v_heads,
                  .dk = dk,
                  .dv = dv,
                  .scale = sb_scales_output(knobs, 0) ? sb_root_power((double)dk, -1, 2) : 1.0f,
                  .U = scratch};
    c.V = c.U + SB_CHUNK * dv;
    c.W = c.V + SB_CHUNK * dv;
    c.within = c.W + SB_CHUNK * dk;
    c.row = c.within + dv;
    c.X = for_fla ? c.row + width : NULL;
    c.S = for_fla ? c.X + SB_CHUNK * SB_CHUNK : NULL;
    run_chunks(knobs, &c, a, h);
    free(scratch);
    return SB_OK;
}

typedef struct job {
    const sb_knobs *knobs;
    const sb_delta_rule_chunk_args *a;
    atomic_int failed;
} job;

static void one_head(void *ctx, size_t h, size_t worker)
{
    job *j = ctx;
    (void)worker;
    if (run_head(j->knobs, j->a, h))
        atomic_store(&j->failed, 1);
}

/* "the call is cut into chunks of 64 rows from its own start" */
sb_status sb_delta_rule_chunk_fast(const sb_knobs *knobs, const sb_delta_rule_chunk_args *a)
{
    job j = {.knobs = knobs, .a = a};
    const double values = (double)(a->rows * a->v_heads * a->dk) * (double)a->dv;
    sb_parallel_for(a->v_heads, sb_worth_threads(values * SB_COST_state), one_head, &j);
    return j.failed ? SB_ERR_MEMORY : SB_OK;
}
