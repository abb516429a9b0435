/* ops_chunk.c - tests of the gated delta rule in chunks: R-10. */
#include "tests/unit/ops_delta.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 64 };

/* The quantities of R-10 for one chunk of one head; of V and U only column b. */
typedef struct chunk {
    size_t m, dk, dv;
    const float *q, *k, *v, *g, *beta; /* rows of the head, copied together: (m, dk), ..., (m) */
    float G[CHUNK], A[CHUNK][CHUNK];
    float *W; /* (m, dk) */
    float *V; /* (m) of one column */
} chunk;

static float between(const chunk *c, size_t i, size_t j)
{
    return plain_exp(c->G[i] - c->G[j]);
}

/* Solves x_i = dot of (1, -A_i0, .., -A_i,i-1) with (right_i, x_0, .., x_i-1); the elements of x
 * are `step` apart. */
static void forward(const chunk *c, float *x, size_t step)
{
    float weights[CHUNK + 1], terms[CHUNK + 1];
    for (size_t i = 0; i < c->m; i++) {
        weights[0] = 1;
        terms[0] = x[i * step];
        for (size_t j = 0; j < i; j++) {
            weights[j + 1] = -c->A[i][j];
            terms[j + 1] = x[j * step];
        }
        x[i * step] = plain_dot(weights, 1, terms, 1, i + 1);
    }
}

static void prepare(chunk *c)
{
    size_t dk = c->dk;
    for (size_t i = 0; i < c->m; i++)
        c->G[i] = plain_sum(c->g, i + 1);
    for (size_t i = 0; i < c->m; i++) {
        float *kb = test_copy(c->k + i * dk, dk);
        for (size_t a = 0; a < dk; a++) {
            kb[a] *= c->beta[i];
            c->W[i * dk + a] = kb[a] * plain_exp(c->G[i]);
        }
        for (size_t j = 0; j < i; j++)
            c->A[i][j] = plain_dot(kb, 1, c->k + j * dk, 1, dk) * between(c, i, j);
    }
    for (size_t a = 0; a < dk; a++)
        forward(c, c->W + a, dk);
}

/* Column b: outputs and the new column of S. */
static void column(const sb_knobs *knobs, chunk *c, float *S, size_t b, float *out, size_t out_step)
{
    size_t dk = c->dk, dv = c->dv, last = c->m - 1;
    float weights[CHUNK], scaled[256];
    assert_true(dk <= 256);
    for (size_t i = 0; i < c->m; i++)
        c->V[i] = c->beta[i] * c->v[i * dv + b];
    forward(c, c->V, 1);
    for (size_t i = 0; i < c->m; i++)
        c->V[i] -= plain_dot(c->W + i * dk, 1, S + b, dv, dk);
    for (size_t i = 0; i < c->m; i++) {
        for (size_t j = 0; j <= i; j++)
            weights[j] = plain_dot(c->q + i * dk, 1, c->k + j * dk, 1, dk) * between(c, i, j);
        for (size_t a = 0; a < dk; a++)
            scaled[a] = c->q[i * dk + a] * plain_exp(c->G[i]);
        float before = plain_dot(scaled, 1, S + b, dv, dk);
        float sum = before + plain_dot(weights, 1, c->V, 1, i + 1);
        out[i * out_step + b] = sb_act(knobs, delta_scaled(knobs, sum, dk));
    }
    for (size_t a = 0; a < dk; a++) {
        for (size_t i = 0; i < c->m; i++)
            weights[i] = c->k[i * dk + a] * between(c, last, i);
        float kept = S[a * dv + b] * plain_exp(c->G[last]);
        S[a * dv + b] = kept + plain_dot(weights, 1, c->V, 1, c->m);
    }
}

/* Rows first..first+m-1 of a head, copied together. */
static float *gather(const float *x, size_t stride, size_t first, size_t m, size_t width)
{
    float *rows = test_copy(NULL, m * width);
    for (size_t i = 0; i < m * width; i++)
        rows[i] = x[(first + i / width) * stride + i % width];
    return rows;
}

