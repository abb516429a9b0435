/* op_moe_combine.c - the sum of the experts' outputs times their weights, and of the shared expert
 * times its gate. */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/topk.h"
#include "tools/judge/gate/weights.h"

typedef struct sizes {
    uint32_t rows, slots, experts, n;
} sizes;

static sizes sizes_of(const sb_gate_case *c)
{
    return (sizes){(uint32_t)sb_gate_size(c, "rows"), (uint32_t)sb_gate_size(c, "slots"),
                   (uint32_t)sb_gate_size(c, "experts"), (uint32_t)sb_gate_size(c, "n")};
}

/* V-136: "slots are at most the experts" */
static sb_status check(const sb_gate_case *c, sb_error *err)
{
    const sizes z = sizes_of(c);
    if (z.slots <= z.experts)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "%u slots of %u experts", z.slots, z.experts);
}

enum { EXPERT_OUT, TOPK, SHARED_OUT, SHARED_LOGIT };

static sb_gate_list list(const sb_gate_case *c)
{
    const sizes z = sizes_of(c);
    return (sb_gate_list){
        .input = {[EXPERT_OUT] = {"expert_out", "token,slot,column",
                                  .shape = {z.rows, z.slots, z.n}, .typing = SB_GATE_TYPED},
                  [TOPK] = {.name = ""},
                  [SHARED_OUT] = {"shared_out", "token,column", .shape = {z.rows, z.n},
                                  .typing = SB_GATE_TYPED},
                  [SHARED_LOGIT] = {"shared_logit", "token", .shape = {z.rows},
                                    .role = SB_GATE_LOGIT, .typing = SB_GATE_TYPED}},
        .output = {{"", "token,column", .shape = {z.rows, z.n}}}};
}

static sb_status add(sb_gate_case *c, sb_error *err)
{
    const sizes z = sizes_of(c);
    (void)err;
    return sb_gate_add_topk(c, z.rows, z.slots, z.experts);
}

static sb_status need(const sb_gate_case *c, sb_error *err)
{
    const sizes z = sizes_of(c);
    return sb_gate_need_topk(c, z.rows, z.slots, z.experts, err);
}

/* The experts of all tokens, and their weights. */
typedef struct routing {
    float *weights;
    uint32_t *ids;
} routing;

static sb_status open_routing(const sb_gate_case *c, const sizes *z, routing *r)
{
    *r = (routing){sb_gate_values(c, "topk_weights"),
                   sb_alloc((size_t)z->rows * z->slots, sizeof *r->ids)};
    if (!r->weights || !r->ids)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < (size_t)z->rows * z->slots; i++)
        r->ids[i] = sb_gate_topk_id(c, z->slots, i / z->slots, i % z->slots);
    return SB_OK;
}

static void close_routing(routing *r)
{
    free(r->weights);
    free(r->ids);
}

/* The arguments of R-17 for one token. */
static sb_moe_combine_args args_of(const sizes *z, float *const in[], const routing *r, size_t t,
                                   float *out)
{
    return (sb_moe_combine_args){.expert_out = in[EXPERT_OUT] + t * z->slots * z->n,
                                 .weights = r->weights + t * z->slots,
                                 .ids = r->ids + t * z->slots,
                                 .shared_out = in[SHARED_OUT] + t * z->n,
                                 .shared_logit = in[SHARED_LOGIT][t],
                                 .kept = z->slots,
                                 .n = z->n,
                                 .out = out};
}

static sb_status exact(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                       const sb_op_table *ops, float *const out[])
{
    const sizes z = sizes_of(c);
    routing r;
    sb_status status = open_routing(c, &z, &r);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args args = args_of(&z, in, &r, t, out[0] + t * z.n);
        status = ops->moe_combine(knobs, &args);
    }
    close_routing(&r);
    return status;
}

/* V-132: "sum( w_e f_e ) + sigmoid(l) f_shared" */
static sb_status real(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const sizes z = sizes_of(c);
    routing r;
    sb_status status = open_routing(c, &z, &r);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args a = args_of(&z, in, &r, t, NULL);
        const sb_dd open = sb_dd_sigmoid(sb_dd_of((double)a.shared_logit));
        for (size_t i = 0; i < z.n; i++) {
            sb_dd sum = sb_dd_mul(open, sb_dd_of((double)a.shared_out[i]));
            for (size_t e = 0; e < z.slots; e++)
                sum = sb_dd_fma(sum, sb_dd_of((double)a.expert_out[e * z.n + i]),
                                sb_dd_of((double)a.weights[e]));
            out[0][t * z.n + i] = sum;
        }
    }
    close_routing(&r);
    return status;
}

static sb_status bound(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                       sb_ball *const out[])
{
    const sizes z = sizes_of(c);
    routing r;
    sb_status status = open_routing(c, &z, &r);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args args = args_of(&z, in, &r, t, NULL);
        status = sb_bound_moe_combine(&ar->ar, &ar->knobs, &args, out[0] + t * z.n, NULL);
    }
    for (size_t i = 0; !status && i < (size_t)z.rows * z.n; i++)
        out[0][i] = sb_gate_known(out[0][i]);
    close_routing(&r);
    return status;
}

const sb_gate_op *sb_gate_op_moe_combine(void)
{
    static const sb_gate_param params[] = {{"rows", 4, 1, 65536, "tokens"},
                                           {"slots", 8, 1, 64, "experts per token"},
                                           {"experts", 64, 1, 1024, "number of experts"},
                                           {"n", 256, 1, 65536, "columns"}};
    static const char *const shapes[] = {"rows=1", "rows=9", "slots=1", "slots=2", "slots=10",
                                         "n=1",    "n=255",  "n=257",   NULL};
    static const sb_op uses[] = {SB_OP_moe_combine};
    static const sb_gate_op op = {
        .name = "moe_combine",
        .clause = "R-17",
        .what = "experts times their weights, plus the shared expert times its gate",
        .params = params,
        .param_count = sizeof params / sizeof *params,
        .shapes = shapes,
        .uses = uses,
        .use_count = 1,
        .check = check,
        .list = list,
        .add = add,
        .need = need,
        .exact = exact,
        .real = real,
        .bound = bound,
        .row_arrays = "expert_out,topk_ids,topk_weights,shared_out,shared_logit",
        .rows_independent = 1};
    return &op;
}
