#include "tools/gate/delta.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/rng.h"
#include "ref/math/fn.h"
#include "tools/compare/bound.h"
#include "tools/compare/wide_fn.h"
#include "tools/gate/whole.h"

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

static sb_status check(const sb_gate_case *c, sb_error *err)
{
    if (c->size[V_HEADS] % c->size[K_HEADS] == 0)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "v_heads=%llu; expected a multiple of k_heads=%llu",
                   (unsigned long long)c->size[V_HEADS], (unsigned long long)c->size[K_HEADS]);
}

/* --- inputs --------------------------------------------------------------------------------------
 */

/* Vectors of length 1, as a norm in front of the kernel leaves them. */
static void normalise(const sb_gate_case *c, float *x, size_t vectors, size_t dk)
{
    for (size_t n = 0; n < vectors; n++, x += dk) {
        double squares = 0.0;
        for (size_t i = 0; i < dk; i++)
            squares += (double)x[i] * (double)x[i];
        double length = sb_wide_sqrt(squares);
        for (size_t i = 0; i < dk && length > 0.0; i++)
            x[i] = sb_gate_fit(c, (float)((double)x[i] / length));
    }
}

/* Logarithms of decays: slow, medium and fast heads; in regime huge such that exp is 0 beside some
 * that are 1, in tiny next to 1. */
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

static sb_status add_gates(sb_gate_case *c, const sb_gate_delta *s)
{
    const uint64_t shape[] = {s->rows, s->v_heads};
    size_t count = s->rows * s->v_heads;
    uint64_t key = sb_rng_key(c->seed, "gate.delta.beta");
    float *g = sb_alloc(2 * count, sizeof *g);
    if (!g)
        return SB_ERR_MEMORY;
    float *beta = g + count;
    sb_gate_draw_in(c, SB_GATE_REGIME_normal, "g", SB_GATE_ACTIVATION, s->rows, s->v_heads, g);
    for (size_t at = 0; at < count; at++) {
        g[at] = decay(c->regime, at / s->v_heads, at % s->v_heads, g[at]);
        beta[at] = correction(c->regime, key, at);
    }
    sb_status status = sb_gate_add_singles(c, "g", "row,head", 2, shape, g);
    if (!status)
        status = sb_gate_add_singles(c, "beta", "row,head", 2, shape, beta);
    free(g);
    return status;
}

/* Queries that are keys: of their own row or, in odd rows, of the one before. */
static void ask_for_keys(const sb_gate_case *c, const sb_gate_delta *s, float *q)
{
    size_t width = s->k_heads * s->dk;
    sb_gate_draw(c, "k", SB_GATE_ACTIVATION, s->rows * s->k_heads, s->dk, q);
    for (size_t t = 1; t < s->rows; t += 2)
        memcpy(q + t * width, q + (t - 1) * width, width * sizeof *q);
}

/* A one-hot query that meets no key would read nothing but zeros. */
static sb_status add_vectors(sb_gate_case *c, const sb_gate_delta *s, const char *name, int values)
{
    const uint64_t shape[] = {s->rows, values ? s->v_heads : s->k_heads, values ? s->dv : s->dk};
    size_t vectors = (size_t)(shape[0] * shape[1]), width = (size_t)shape[2];
    float *x = sb_alloc(vectors * width, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    if (c->regime == SB_GATE_REGIME_one_hot && strcmp(name, "q") == 0)
        ask_for_keys(c, s, x);
    else if (!values && c->regime == SB_GATE_REGIME_zeros) {
        sb_gate_draw_in(c, SB_GATE_REGIME_normal, name, SB_GATE_ACTIVATION, vectors, width, x);
        for (size_t i = 0; i < vectors * width; i++)
            x[i] = i / width % 3 == 1 ? 0.0f : x[i]; /* whole vectors only: some must be left */
    } else
        sb_gate_draw(c, name, SB_GATE_ACTIVATION, vectors, width, x);
    if (!values && !s->norm)
        normalise(c, x, vectors, width);
    sb_status status =
        sb_gate_add_values(c, name, values ? "row,head,value" : "row,head,key", 3, shape, x);
    free(x);
    return status;
}

/* V-142: "g, beta and initial_state are binary32" */
sb_status sb_gate_delta_make(sb_gate_case *c, sb_error *err)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    const uint64_t shape[] = {s.v_heads, s.dk, s.dv};
    sb_status status = check(c, err);
    if (!status)
        status = add_vectors(c, &s, "q", 0);
    if (!status)
        status = add_vectors(c, &s, "k", 0);
    if (!status)
        status = add_vectors(c, &s, "v", 1);
    if (!status)
        status = add_gates(c, &s);
    float *state = status ? NULL : sb_alloc(s.v_heads * s.dk * s.dv, sizeof *state);
    if (!state)
        return status ? status : SB_ERR_MEMORY;
    if (c->size[STATE])
        sb_gate_draw(c, "initial_state", SB_GATE_STATE, s.v_heads * s.dk, s.dv, state);
    status = sb_gate_add_singles(c, "initial_state", "head,key,value", 3, shape, state);
    free(state);
    return status;
}

