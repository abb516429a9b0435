/* delta_rule_chunk.c - the gated delta rule in chunks of 64 rows: in exact arithmetic it equals the
 * recurrent form, but it rounds at other places. Engines prefill this way; profile `exact` never
 * does (R-9). */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/math/exact.h"
#include "ref/math/fn.h"
#include "ref/ops/form.h"
#include "ref/ops/op.h"

enum { CHUNK = 64 };

/* The matrices that the clauses name, for m rows of one head from row `first` on. */
typedef struct chunk {
    const sb_delta_rule_args *a;
    size_t h, first, m;
    float *S;                   /* (dk, dv) the state */
    float *read;                /* (dk, dv) R-22: S' */
    float G[CHUNK], P[CHUNK];   /* sums of g; one row of the weights of V in the outputs */
    float A[CHUNK][CHUNK];      /* below the diagonal */
    float X[CHUNK][CHUNK];      /* R-22: the inverse */
    float *U, *V;               /* (CHUNK, dv) */
    float *W;                   /* (CHUNK, dk) */
    float *values, *keys, *row; /* R-22: vb (CHUNK, dv) and kg (CHUNK, dk); (dk) */
} chunk;

static const float *query(const chunk *c, size_t i)
{
    const size_t hk = c->h / (c->a->v_heads / c->a->k_heads);
    return c->a->q + ((c->first + i) * c->a->k_heads + hk) * c->a->dk;
}

static const float *key(const chunk *c, size_t i)
{
    const size_t hk = c->h / (c->a->v_heads / c->a->k_heads);
    return c->a->k + ((c->first + i) * c->a->k_heads + hk) * c->a->dk;
}

static const float *value(const chunk *c, size_t i)
{
    return c->a->v + (c->first + i) * c->a->v_stride + c->h * c->a->dv;
}

static float beta(const chunk *c, size_t i)
{
    return c->a->beta[(c->first + i) * c->a->v_heads + c->h];
}

static float *output(const chunk *c, size_t i)
{
    return c->a->out + ((c->first + i) * c->a->v_heads + c->h) * c->a->dv;
}

/* R-10: "G_i = sum of g_0..g_i" */
static void sum_gates(chunk *c)
{
    sb_exact sum;
    sb_exact_clear(&sum);
    for (size_t i = 0; i < c->m; i++) {
        sb_exact_add(&sum, c->a->g[(c->first + i) * c->a->v_heads + c->h]);
        c->G[i] = sb_exact_round(&sum);
    }
}

/* R-10: "D_ij = exp( RN(G_i - G_j) )" */
static float decay(const chunk *c, size_t i, size_t j)
{
    return sb_exp(c->G[i] - c->G[j]);
}

/* R-10: "kb_i = RN(beta_i k_i)"; "A_ij = RN( dot(kb_i, k_j) D_ij ) for i > j" */
static void coefficients(chunk *c)
{
    const size_t dk = c->a->dk;
    for (size_t i = 0; i < c->m; i++) {
        for (size_t n = 0; n < dk; n++)
            c->row[n] = beta(c, i) * key(c, i)[n];
        for (size_t j = 0; j < i; j++)
            c->A[i][j] = sb_exact_dot(c->row, 1, key(c, j), 1, dk) * decay(c, i, j);
    }
}

/* Writes to row i of x the "dot of (1, -A_i0, .., -A_i,i-1)" with row i and the rows before it. */
static void substitute(const chunk *c, float *x, size_t i, size_t width)
{
    for (size_t n = 0; n < width; n++) {
        sb_exact sum;
        sb_exact_clear(&sum);
        sb_exact_add(&sum, x[i * width + n]);
        for (size_t j = 0; j < i; j++)
            sb_exact_add_product(&sum, -c->A[i][j], x[j * width + n]);
        x[i * width + n] = sb_exact_round(&sum);
    }
}

/* R-10: "vb_i = RN(beta_i v_i)"; "row by row U_i = dot of (1, -A_i0, .., -A_i,i-1) with (vb_i, U_0,
 * .., U_i-1) and W_i likewise from RN(kb_i exp(G_i))" */
static void solve(chunk *c)
{
    const size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        for (size_t n = 0; n < dv; n++)
            c->U[i * dv + n] = beta(c, i) * value(c, i)[n];
        for (size_t n = 0; n < dk; n++) {
            float kb = beta(c, i) * key(c, i)[n];
            c->W[i * dk + n] = kb * sb_exp(c->G[i]);
        }
        substitute(c, c->U, i, dv);
        substitute(c, c->W, i, dk);
    }
}

