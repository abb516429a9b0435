/* op_experts.c - the routed experts of a layer (grouped GEMM), and the shared expert: whole MLPs.
 */
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/ops/knob.h"
#include "tools/judge/bound/bound.h"
#include "tools/judge/gate/topk.h"
#include "tools/judge/gate/weights.h"
#include "tools/judge/gate/whole.h"

typedef struct sizes {
    uint32_t rows, hidden, inner, experts, slots;
} sizes;

/* --- one MLP: down( silu(gate x) up x ) ------------------------------------------------------- */

typedef struct mlp {
    sb_matrix gate, up, down;
    sb_mlp_kind kind;
} mlp;

static sb_linear_kind in_kind(const mlp *m)
{
    return m->kind == SB_MLP_expert ? SB_LINEAR_expert_in : SB_LINEAR_layer;
}

static sb_linear_kind down_kind(const mlp *m)
{
    return m->kind == SB_MLP_expert ? SB_LINEAR_expert_down : SB_LINEAR_layer;
}

/* on `rows` rows of x (rows, hidden). */
static sb_status mlp_exact(const mlp *m, const sb_knobs *knobs, const sb_op_table *ops,
                           const float *x, size_t rows, float *out)
{
    const size_t count = rows * m->gate.rows;
    float *gate = sb_alloc(2 * count, sizeof *gate), *up = gate ? gate + count : NULL;
    if (!gate)
        return SB_ERR_MEMORY;
    const sb_linear_args
        first = {.weight = &m->gate, .kind = in_kind(m), .in = x, .rows = rows, .out = gate},
        second = {.weight = &m->up, .kind = in_kind(m), .in = x, .rows = rows, .out = up},
        third = {.weight = &m->down, .kind = down_kind(m), .in = gate, .rows = rows, .out = out};
    const sb_swiglu_args act = {
        .gate = gate, .up = up, .count = count, .kind = m->kind, .out = gate};
    sb_status status = ops->linear(knobs, &first);
    if (!status)
        status = ops->linear(knobs, &second);
    if (!status)
        status = ops->swiglu(knobs, &act);
    if (!status)
        status = ops->linear(knobs, &third);
    free(gate);
    return status;
}

static sb_status mlp_real(const mlp *m, const sb_dd *x, size_t rows, sb_dd *out)
{
    const size_t count = rows * m->gate.rows;
    sb_dd *gate = sb_alloc(2 * count, sizeof *gate), *up = gate ? gate + count : NULL;
    sb_status status = gate ? sb_gate_real_linear(&m->gate, x, rows, gate) : SB_ERR_MEMORY;
    if (!status)
        status = sb_gate_real_linear(&m->up, x, rows, up);
    for (size_t i = 0; !status && i < count; i++)
        gate[i] = sb_dd_mul(sb_dd_silu(gate[i]), up[i]);
    if (!status)
        status = sb_gate_real_linear(&m->down, gate, rows, out);
    free(gate);
    return status;
}

/* x: the balls of the inputs. */
static sb_status mlp_bound(const sb_gate_case *c, const sb_gate_arith *ar, const mlp *m,
                           const sb_ball *x, size_t rows, sb_ball *out)
{
    const size_t count = rows * m->gate.rows;
    sb_ball *gate = sb_alloc(2 * count, sizeof *gate), *up = gate ? gate + count : NULL;
    sb_status status = SB_ERR_MEMORY;
    if (gate)
        status = sb_gate_bound_linear(c, ar, &m->gate, in_kind(m), x, rows, gate);
    if (!status)
        status = sb_gate_bound_linear(c, ar, &m->up, in_kind(m), x, rows, up);
    if (!status) {
        sb_bound_swiglu_of(sb_arithmetic_vector(&ar->ar), &ar->knobs, m->kind, gate, up, count,
                           gate);
        status = sb_gate_bound_linear(c, ar, &m->down, down_kind(m), gate, rows, out);
    }
    free(gate);
    return status;
}

