/* ops_fla.c - tests of the gated delta rule with the roundings of R-22. */
#include "tests/unit/ops_delta.h"

#include <math.h>

enum { ROWS = 64, DK = 70, DV = 5 };

/* One chunk of one head: its inputs, and the quantities of R-22 with the roundings of R-22. */
typedef struct fla {
    const sb_knobs *knobs;
    size_t m, dk, dv;
    const float *q, *k, *v, *g, *beta; /* row 0 */
    size_t k_step, v_step, g_step;
    float G[ROWS], A[ROWS][ROWS], X[ROWS][ROWS], U[ROWS][DV], W[ROWS][DK], V[ROWS][DV];
} fla;

static float between(const fla *f, size_t i, size_t j)
{
    return plain_exp(f->G[i] - f->G[j]);
}

/* G, A and the rounded inverse, one column n at a time: A x = e_n. */
static void invert(fla *f)
{
    float scaled[DK], weights[ROWS + 1], terms[ROWS + 1];
    for (size_t i = 0; i < f->m; i++) {
        f->G[i] = plain_dot(f->g, f->g_step, &(const float){1}, 0, i + 1);
        for (size_t a = 0; a < f->dk; a++)
            scaled[a] = f->k[i * f->k_step + a] * f->beta[i * f->g_step];
        for (size_t j = 0; j < i; j++)
            f->A[i][j] = plain_dot(scaled, 1, f->k + j * f->k_step, 1, f->dk) * between(f, i, j);
    }
    for (size_t n = 0; n < f->m; n++)
        for (size_t i = 0; i < f->m; i++) {
            weights[0] = 1;
            terms[0] = i == n;
            for (size_t j = 0; j < i; j++) {
                weights[j + 1] = -f->A[i][j];
                terms[j + 1] = f->X[j][n];
            }
            f->X[i][n] = plain_dot(weights, 1, terms, 1, i + 1);
        }
    for (size_t i = 0; i < f->m; i++)
        for (size_t n = 0; n < f->m; n++)
            f->X[i][n] = sb_act(f->knobs, f->X[i][n]);
}

/* U and W. */
static void multiply(fla *f)
{
    float right[ROWS];
    for (size_t b = 0; b < f->dv; b++) {
        for (size_t j = 0; j < f->m; j++)
            right[j] = sb_act(f->knobs, f->v[j * f->v_step + b] * f->beta[j * f->g_step]);
        for (size_t i = 0; i < f->m; i++)
            f->U[i][b] = sb_act(f->knobs, plain_dot(f->X[i], 1, right, 1, i + 1));
    }
    for (size_t a = 0; a < f->dk; a++) {
        for (size_t j = 0; j < f->m; j++) {
            float scaled = f->k[j * f->k_step + a] * f->beta[j * f->g_step];
            right[j] = sb_act(f->knobs, scaled * plain_exp(f->G[j]));
        }
        for (size_t i = 0; i < f->m; i++)
            f->W[i][a] = sb_act(f->knobs, plain_dot(f->X[i], 1, right, 1, i + 1));
    }
}

/* Column b of the outputs and of the new state. */
static void column(fla *f, float *S, size_t b, float *out, size_t out_step)
{
    const sb_knobs *k = f->knobs;
    size_t dk = f->dk, last = f->m - 1;
    float start[DK], seen[ROWS], weights[ROWS], scale = plain_power((double)dk, -0.5L);
    for (size_t a = 0; a < dk; a++)
        start[a] = sb_act(k, S[a * f->dv + b]);
    for (size_t i = 0; i < f->m; i++) {
        f->V[i][b] = f->U[i][b] - plain_dot(f->W[i], 1, start, 1, dk);
        seen[i] = sb_act(k, f->V[i][b]);
    }
    for (size_t i = 0; i < f->m; i++) {
        const float *q = f->q + i * f->k_step;
        for (size_t j = 0; j <= i; j++) {
            float score = plain_dot(q, 1, f->k + j * f->k_step, 1, dk) * between(f, i, j);
            weights[j] = sb_act(k, score);
        }
        float before = plain_dot(q, 1, start, 1, dk) * plain_exp(f->G[i]) * scale;
        float within = plain_dot(weights, 1, seen, 1, i + 1) * scale;
        out[i * out_step + b] = sb_act(k, before + within);
    }
    for (size_t i = 0; i < f->m; i++)
        seen[i] = sb_act(k, f->V[i][b] * between(f, last, i));
    for (size_t a = 0; a < dk; a++) {
        float kept = S[a * f->dv + b] * plain_exp(f->G[last]);
        S[a * f->dv + b] = kept + plain_dot(f->k + a, f->k_step, seen, 1, f->m);
    }
}

