/* op_swiglu.c - silu(gate) up, element by element. */
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/weights.h"

enum { GATE, UP };

/* V-137: "In regimes least, zeros and one-hot `up` of swiglu is normal", because every product
 * would be 0 otherwise. */
static sb_gate_list list(const sb_gate_case *c)
{
    const uint64_t rows = sb_gate_size(c, "rows"), n = sb_gate_size(c, "n");
    const int alone = c->regime == SB_GATE_REGIME_least || c->regime == SB_GATE_REGIME_zeros ||
                      c->regime == SB_GATE_REGIME_one_hot;
    return (sb_gate_list){
        .input = {[GATE] = {"gate", "token,column", .shape = {rows, n}, .typing = SB_GATE_TYPED},
                  [UP] = {"up", "token,column", .shape = {rows, n}, .typing = SB_GATE_TYPED,
                          .normal = alone}},
        .output = {{"", "token,column", .shape = {rows, n}}}};
}

/* The arguments of R-16. */
static sb_swiglu_args args_of(const sb_gate_case *c, float *const in[], float *out)
{
    return (sb_swiglu_args){.gate = in[GATE],
                            .up = in[UP],
                            .count = c->output[0].count,
                            .kind = SB_MLP_expert,
                            .out = out};
}

static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    const sb_swiglu_args args = args_of(c, in, out[0]);
    return ops->swiglu(knobs, &args);
}

static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    for (size_t i = 0; i < c->output[0].count; i++)
        out[0][i] =
            sb_dd_mul(sb_dd_silu(sb_dd_of((double)in[GATE][i])), sb_dd_of((double)in[UP][i]));
    return SB_OK;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    const sb_swiglu_args args = args_of(c, in, NULL);
    const sb_status status =
        sb_bound_swiglu(sb_arithmetic_vector(&ar->ar), &ar->knobs, &args, out[0], NULL);
    for (size_t i = 0; !status && i < c->output[0].count; i++)
        out[0][i] = sb_gate_known(out[0][i]);
    return status;
}

const sb_gate_op *sb_gate_op_swiglu(void)
{
    static const sb_gate_param params[] = {{"rows", 4, 1, 65536, "tokens"},
                                           {"n", 256, 1, 65536, "columns"}};
    static const char *const shapes[] = {"rows=1", "rows=9", "n=1",    "n=7",
                                         "n=127",  "n=129",  "n=1000", NULL};
    static const sb_op uses[] = {SB_OP_swiglu};
    static const sb_gate_op op = {.name = "swiglu",
                                  .clause = "R-16",
                                  .what = "silu(gate) up",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .shapes = shapes,
                                  .uses = uses,
                                  .use_count = 1,
                                  .list = list,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "gate,up",
                                  .rows_independent = 1};
    return &op;
}
