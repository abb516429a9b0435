#include "tools/judge/fault/fused.h"

#include <stdio.h>
#include <string.h>

#include "ref/ops/knob.h"
#include "ref/ops/values.h"
#include "tools/judge/sim/sim.h"
#include "tools/judge/trace/cut.h"

static int is_written(const sb_fused *fused, uint32_t layer, const char *name)
{
    char full[96];
    if (layer == SB_NO_LAYER)
        return sb_view_has(fused->view, fused->seed, name);
    if (layer >= fused->layers)
        snprintf(full, sizeof full, "mtp.layers.%u.%.60s", (unsigned)(layer - fused->layers), name);
    else
        snprintf(full, sizeof full, "layers.%u.%.60s", (unsigned)layer, name);
    return sb_view_has(fused->view, fused->seed, full);
}

/* Linear layers, swiglu and the sum of experts keep the roundings that the knobs name (T-91). */
static int may_stay(sb_op op)
{
    switch (op) {
    case SB_OP_rmsnorm:
    case SB_OP_conv:
    case SB_OP_gates:
    case SB_OP_l2norm:
    case SB_OP_rope:
    case SB_OP_delta_rule:
    case SB_OP_delta_rule_chunk:
    case SB_OP_gated_rmsnorm:
    case SB_OP_attention:
    case SB_OP_attn_gate:
    case SB_OP_router:
    case SB_OP_add:
        return 1;
    default:
        return 0;
    }
}

static int stays_inside(const sb_fused *fused, const sb_op_call *call)
{
    const sb_op_values v = sb_op_values_of(call->op, call->args);
    if (!may_stay(call->op) || !sb_op_rounds_at_ends(call->op, call->knobs))
        return 0;
    for (size_t i = 0; i < v.params; i++)
        if (v.param[i]->format == SB_FORMAT_f32 && !SB_IS(call->knobs, params, stored))
            return 0;
    if ((call->op == SB_OP_gates && is_written(fused, call->layer, "linear_attn.beta")) ||
        (call->op == SB_OP_l2norm && is_written(fused, call->layer, "linear_attn.k")) ||
        (call->op == SB_OP_router && is_written(fused, call->layer, "mlp.router_weights")))
        return 0;
    return call->op == SB_OP_router || !is_written(fused, call->layer, call->name);
}

sb_status sb_fused_hook(void *ctx, const sb_op_call *call)
{
    sb_fused *fused = ctx;
    sb_op_call wide = *call;
    sb_knobs knobs = *call->knobs;
    if (SB_IS(&knobs, act, f32) || !stays_inside(fused, call))
        return sb_op_run(call);
    knobs.value[SB_KNOB_act] = SB_act_f32;
    wide.knobs = &knobs;
    fused->ran++;
    return sb_op_run(&wide);
}