/* R-10: "V_i = RN( U_i - dot(W_i, S) )"; in R-22, S' takes the place of S. */
static void correct(chunk *c, const float *S)
{
    const size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++)
        for (size_t n = 0; n < dv; n++)
            c->V[i * dv + n] = c->U[i * dv + n] - sb_exact_dot(c->W + i * dk, 1, S + n, dv, dk);
}

/* R-10: "o_i = R( RN( dot(RN(q_i exp(G_i)), S) + dot over j <= i of RN( dot(q_i, k_j) D_ij ) with
 * V_j ) )"; K-16: "o' is the dot product of R-9 or the sum of R-10" */
static void read_out(const sb_knobs *knobs, chunk *c)
{
    const size_t dk = c->a->dk, dv = c->a->dv;
    float scale = sb_scales_output(knobs, 0) ? sb_root_power((double)dk, -1, 2) : 1.0f;
    for (size_t i = 0; i < c->m; i++) {
        for (size_t n = 0; n < dk; n++)
            c->row[n] = query(c, i)[n] * sb_exp(c->G[i]);
        for (size_t j = 0; j <= i; j++)
            c->P[j] = sb_exact_dot(query(c, i), 1, key(c, j), 1, dk) * decay(c, i, j);
        for (size_t n = 0; n < dv; n++) {
            float before = sb_exact_dot(c->row, 1, c->S + n, dv, dk);
            float sum = before + sb_exact_dot(c->P, 1, c->V + n, dv, i + 1);
            output(c, i)[n] = sb_act(knobs, sum * scale);
        }
    }
}

/* R-10: "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of RN( k_i[a] exp(RN(G_last - G_i)) )
 * with V_i[b] )" */
static void carry(chunk *c)
{
    const size_t dk = c->a->dk, dv = c->a->dv, last = c->m - 1;
    for (size_t n = 0; n < dk; n++) {
        for (size_t i = 0; i < c->m; i++)
            c->P[i] = key(c, i)[n] * decay(c, last, i);
        for (size_t b = 0; b < dv; b++) {
            float kept = c->S[n * dv + b] * sb_exp(c->G[last]);
            c->S[n * dv + b] = kept + sb_exact_dot(c->P, 1, c->V + b, dv, c->m);
        }
    }
}

/* --- R-22 ------------------------------------------------------------------------------------- */

/* R-22: "row by row X_i = dot of (1, -A_i0, .., -A_i,i-1) with (e_i, X_0, .., X_i-1), the inverse,
 * and all of it is rounded with R" */
static void invert(const sb_knobs *knobs, chunk *c)
{
    memset(c->X, 0, sizeof c->X);
    for (size_t i = 0; i < c->m; i++) {
        c->X[i][i] = 1.0f;
        substitute(c, c->X[0], i, CHUNK);
    }
    for (size_t i = 0; i < c->m; i++)
        for (size_t j = 0; j < CHUNK; j++)
            c->X[i][j] = sb_act(knobs, c->X[i][j]);
}

/* R-22: "vb_i = R(beta_i v_i) and kg_i = R( RN(kb_i exp(G_i)) )"; "U_i = R( dot over j <= i of X_ij
 * with vb_j ) and W_i = R( dot over j <= i of X_ij with kg_j )" */
static void multiply(const sb_knobs *knobs, chunk *c)
{
    const size_t dk = c->a->dk, dv = c->a->dv;
    for (size_t i = 0; i < c->m; i++) {
        for (size_t n = 0; n < dv; n++)
            c->values[i * dv + n] = sb_act(knobs, beta(c, i) * value(c, i)[n]);
        for (size_t n = 0; n < dk; n++) {
            float kb = beta(c, i) * key(c, i)[n];
            c->keys[i * dk + n] = sb_act(knobs, kb * sb_exp(c->G[i]));
        }
    }
    for (size_t i = 0; i < c->m; i++) {
        for (size_t n = 0; n < dv; n++)
            c->U[i * dv + n] = sb_act(knobs, sb_exact_dot(c->X[i], 1, c->values + n, dv, i + 1));
        for (size_t n = 0; n < dk; n++)
            c->W[i * dk + n] = sb_act(knobs, sb_exact_dot(c->X[i], 1, c->keys + n, dk, i + 1));
    }
}

