/* op_moe_combine.c - outputs of experts by their weights, and the shared expert by its gate. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/compare/bound.h"
#include "tools/gate/topk.h"
#include "tools/gate/weights.h"

typedef struct sizes {
    uint32_t rows, slots, experts, n;
} sizes;

static sizes sizes_of(const sb_gate_case *c)
{
    return (sizes){(uint32_t)sb_gate_size(c, "rows"), (uint32_t)sb_gate_size(c, "slots"),
                   (uint32_t)sb_gate_size(c, "experts"), (uint32_t)sb_gate_size(c, "n")};
}

static sb_status expect(sb_gate_case *c, const sizes *z)
{
    const uint64_t shape[] = {z->rows, z->n};
    return sb_gate_expect(c, "", SB_GATE_VALUES, "token,column", 2, shape);
}

/* V-136: "slots are at most the experts" */
static sb_status check(const sizes *z, sb_error *err)
{
    if (z->slots <= z->experts)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "%u slots of %u experts", z->slots, z->experts);
}

static sb_status add(sb_gate_case *c, const char *name, sb_gate_role role, const char *axes,
                     unsigned rank, const uint64_t *shape)
{
    size_t rows = 1, cols = (size_t)shape[rank - 1];
    for (unsigned i = 0; i + 1 < rank; i++)
        rows *= (size_t)shape[i];
    float *values = sb_alloc(rows * cols, sizeof *values);
    if (!values)
        return SB_ERR_MEMORY;
    sb_gate_draw(c, name, role, rows, cols, values);
    sb_status status = sb_gate_add_values(c, name, axes, rank, shape, values);
    free(values);
    return status;
}

static sb_status make(sb_gate_case *c, sb_error *err)
{
    const sizes z = sizes_of(c);
    const uint64_t experts[] = {z.rows, z.slots, z.n}, shared[] = {z.rows, z.n};
    sb_status status = check(&z, err);
    if (!status)
        status = add(c, "expert_out", SB_GATE_ACTIVATION, "token,slot,column", 3, experts);
    if (!status)
        status = sb_gate_add_topk(c, z.rows, z.slots, z.experts);
    if (!status)
        status = add(c, "shared_out", SB_GATE_ACTIVATION, "token,column", 2, shared);
    if (!status)
        status = add(c, "shared_logit", SB_GATE_LOGIT, "token", 1, shared);
    return status ? status : expect(c, &z);
}

static sb_status declare(sb_gate_case *c, sb_error *err)
{
    const sizes z = sizes_of(c);
    const uint64_t experts[] = {z.rows, z.slots, z.n}, shared[] = {z.rows, z.n};
    sb_status status = check(&z, err);
    if (!status)
        status = sb_gate_need_typed(c, "expert_out", c->input, 3, experts, err);
    if (!status)
        status = sb_gate_need_topk(c, z.rows, z.slots, z.experts, err);
    if (!status)
        status = sb_gate_need_typed(c, "shared_out", c->input, 2, shared, err);
    if (!status)
        status = sb_gate_need_typed(c, "shared_logit", c->input, 1, shared, err);
    return status ? status : expect(c, &z);
}

/* The inputs in binary32, and those of one token as R-17 has them. */
typedef struct inputs {
    float *expert_out, *shared_out, *shared_logit, *weights;
    uint32_t *ids;
} inputs;

static sb_status open_inputs(const sb_gate_case *c, const sizes *z, inputs *in)
{
    *in = (inputs){.expert_out = sb_gate_values(c, "expert_out"),
                   .shared_out = sb_gate_values(c, "shared_out"),
                   .shared_logit = sb_gate_values(c, "shared_logit"),
                   .weights = sb_gate_values(c, "topk_weights"),
                   .ids = sb_alloc((size_t)z->rows * z->slots, sizeof *in->ids)};
    if (!in->expert_out || !in->shared_out || !in->shared_logit || !in->weights || !in->ids)
        return SB_ERR_MEMORY;
    for (size_t t = 0; t < z->rows; t++)
        for (size_t s = 0; s < z->slots; s++)
            in->ids[t * z->slots + s] = sb_gate_topk_id(c, z->slots, t, s);
    return SB_OK;
}

static void close_inputs(inputs *in)
{
    free(in->expert_out);
    free(in->shared_out);
    free(in->shared_logit);
    free(in->weights);
    free(in->ids);
}

static sb_moe_combine_args args_of(const sizes *z, const inputs *in, size_t t, float *out)
{
    return (sb_moe_combine_args){.expert_out = in->expert_out + t * z->slots * z->n,
                                 .weights = in->weights + t * z->slots,
                                 .ids = in->ids + t * z->slots,
                                 .shared_out = in->shared_out + t * z->n,
                                 .shared_logit = in->shared_logit[t],
                                 .kept = z->slots,
                                 .n = z->n,
                                 .out = out};
}

static sb_status exact(const sb_gate_case *c, const sb_knobs *knobs, const sb_op_table *ops,
                       float *const out[])
{
    const sizes z = sizes_of(c);
    inputs in;
    sb_status status = open_inputs(c, &z, &in);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args args = args_of(&z, &in, t, out[0] + t * z.n);
        status = ops->moe_combine(knobs, &args);
    }
    close_inputs(&in);
    return status;
}

/* V-132: "sum( w_e f_e ) + sigmoid(l) f_shared" */
static sb_status real(const sb_gate_case *c, sb_dd *const out[])
{
    const sizes z = sizes_of(c);
    inputs in;
    sb_status status = open_inputs(c, &z, &in);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args a = args_of(&z, &in, t, NULL);
        const sb_dd open = sb_dd_sigmoid(sb_dd_of((double)a.shared_logit));
        for (size_t i = 0; i < z.n; i++) {
            sb_dd sum = sb_dd_mul(open, sb_dd_of((double)a.shared_out[i]));
            for (size_t e = 0; e < z.slots; e++)
                sum = sb_dd_fma(sum, sb_dd_of((double)a.expert_out[e * z.n + i]),
                                sb_dd_of((double)a.weights[e]));
            out[0][t * z.n + i] = sum;
        }
    }
    close_inputs(&in);
    return status;
}

static sb_status bound(const sb_gate_case *c, const sb_gate_arith *ar, sb_ball *const out[])
{
    const sizes z = sizes_of(c);
    inputs in;
    sb_status status = open_inputs(c, &z, &in);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args args = args_of(&z, &in, t, NULL);
        status = sb_bound_moe_combine(ar->ar, &ar->knobs, &args, out[0] + t * z.n, NULL);
    }
    for (size_t i = 0; !status && i < (size_t)z.rows * z.n; i++)
        out[0][i] = sb_gate_known(out[0][i]);
    close_inputs(&in);
    return status;
}

const sb_gate_op *sb_gate_op_moe_combine(void)
{
    static const sb_gate_param params[] = {{"rows", 4, 1, 65536, "tokens"},
                                           {"slots", 8, 1, 64, "experts of a token"},
                                           {"experts", 64, 1, 1024, "experts that there are"},
                                           {"n", 256, 1, 65536, "columns"}};
    static const char *const shapes[] = {"rows=1", "rows=9", "slots=1", "slots=2", "slots=10",
                                         "n=1",    "n=255",  "n=257",   NULL};
    static const sb_op uses[] = {SB_OP_moe_combine};
    static const sb_gate_op op = {.name = "moe_combine",
                                  .clause = "R-17",
                                  .what = "experts by weight and the shared expert by its gate",
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
                                  .row_arrays =
                                      "expert_out,topk_ids,topk_weights,shared_out,shared_logit",
                                  .rows_independent = 1};
    return &op;
}
