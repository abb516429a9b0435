/* op_rmsnorm.c - the two norms with a weight: zero-centred, and plain with a gate behind it. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, N };
static const sb_gate_param params[] = {{"rows", 5, 1, 65536, "rows, or heads of rows"},
                                       {"n", 128, 1, 16384, "columns that share a norm"}};
static const char *const shapes[] = {"rows=1", "rows=2",       "rows=9",        "n=1", "n=7",
                                     "n=127",  "rows=3,n=129", "rows=2,n=2048", NULL};
static const sb_op use_norm[] = {SB_OP_rmsnorm}, use_gated[] = {SB_OP_gated_rmsnorm};

static sb_status expect(sb_gate_case *c)
{
    const uint64_t out[] = {c->size[ROWS], c->size[N]};
    return sb_gate_expect(c, "", SB_GATE_VALUES, "row,column", 2, out);
}

/* weight: about 0 of the zero-centred norm, about 1 of the other one. z: normal where its product
 * with x would be 0, or nearly so. */
static sb_status add(sb_gate_case *c, int gated)
{
    const uint64_t full[] = {c->size[ROWS], c->size[N]}, *one = full + 1;
    size_t count = (size_t)(full[0] * full[1]), n = (size_t)full[1];
    float *x = sb_alloc(2 * count + n, sizeof *x);
    if (!x)
        return SB_ERR_MEMORY;
    float *z = x + count, *weight = z + count;
    sb_gate_draw(c, "x", SB_GATE_ACTIVATION, (size_t)full[0], n, x);
    int plain = c->regime == SB_GATE_REGIME_one_hot || c->regime == SB_GATE_REGIME_least;
    sb_gate_draw_in(c, plain ? SB_GATE_REGIME_normal : c->regime, "z", SB_GATE_LOGIT,
                    (size_t)full[0], n, z);
    sb_gate_draw(c, "weight", SB_GATE_NORM_WEIGHT, 1, n, weight);
    for (size_t i = 0; i < n && gated; i++)
        weight[i] = sb_gate_fit(c, 1.0f + weight[i]);
    sb_status status = sb_gate_add_values(c, "x", "row,column", 2, full, x);
    if (!status && gated)
        status = sb_gate_add_values(c, "z", "row,column", 2, full, z);
    if (!status)
        status = sb_gate_add_values(c, "weight", "column", 1, one, weight);
    free(x);
    return status ? status : expect(c);
}

static sb_status need(sb_gate_case *c, int gated, sb_error *err)
{
    static const char *const names[] = {"x", "z", "weight"};
    const uint64_t full[] = {c->size[ROWS], c->size[N]}, *one = full + 1;
    for (size_t i = 0; i < 3; i++) {
        if (i == 1 && !gated)
            continue;
        sb_status status = sb_gate_need(c, names[i], i < 2 ? 2 : 1, i < 2 ? full : one, err);
        size_t count = (size_t)(i < 2 ? full[0] * full[1] : full[1]);
        if (!status)
            status = sb_gate_need_finite(c, names[i], count, err);
        if (status)
            return status;
    }
    return expect(c);
}

static sb_status make_norm(sb_gate_case *c, sb_error *err)
{
    (void)err;
    return add(c, 0);
}

static sb_status make_gated(sb_gate_case *c, sb_error *err)
{
    (void)err;
    return add(c, 1);
}

static sb_status declare_norm(sb_gate_case *c, sb_error *err)
{
    return need(c, 0, err);
}

static sb_status declare_gated(sb_gate_case *c, sb_error *err)
{
    return need(c, 1, err);
}

/* The inputs in binary32, and the arguments of both ops. */
typedef struct inputs {
    float *x, *z, *weight;
    sb_matrix matrix;
    sb_rmsnorm_args norm;
    sb_gated_rmsnorm_args gated;
} inputs;

static void inputs_free(inputs *in)
{
    free(in->x);
    free(in->z);
    free(in->weight);
}

static sb_status inputs_of(const sb_gate_case *c, int gated, float *out, inputs *in)
{
    size_t rows = (size_t)c->size[ROWS], n = (size_t)c->size[N];
    *in = (inputs){.x = sb_gate_values(c, "x"),
                   .z = gated ? sb_gate_values(c, "z") : NULL,
                   .weight = sb_gate_values(c, "weight"),
                   .matrix = sb_gate_matrix(c, "weight", 1, (uint32_t)n)};
    in->norm = (sb_rmsnorm_args){
        .in = in->x, .weight = &in->matrix, .eps = eps, .rows = rows, .n = n, .out = out};
    in->gated = (sb_gated_rmsnorm_args){.in = in->x,
                                        .z = in->z,
                                        .weight = &in->matrix,
                                        .eps = eps,
                                        .rows = rows,
                                        .heads = 1,
                                        .n = n,
                                        .out = out};
    if (in->x && in->weight && (in->z || !gated))
        return SB_OK;
    inputs_free(in);
    return SB_ERR_MEMORY;
}