static sb_ball *balls_of(const float *x, size_t count)
{
    sb_ball *balls = sb_alloc(count, sizeof *balls);
    if (balls)
        sb_balls_of(x, count, balls);
    return balls;
}

static sb_dd *wide_of(const float *x, size_t count)
{
    sb_dd *wide = sb_alloc(count, sizeof *wide);
    for (size_t i = 0; wide && i < count; i++)
        wide[i] = sb_dd_of((double)x[i]);
    return wide;
}

/* V-133: "The inputs of an MLP are normal in regime least, where its last weights are small. In
 * regime cancellation they are normal, too, and every second input is the one before it times
 * -7/8" */
static sb_gate_list list_of(const sb_gate_case *c)
{
    const uint64_t rows = sb_gate_size(c, "rows"), hidden = sb_gate_size(c, "hidden");
    return (sb_gate_list){
        .input = {{"x", "token,column", .shape = {rows, hidden}, .typing = SB_GATE_TYPED,
                   .normal = c->regime == SB_GATE_REGIME_least ||
                             c->regime == SB_GATE_REGIME_cancellation}},
        .output = {{"", "token,column", .shape = {rows, hidden}}}};
}

static void adapt(const sb_gate_case *c, float *const x[])
{
    const size_t rows = (size_t)sb_gate_size(c, "rows"), hidden = (size_t)sb_gate_size(c, "hidden");
    for (size_t i = 1; c->regime == SB_GATE_REGIME_cancellation && i < rows * hidden; i++)
        if (i % hidden % 2)
            x[0][i] = sb_gate_fit(c, -0.875f * x[0][i - 1]);
}

/* --- routed experts --------------------------------------------------------------------------- */

static sizes expert_sizes(const sb_gate_case *c)
{
    return (sizes){.rows = (uint32_t)sb_gate_size(c, "rows"),
                   .hidden = (uint32_t)sb_gate_size(c, "hidden"),
                   .inner = (uint32_t)sb_gate_size(c, "inner"),
                   .experts = (uint32_t)sb_gate_size(c, "experts"),
                   .slots = (uint32_t)sb_gate_size(c, "slots")};
}

/* V-136: "w13 has the rows of gate, then those of up; w2 is down" */
static sb_gate_stored w13(const sizes *z)
{
    return (sb_gate_stored){.prefix = "w13_",
                            .experts = z->experts,
                            .parts = 2,
                            .rows = z->inner,
                            .cols = z->hidden,
                            .steady = 1};
}

static sb_gate_stored w2(const sizes *z)
{
    return (sb_gate_stored){.prefix = "w2_",
                            .experts = z->experts,
                            .parts = 1,
                            .rows = z->hidden,
                            .cols = z->inner,
                            .small = 1};
}

static mlp expert_of(const sb_gate_case *c, const sizes *z, uint32_t expert)
{
    const sb_gate_stored first = w13(z), last = w2(z);
    return (mlp){.gate = sb_gate_stored_matrix(c, &first, expert, 0),
                 .up = sb_gate_stored_matrix(c, &first, expert, 1),
                 .down = sb_gate_stored_matrix(c, &last, expert, 0),
                 .kind = SB_MLP_expert};
}

static sb_status check_experts(const sb_gate_case *c, sb_error *err)
{
    const sizes z = expert_sizes(c);
    if (z.slots <= z.experts)
        return SB_OK;
    return sb_fail(err, SB_ERR_USAGE, "%u slots of %u experts", z.slots, z.experts);
}

static sb_status add_experts(sb_gate_case *c, sb_error *err)
{
    const sizes z = expert_sizes(c);
    const sb_gate_stored first = w13(&z), last = w2(&z);
    sb_status status = sb_gate_store(c, &first, err);
    if (!status)
        status = sb_gate_store(c, &last, err);
    return status ? status : sb_gate_add_topk(c, z.rows, z.slots, z.experts);
}

