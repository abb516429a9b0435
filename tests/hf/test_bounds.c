/* test_bounds.c - the bounds hold for plain binary32 programs in other orders of summation, on
 * difficult data. They are narrow enough to be useful. */
#include "tests/lib/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ref/fast/fast.h"
#include "tests/hf/drawn.h"
#include "tests/lib/plain_dot.h"
#include "tests/lib/delta_regimes.h"
#include "tools/judge/bound/bound.h"

enum { ROWS = 130, DK = 32, DV = 8, CHUNK = 64 };

static sb_ball *balls(size_t count)
{
    return hf_alloc(&hf_drawn, count, sizeof(sb_ball));
}

static float *zeros(size_t count)
{
    return hf_floats(&hf_drawn, count);
}

/* The largest distance from the centre, in radii. Fails if an element is outside its ball. */
static double worst(const char *what, const float *got, const sb_ball *in, size_t count)
{
    double most = 0.0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)got[i] - in[i].mid), radius = SB_BOUND_SLACK * in[i].rad;
        if (!(error <= radius))
            fail_msg("%s: element %zu is %.9g, allowed %.9g +- %.3g", what, i, (double)got[i],
                     in[i].mid, radius);
        if (error > 0.0)
            most = fmax(most, error / radius);
    }
    printf("  %-44s worst %.4f of the bound\n", what, most);
    return most;
}

/* --- the delta rule --------------------------------------------------------------------------- */

static sb_delta_rule_args inputs(const struct regime *r)
{
    float *q = hf_normal("q", ROWS * DK, 0.0f, 0.1f),
          *k = hf_normal("k", ROWS * DK, r->common, 1.0f);
    float *g = hf_normal("g", ROWS, r->decay, r->decay_spread), *beta = zeros(ROWS);
    for (size_t t = 0; t < ROWS; t++) {
        float norm = sqrtf(dot(k + t * DK, 1, k + t * DK, 1, DK, 0));
        for (size_t i = 0; i < DK; i++)
            k[t * DK + i] /= norm;
        g[t] = g[t] < 0.0f ? g[t] : 0.0f;
        beta[t] = r->beta;
    }
    return (sb_delta_rule_args){.q = q,
                                .k = k,
                                .v = hf_normal("v", ROWS * DV, 0.0f, 1.0f),
                                .v_stride = DV,
                                .g = g,
                                .beta = beta,
                                .rows = ROWS,
                                .k_heads = 1,
                                .v_heads = 1,
                                .dk = DK,
                                .dv = DV,
                                .state = hf_normal("S", DK * DV, 0.0f, 0.3f),
                                .out = zeros(ROWS * DV)};
}

/* R-9 with binary32 sums. */
static void recurrent(const sb_delta_rule_args *a, int order)
{
    for (size_t t = 0; t < ROWS; t++)
        for (size_t j = 0; j < DV; j++) {
            float *S = a->state + j;
            for (size_t i = 0; i < DK; i++)
                S[i * DV] *= expf(a->g[t]);
            float m = dot(S, DV, a->k + t * DK, 1, DK, order);
            float d = (a->v[t * DV + j] - m) * a->beta[t];
            for (size_t i = 0; i < DK; i++)
                S[i * DV] += a->k[t * DK + i] * d;
            a->out[t * DV + j] = dot(S, DV, a->q + t * DK, 1, DK, order);
        }
}

