/* op_swiglu.c - silu(gate) up, element by element. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/weights.h"

static void shape_of(const sb_gate_case *c, uint64_t shape[2])
{
    shape[0] = sb_gate_size(c, "rows");
    shape[1] = sb_gate_size(c, "n");
}

static sb_status expect(sb_gate_case *c)
{
    uint64_t shape[2];
    shape_of(c, shape);
    return sb_gate_expect(c, "", SB_GATE_VALUES, "token,column", 2, shape);
}

/* V-137: "In regimes least, zeros and one-hot `up` of swiglu is normal", lest every product is 0.
 */
static sb_status make(sb_gate_case *c, sb_error *err)
{
    uint64_t shape[2];
    shape_of(c, shape);
    const size_t count = (size_t)(shape[0] * shape[1]);
    const int alone = c->regime == SB_GATE_REGIME_least || c->regime == SB_GATE_REGIME_zeros ||
                      c->regime == SB_GATE_REGIME_one_hot;
    const sb_gate_case as = sb_gate_in_regime(c, alone ? SB_GATE_REGIME_normal : c->regime);
    float *values = sb_alloc(count, sizeof *values);
    if (!values)
        return SB_ERR_MEMORY;
    (void)err;
    sb_gate_draw(c, "gate", SB_GATE_ACTIVATION, (size_t)shape[0], (size_t)shape[1], values);
    sb_status status = sb_gate_add_values(c, "gate", "token,column", 2, shape, values);
    sb_gate_draw(&as, "up", SB_GATE_ACTIVATION, (size_t)shape[0], (size_t)shape[1], values);
    if (!status)
        status = sb_gate_add_values(c, "up", "token,column", 2, shape, values);
    free(values);
    return status ? status : expect(c);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    uint64_t shape[2];
    shape_of(c, shape);
    sb_status status = sb_gate_need_typed(c, "gate", c->input, 2, shape, err);
    if (!status)
        status = sb_gate_need_typed(c, "up", c->input, 2, shape, err);
    return status ? status : expect(c);
}

/* The arguments of R-16 on the case's inputs; free() both. */
typedef struct inputs {
    float *gate, *up;
    size_t count;
} inputs;

static sb_status open_inputs(const sb_gate_case *c, inputs *in)
{
    uint64_t shape[2];
    shape_of(c, shape);
    *in =
        (inputs){sb_gate_values(c, "gate"), sb_gate_values(c, "up"), (size_t)(shape[0] * shape[1])};
    return in->gate && in->up ? SB_OK : SB_ERR_MEMORY;
}

static sb_swiglu_args args_of(const inputs *in, float *out)
{
    return (sb_swiglu_args){
        .gate = in->gate, .up = in->up, .count = in->count, .kind = SB_MLP_expert, .out = out};
}

static void close_inputs(inputs *in)
{
    free(in->gate);
    free(in->up);
}

static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    inputs in;
    sb_status status = open_inputs(c, &in);
    const sb_swiglu_args args = args_of(&in, out[0]);
    if (!status)
        status = ops->swiglu(knobs, &args);
    close_inputs(&in);
    return status;
}

static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    inputs in;
    sb_status status = open_inputs(c, &in);
    for (size_t i = 0; !status && i < in.count; i++)
        out[0][i] = sb_dd_mul(sb_dd_silu(sb_dd_of((double)in.gate[i])), sb_dd_of((double)in.up[i]));
    close_inputs(&in);
    return status;
}

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    inputs in;
    sb_status status = open_inputs(c, &in);
    const sb_swiglu_args args = args_of(&in, NULL);
    if (!status)
        status = sb_bound_swiglu(sb_arithmetic_vector(ar->ar), &ar->knobs, &args, out[0], NULL);
    for (size_t i = 0; !status && i < in.count; i++)
        out[0][i] = sb_gate_known(out[0][i]);
    close_inputs(&in);
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
                                  .make = make,
                                  .declare = declare,
                                  .exact = exact,
                                  .real = real,
                                  .bound = bound,
                                  .row_arrays = "gate,up",
                                  .rows_independent = 1};
    return &op;
}