static sb_status need_experts(const sb_gate_case *c, sb_error *err)
{
    const sizes z = expert_sizes(c);
    const sb_gate_stored first = w13(&z), last = w2(&z);
    sb_status status = sb_gate_need_x(c, z.rows, z.hidden, err);
    if (!status)
        status = sb_gate_need_stored(c, &first, err);
    if (!status)
        status = sb_gate_need_stored(c, &last, err);
    return status ? status : sb_gate_need_topk(c, z.rows, z.slots, z.experts, err);
}

/* The arguments of R-17; the output of the shared expert is 0. */
typedef struct routing {
    float *weights, *zeros;
    uint32_t *ids;
} routing;

static sb_status open_routing(const sb_gate_case *c, const sizes *z, size_t t, routing *r)
{
    *r = (routing){.weights = sb_alloc(z->slots, sizeof *r->weights),
                   .zeros = sb_alloc(z->hidden, sizeof *r->zeros),
                   .ids = sb_alloc(z->slots, sizeof *r->ids)};
    if (!r->weights || !r->zeros || !r->ids)
        return SB_ERR_MEMORY;
    for (size_t s = 0; s < z->slots; s++) {
        r->weights[s] = sb_gate_topk_weight(c, z->slots, t, s);
        r->ids[s] = sb_gate_topk_id(c, z->slots, t, s);
    }
    return SB_OK;
}

static void close_routing(routing *r)
{
    free(r->weights);
    free(r->zeros);
    free(r->ids);
}

static sb_moe_combine_args routed_args(const sizes *z, const routing *r, const float *expert_out,
                                       float *out)
{
    return (sb_moe_combine_args){.expert_out = expert_out,
                                 .weights = r->weights,
                                 .ids = r->ids,
                                 .shared_out = r->zeros,
                                 .kept = z->slots,
                                 .n = z->hidden,
                                 .out = out};
}

static sb_status exact_experts(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                               const sb_op_table *ops, float *const out[])
{
    const sizes z = expert_sizes(c);
    const sb_knobs given = sb_gate_given_inputs(knobs);
    float *f = sb_alloc((size_t)z.slots * z.hidden, sizeof *f);
    sb_status status = f ? SB_OK : SB_ERR_MEMORY;
    for (size_t t = 0; !status && t < z.rows; t++) {
        routing r;
        status = open_routing(c, &z, t, &r);
        for (size_t s = 0; !status && s < z.slots; s++) {
            const mlp m = expert_of(c, &z, r.ids[s]);
            status = mlp_exact(&m, &given, ops, in[0] + t * z.hidden, 1, f + s * z.hidden);
        }
        const sb_moe_combine_args args = routed_args(&z, &r, f, out[0] + t * z.hidden);
        if (!status)
            status = ops->moe_combine(&given, &args);
        close_routing(&r);
    }
    free(f);
    return status;
}

/* V-132: "sum over slots of w down( silu(gate x) up x )" */
static sb_status real_experts(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const sizes z = expert_sizes(c);
    sb_dd *x = wide_of(in[0], (size_t)z.rows * z.hidden), *f = sb_alloc(z.hidden, sizeof *f);
    sb_status status = x && f ? SB_OK : SB_ERR_MEMORY;
    for (size_t t = 0; !status && t < z.rows; t++)
        for (size_t s = 0; !status && s < z.slots; s++) {
            const mlp m = expert_of(c, &z, sb_gate_topk_id(c, z.slots, t, s));
            const sb_dd w = sb_dd_of((double)sb_gate_topk_weight(c, z.slots, t, s));
            status = mlp_real(&m, x + t * z.hidden, 1, f);
            for (size_t i = 0; !status && i < z.hidden; i++) {
                sb_dd *y = &out[0][t * z.hidden + i];
                *y = sb_dd_fma(s ? *y : sb_dd_of(0.0), w, f[i]);
            }
        }
    free(x);
    free(f);
    return status;
}

