#include "tools/judge/gate/delta.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/base/root.h"
#include "ref/math/fn.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, K_HEADS, V_HEADS, DK, DV, NORM, STATE };

sb_gate_delta sb_gate_delta_of(const sb_gate_case *c)
{
    return (sb_gate_delta){.rows = (size_t)c->size[ROWS],
                           .k_heads = (size_t)c->size[K_HEADS],
                           .v_heads = (size_t)c->size[V_HEADS],
                           .dk = (size_t)c->size[DK],
                           .dv = (size_t)c->size[DV],
                           .norm = c->size[NORM] != 0};
}

sb_status sb_gate_delta_check(const sb_gate_case *c, sb_error *err)
{
    if (c->size[V_HEADS] % c->size[K_HEADS] == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "v_heads=%llu; expected a multiple of k_heads=%llu",
                   (unsigned long long)c->size[V_HEADS], (unsigned long long)c->size[K_HEADS]);
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* Vectors of length 1, as the norm before the kernel gives. */
static void normalise(const sb_gate_case *c, float *x, size_t vectors, size_t dk)
{
    for (size_t n = 0; n < vectors; n++, x += dk) {
        double squares = 0.0;
        for (size_t i = 0; i < dk; i++)
            squares += (double)x[i] * (double)x[i];
        double length = sb_sqrt64(squares);
        for (size_t i = 0; i < dk && length > 0.0; i++)
            x[i] = sb_gate_fit(c, (float)((double)x[i] / length));
    }
}

/* Logarithms of decays: slow, medium and fast heads. In regime huge some decays are 0 and some are
 * 1, in tiny they are close to 1. */
static float decay(sb_gate_regime regime, size_t t, size_t h, float normal)
{
    static const float usual[] = {0.015625f, 0.375f, 3.0f, 0.125f},
                       large[] = {24.0f, 90.0f, 250.0f, 0.0f};
    float size = normal < 0.0f ? -normal : normal;
    switch (regime) {
    case SB_GATE_REGIME_zeros:
        return -0.0f;
    case SB_GATE_REGIME_ties:
        return h % 2 ? -0.5f : 0.0f;
    case SB_GATE_REGIME_tiny:
    case SB_GATE_REGIME_least:
        return -size * 0x1p-27f;
    case SB_GATE_REGIME_huge:
        return (t + h) % 3 == 1 ? 0.0f : -size * large[h % 4];
    default:
        return -size * usual[h % 4];
    }
}

static float correction(sb_gate_regime regime, uint64_t key, uint64_t at)
{
    if (regime == SB_GATE_REGIME_ties)
        return (float)sb_rng_below(key, at, 3) / 2.0f;
    if (regime == SB_GATE_REGIME_zeros && at % 5 == 2)
        return 0.0f;
    return sb_rng_uniform(key, at);
}

static void make_gates(const sb_gate_case *c, const sb_gate_delta *s, float *g, float *beta)
{
    const uint64_t key = sb_rng_key(c->seed, "gate.delta.beta");
    for (size_t at = 0; at < s->rows * s->v_heads; at++) {
        g[at] = decay(c->regime, at / s->v_heads, at % s->v_heads, g[at]);
        beta[at] = correction(c->regime, key, at);
    }
}

/* Sets each query to a key: the key of its own row or, in odd rows, of the previous row. */
static void ask_for_keys(const sb_gate_case *c, const sb_gate_delta *s, float *q)
{
    size_t width = s->k_heads * s->dk;
    sb_gate_draw(c, "k", SB_GATE_ACTIVATION, s->rows * s->k_heads, s->dk, q);
    for (size_t t = 1; t < s->rows; t += 2)
        memcpy(q + t * width, q + (t - 1) * width, width * sizeof *q);
}

/* A one-hot query that equals no key would read only zeros. In regime zeros, only whole vectors are
 * zero, because some values must remain. */
void sb_gate_delta_adapt(const sb_gate_case *c, float *const x[])
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    const size_t vectors = s.rows * s.k_heads;
    if (c->regime == SB_GATE_REGIME_one_hot)
        ask_for_keys(c, &s, x[SB_GATE_DELTA_q]);
    for (int i = SB_GATE_DELTA_q; i <= SB_GATE_DELTA_k; i++) {
        for (size_t v = 1; v < vectors && c->regime == SB_GATE_REGIME_zeros; v += 3)
            memset(x[i] + v * s.dk, 0, s.dk * sizeof *x[i]);
        if (!s.norm)
            normalise(c, x[i], vectors, s.dk);
    }
    make_gates(c, &s, x[SB_GATE_DELTA_g], x[SB_GATE_DELTA_beta]);
    if (!c->size[STATE])
        memset(x[SB_GATE_DELTA_state], 0, s.v_heads * s.dk * s.dv * sizeof *x[0]);
}