static sb_status exact_norm(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                            float *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, 0, out[0], &in);
    if (!status) {
        status = ops->rmsnorm(knobs, &in.norm);
        inputs_free(&in);
    }
    return status;
}

static sb_status exact_gated(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                             float *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, 1, out[0], &in);
    if (!status) {
        status = ops->gated_rmsnorm(knobs, &in.gated);
        inputs_free(&in);
    }
    return status;
}

/* without a rounding: x w / sqrt( mean of the squares + eps ), w being 1 + weight or
 * weight silu(z). */
static sb_status real(const sb_gate_case *c, int gated, sb_dd *out)
{
    inputs in;
    sb_status status = inputs_of(c, gated, NULL, &in);
    if (status)
        return status;
    size_t n = in.norm.n;
    for (size_t row = 0; row < in.norm.rows; row++) {
        const float *x = in.x + row * n;
        sb_dd squares = sb_dd_of(0.0);
        for (size_t i = 0; i < n; i++)
            squares = sb_dd_fma(squares, sb_dd_of((double)x[i]), sb_dd_of((double)x[i]));
        sb_dd mean = sb_dd_div(squares, sb_dd_of((double)n));
        sb_dd root = sb_dd_sqrt(sb_dd_add(mean, sb_dd_of((double)eps)));
        for (size_t i = 0; i < n; i++) {
            sb_dd factor = sb_dd_of((double)in.weight[i]);
            if (gated)
                factor = sb_dd_mul(factor, sb_dd_silu(sb_dd_of((double)in.z[row * n + i])));
            else
                factor = sb_dd_add(sb_dd_of(1.0), factor);
            out[row * n + i] = sb_dd_div(sb_dd_mul(sb_dd_of((double)x[i]), factor), root);
        }
    }
    inputs_free(&in);
    return SB_OK;
}

static sb_status real_norm(const sb_gate_case *c, sb_dd *const out[])
{
    return real(c, 0, out[0]);
}

static sb_status real_gated(const sb_gate_case *c, sb_dd *const out[])
{
    return real(c, 1, out[0]);
}

static sb_status bound_norm(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, 0, NULL, &in);
    if (!status) {
        status = sb_bound_rmsnorm(ar->ar, &ar->knobs, &in.norm, out[0], NULL);
        inputs_free(&in);
    }
    return status;
}

/* V-140: "may round between its steps or not" */
static sb_status bound_gated(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    inputs in;
    size_t count = c->output[0].count;
    sb_ball *more = sb_alloc(count, sizeof *more);
    sb_status status = more ? inputs_of(c, 1, NULL, &in) : SB_ERR_MEMORY;
    if (status) {
        free(more);
        return status;
    }
    sb_knobs other = ar->knobs;
    other.value[SB_KNOB_gated_norm] = SB_gated_norm_f32;
    status = sb_bound_gated_rmsnorm(ar->ar, &ar->knobs, &in.gated, out[0], NULL);
    if (!status)
        status = sb_bound_gated_rmsnorm(ar->ar, &other, &in.gated, more, NULL);
    if (!status)
        sb_gate_cover(out[0], more, count, 0);
    inputs_free(&in);
    free(more);
    return status;
}

const sb_gate_op *sb_gate_op_rmsnorm(void)
{
    static const sb_gate_op op = {.name = "rmsnorm",
                                  .clause = "R-3",
                                  .what = "the norm with the factor 1 + w",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = use_norm,
                                  .use_count = 1,
                                  .make = make_norm,
                                  .declare = declare_norm,
                                  .exact = exact_norm,
                                  .real = real_norm,
                                  .bound = bound_norm,
                                  .row_arrays = "x",
                                  .rows_independent = 1};
    return &op;
}

const sb_gate_op *sb_gate_op_gated_rmsnorm(void)
{
    static const sb_gate_op op = {.name = "gated_rmsnorm",
                                  .clause = "R-11",
                                  .what = "the norm behind the delta rule, times silu of a gate",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = use_gated,
                                  .use_count = 1,
                                  .make = make_gated,
                                  .declare = declare_gated,
                                  .exact = exact_gated,
                                  .real = real_gated,
                                  .bound = bound_gated,
                                  .row_arrays = "x,z",
                                  .rows_independent = 1};
    return &op;
}