static sb_status need_gates(const sb_gate_case *c, const sb_gate_delta *s, sb_error *err)
{
    sb_status status = SB_OK;
    float *g = sb_gate_values(c, "g"), *beta = sb_gate_values(c, "beta");
    if (!g || !beta)
        status = SB_ERR_MEMORY;
    for (size_t at = 0; at < s->rows * s->v_heads && !status; at++)
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

sb_status sb_gate_delta_need(sb_gate_case *c, sb_error *err)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    const uint64_t keys[] = {s.rows, s.k_heads, s.dk}, values[] = {s.rows, s.v_heads, s.dv},
                   gates[] = {s.rows, s.v_heads}, state[] = {s.v_heads, s.dk, s.dv};
    const struct {
        const char *name;
        unsigned rank;
        const uint64_t *shape;
    } all[] = {{"q", 3, keys},  {"k", 3, keys},     {"v", 3, values},
               {"g", 2, gates}, {"beta", 2, gates}, {"initial_state", 3, state}};
    sb_status status = check(c, err);
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++) {
        size_t count = 1;
        for (unsigned d = 0; d < all[i].rank; d++)
            count *= (size_t)all[i].shape[d];
        status = sb_gate_need(c, all[i].name, all[i].rank, all[i].shape, err);
        if (!status && i >= 3)
            status = sb_gate_need_type(c, all[i].name, SB_DTYPE_F32, err);
        if (!status)
            status = sb_gate_need_finite(c, all[i].name, count, err);
    }
    return status ? status : need_gates(c, &s, err);
}

/* --- as the op takes them
 * -------------------------------------------------------------------------
 */

void sb_gate_delta_close(sb_gate_delta_inputs *in)
{
    free(in->v);
    free(in->g);
    free(in->beta);
    free(in->state);
    free(in->q);
    free(in->k);
    free(in->q_balls);
    free(in->k_balls);
}

/* q and k as they are given. */
static sb_status open_inputs(const sb_gate_case *c, sb_gate_delta_inputs *in)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    *in = (sb_gate_delta_inputs){.v = sb_gate_values(c, "v"),
                                 .g = sb_gate_values(c, "g"),
                                 .beta = sb_gate_values(c, "beta"),
                                 .state = sb_gate_values(c, "initial_state"),
                                 .q = sb_gate_values(c, "q"),
                                 .k = sb_gate_values(c, "k")};
    in->args = (sb_delta_rule_args){.q = in->q,
                                    .k = in->k,
                                    .v = in->v,
                                    .v_stride = s.v_heads * s.dv,
                                    .g = in->g,
                                    .beta = in->beta,
                                    .rows = s.rows,
                                    .k_heads = s.k_heads,
                                    .v_heads = s.v_heads,
                                    .dk = s.dk,
                                    .dv = s.dv,
                                    .state = in->state};
    if (in->v && in->g && in->beta && in->state && in->q && in->k)
        return SB_OK;
    sb_gate_delta_close(in);
    return SB_ERR_MEMORY;
}