/* V-142: "g, beta and initial_state are binary32" */
sb_gate_list sb_gate_delta_list(const sb_gate_case *c)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    const int zeros = c->regime == SB_GATE_REGIME_zeros;
    return (sb_gate_list){
        .input = {[SB_GATE_DELTA_q] = {"q", "row,head,key", .shape = {s.rows, s.k_heads, s.dk},
                                       .normal = zeros},
                  [SB_GATE_DELTA_k] = {"k", "row,head,key", .shape = {s.rows, s.k_heads, s.dk},
                                       .normal = zeros},
                  [SB_GATE_DELTA_v] = {"v", "row,head,value", .shape = {s.rows, s.v_heads, s.dv}},
                  [SB_GATE_DELTA_g] = {"g", "row,head", .shape = {s.rows, s.v_heads},
                                       .typing = SB_GATE_F32, .normal = 1},
                  [SB_GATE_DELTA_beta] = {"beta", "row,head", .shape = {s.rows, s.v_heads},
                                          .typing = SB_GATE_F32},
                  [SB_GATE_DELTA_state] = {"initial_state", "head,key,value",
                                           .shape = {s.v_heads, s.dk, s.dv}, .role = SB_GATE_STATE,
                                           .typing = SB_GATE_F32}},
        .output = {{"", "row,head,value", .shape = {s.rows, s.v_heads, s.dv}},
                   {"state", "head,key,value", .shape = {s.v_heads, s.dk, s.dv}}}};
}

sb_status sb_gate_delta_need(const sb_gate_case *c, sb_error *err)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    sb_status status = SB_OK;
    float *g = sb_gate_values(c, "g"), *beta = sb_gate_values(c, "beta");
    if (!g || !beta)
        status = SB_ERR_MEMORY;
    for (size_t at = 0; at < s.rows * s.v_heads && !status; at++)
        if (g[at] > 0.0f)
            status = sb_fail(err, SB_ERR_INPUT, "element %zu of in.g is %g; expected at most 0", at,
                             (double)g[at]);
        else if (beta[at] < 0.0f || beta[at] > 1.0f)
            status = sb_fail(err, SB_ERR_INPUT, "element %zu of in.beta is %g; expected 0 to 1", at,
                             (double)beta[at]);
    free(g);
    free(beta);
    return status;
}

/* --- arguments of the op ---------------------------------------------------------------------- */

/* q and k as they are given. */
static sb_delta_rule_args args_of(const sb_gate_delta *s, float *const in[])
{
    return (sb_delta_rule_args){.q = in[SB_GATE_DELTA_q],
                                .k = in[SB_GATE_DELTA_k],
                                .v = in[SB_GATE_DELTA_v],
                                .v_stride = s->v_heads * s->dv,
                                .g = in[SB_GATE_DELTA_g],
                                .beta = in[SB_GATE_DELTA_beta],
                                .rows = s->rows,
                                .k_heads = s->k_heads,
                                .v_heads = s->v_heads,
                                .dk = s->dk,
                                .dv = s->dv,
                                .state = in[SB_GATE_DELTA_state]};
}

