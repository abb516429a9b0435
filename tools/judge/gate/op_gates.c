/* op_gates.c - decay and beta of the delta rule. */
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/gate.h"

enum { ROWS, HEADS };
static const sb_gate_param params[] = {{"rows", 6, 1, 65536, "tokens"},
                                       {"heads", 32, 1, 1024, "value heads"}};
static const char *const shapes[] = {"rows=1",   "rows=9",           "heads=1", "heads=3",
                                     "heads=33", "rows=65,heads=64", NULL};
static const sb_op uses[] = {SB_OP_gates};

enum { A, B, A_LOG, DT_BIAS };

/* A_log of a trained model lies between log 0.01 and log 16, dt_bias around 0. */
static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = c->size[ROWS], heads = c->size[HEADS];
    return (sb_gate_list){
        .input = {[A] = {"a", "row,head", .shape = {rows, heads}, .role = SB_GATE_LOGIT},
                  [B] = {"b", "row,head", .shape = {rows, heads}, .role = SB_GATE_LOGIT},
                  [A_LOG] = {"A_log", "head", .shape = {heads}, .typing = SB_GATE_F32_MADE,
                             .normal = 1},
                  [DT_BIAS] = {"dt_bias", "head", .shape = {heads}, .normal = 1}},
        .output = {{"", "row,head", .shape = {rows, heads}},
                   {"beta", "row,head", .shape = {rows, heads}}}};
}

typedef struct arguments {
    sb_matrix a_log, dt_bias;
    sb_gates_args args;
} arguments;

static const sb_gates_args *args_of(const sb_gate_case *c, float *const in[], arguments *to)
{
    const uint32_t heads = (uint32_t)c->size[HEADS];
    to->a_log = sb_gate_matrix(c, "A_log", 1, heads);
    to->dt_bias = sb_gate_matrix(c, "dt_bias", 1, heads);
    to->args = (sb_gates_args){.a = in[A],
                               .b = in[B],
                               .a_log = &to->a_log,
                               .dt_bias = &to->dt_bias,
                               .rows = (size_t)c->size[ROWS],
                               .heads = heads};
    return &to->args;
}

static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    arguments a;
    args_of(c, in, &a);
    a.args.g = out[0];
    a.args.beta = out[1];
    return ops->gates(knobs, &a.args);
}

/* R-5 without a rounding: g = -exp(A_log) softplus(a + dt_bias), beta = sigmoid(b). */
static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    for (size_t at = 0; at < c->output[0].count; at++) {
        size_t h = at % (size_t)c->size[HEADS];
        sb_dd x = sb_dd_add(sb_dd_of((double)in[A][at]), sb_dd_of((double)in[DT_BIAS][h]));
        sb_dd speed = sb_dd_exp(sb_dd_of((double)in[A_LOG][h]));
        out[0][at] = sb_dd_neg(sb_dd_mul(speed, sb_dd_softplus(x)));
        out[1][at] = sb_dd_sigmoid(sb_dd_of((double)in[B][at]));
    }
    return SB_OK;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    arguments a;
    return sb_bound_gates(&ar->ar, &ar->knobs, args_of(c, in, &a), out[0], out[1]);
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
                                  .list = list,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "a,b",
                                  .rows_independent = 1};
    return &op;
}