static void plain_chunks(const sb_knobs *knobs, const sb_delta_rule_args *a, float *state,
                         float *out)
{
    size_t dk = a->dk, dv = a->dv, nK = a->k_heads, nV = a->v_heads;
    for (size_t h = 0; h < nV; h++)
        for (size_t t = 0; t < a->rows; t += CHUNK) {
            size_t m = a->rows - t < CHUNK ? a->rows - t : CHUNK, hk = h / (nV / nK);
            chunk c = {.m = m,
                       .dk = dk,
                       .dv = dv,
                       .q = gather(a->q + hk * dk, nK * dk, t, m, dk),
                       .k = gather(a->k + hk * dk, nK * dk, t, m, dk),
                       .v = gather(a->v + h * dv, a->v_stride, t, m, dv),
                       .g = gather(a->g + h, nV, t, m, 1),
                       .beta = gather(a->beta + h, nV, t, m, 1),
                       .W = test_copy(NULL, m * dk),
                       .V = test_copy(NULL, m)};
            prepare(&c);
            for (size_t b = 0; b < dv; b++)
                column(knobs, &c, state + h * dk * dv, b, out + (t * nV + h) * dv, nV * dv);
        }
}

static void check_chunks(const char *settings, delta_operands o)
{
    sb_knobs k = test_knobs(settings);
    float *S = test_copy(o.initial, o.state_size), *want_S = test_copy(o.initial, o.state_size);
    float *out = test_output(o.out_size), *want = test_copy(NULL, o.out_size);
    plain_chunks(&k, &o.a, want_S, want);
    delta_kept(&k, want_S, o.state_size);
    o.a.state = S;
    o.a.out = out;
    assert_int_equal(sb_backend_ref()->ops.delta_rule_chunk(&k, &o.a), SB_OK);
    test_written("delta_rule_chunk", out, o.out_size);
    test_same("delta_rule_chunk", out, want, o.out_size);
    test_same("state", S, want_S, o.state_size);
}

OP_TEST(delta_rule_chunk)
{
    check_chunks("", delta_draw(1, 1, 1, 1, 1, 0.1f));
    check_chunks("act=bf16", delta_draw(5, 2, 3, 5, 3, 0.3f));
    check_chunks("act=f16", delta_draw(63, 1, 2, 4, 3, 0.1f));
    check_chunks("act=f16 q_scale=output delta_state=act", delta_draw(66, 1, 2, 5, 3, 0.1f));
    check_chunks("", delta_draw(64, 1, 1, 7, 2, 0.02f));
    check_chunks("", delta_draw(67, 2, 1, 3, 5, 2));
    check_chunks("", delta_draw(130, 1, 1, 70, 2, 0.05f)); /* dk is larger than a chunk */
}

void exact_delta(const delta_operands *o, long double *S, long double *out, long double *scale)
{
    const sb_delta_rule_args *a = &o->a;
    size_t dk = a->dk, dv = a->dv, nV = a->v_heads;
    for (size_t t = 0; t < a->rows; t++)
        for (size_t h = 0; h < nV; h++) {
            const float *k = a->k + (t * a->k_heads + h / (nV / a->k_heads)) * dk;
            const float *q = a->q + (t * a->k_heads + h / (nV / a->k_heads)) * dk;
            long double *M = S + h * dk * dv, norm = 0, of_v = 0;
            long double decay = expl((long double)a->g[t * nV + h]);
            for (size_t j = 0; j < dv; j++) {
                long double v = (long double)a->v[t * a->v_stride + h * dv + j], seen = 0, o_j = 0;
                for (size_t i = 0; i < dk; i++)
                    seen += (M[i * dv + j] *= decay) * (long double)k[i];
                for (size_t i = 0; i < dk; i++) {
                    long double *s = M + i * dv + j;
                    *s += (long double)k[i] * (v - seen) * (long double)a->beta[t * nV + h];
                    o_j += *s * (long double)q[i];
                    norm += *s * *s;
                }
                out[(t * nV + h) * dv + j] = o_j;
                of_v += v * v;
            }
            *scale = fmaxl(*scale, sqrtl(norm) + sqrtl(of_v));
        }
}

/* The largest sum of |g| in any chunk of the call: an upper bound of |G|. */
static long double largest_sum(const sb_delta_rule_args *a)
{
    long double most = 0;
    for (size_t h = 0; h < a->v_heads; h++) {
        long double sum = 0;
        for (size_t t = 0; t < a->rows; t++) {
            sum = (t % CHUNK ? sum : 0) + fabsl((long double)a->g[t * a->v_heads + h]);
            most = fmaxl(most, sum);
        }
    }
    return most;
}

