/* op_rmsnorm.c - the two norms with a weight: zero-centred, and plain followed by a gate. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/whole.h"

static const float eps = 1e-6f;

enum { ROWS, N };
static const sb_gate_param params[] = {{"rows", 5, 1, 65536, "rows, or heads of rows"},
                                       {"n", 128, 1, 16384, "columns that share a norm"}};
static const char *const shapes[] = {"rows=1", "rows=2",       "rows=9",        "n=1", "n=7",
                                     "n=127",  "rows=3,n=129", "rows=2,n=2048", NULL};
static const sb_op use_norm[] = {SB_OP_rmsnorm}, use_gated[] = {SB_OP_gated_rmsnorm};

enum { X, WEIGHT };

static sb_gate_list list_norm(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS], n = c->size[N];
    return (sb_gate_list){
        .input = {[X] = {"x", "row,column", .shape = {rows, n}},
                  [WEIGHT] = {"weight", "column", .shape = {n}, .role = SB_GATE_NORM_WEIGHT}},
        .output = {{"", "row,column", .shape = {rows, n}}}};
}

enum { GATED_X, GATED_Z, GATED_WEIGHT };

/* z is normal in regimes where its product with x would be 0 or tiny. */
static sb_gate_list list_gated(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS], n = c->size[N];
    const int plain = c->regime == SB_GATE_REGIME_one_hot || c->regime == SB_GATE_REGIME_least;
    return (sb_gate_list){
        .input = {[GATED_X] = {"x", "row,column", .shape = {rows, n}},
                  [GATED_Z] = {"z", "row,column", .shape = {rows, n}, .role = SB_GATE_LOGIT,
                               .normal = plain},
                  [GATED_WEIGHT] = {"weight", "column", .shape = {n}, .role = SB_GATE_NORM_WEIGHT}},
        .output = {{"", "row,column", .shape = {rows, n}}}};
}

/* The weight of the zero-centred norm is around 0, that of the other norm around 1. */
static void adapt_gated(const sb_gate_case *c, float *const x[])
{
    for (size_t i = 0; i < (size_t)c->size[N]; i++)
        x[GATED_WEIGHT][i] = sb_gate_fit(c, 1.0f + x[GATED_WEIGHT][i]);
}

static sb_rmsnorm_args norm_args(const sb_gate_case *c, float *const in[], const sb_matrix *weight,
                                 float *out)
{
    return (sb_rmsnorm_args){.in = in[X],
                             .weight = weight,
                             .eps = eps,
                             .rows = (size_t)c->size[ROWS],
                             .n = (size_t)c->size[N],
                             .out = out};
}

static sb_gated_rmsnorm_args gated_args(const sb_gate_case *c, float *const in[],
                                        const sb_matrix *weight, float *out)
{
    return (sb_gated_rmsnorm_args){.in = in[GATED_X],
                                   .z = in[GATED_Z],
                                   .weight = weight,
                                   .eps = eps,
                                   .rows = (size_t)c->size[ROWS],
                                   .heads = 1,
                                   .n = (size_t)c->size[N],
                                   .out = out};
}

static sb_matrix weight_of(const sb_gate_case *c)
{
    return sb_gate_matrix(c, "weight", 1, (uint32_t)c->size[N]);
}

static sb_status exact_norm(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                            const sb_op_table *ops, float *const out[])
{
    const sb_matrix weight = weight_of(c);
    const sb_rmsnorm_args args = norm_args(c, in, &weight, out[0]);
    return ops->rmsnorm(knobs, &args);
}

static sb_status exact_gated(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                             const sb_op_table *ops, float *const out[])
{
    const sb_matrix weight = weight_of(c);
    const sb_gated_rmsnorm_args args = gated_args(c, in, &weight, out[0]);
    return ops->gated_rmsnorm(knobs, &args);
}

/* without a rounding: x w / sqrt( mean of the squares + eps ), with w = 1 + weight,
 * weight, or weight silu(z). */
static void real(const sb_gate_case *c, const float *all, const float *weight, const float *z,
                 sb_dd *out)
{
    size_t n = (size_t)c->size[N];
    for (size_t row = 0; row < (size_t)c->size[ROWS]; row++) {
        const float *x = all + row * n;
        sb_dd squares = sb_dd_of(0.0);
        for (size_t i = 0; i < n; i++)
            squares = sb_dd_fma(squares, sb_dd_of((double)x[i]), sb_dd_of((double)x[i]));
        sb_dd mean = sb_dd_div(squares, sb_dd_of((double)n));
        sb_dd root = sb_dd_sqrt(sb_dd_add(mean, sb_dd_of((double)eps)));
        for (size_t i = 0; i < n; i++) {
            sb_dd factor = sb_dd_of((double)weight[i]);
            if (z)
                factor = sb_dd_mul(factor, sb_dd_silu(sb_dd_of((double)z[row * n + i])));
            else
                factor = sb_dd_add(sb_dd_of(1.0), factor);
            out[row * n + i] = sb_dd_div(sb_dd_mul(sb_dd_of((double)x[i]), factor), root);
        }
    }
}

static sb_status real_norm(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    real(c, in[X], in[WEIGHT], NULL, out[0]);
    return SB_OK;
}

static sb_status real_gated(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    real(c, in[GATED_X], in[GATED_WEIGHT], in[GATED_Z], out[0]);
    return SB_OK;
}

static sb_status bound_norm(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                            sb_ball *const out[])
{
    const sb_matrix weight = weight_of(c);
    const sb_rmsnorm_args args = norm_args(c, in, &weight, NULL);
    return sb_bound_rmsnorm(&ar->ar, &ar->knobs, &args, out[0], NULL);
}

/* V-140: "may round between its steps or not" */
static sb_status bound_gated(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                             sb_ball *const out[])
{
    const sb_matrix weight = weight_of(c);
    const sb_gated_rmsnorm_args args = gated_args(c, in, &weight, NULL);
    size_t count = c->output[0].count;
    sb_ball *more = sb_alloc(count, sizeof *more);
    sb_knobs other = ar->knobs;
    other.value[SB_KNOB_gated_norm] = SB_gated_norm_f32;
    sb_status status = SB_ERR_MEMORY;
    if (more)
        status = sb_bound_gated_rmsnorm(&ar->ar, &ar->knobs, &args, out[0], NULL);
    if (!status)
        status = sb_bound_gated_rmsnorm(&ar->ar, &other, &args, more, NULL);
    if (!status)
        sb_gate_cover(out[0], more, count, 0);
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
                                  .list = list_norm,
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
                                  .what =
                                      "the norm after the delta rule, multiplied by silu of a gate",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = use_gated,
                                  .use_count = 1,
                                  .list = list_gated,
                                  .adapt = adapt_gated,
                                  .exact = exact_gated,
                                  .real = real_gated,
                                  .bound = bound_gated,
                                  .row_arrays = "x,z",
                                  .rows_independent = 1};
    return &op;
}
