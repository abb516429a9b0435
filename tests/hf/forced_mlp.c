/* forced_mlp.c - router, experts and shared expert, or the dense MLP. */
#include "ref/fast/fast.h"
#include "tests/hf/forced.h"

#include <math.h>

static void check_swiglu(forced *f, const char *tap, const float *gate, const float *up,
                         size_t count, size_t width, const float *want)
{
    forced_out out = forced_room(f, count);
    const sb_swiglu_args args = {
        .gate = gate, .up = up, .count = count, .kind = SB_MLP_dense, .out = out.got};
    FORCED_BOUND(f, swiglu, args, out, NULL);
    FORCED_RUN(f, swiglu, args);
    forced_compare(f, FORCED_swiglu, tap, &out, want, width);
}

static void check_dense(forced *f, const forced_call *call, unsigned layer)
{
    static const char *const taps[] = {"post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj",
                                       "mlp.act", "mlp.down_proj"};
    const sb_matrix *w = forced_layer(f, layer)->w;
    size_t width = f->fixture->model->config.intermediate, rows = call->count;
    float *v[5];
    for (size_t i = 0; i < 5; i++) {
        v[i] = forced_values(f, FORCED_swiglu, call->length, layer, taps[i]);
        if (!v[i])
            return;
    }
    forced_linear(f, taps[1], &w[SB_ROLE_gate_proj], v[0], rows, v[1]);
    forced_linear(f, taps[2], &w[SB_ROLE_up_proj], v[0], rows, v[2]);
    check_swiglu(f, taps[3], v[1], v[2], rows * width, width, v[3]);
    forced_linear(f, taps[4], &w[SB_ROLE_down_proj], v[3], rows, v[4]);
}

/* down( swiglu( gate(x), up(x) ) ) with balls: linear layers by the reference, swiglu by
 * `swiglu`. */
static forced_out feed_forward(forced *f, sb_mlp_kind kind, const sb_matrix *gate,
                               const sb_matrix *up, const sb_matrix *down, const float *x,
                               size_t rows,
                               sb_status (*swiglu)(const sb_knobs *, const sb_swiglu_args *))
{
    size_t inner = rows * gate->rows;
    float *g = hf_floats(&f->arena, inner), *u = hf_floats(&f->arena, inner);
    forced_out out = forced_room(f, rows * down->rows);
    sb_linear_kind first = kind == SB_MLP_expert ? SB_LINEAR_expert_in : SB_LINEAR_layer;
    const sb_linear_args to_gate = {.weight = gate, .kind = first, .in = x, .rows = rows, .out = g};
    const sb_linear_args to_up = {.weight = up, .kind = first, .in = x, .rows = rows, .out = u};
    const sb_swiglu_args product = {.gate = g, .up = u, .count = inner, .kind = kind, .out = g};
    sb_linear_kind last = kind == SB_MLP_expert ? SB_LINEAR_expert_down : SB_LINEAR_layer;
    const sb_linear_args to_out = {
        .weight = down, .kind = last, .in = g, .rows = rows, .out = out.got};
    forced_status(f, sb_linear_fast(&f->knobs, &to_gate));
    forced_status(f, sb_linear_fast(&f->knobs, &to_up));
    forced_status(f, swiglu(&f->knobs, &product));
    forced_status(f, sb_linear_fast(&f->knobs, &to_out));
    forced_status(f, sb_bound_feed_forward(&sb_arithmetic_reference, &f->knobs, kind, gate, up,
                                           down, x, rows, out.ours));
    forced_status(f, sb_bound_feed_forward(&sb_arithmetic_library, &f->their_knobs, kind, gate, up,
                                           down, x, rows, out.theirs));
    return out;
}