/* Both forms are the same mathematics. Keys have norm 1 at most and beta is below 1, so that a row
 * never amplifies earlier errors. Each of the T rows adds at most a few roundings of a number that
 * is at most |S| + |v|. An exponent G_i - G_j carries its own rounding and those of two sums of
 * size |G|. */
OP_TEST(chunk_is_recurrent)
{
    static const size_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200};
    static const float decays[] = {0, 0.02f, 0.5f, 5, 60};
    sb_knobs exact = test_knobs("");
    const sb_op_table *ops = &sb_backend_ref()->ops;
    for (size_t n = 0; n < COUNT(lengths); n++)
        for (size_t d = 0; d < COUNT(decays); d++) {
            delta_operands o = delta_draw(lengths[n], 1, 2, 6, 3, decays[d]);
            long double S[2 * 6 * 3], out[200 * 2 * 3], scale = 0;
            for (size_t i = 0; i < o.state_size; i++)
                S[i] = (long double)o.initial[i];
            exact_delta(&o, S, out, &scale);
            long double steps = 2 * largest_sum(&o.a) + 4 * (long double)lengths[n] + 16;
            for (int chunks = 0; chunks < 2; chunks++) {
                o.a.state = test_copy(o.initial, o.state_size);
                o.a.out = test_output(o.out_size);
                assert_int_equal((chunks ? ops->delta_rule_chunk : ops->delta_rule)(&exact, &o.a),
                                 SB_OK);
                test_near("o", o.a.out, out, o.out_size, steps * 0x1p-24L * scale);
                test_near("S", o.a.state, S, o.state_size, steps * 0x1p-24L * scale);
            }
            test_release(state);
        }
}

/* With beta = 0 nothing is written: S is decayed once, by the exponential of the rounded sum. */
OP_TEST(chunk_without_beta_decays)
{
    static const size_t lengths[] = {1, 2, 63, 64};
    sb_knobs exact = test_knobs("");
    for (size_t n = 0; n < COUNT(lengths); n++) {
        delta_operands o = delta_draw(lengths[n], 1, 1, 5, 4, 0.05f);
        float *S = test_copy(o.initial, o.state_size), *want = test_copy(o.initial, o.state_size);
        float decay = plain_exp(plain_sum(o.a.g, lengths[n]));
        for (size_t i = 0; i < o.state_size; i++)
            want[i] *= decay;
        o.a.beta = test_copy(NULL, lengths[n]);
        o.a.state = S;
        o.a.out = test_output(o.out_size);
        assert_int_equal(sb_backend_ref()->ops.delta_rule_chunk(&exact, &o.a), SB_OK);
        test_same("decayed state", S, want, o.state_size);
    }
}

/* "cut into chunks of 64 rows from its own start": two calls of 64 + 40 rows equal one call, those
 * of 50 + 54 do not. */
OP_TEST(chunk_boundaries)
{
    static const size_t cuts[] = {64, 50};
    sb_knobs exact = test_knobs("");
    const sb_op_table *ops = &sb_backend_ref()->ops;
    delta_operands o = delta_draw(104, 1, 1, 4, 4, 0.05f);
    float *whole = test_copy(o.initial, o.state_size);
    o.a.state = whole;
    o.a.out = test_output(o.out_size);
    assert_int_equal(ops->delta_rule_chunk(&exact, &o.a), SB_OK);
    for (size_t i = 0; i < COUNT(cuts); i++) {
        sb_delta_rule_args first = o.a, second = o.a;
        float *parts = test_copy(o.initial, o.state_size);
        first.state = second.state = parts;
        first.out = test_output(o.out_size);
        first.rows = cuts[i];
        second.rows = 104 - cuts[i];
        second.q += cuts[i] * 4;
        second.k += cuts[i] * 4;
        second.v += cuts[i] * o.a.v_stride;
        second.g += cuts[i];
        second.beta += cuts[i];
        second.out = first.out + cuts[i] * 4;
        assert_int_equal(ops->delta_rule_chunk(&exact, &first), SB_OK);
        assert_int_equal(ops->delta_rule_chunk(&exact, &second), SB_OK);
        assert_int_equal(memcmp(parts, whole, o.state_size * sizeof *parts) == 0, cuts[i] == 64);
        assert_int_equal(memcmp(first.out, o.a.out, o.out_size * sizeof *parts) == 0,
                         cuts[i] == 64);
    }
}