static sb_status bound_experts(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                               sb_ball *const out[])
{
    const sizes z = expert_sizes(c);
    sb_ball *x = balls_of(in[0], (size_t)z.rows * z.hidden);
    sb_ball *f = sb_alloc((size_t)(z.slots + 1) * z.hidden, sizeof *f); /* zeros: shared expert */
    sb_status status = x && f ? SB_OK : SB_ERR_MEMORY;
    for (size_t t = 0; !status && t < z.rows; t++) {
        routing r;
        status = open_routing(c, &z, t, &r);
        for (size_t s = 0; !status && s < z.slots; s++) {
            const mlp m = expert_of(c, &z, r.ids[s]);
            status = mlp_bound(c, ar, &m, x + t * z.hidden, 1, f + s * z.hidden);
        }
        const sb_moe_combine_args args = routed_args(&z, &r, NULL, NULL);
        if (!status)
            sb_bound_moe_combine_of(&ar->ar, &ar->knobs, &args, f, f + (size_t)z.slots * z.hidden,
                                    out[0] + t * z.hidden);
        for (size_t i = 0; !status && i < z.hidden; i++)
            out[0][t * z.hidden + i] = sb_gate_known(out[0][t * z.hidden + i]);
        close_routing(&r);
    }
    free(x);
    free(f);
    return status;
}

/* --- the shared expert ------------------------------------------------------------------------ */

static sizes shared_sizes(const sb_gate_case *c)
{
    return (sizes){.rows = (uint32_t)sb_gate_size(c, "rows"),
                   .hidden = (uint32_t)sb_gate_size(c, "hidden"),
                   .inner = (uint32_t)sb_gate_size(c, "inner")};
}

enum { GATE, UP, DOWN, LAYERS };

static sb_gate_stored shared_layer(const sizes *z, int layer)
{
    static const char *const prefix[] = {"gate_proj.", "up_proj.", "down_proj."};
    return (sb_gate_stored){.prefix = prefix[layer],
                            .parts = 1,
                            .rows = layer == DOWN ? z->hidden : z->inner,
                            .cols = layer == DOWN ? z->inner : z->hidden,
                            .steady = layer != DOWN,
                            .small = layer == DOWN};
}

static mlp shared_of(const sb_gate_case *c, const sizes *z)
{
    const sb_gate_stored gate = shared_layer(z, GATE), up = shared_layer(z, UP),
                         down = shared_layer(z, DOWN);
    return (mlp){.gate = sb_gate_stored_matrix(c, &gate, 0, 0),
                 .up = sb_gate_stored_matrix(c, &up, 0, 0),
                 .down = sb_gate_stored_matrix(c, &down, 0, 0),
                 .kind = SB_MLP_shared};
}

static sb_matrix gate_row(const sb_gate_case *c, const sizes *z)
{
    return sb_gate_matrix(c, "shared_expert_gate.weight", 1, z->hidden);
}

enum { X, STORED, GATE_ROW };

static sb_gate_list list_shared(const sb_gate_case *c)
{
    const int small = c->regime == SB_GATE_REGIME_tiny || c->regime == SB_GATE_REGIME_least;
    sb_gate_list all = list_of(c);
    all.input[STORED] = (sb_gate_member){.name = ""};
    all.input[GATE_ROW] = (sb_gate_member){"shared_expert_gate.weight",
                                           "row,column",
                                           .shape = {1, shared_sizes(c).hidden},
                                           .role = SB_GATE_WEIGHT,
                                           .typing = SB_GATE_TYPED,
                                           .normal = small};
    return all;
}

static sb_status add_shared(sb_gate_case *c, sb_error *err)
{
    const sizes z = shared_sizes(c);
    sb_status status = SB_OK;
    for (int i = 0; !status && i < LAYERS; i++) {
        const sb_gate_stored s = shared_layer(&z, i);
        status = sb_gate_store(c, &s, err);
    }
    return status;
}