/* T-14: "a choice is open where the balls of the probabilities overlap" */
static void check_choices(forced *f, const float *logits, const uint32_t *ids,
                          const uint32_t *theirs, const sb_ball *p, size_t row)
{
    const sb_config *c = &f->fixture->model->config;
    size_t k = c->experts_per_token, E = c->experts;
    for (size_t i = 0; i < k; i++) {
        uint32_t a = ids[row * k + i], b = theirs[row * k + i];
        sb_ball of_a = p[row * E + a], of_b = p[row * E + b];
        if (a == b)
            continue;
        if (fabs(of_a.mid - of_b.mid) <= SB_BOUND_SLACK * (of_a.rad + of_b.rad))
            f->rows[FORCED_router].adopted++;
        else
            hf_forced_fail(f, FORCED_router,
                           "row %zu, slot %zu: expert %u, recorded %u: logits %.9g, %.9g", row, i,
                           (unsigned)a, (unsigned)b, (double)logits[row * E + a],
                           (double)logits[row * E + b]);
    }
}

/* */
static void check_router(forced *f, const forced_call *call, const float *logits,
                         const uint32_t *ids, const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    size_t rows = call->count, k = c->experts_per_token, E = c->experts;
    forced_out weights = forced_room(f, rows * k), p = forced_room(f, rows * E);
    uint32_t *ours = hf_alloc(&f->arena, rows * k, sizeof *ours);
    sb_router_args args = {.logits = logits,
                           .rows = rows,
                           .experts = E,
                           .kept = k,
                           .renormalise = c->norm_topk_prob,
                           .ids = ours,
                           .weights = weights.got};
    FORCED_RUN(f, router, args);
    for (size_t i = 0; i < rows * k; i++)
        if (ours[i] >= E) {
            hf_forced_fail(f, FORCED_router, "row %zu has expert %u", i / k, (unsigned)ours[i]);
            return;
        }
    FORCED_BOUND(f, router, args, weights, NULL);
    args.ids = hf_alloc(&f->arena, rows * k, sizeof *args.ids);
    for (size_t i = 0; i < rows * k; i++)
        args.ids[i] = ids[i];
    forced_status(f, sb_bound_router(&sb_arithmetic_library, &f->their_knobs, &args, weights.theirs,
                                     p.theirs));
    for (size_t row = 0; row < rows; row++)
        check_choices(f, logits, ours, ids, p.theirs, row);
    forced_compare(f, FORCED_router, "mlp.router_weights", &weights, want, k);
}

/* R-17 for one row. */
static void check_combine(forced *f, const char *tap, const sb_moe_combine_args *a,
                          const forced_out *expert, const forced_out *shared, const float *want)
{
    forced_out out = forced_room(f, a->n);
    sb_moe_combine_args args = *a;
    args.expert_out = expert->got;
    args.shared_out = shared->got;
    args.out = out.got;
    sb_bound_moe_combine_of(&sb_arithmetic_reference, &f->knobs, &args, expert->ours, shared->ours,
                            out.ours);
    sb_bound_moe_combine_of(&sb_arithmetic_library, &f->their_knobs, &args, expert->theirs,
                            shared->theirs, out.theirs);
    FORCED_RUN(f, moe_combine, args);
    forced_compare(f, FORCED_moe_combine, tap, &out, want, a->n);
}

/* A recorded row as an output without spread. */
static forced_out known(forced *f, const float *values, size_t n)
{
    forced_out out = forced_room(f, n);
    for (size_t i = 0; i < n; i++)
        out.got[i] = values[i];
    sb_balls_of(values, n, out.ours);
    sb_balls_of(values, n, out.theirs);
    return out;
}

/* The routed sum of one row, from the recorded experts and weights. The shared expert contributes
 * 0. */
