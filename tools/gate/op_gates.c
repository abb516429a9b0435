/* op_gates.c - decay and beta of the delta rule. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/whole.h"

enum { ROWS, HEADS };
static const sb_gate_param params[] = {{"rows", 6, 1, 65536, "tokens"},
                                       {"heads", 32, 1, 1024, "value heads"}};
static const char *const shapes[] = {"rows=1",   "rows=9",           "heads=1", "heads=3",
                                     "heads=33", "rows=65,heads=64", NULL};
static const sb_op uses[] = {SB_OP_gates};

static sb_status expect(sb_gate_case *c)
{
    sb_status status = sb_gate_expect(c, "", SB_GATE_VALUES, "row,head", 2, c->size);
    return status ? status : sb_gate_expect(c, "beta", SB_GATE_VALUES, "row,head", 2, c->size);
}

/* A_log of a trained model lies between log 0.01 and log 16, dt_bias around 0. */
static sb_status make(sb_gate_case *c, sb_error *err)
{
    (void)err;
    size_t rows = (size_t)c->size[ROWS], heads = (size_t)c->size[HEADS], count = rows * heads;
    float *a = sb_alloc(2 * count + 2 * heads, sizeof *a);
    if (!a)
        return SB_ERR_MEMORY;
    float *b = a + count, *a_log = b + count, *dt_bias = a_log + heads;
    sb_gate_draw(c, "a", SB_GATE_LOGIT, rows, heads, a);
    sb_gate_draw(c, "b", SB_GATE_LOGIT, rows, heads, b);
    sb_gate_draw_in(c, SB_GATE_REGIME_normal, "A_log", SB_GATE_ACTIVATION, 1, heads, a_log);
    sb_gate_draw_in(c, SB_GATE_REGIME_normal, "dt_bias", SB_GATE_ACTIVATION, 1, heads, dt_bias);
    sb_status status = sb_gate_add_values(c, "a", "row,head", 2, c->size, a);
    if (!status)
        status = sb_gate_add_values(c, "b", "row,head", 2, c->size, b);
    if (!status)
        status = sb_gate_add_singles(c, "A_log", "head", 1, c->size + HEADS, a_log);
    if (!status)
        status = sb_gate_add_values(c, "dt_bias", "head", 1, c->size + HEADS, dt_bias);
    free(a);
    return status ? status : expect(c);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    static const char *const names[] = {"a", "b", "A_log", "dt_bias"};
    for (size_t i = 0; i < 4; i++) {
        const uint64_t *shape = i < 2 ? c->size : c->size + HEADS;
        size_t count = (size_t)(i < 2 ? shape[0] * shape[1] : shape[0]);
        sb_status status = sb_gate_need(c, names[i], i < 2 ? 2 : 1, shape, err);
        if (!status)
            status = sb_gate_need_finite(c, names[i], count, err);
        if (status)
            return status;
    }
    return expect(c);
}

typedef struct inputs {
    float *a, *b;
    sb_matrix a_log, dt_bias;
    sb_gates_args args;
} inputs;

static void inputs_free(inputs *in)
{
    free(in->a);
    free(in->b);
}

static sb_status inputs_of(const sb_gate_case *c, inputs *in)
{
    uint32_t heads = (uint32_t)c->size[HEADS];
    *in = (inputs){.a = sb_gate_values(c, "a"),
                   .b = sb_gate_values(c, "b"),
                   .a_log = sb_gate_matrix(c, "A_log", 1, heads),
                   .dt_bias = sb_gate_matrix(c, "dt_bias", 1, heads)};
    in->args = (sb_gates_args){.a = in->a,
                               .b = in->b,
                               .a_log = &in->a_log,
                               .dt_bias = &in->dt_bias,
                               .rows = (size_t)c->size[ROWS],
                               .heads = heads};
    if (in->a && in->b)
        return SB_OK;
    inputs_free(in);
    return SB_ERR_MEMORY;
}

static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, &in);
    if (status)
        return status;
    in.args.g = out[0];
    in.args.beta = out[1];
    status = ops->gates(knobs, &in.args);
    inputs_free(&in);
    return status;
}

/* R-5 without a rounding: g = -exp(A_log) softplus(a + dt_bias), beta = sigmoid(b). */
static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    inputs in;
    float *a_log = sb_gate_values(c, "A_log"), *dt_bias = sb_gate_values(c, "dt_bias");
    sb_status status = a_log && dt_bias ? inputs_of(c, &in) : SB_ERR_MEMORY;
    for (size_t at = 0; !status && at < in.args.rows * in.args.heads; at++) {
        size_t h = at % in.args.heads;
        sb_dd x = sb_dd_add(sb_dd_of((double)in.a[at]), sb_dd_of((double)dt_bias[h]));
        sb_dd speed = sb_dd_exp(sb_dd_of((double)a_log[h]));
        out[0][at] = sb_dd_neg(sb_dd_mul(speed, sb_dd_softplus(x)));
        out[1][at] = sb_dd_sigmoid(sb_dd_of((double)in.b[at]));
    }
    if (!status)
        inputs_free(&in);
    free(a_log);
    free(dt_bias);
    return status;
}

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    inputs in;
    sb_status status = inputs_of(c, &in);
    if (!status) {
        status = sb_bound_gates(ar->ar, &ar->knobs, &in.args, out[0], out[1]);
        inputs_free(&in);
    }
    return status;
}

const sb_gate_op *sb_gate_op_gates(void)
{
    static const sb_gate_op op = {.name = "gates",
                                  .clause = "R-5",
                                  .what = "logarithm of the decay, and beta",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .not_regimes = "subnormal padding",
                                  .uses = uses,
                                  .use_count = 1,
                                  .make = make,
                                  .declare = declare,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "a,b",
                                  .rows_independent = 1};
    return &op;
}