static sb_status need_shared(const sb_gate_case *c, sb_error *err)
{
    const sizes z = shared_sizes(c);
    sb_status status = sb_gate_need_x(c, z.rows, z.hidden, err);
    for (int i = 0; !status && i < LAYERS; i++) {
        const sb_gate_stored s = shared_layer(&z, i);
        status = sb_gate_need_stored(c, &s, err);
    }
    return status;
}

/* The last step is R-17 without routed experts: y = R( sigmoid(l) f ). */
static sb_moe_combine_args gated_args(const sizes *z, const float *f, float logit, float *out)
{
    return (sb_moe_combine_args){.expert_out = f,
                                 .weights = f,
                                 .shared_out = f,
                                 .shared_logit = logit,
                                 .kept = 0,
                                 .n = z->hidden,
                                 .out = out};
}

static sb_status exact_shared(const sb_gate_case *c, float *const in[], const sb_knobs *knobs,
                              const sb_op_table *ops, float *const out[])
{
    const sizes z = shared_sizes(c);
    const sb_knobs given = sb_gate_given_inputs(knobs);
    const mlp m = shared_of(c, &z);
    const sb_matrix gate = gate_row(c, &z);
    float *logits = sb_alloc(z.rows, sizeof *logits);
    float *f = sb_alloc((size_t)z.rows * z.hidden, sizeof *f);
    sb_status status = logits && f ? SB_OK : SB_ERR_MEMORY;
    const sb_linear_args args = {
        .weight = &gate, .kind = SB_LINEAR_shared_gate, .in = in[X], .rows = z.rows, .out = logits};
    if (!status)
        status = mlp_exact(&m, &given, ops, in[X], z.rows, f);
    if (!status)
        status = ops->linear(&given, &args);
    for (size_t t = 0; !status && t < z.rows; t++) {
        const sb_moe_combine_args last =
            gated_args(&z, f + t * z.hidden, logits[t], out[0] + t * z.hidden);
        status = ops->moe_combine(&given, &last);
    }
    free(logits);
    free(f);
    return status;
}

/* V-132: "sigmoid(w x) down( silu(gate x) up x )" */
static sb_status real_shared(const sb_gate_case *c, float *const in[], sb_dd *const out[])
{
    const sizes z = shared_sizes(c);
    const mlp m = shared_of(c, &z);
    const sb_matrix gate = gate_row(c, &z);
    sb_dd *x = wide_of(in[0], (size_t)z.rows * z.hidden),
          *logits = sb_alloc(z.rows, sizeof *logits);
    sb_status status = x && logits ? SB_OK : SB_ERR_MEMORY;
    if (!status)
        status = mlp_real(&m, x, z.rows, out[0]);
    if (!status)
        status = sb_gate_real_linear(&gate, x, z.rows, logits);
    for (size_t i = 0; !status && i < (size_t)z.rows * z.hidden; i++)
        out[0][i] = sb_dd_mul(sb_dd_sigmoid(logits[i / z.hidden]), out[0][i]);
    free(x);
    free(logits);
    return status;
}

/* R-17 written out, because the gate's logit is a ball; K-52 selects the rounding. */
static sb_ball gated(const sb_arithmetic *ar, const sb_knobs *knobs, sb_ball logit, sb_ball f)
{
    sb_ball open = sb_ball_sigmoid(ar, logit);
    if (!SB_IS(knobs, moe_sum, dot) && !SB_IS(knobs, shared_gate, fused))
        open = sb_ball_act(knobs, open);
    return sb_gate_known(sb_ball_act(knobs, sb_ball_mul(ar, open, f)));
}