/* One chunk of R-10 with binary32 sums. */
static void one_chunk(const sb_delta_rule_args *a, size_t first, size_t m, int order)
{
    static float G[CHUNK], A[CHUNK][CHUNK], P[CHUNK][CHUNK], U[CHUNK][DV], W[CHUNK][DK], x[DK];
    const float *q = a->q + first * DK, *k = a->k + first * DK, *g = a->g + first, one = 1.0f;
    for (size_t i = 0; i < m; i++) {
        float beta = a->beta[first + i];
        G[i] = dot(g, 1, &one, 0, i + 1, order);
        for (size_t c = 0; c < DK; c++)
            x[c] = k[i * DK + c] * beta;
        for (size_t j = 0; j <= i; j++) {
            A[i][j] = -(dot(x, 1, k + j * DK, 1, DK, order) * expf(G[i] - G[j]));
            P[i][j] = dot(q + i * DK, 1, k + j * DK, 1, DK, order) * expf(G[i] - G[j]);
        }
        for (size_t c = 0; c < DK; c++)
            W[i][c] = x[c] * expf(G[i]) + dot(A[i], 1, &W[0][c], DK, i, order);
        for (size_t c = 0; c < DV; c++)
            U[i][c] = beta * a->v[(first + i) * DV + c] + dot(A[i], 1, &U[0][c], DV, i, order);
    }
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < DV; c++)
            U[i][c] -= dot(W[i], 1, a->state + c, DV, DK, order);
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < DV; c++) {
            for (size_t b = 0; b < DK; b++)
                x[b] = q[i * DK + b] * expf(G[i]);
            a->out[(first + i) * DV + c] =
                dot(x, 1, a->state + c, DV, DK, order) + dot(P[i], 1, &U[0][c], DV, i + 1, order);
        }
    for (size_t b = 0; b < DK; b++) {
        float decayed[CHUNK];
        for (size_t i = 0; i < m; i++)
            decayed[i] = k[i * DK + b] * expf(G[m - 1] - G[i]);
        for (size_t c = 0; c < DV; c++) {
            float *s = a->state + b * DV + c;
            *s = *s * expf(G[m - 1]) + dot(decayed, 1, &U[0][c], DV, m, order);
        }
    }
}

static void in_chunks(const sb_delta_rule_args *a, size_t of, int order)
{
    for (size_t t = 0; t < ROWS; t += of)
        one_chunk(a, t, ROWS - t < of ? ROWS - t : of, order);
}

static void chunked(const sb_delta_rule_args *a, int order)
{
    in_chunks(a, CHUNK, order);
}

/* Both forms, each compared with the ball of its own form. */
TEST_WITH(test_delta_rule, NULL, hf_release_drawn)
{
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    for (size_t r = 0; r < sizeof regimes / sizeof *regimes; r++)
        for (int form = 0; form < 2; form++)
            for (int order = 0; order < 3; order++) {
                char what[80];
                sb_ball *out = balls(ROWS * DV), *end = balls(DK * DV);
                sb_delta_rule_args a = inputs(&regimes[r]);
                assert_int_equal((form ? sb_bound_delta_rule_chunk : sb_bound_delta_rule)(
                                     &sb_arithmetic_library, &knobs, &a, out, end),
                                 SB_OK);
                (form ? chunked : recurrent)(&a, order);
                snprintf(what, sizeof what, "%s, %s, order %d", form ? "chunks" : "steps",
                         regimes[r].name, order);
                double most = fmax(worst(what, a.out, out, ROWS * DV),
                                   worst("  state", a.state, end, DK * DV));
                assert_true(most > 0x1p-13);
            }
}

/* T-67: programs of both forms lie in the ball of any form, in all orders, also with smaller
 * chunks. Some outputs of chunks lie outside the balls of rows; otherwise the clause would not be
 * needed. */
TEST_WITH(test_any_form, NULL, hf_release_drawn)
{
    sb_knobs knobs;
    static const size_t rows_of[] = {0, 64, 32, 16};
    size_t outside = 0;
    sb_knobs_exact(&knobs);
    for (size_t r = 0; r < sizeof regimes / sizeof *regimes; r++)
        for (int form = 0; form < 4; form++)
            for (int order = 0; order < 3; order++) {
                sb_ball *out = balls(ROWS * DV), *end = balls(DK * DV), *rows = balls(ROWS * DV),
                        *q = balls(ROWS * DK), *k = balls(ROWS * DK);
                double column[DV];
                sb_delta_rule_args a = inputs(&regimes[r]);
                const sb_delta_side side = {.ar = &sb_arithmetic_library,
                                            .q = q,
                                            .k = k,
                                            .out = out,
                                            .state = end,
                                            .column = column};
                sb_balls_of(a.q, ROWS * DK, q);
                sb_balls_of(a.k, ROWS * DK, k);
                assert_int_equal(sb_bound_delta_rule_any_form(&knobs, &a, &side), SB_OK);
                assert_int_equal(
                    sb_bound_delta_rule(&sb_arithmetic_library, &knobs, &a, rows, NULL), SB_OK);
                if (form)
                    in_chunks(&a, rows_of[form], order);
                else
                    recurrent(&a, order);
                worst(regimes[r].name, a.out, out, ROWS * DV);
                worst("  state", a.state, end, DK * DV);
                for (size_t i = 0; i < ROWS * DV && form; i++)
                    outside += fabs((double)a.out[i] - rows[i].mid) > SB_BOUND_SLACK * rows[i].rad;
                for (size_t j = 0; j < DV; j++) {
                    double squares = 0.0;
                    for (size_t i = 0; i < DK; i++) {
                        double e = (double)a.state[i * DV + j] - end[i * DV + j].mid;
                        squares += e * e;
                    }
                    assert_true(sqrt(squares) <= SB_BOUND_SLACK * column[j]);
                }
            }
    printf("  %zu outputs of chunks lie outside the balls of rows\n", outside);
    assert_true(outside > 0);
}