static void plain_fla(const sb_knobs *knobs, const sb_delta_rule_args *a, float *state, float *out)
{
    static fla f;
    size_t dk = a->dk, dv = a->dv, nK = a->k_heads, nV = a->v_heads;
    assert_true(dk <= DK && dv <= DV);
    for (size_t h = 0; h < nV; h++)
        for (size_t t = 0; t < a->rows; t += ROWS) {
            size_t key = (t * nK + h / (nV / nK)) * dk;
            f = (fla){.knobs = knobs,
                      .m = a->rows - t < ROWS ? a->rows - t : ROWS,
                      .dk = dk,
                      .dv = dv,
                      .q = a->q + key,
                      .k = a->k + key,
                      .v = a->v + t * a->v_stride + h * dv,
                      .g = a->g + t * nV + h,
                      .beta = a->beta + t * nV + h,
                      .k_step = nK * dk,
                      .v_step = a->v_stride,
                      .g_step = nV};
            invert(&f);
            multiply(&f);
            for (size_t b = 0; b < dv; b++)
                column(&f, state + h * dk * dv, b, out + (t * nV + h) * dv, nV * dv);
        }
}

static void check_fla(const char *settings, delta_operands o)
{
    sb_knobs k = test_knobs(settings);
    float *S = test_copy(o.initial, o.state_size), *want_S = test_copy(o.initial, o.state_size);
    float *out = test_output(o.out_size), *want = test_copy(NULL, o.out_size);
    plain_fla(&k, &o.a, want_S, want);
    delta_kept(&k, want_S, o.state_size);
    o.a.state = S;
    o.a.out = out;
    assert_int_equal(sb_backend_ref()->ops.delta_rule_chunk(&k, &o.a), SB_OK);
    test_written("chunks of R-22", out, o.out_size);
    test_same("chunks of R-22", out, want, o.out_size);
    test_same("state", S, want_S, o.state_size);
}

OP_TEST(chunk_fla)
{
    check_fla("delta_rule=chunk_fla", delta_draw(1, 1, 1, 1, 1, 0.1f));
    check_fla("delta_rule=chunk_fla act=bf16", delta_draw(1, 1, 1, 4, 2, 0.1f));
    check_fla("delta_rule=chunk_fla act=bf16", delta_draw(5, 2, 3, 5, 3, 0.3f));
    check_fla("delta_rule=prompt_fla act=f16", delta_draw(63, 1, 2, 4, 3, 0.1f));
    check_fla("delta_rule=chunk_fla", delta_draw(64, 1, 1, 7, 2, 0.02f));
    check_fla("delta_rule=chunk_fla act=bf16", delta_draw(67, 2, 1, 3, 5, 2));
    check_fla("delta_rule=chunk_fla act=bf16 q_scale=output delta_state=act",
              delta_draw(66, 1, 1, 9, 2, 0.1f));
    check_fla("delta_rule=chunk_fla act=bf16", delta_draw(130, 1, 1, 70, 2, 0.05f));
}

/* Compared with the rule in long double without any rounding, with dk^-1/2 applied to the output.
 * In binary32, R-22 is as close as R-10 (chunk_is_recurrent). With bfloat16 matrices each rounding
 * is 2^16 times as large, and so is the tolerance. The state is not scaled. */
OP_TEST(chunk_fla_is_the_rule)
{
    static const size_t lengths[] = {1, 2, 63, 64, 65, 130};
    static const char *const settings[] = {"delta_rule=chunk_fla", "delta_rule=chunk_fla act=bf16"};
    for (size_t n = 0; n < COUNT(lengths); n++)
        for (size_t s = 0; s < COUNT(settings); s++) {
            sb_knobs k = test_knobs(settings[s]);
            delta_operands o = delta_draw(lengths[n], 1, 2, 6, 3, 0.1f);
            long double S[2 * 6 * 3], out[130 * 2 * 3], size = 0, unit = s ? 0x1p-8L : 0x1p-24L;
            for (size_t i = 0; i < o.state_size; i++)
                S[i] = (long double)o.initial[i];
            exact_delta(&o, S, out, &size);
            for (size_t i = 0; i < o.out_size; i++)
                out[i] /= sqrtl(6);
            o.a.state = test_copy(o.initial, o.state_size);
            o.a.out = test_output(o.out_size);
            assert_int_equal(sb_backend_ref()->ops.delta_rule_chunk(&k, &o.a), SB_OK);
            long double steps = 16 + (s ? 0 : 4 * (long double)lengths[n]);
            test_near("o", o.a.out, out, o.out_size, steps * unit * size);
            test_near("S", o.a.state, S, o.state_size, steps * unit * size);
            test_release(state);
        }
}

/* One row, dk = dv = 1, beta and decay powers of two, by hand in bfloat16: the copy of the state
 * for reading and prediction is rounded, the state that is carried on is not. */
OP_TEST(chunk_fla_by_hand)
{
    static const float zero[1] = {0}, one[1] = {1}, half[1] = {0.5f};
    sb_knobs k = test_knobs("delta_rule=chunk_fla act=bf16");
    float S = 1 + 0x1p-9f, *out = test_output(1); /* R(S) is 1 */
    RUN(delta_rule_chunk, &k, .g = zero, .q = one, .k = one, .v = zero, .beta = half, .v_stride = 1,
        .rows = 1, .k_heads = 1, .v_heads = 1, .dk = 1, .dv = 1, .state = &S, .out = out);
    assert_true(*out == 0.5f && S == 0.5f + 0x1p-9f);
}