/* The arguments of the norm: queries and keys of a row side by side. *qkv is to be freed. */
static sb_status norm_args(const sb_gate_delta *s, const float *q, const float *k, float **qkv,
                           sb_l2norm_args *out)
{
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

sb_status sb_gate_delta_open(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                             sb_gate_delta_inputs *in)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    sb_status status = open_inputs(c, in);
    if (status)
        return status;
    if (s.norm) {
        sb_l2norm_args args;
        float *qkv;
        status = norm_args(&s, in->q, in->k, &qkv, &args);
        args.q = in->q;
        args.k = in->k;
        if (!status)
            status = ops->l2norm(knobs, &args);
        free(qkv);
    } else {
        float scale = sb_root_power((double)s.dk, -1, 2);
        for (size_t i = 0; i < s.rows * s.k_heads * s.dk; i++)
            in->q[i] = in->q[i] * scale;
    }
    if (status)
        sb_gate_delta_close(in);
    return status;
}

/* T-8: "dk^-1/2 has the radius of its rounding" */
static void scale_balls(const sb_gate_arith *ar, const sb_gate_delta *s, sb_gate_delta_inputs *in)
{
    double root = 1.0 / sb_wide_sqrt((double)s->dk);
    const sb_ball scale = {root, root * SB_UNIT};
    for (size_t i = 0; i < s->rows * s->k_heads * s->dk; i++) {
        in->q_balls[i] = sb_ball_mul(ar->ar, sb_ball_of(in->q[i]), scale);
        in->k_balls[i] = sb_ball_of(in->k[i]);
    }
}

sb_status sb_gate_delta_balls(const sb_gate_case *c, const sb_gate_arith *ar,
                              sb_gate_delta_inputs *in)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    size_t count = s.rows * s.k_heads * s.dk;
    sb_status status = open_inputs(c, in);
    if (status)
        return status;
    in->q_balls = sb_alloc(count, sizeof *in->q_balls);
    in->k_balls = sb_alloc(count, sizeof *in->k_balls);
    if (!in->q_balls || !in->k_balls)
        status = SB_ERR_MEMORY;
    else if (!s.norm)
        scale_balls(ar, &s, in);
    else {
        sb_l2norm_args args;
        float *qkv;
        status = norm_args(&s, in->q, in->k, &qkv, &args);
        if (!status)
            status = sb_bound_l2norm(ar->ar, &ar->knobs, &args, in->q_balls, in->k_balls);
        free(qkv);
    }
    if (status)
        sb_gate_delta_close(in);
    return status;
}

/* --- unrounded
 * ------------------------------------------------------------------------------------
 */

/* V-142: "q is multiplied by dk^-1/2"; R-6 without a rounding where the kernel has the norm */
static sb_dd *unrounded(const sb_gate_delta *s, const float *x, int query)
{
    size_t count = s->rows * s->k_heads * s->dk;
    sb_dd *out = x ? sb_alloc(count, sizeof *out) : NULL;
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

void sb_gate_delta_real_close(sb_gate_delta_real *r)
{
    free(r->q);
    free(r->k);
    free(r->v);
    free(r->g);
    free(r->beta);
    free(r->state);
}

sb_status sb_gate_delta_real_open(const sb_gate_case *c, sb_gate_delta_real *r)
{
    const sb_gate_delta s = sb_gate_delta_of(c);
    float *q = sb_gate_values(c, "q"), *k = sb_gate_values(c, "k");
    *r = (sb_gate_delta_real){.q = unrounded(&s, q, 1),
                              .k = unrounded(&s, k, 0),
                              .v = sb_gate_values(c, "v"),
                              .g = sb_gate_values(c, "g"),
                              .beta = sb_gate_values(c, "beta"),
                              .state = sb_gate_values(c, "initial_state")};
    free(q);
    free(k);
    if (r->q && r->k && r->v && r->g && r->beta && r->state)
        return SB_OK;
    sb_gate_delta_real_close(r);
    return SB_ERR_MEMORY;
}