static void check_experts(forced *f, const float *x, const uint32_t *ids, const float *weights,
                          const float *want)
{
    const sb_config *c = &f->fixture->model->config;
    const sb_layer *layer = forced_layer(f, f->fixture->mlp);
    size_t k = c->experts_per_token, H = c->hidden_size;
    forced_out all = forced_room(f, k * H), nothing = forced_room(f, H);
    for (size_t slot = 0; slot < k; slot++) {
        const sb_expert *e = &layer->experts[ids[slot]];
        forced_out one =
            feed_forward(f, SB_MLP_expert, &e->gate, &e->up, &e->down, x, 1, sb_swiglu_fast);
        for (size_t i = 0; i < H; i++) {
            all.got[slot * H + i] = one.got[i];
            all.ours[slot * H + i] = one.ours[i];
            all.theirs[slot * H + i] = one.theirs[i];
        }
    }
    const sb_moe_combine_args args = {.weights = weights, .ids = ids, .kept = k, .n = H};
    check_combine(f, "mlp.experts", &args, &all, &nothing, want);
}

/* The shared expert, and the sum of the recorded outputs of both. */
static void check_shared(forced *f, const forced_call *call, const float *y, const float *routed)
{
    static const char *const taps[] = {"mlp.shared_expert", "mlp.shared_expert_gate", "mlp.out"};
    const sb_config *c = &f->fixture->model->config;
    const sb_matrix *w = forced_layer(f, f->fixture->mlp)->w;
    size_t rows = call->count, H = c->hidden_size;
    const float one = 1.0f;
    float *v[3];
    for (size_t i = 0; i < 3; i++) {
        v[i] = forced_values(f, FORCED_moe_combine, call->length, f->fixture->mlp, taps[i]);
        if (!v[i])
            return;
    }
    forced_linear(f, taps[1], &w[SB_ROLE_shared_expert_gate], y, rows, v[1]);
    forced_out shared =
        feed_forward(f, SB_MLP_shared, &w[SB_ROLE_shared_gate_proj], &w[SB_ROLE_shared_up_proj],
                     &w[SB_ROLE_shared_down_proj], y, rows, f->ops->swiglu);
    forced_compare(f, FORCED_swiglu, taps[0], &shared, v[0], H);
    for (size_t t = 0; t < rows; t++) {
        forced_out sum = known(f, routed + t * H, H), fixed = known(f, v[0] + t * H, H);
        const sb_moe_combine_args args = {
            .weights = &one, .shared_logit = v[1][t], .kept = 1, .n = H};
        check_combine(f, taps[2], &args, &sum, &fixed, v[2] + t * H);
    }
}

static void check_mixture(forced *f, const forced_call *call)
{
    static const char *const taps[] = {"post_attention_layernorm", "mlp.gate", "mlp.router_weights",
                                       "mlp.router_ids", "mlp.experts"};
    const sb_config *c = &f->fixture->model->config;
    const sb_matrix *w = forced_layer(f, f->fixture->mlp)->w;
    size_t rows = call->count, k = c->experts_per_token, H = c->hidden_size;
    float *v[5];
    for (size_t i = 0; i < 5; i++) {
        v[i] = forced_values(f, FORCED_moe_combine, call->length, f->fixture->mlp, taps[i]);
        if (!v[i])
            return;
    }
    uint32_t *ids = hf_alloc(&f->arena, rows * k, sizeof *ids);
    for (size_t i = 0; i < rows * k; i++)
        ids[i] = (uint32_t)v[3][i] % c->experts;
    forced_linear(f, taps[1], &w[SB_ROLE_router], v[0], rows, v[1]);
    check_router(f, call, v[1], ids, v[2]);
    for (size_t t = 0; t < rows; t++)
        check_experts(f, v[0] + t * H, ids + t * k, v[2] + t * k, v[4] + t * H);
    if (c->shared_intermediate)
        check_shared(f, call, v[0], v[4]);
}

void forced_check_mlp(forced *f, const forced_call *call)
{
    const hf_fixture *fixture = f->fixture;
    if (fixture->model->config.experts == 0)
        check_dense(f, call, fixture->mlp);
    else
        check_mixture(f, call);
    if (fixture->dense < fixture->model->config.layers)
        check_dense(f, call, fixture->dense);
}