static sb_status bound_shared(const sb_gate_case *c, float *const in[], const sb_gate_arith *ar,
                              sb_ball *const out[])
{
    const sizes z = shared_sizes(c);
    const mlp m = shared_of(c, &z);
    const sb_matrix gate = gate_row(c, &z);
    sb_ball *x = balls_of(in[0], (size_t)z.rows * z.hidden);
    sb_ball *logits = sb_alloc(z.rows, sizeof *logits);
    sb_status status = x && logits ? SB_OK : SB_ERR_MEMORY;
    if (!status)
        status = mlp_bound(c, ar, &m, x, z.rows, out[0]);
    if (!status)
        status = sb_gate_bound_linear(c, ar, &gate, SB_LINEAR_shared_gate, x, z.rows, logits);
    for (size_t i = 0; !status && i < (size_t)z.rows * z.hidden; i++)
        out[0][i] =
            gated(sb_arithmetic_vector(&ar->ar), &ar->knobs, logits[i / z.hidden], out[0][i]);
    free(x);
    free(logits);
    return status;
}

/* --- the two ops ------------------------------------------------------------------------------ */

static const sb_op uses[] = {SB_OP_linear, SB_OP_swiglu};

const sb_gate_op *sb_gate_op_experts(void)
{
    static const sb_gate_param params[] = {
        {"rows", 4, 1, 1024, "tokens"},
        {"experts", 6, 1, 512, "number of experts"},
        {"slots", 2, 1, 64, "experts per token"},
        {"hidden", 256, 1, 16384, "columns of an input"},
        {"inner", 128, 1, 16384, "columns between gate and down"}};
    static const char *const formats[] = {
        "nvfp4-ct",  "nvfp4-modelopt",  "bf16",        "f16",        "f32",
        "fp8-block", "fp8-block-ue8m0", "fp8-channel", "fp8-tensor", "mxfp4",
        "mxfp8",     "int4-ct",         NULL};
    static const char *const shapes[] = {"rows=1",
                                         "rows=9",
                                         "slots=1",
                                         "slots=6",
                                         "rows=17,hidden=128",
                                         "inner=160,hidden=160",
                                         "experts=1,slots=1",
                                         NULL};
    static const sb_gate_op op = {.name = "experts",
                                  .clause = "R-2, R-16, R-17",
                                  .what = "routed experts: grouped MLPs and their weighted sum",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .formats = formats,
                                  .shapes = shapes,
                                  .uses = uses,
                                  .use_count = sizeof uses / sizeof *uses,
                                  .check = check_experts,
                                  .list = list_of,
                                  .adapt = adapt,
                                  .add = add_experts,
                                  .need = need_experts,
                                  .exact = exact_experts,
                                  .real = real_experts,
                                  .bound = bound_experts,
                                  .row_arrays = "x,topk_ids,topk_weights",
                                  .rows_independent = 1};
    return &op;
}

const sb_gate_op *sb_gate_op_shared_expert(void)
{
    static const sb_gate_param params[] = {
        {"rows", 4, 1, 1024, "tokens"},
        {"hidden", 256, 1, 16384, "columns of an input"},
        {"inner", 128, 1, 16384, "columns between gate and down"}};
    static const char *const formats[] = {"bf16",
                                          "f16",
                                          "f32",
                                          "nvfp4-ct",
                                          "nvfp4-modelopt",
                                          "fp8-block",
                                          "fp8-block-ue8m0",
                                          "fp8-channel",
                                          "fp8-tensor",
                                          "mxfp4",
                                          "mxfp8",
                                          "int4-awq",
                                          "int4-ct",
                                          NULL};
    static const char *const shapes[] = {"rows=1", "rows=9", "rows=17,hidden=128",
                                         "inner=160,hidden=160", NULL};
    static const sb_gate_op op = {.name = "shared_expert",
                                  .clause = "R-2, R-16, R-17",
                                  .what = "the shared expert and its gate",
                                  .params = params,
                                  .param_count = sizeof params / sizeof *params,
                                  .formats = formats,
                                  .shapes = shapes,
                                  .uses = uses,
                                  .use_count = sizeof uses / sizeof *uses,
                                  .list = list_shared,
                                  .adapt = adapt,
                                  .add = add_shared,
                                  .need = need_shared,
                                  .exact = exact_shared,
                                  .real = real_shared,
                                  .bound = bound_shared,
                                  .row_arrays = "x",
                                  .rows_independent = 1};
    return &op;
}