/* R-22: "P_ij = R( RN( dot(q_i, k_j) D_ij ) ) for j <= i; o_i = R( RN( RN( RN( dot(q_i, S')
 * exp(G_i) ) s ) + RN( dot over j <= i of P_ij with R(V_j), times s ) ) ), where s is RN(dk^-1/2)
 * and the dot is rounded before it is multiplied". values receives R(V). */
static void read_out_fla(const sb_knobs *knobs, chunk *c)
{
    const size_t dk = c->a->dk, dv = c->a->dv;
    float s = sb_root_power((double)dk, -1, 2);
    for (size_t i = 0; i < c->m * dv; i++)
        c->values[i] = sb_act(knobs, c->V[i]);
    for (size_t i = 0; i < c->m; i++) {
        for (size_t j = 0; j <= i; j++) {
            float score = sb_exact_dot(query(c, i), 1, key(c, j), 1, dk) * decay(c, i, j);
            c->P[j] = sb_act(knobs, score);
        }
        for (size_t n = 0; n < dv; n++) {
            float before = sb_exact_dot(query(c, i), 1, c->read + n, dv, dk) * sb_exp(c->G[i]);
            float within = sb_exact_dot(c->P, 1, c->values + n, dv, i + 1) * s;
            float scaled = before * s;
            output(c, i)[n] = sb_act(knobs, scaled + within);
        }
    }
}

/* R-22: "S[a, b] = RN( RN(S[a, b] exp(G_last)) + dot over i of k_i[a] with R( RN( V_i[b]
 * exp(RN(G_last - G_i)) ) ) )" */
static void carry_fla(const sb_knobs *knobs, chunk *c)
{
    const size_t dk = c->a->dk, dv = c->a->dv, last = c->m - 1;
    for (size_t i = 0; i < c->m; i++)
        for (size_t b = 0; b < dv; b++)
            c->V[i * dv + b] = sb_act(knobs, c->V[i * dv + b] * decay(c, last, i));
    for (size_t n = 0; n < dk; n++)
        for (size_t b = 0; b < dv; b++) {
            sb_exact sum;
            sb_exact_clear(&sum);
            for (size_t i = 0; i < c->m; i++)
                sb_exact_add_product(&sum, key(c, i)[n], c->V[i * dv + b]);
            float kept = c->S[n * dv + b] * sb_exp(c->G[last]);
            c->S[n * dv + b] = kept + sb_exact_round(&sum);
        }
}

/* R-22: "S' = R(S); V_i = RN( U_i - dot(W_i, S') )" */
static void run_fla(const sb_knobs *knobs, chunk *c)
{
    for (size_t i = 0; i < c->a->dk * c->a->dv; i++)
        c->read[i] = sb_act(knobs, c->S[i]);
    invert(knobs, c);
    multiply(knobs, c);
    correct(c, c->read);
    read_out_fla(knobs, c);
    carry_fla(knobs, c);
}

static void run_head(const sb_knobs *knobs, chunk *c)
{
    const size_t size = c->a->dk * c->a->dv, rows = c->a->rows;
    for (c->first = 0; c->first < rows; c->first += CHUNK) {
        c->m = rows - c->first < CHUNK ? rows - c->first : CHUNK;
        sum_gates(c);
        coefficients(c);
        if (sb_chunks_are_fla(knobs)) {
            run_fla(knobs, c);
            continue;
        }
        solve(c);
        correct(c, c->S);
        read_out(knobs, c);
        carry(c);
    }
    sb_keep_state(knobs, c->S, size, c->S);
}

/* R-10: "the call is cut into chunks of 64 rows from its own start" */
sb_status sb_delta_rule_chunk_ref(const sb_knobs *knobs, const sb_delta_rule_chunk_args *a)
{
    const size_t dk = a->dk, dv = a->dv;
    chunk *c = sb_alloc(1, sizeof *c);
    float *room = sb_alloc(CHUNK * (3 * dv + 2 * dk) + dk + dk * dv, sizeof *room);
    const sb_status status = c && room ? SB_OK : SB_ERR_MEMORY;
    for (size_t h = 0; h < a->v_heads && !status; h++) {
        *c = (chunk){.a = a, .h = h, .S = a->state + h * dk * dv, .U = room};
        c->V = c->U + CHUNK * dv;
        c->values = c->V + CHUNK * dv;
        c->W = c->values + CHUNK * dv;
        c->keys = c->W + CHUNK * dk;
        c->row = c->keys + CHUNK * dk;
        c->read = c->row + dk;
        run_head(knobs, c);
    }
    free(c);
    free(room);
    return status;
}