/* T-12, T-66: a program that begins from another state. Only the norms of the columns of the
 * difference are known. */
TEST_WITH(test_incoming, NULL, hf_release_drawn)
{
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    for (size_t r = 0; r < sizeof regimes / sizeof *regimes; r++)
        for (int form = 0; form < 2; form++) {
            sb_ball *out = balls(ROWS * DV), *end = balls(DK * DV), *q = balls(ROWS * DK),
                    *k = balls(ROWS * DK);
            const float *d = hf_normal("d", DK * DV, 0.0f, 1e-2f);
            double column[DV], element[DK * DV];
            sb_delta_rule_args a = inputs(&regimes[r]), b = inputs(&regimes[r]);
            for (size_t j = 0; j < DV; j++)
                column[j] = 0.0;
            for (size_t i = 0; i < DK * DV; i++) {
                b.state[i] += d[i];
                element[i] = fabs((double)b.state[i] - (double)a.state[i]);
                column[i % DV] += element[i] * element[i];
            }
            for (size_t j = 0; j < DV; j++)
                column[j] = sqrt(column[j]);
            const sb_delta_error from = {column, element};
            const sb_delta_side side = {.ar = &sb_arithmetic_library,
                                        .q = q,
                                        .k = k,
                                        .from = &from,
                                        .out = out,
                                        .state = end};
            sb_balls_of(a.q, ROWS * DK, q);
            sb_balls_of(a.k, ROWS * DK, k);
            assert_int_equal(form ? sb_bound_delta_rule_chunk_side(&knobs, &a, &side)
                                  : sb_bound_delta_rule_sides(&knobs, &a, &side, 1),
                             SB_OK);
            (form ? chunked : recurrent)(&b, 1);
            assert_true(worst(regimes[r].name, b.out, out, ROWS * DV) > 0.1);
            worst("  state", b.state, end, DK * DV);
        }
}

/* Both forms compute the same real values: their balls intersect, and the reference stays in the
 * ball of its form. */
TEST_WITH(test_reference_forms, NULL, hf_release_drawn)
{
    sb_knobs knobs;
    sb_knobs_exact(&knobs);
    for (size_t r = 0; r < sizeof regimes / sizeof *regimes; r++) {
        sb_ball *out[2], *end[2];
        for (int form = 0; form < 2; form++) {
            sb_delta_rule_args a = inputs(&regimes[r]);
            out[form] = balls(ROWS * DV);
            end[form] = balls(DK * DV);
            assert_int_equal((form ? sb_bound_delta_rule_chunk : sb_bound_delta_rule)(
                                 &sb_arithmetic_reference, &knobs, &a, out[form], end[form]),
                             SB_OK);
            assert_int_equal((form ? sb_delta_rule_chunk_fast : sb_delta_rule_fast)(&knobs, &a),
                             SB_OK);
            worst(form ? "reference, chunks" : "reference, steps", a.out, out[form], ROWS * DV);
            worst("  state", a.state, end[form], DK * DV);
        }
        for (size_t i = 0; i < ROWS * DV; i++)
            assert_true(fabs(out[0][i].mid - out[1][i].mid) <=
                        SB_BOUND_SLACK * (out[0][i].rad + out[1][i].rad));
        for (size_t i = 0; i < DK * DV; i++)
            assert_true(fabs(end[0][i].mid - end[1][i].mid) <=
                        SB_BOUND_SLACK * (end[0][i].rad + end[1][i].rad));
    }
}

