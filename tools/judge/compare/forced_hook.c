/* forced_hook.c - the callbacks of the reference's session: bounds each op before it runs; judges
 * each tap and replaces it by the recorded one. */
#include <stdio.h>
#include <string.h>

#include "ref/base/text.h"
#include "ref/ops/knob.h"
#include "tools/judge/compare/forced_parts.h"

forced_memory *forced_memory_of(sb_forced *f, uint32_t layer)
{
    return &f->at->memory[layer];
}

sb_status forced_run(const sb_forced *f, const sb_op_call *call)
{
    return f->options.twin ? sb_sited_hook(f->options.twin, call) : sb_op_run(call);
}

/* Both forms of the delta rule are one op. */
static sb_op of_any_form(sb_op op)
{
    return op == SB_OP_delta_rule_chunk ? SB_OP_delta_rule : op;
}

int forced_is_judged(const sb_forced *f, sb_op op, uint32_t layer)
{
    const sb_forced_site *site = f->options.site;
    return !site || (site->layer == layer &&
                     (site->op == SB_OP_COUNT || of_any_form(site->op) == of_any_form(op)));
}

/* Runs such an op. Its recorded values replace its results, so a linear layer need not run if they
 * are there. */
static sb_status run_elsewhere(sb_forced *f, const sb_op_call *call)
{
    sb_ball *none[4] = {NULL, NULL, NULL, NULL};
    char name[96];
    forced_tap_name(f, call, name, sizeof name);
    const sb_step_value *v = call->op == SB_OP_linear ? sb_step_find(&f->step->taps, name) : NULL;
    sb_status status = forced_made(f, call, none, 0);
    return status || (v && v->data) ? status : forced_run(f, call);
}

sb_status forced_on_op(void *ctx, const sb_op_call *call)
{
    sb_forced *f = ctx;
    f->op = call->op;
    f->layer = call->layer;
    f->kind = call->kind;
    f->first = call->position;
    forced_drafter_op(f, call);
    if (call->op != SB_OP_router && !f->replay && !forced_is_judged(f, call->op, call->layer)) {
        sb_status done = forced_do_later(f);
        return done ? done : run_elsewhere(f, call);
    }
    sb_status status = forced_keep(f, call);
    if (!status && !forced_joins_later(f, call))
        status = forced_do_later(f);
    if (status)
        return status;
    if (call->op == SB_OP_router)
        status = forced_route(f, call);
    else
        status = f->replay ? forced_bound_replay(f, call) : forced_bound(f, call);
    if (!status && call->op != SB_OP_router)
        status = forced_run(f, call);
    if (!status && f->options.coverage && !f->replay)
        sb_coverage_op(f->options.coverage, call);
    return status;
}

/* Notes keys (0) or values (1) of a call. A cache of codes is a quantizer (T-91), and what a
 * draft step leaves is not followed. */
static sb_status note_cached(sb_forced *f, int which, const float *data, size_t rows, size_t cols,
                             sb_knowledge kind)
{
    forced_memory *m = forced_memory_of(f, f->layer);
    int *cache = f->at->drafts ? &m->drafted : &m->cache;
    int carries = !f->at->drafts && !SB_IS(&f->knobs, kv_cache, fp8);
    if (which)
        f->cached_values = data;
    *cache = *cache && (kind == SB_KNOWN_exact || (kind == SB_KNOWN_balls && carries));
    return *cache && !f->at->drafts ? forced_stored(f, which, data, rows, cols) : SB_OK;
}

/* Notes what is known of op inputs that are not arrays of their own, or are copies of arrays. */
static void note_value(sb_forced *f, const char *name, const float *data, int known)
{
    char last[64];
    int residual = SB_IS(&f->knobs, mtp_hidden, residual);
    snprintf(last, sizeof last, "layers.%u.output", (unsigned)(f->model->config.layers - 1));
    if (sb_ends(name, "mlp.shared_expert_gate"))
        f->shared_logits = data;
    else if (strcmp(name, "mtp.pre_fc_norm_embedding") == 0 ||
             strcmp(name, "drafter.input_layernorm") == 0)
        f->embedding = known;
    else if (strcmp(name, "mtp.pre_fc_norm_hidden") == 0 ||
             strcmp(name, "drafter.hidden_norm") == 0)
        f->previous = known;
    else if (strcmp(name, residual ? last : "norm") == 0)
        f->norm = known;
    else if (strcmp(name, SB_IS(&f->knobs, mtp_recycled, residual) ? "mtp.layers.0.output"
                                                                   : "mtp.norm") == 0)
        f->recycled = known;
}

sb_status forced_on_tap(void *ctx, const char *name, float *data, size_t rows, size_t cols,
                        sb_error *err)
{
    sb_forced *f = ctx;
    if (sb_ends(name, "mlp.router_ids"))
        return SB_OK; /* the recorded values were adopted where the op ran */
    int done = 0;
    sb_status status = forced_do_later(f);
    if (!status && forced_is_drafter(name))
        status = forced_copies(f, name, data, rows, cols, &done);
    if (!status && !done)
        status = forced_judge(f, name, data, rows, cols);
    if (status)
        return sb_fail(err, status, "%s: out of memory", name);
    if (f->replay)
        return SB_OK;
    const sb_knowledge kind = sb_known_of(&f->known, data, rows * cols);
    const int known = kind == SB_KNOWN_exact, keys = sb_ends(name, "self_attn.k_rope");
    note_value(f, name, data, known);
    forced_see_state(f, name, known);
    if (keys || sb_ends(name, "self_attn.v_proj"))
        status = note_cached(f, !keys, data, rows, cols, kind);
    if (status)
        return sb_fail(err, status, "%s: out of memory", name);
    if (strcmp(name, "mtp.layers.0.self_attn.k_rope") == 0)
        status = forced_see_entry(f, 0, data, rows, cols, known);
    else if (strcmp(name, "mtp.layers.0.self_attn.v_proj") == 0)
        status = forced_see_entry(f, 1, data, rows, cols, known);
    return status ? sb_fail(err, status, "%s: out of memory", name) : SB_OK;
}