/* The arguments of the norm: queries and keys of a row side by side. The caller frees *qkv. */
static sb_status norm_args(const sb_gate_delta *s, float *const in[], float **qkv,
                           sb_l2norm_args *out)
{
    const float *q = in[SB_GATE_DELTA_q], *k = in[SB_GATE_DELTA_k];
    size_t width = s->k_heads * s->dk;
    *qkv = sb_alloc(2 * s->rows * width, sizeof **qkv);
    if (!*qkv)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < s->rows; t++) {
        memcpy(*qkv + 2 * t * width, q + t * width, width * sizeof *q);
        memcpy(*qkv + (2 * t + 1) * width, k + t * width, width * sizeof *k);
    }
    *out = (sb_l2norm_args){.qkv = *qkv,
                            .rows = s->rows,
                            .stride = 2 * width,
                            .heads = s->k_heads,
                            .dk = s->dk,
                            .eps = eps,
                            .recurrent = 1};
    return SB_OK;
}

sb_status sb_gate_delta_args(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                             const sb_op_table *ops, sb_delta_rule_args *out)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    float *q = in[SB_GATE_DELTA_q], *qkv = NULL;
    sb_status status = SB_OK;
    *out = args_of(&s, in);
    if (s.norm) {
        sb_l2norm_args args;
        status = norm_args(&s, in, &qkv, &args);
        args.q = q;
        args.k = in[SB_GATE_DELTA_k];
        if (!status)
            status = ops->l2norm(knobs, &args);
        free(qkv);
    } else {
        float scale = sb_root_power((double)s.dk, -1, 2);
        for (size_t i = 0; i < s.rows * s.k_heads * s.dk; i++)
            q[i] = q[i] * scale;
    }
    return status;
}

/* T-8: "dk^-1/2 has the radius of its rounding" */
static void scale_balls(const sb_gate_arith *ar, const sb_gate_delta *s, float *const in[],
                        sb_gate_delta_balls *to)
{
    double root = 1.0 / sb_sqrt64((double)s->dk);
    const sb_ball scale = {root, root * SB_UNIT};
    for (size_t i = 0; i < s->rows * s->k_heads * s->dk; i++) {
        to->q[i] = sb_ball_mul(&ar->ar, sb_ball_of(in[SB_GATE_DELTA_q][i]), scale);
        to->k[i] = sb_ball_of(in[SB_GATE_DELTA_k][i]);
    }
}

sb_status sb_gate_delta_balls_of(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                                 sb_gate_delta_balls *to)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    size_t count = s.rows * s.k_heads * s.dk;
    sb_l2norm_args args;
    float *qkv = NULL;
    to->args = args_of(&s, in);
    to->q = sb_alloc(count, 2 * sizeof *to->q);
    if (!to->q)
        return SB_ERR_MEMORY;
    to->k = to->q + count;
    if (!s.norm) {
        scale_balls(ar, &s, in, to);
        return SB_OK;
    }
    sb_status status = norm_args(&s, in, &qkv, &args);
    if (!status)
        status = sb_bound_l2norm(&ar->ar, &ar->knobs, &args, to->q, to->k);
    free(qkv);
    if (status)
        free(to->q);
    return status;
}

/* --- unrounded -------------------------------------------------------------------------------- */

/* V-142: "q is multiplied by dk^-1/2"; R-6 unrounded if the kernel computes the norm */
sb_dd *sb_gate_delta_real(const sb_gate_delta *s, const float *x, int query)
{
    size_t count = s->rows * s->k_heads * s->dk;
    sb_dd *out = sb_alloc(count, sizeof *out);
    for (size_t at = 0; out && at < count; at += s->dk) {
        sb_dd square = sb_dd_of(s->norm ? (double)eps : 1.0);
        for (size_t i = 0; i < s->dk && s->norm; i++)
            square = sb_dd_fma(square, sb_dd_of((double)x[at + i]), sb_dd_of((double)x[at + i]));
        if (query)
            square = sb_dd_mul(square, sb_dd_of((double)s->dk));
        sb_dd root = sb_dd_sqrt(square);
        for (size_t i = 0; i < s->dk; i++)
            out[at + i] = sb_dd_div(sb_dd_of((double)x[at + i]), root);
    }
    return out;
}