/* --- softmax, norms, sums --------------------------------------------------------------------- */

TEST_WITH(test_softmax, NULL, hf_release_drawn)
{
    for (size_t n = 1; n <= 1024; n *= 4)
        for (int spread = 0; spread < 3; spread++) {
            static const float scales[3] = {0.1f, 4.0f, 30.0f};
            char what[80];
            const float *s = hf_normal("scores", n, 5.0f, scales[spread]), one = 1.0f;
            float *e = zeros(n), largest = s[0];
            sb_ball *p = balls(n);
            for (size_t i = 1; i < n; i++)
                largest = fmaxf(largest, s[i]);
            for (size_t i = 0; i < n; i++)
                e[i] = expf(s[i] - largest);
            float inverse = 1.0f / dot(e, 1, &one, 0, n, 1);
            for (size_t i = 0; i < n; i++)
                e[i] *= inverse;
            sb_balls_of(s, n, p);
            sb_bound_softmax(&sb_arithmetic_library, p, n);
            snprintf(what, sizeof what, "softmax of %zu, spread %g", n, (double)scales[spread]);
            worst(what, e, p, n);
        }
}

TEST_WITH(test_reductions, NULL, hf_release_drawn)
{
    for (size_t n = 1; n <= 4096; n = n * 4 + 1)
        for (int order = 0; order < 3; order++) {
            char what[80];
            const float *a = hf_normal("a", n, 1.0f, 1.0f), *b = hf_normal("b", n, 0.0f, 1.0f);
            sb_reduction r = {0};
            for (size_t i = 0; i < n; i++)
                sb_reduce(&r, sb_ball_of(a[i]), sb_ball_of(b[i]));
            sb_ball ball = sb_ball_reduced(&sb_arithmetic_library, &r);
            float sum = dot(a, 1, b, 1, n, order);
            snprintf(what, sizeof what, "%zu products, order %d", n, order);
            worst(what, &sum, &ball, 1);
        }
}

/* T-1, T-3: operands with spread, all corners of both balls, one binary32 operation. */
TEST_WITH(test_corners, NULL, hf_release_drawn)
{
    const sb_arithmetic *ar = &sb_arithmetic_library;
    const float *x = hf_normal("x", 2000, 0.0f, 8.0f), *y = hf_normal("y", 2000, 3.0f, 2.0f);
    for (size_t i = 0; i < 2000; i++)
        for (int corner = 0; corner < 4; corner++) {
            float r = fabsf(x[i]) * 0x1p-12f, s = fabsf(y[i]) * 0x1p-12f;
            sb_ball a = {(double)x[i], (double)r}, b = {(double)y[i], (double)s};
            float c = corner & 1 ? x[i] + r * 0.99f : x[i] - r * 0.99f;
            float d = corner & 2 ? y[i] + s * 0.99f : y[i] - s * 0.99f, e = fabsf(d);
            sb_ball size = {fabs(b.mid), b.rad};
            const float got[] = {c + d,
                                 c - d,
                                 c * d,
                                 c / e,
                                 log1pf(expf(c)),
                                 expf(c),
                                 sinf(c),
                                 1.0f / sqrtf(e),
                                 1.0f / (1.0f + expf(-c)),
                                 cosf(c),
                                 c / (1.0f + expf(-c))};
            const sb_ball in[] = {
                sb_ball_add(ar, a, b),    sb_ball_sub(ar, a, b),   sb_ball_mul(ar, a, b),
                sb_ball_div(ar, a, size), sb_ball_softplus(ar, a), sb_ball_exp(ar, a),
                sb_ball_sin(ar, a),       sb_ball_rsqrt(ar, size), sb_ball_sigmoid(ar, a),
                sb_ball_cos(ar, a),       sb_ball_silu(ar, a)};
            for (size_t k = 0; k < sizeof in / sizeof *in; k++)
                if (!(fabs((double)got[k] - in[k].mid) <= SB_BOUND_SLACK * in[k].rad))
                    fail_msg("function %zu of %.9g, %.9g is %.9g, allowed %.9g +- %.3g", k,
                             (double)c, (double)d, (double)got[k], in[k].mid, in[k].rad);
        }
}
