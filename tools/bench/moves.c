#include "tools/bench/moves.h"

#include <stdio.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/make/plan.h"

typedef enum scope { ONCE, LAYER, GDN, ATT, MOE, DENSE, FUSION, SCOPES } scope;

static const struct {
    const char *id, *title;
    scope scope;
    sb_floor_class class;
    uint32_t calls, phases;
} ops[SB_MOVES_OPS] = {
#define SB_MOVES_OP(id, title, scope, class, calls, phases, in, out, macs)                         \
    {#id, title, scope, SB_FLOOR_##class, calls, phases},
#include "tools/bench/moves.def"
#undef SB_MOVES_OP
};

const char *sb_moves_op_id(sb_moves_op op)
{
    return ops[op].id;
}

const char *sb_moves_op_title(sb_moves_op op)
{
    return ops[op].title;
}

sb_floor_class sb_moves_op_class(sb_moves_op op)
{
    return ops[op].class;
}

/* --- weights ---------------------------------------------------------------------------------- */

static const sb_moves_recipe recipes[] = {
#define SB_MOVES_RECIPE(name, format, further, modules, kv_bytes, words)                           \
    {name, format, SB_SCHEME_##further, modules, kv_bytes, words},
#include "tools/bench/recipes.def"
#undef SB_MOVES_RECIPE
};

sb_status sb_moves_recipe_find(const char *name, const sb_moves_recipe **out, sb_error *err)
{
    char known[128] = "";
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        *out = &recipes[i];
        if (strcmp(name, recipes[i].name) == 0)
            return SB_OK;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", recipes[i].name);
    }
    return sb_fail(err, SB_ERR_USAGE, "recipe \"%s\" is not known; expected one of %s",
                   SB_SHOW(name), known);
}

static sb_moves_op reader_of(sb_role role)
{
    switch (role) {
#define SB_MOVES_WEIGHT(role, op)                                                                  \
    case SB_ROLE_##role:                                                                           \
        return SB_MOVES_##op;
#include "tools/bench/moves.def"
#undef SB_MOVES_WEIGHT
    default:
        return SB_MOVES_OPS;
    }
}

/* As in sb_expected: "root tensors have L" */
static int in_mtp(const sb_make_plan *plan, const sb_make_tensor *t)
{
    return t->layer >= plan->config.layers && t->role != SB_ROLE_embed_tokens &&
           t->role != SB_ROLE_final_norm && t->role != SB_ROLE_lm_head;
}

/* Adds the bytes of a matrix that is plain in the format but not in the recipe. */
static sb_status further_bytes(const sb_moves_recipe *recipe, const sb_make_tensor *t,
                               uint64_t *sum, sb_error *err)
{
    uint32_t group = sb_scheme_at(recipe->further)->group;
    sb_status status = SB_OK;
    sb_scheme_tensor part;
    *sum = 0;
    for (size_t i = 0;
         !status && sb_scheme_tensor_at(recipe->further, i, t->shape[0], t->shape[1], group, &part);
         i++) {
        uint64_t bytes = 0;
        status = sb_dtype_bytes(part.dtype, part.rank, part.shape, &bytes, err);
        *sum += bytes;
    }
    return status;
}

/* Y-65: layers with the same input and kind of codes share a launch; returns 1 for the first of
 * them. A step asks for the router and the gate of the shared expert together. */
static uint32_t leads(const sb_moves_matrix *of, uint32_t layer, sb_moves_model *m)
{
    const uint64_t format = UINT64_C(1) << of->scheme;
    const sb_moves_op list = of->op == SB_MOVES_shared_gate ? SB_MOVES_router : of->op;
    if (layer != m->layer)
        memset(m->begun, 0, sizeof m->begun);
    const int begun = (m->begun[list] & format) != 0;
    m->layer = layer;
    m->begun[list] |= format;
    return !begun;
}

static sb_status count_matrices(sb_moves_matrix *of, uint32_t layer, sb_moves_model *m,
                                sb_error *err)
{
    of->leads = leads(of, layer, m);
    for (uint32_t i = 0; i < m->matrices; i++) {
        sb_moves_matrix *have = &m->matrix[i];
        if (have->op == of->op && have->in_mtp == of->in_mtp && have->rows == of->rows &&
            have->cols == of->cols && have->scheme == of->scheme && have->group == of->group) {
            have->count += of->count;
            have->leads += of->leads;
            return SB_OK;
        }
    }
    if (m->matrices == SB_MOVES_MATRICES)
        return sb_fail(err, SB_ERR_UNSUPPORTED, "a step has more than %d kinds of matrices",
                       SB_MOVES_MATRICES);
    m->matrix[m->matrices++] = *of;
    return SB_OK;
}

/* Counts the matrices of a tensor: one, or if all experts are stored together, two (gate and up) or
 * one (down) per expert. The taps of the convolution are no matrix. */
static sb_status find_matrices(const sb_make_plan *plan, const sb_moves_recipe *recipe,
                               const sb_make_tensor *t, sb_moves_matrix *of, sb_moves_model *m,
                               sb_error *err)
{
    if (t->content == SB_CONTENT_codes) {
        const sb_make_linear *linear = &plan->linears[t->linear];
        of->rows = (uint32_t)linear->rows;
        of->cols = (uint32_t)linear->cols;
        of->scheme = linear->scheme;
        of->group = linear->group;
        return count_matrices(of, t->layer, m, err);
    }
    if (t->content != SB_CONTENT_plain || t->rank < 2 || of->op == SB_MOVES_conv)
        return SB_OK;
    of->rows = (uint32_t)t->shape[t->rank - 2];
    of->cols = (uint32_t)t->shape[t->rank - 1];
    if (t->role == SB_ROLE_experts_gate_up)
        of->rows /= 2;
    if (t->role == SB_ROLE_experts_gate_up || t->role == SB_ROLE_experts_down)
        of->count = (uint32_t)t->shape[0] * (t->role == SB_ROLE_experts_gate_up ? 2 : 1);
    if (!of->in_mtp && sb_modules_of(t->role) & recipe->modules) {
        of->scheme = recipe->further;
        of->group = sb_scheme_at(recipe->further)->group;
    }
    return count_matrices(of, t->layer, m, err);
}

/* B-11: "Tensors that only a loader reads are left out" */
static sb_status count_tensor(const sb_make_plan *plan, const sb_moves_recipe *recipe,
                              const sb_make_tensor *t, sb_moves_model *m, sb_error *err)
{
    sb_moves_op op = reader_of(t->role);
    int mtp = in_mtp(plan, t);
    uint64_t bytes = t->bytes;
    sb_status status = SB_OK;
    if (t->content == SB_CONTENT_shape || t->content == SB_CONTENT_index)
        return SB_OK;
    if (op == SB_MOVES_OPS)
        return sb_fail(err, SB_ERR_UNSUPPORTED, "no op of a step reads %s", t->name);
    if (!mtp && t->content == SB_CONTENT_plain && sb_modules_of(t->role) & recipe->modules)
        status = further_bytes(recipe, t, &bytes, err);
    sb_moves_weights *w = mtp ? &m->mtp[op] : &m->trunk[op];
    w->stored += bytes;
    sb_moves_matrix of = {.op = op, .in_mtp = mtp, .count = 1};
    of.routed = t->expert != SB_NO_EXPERT || t->role == SB_ROLE_experts_gate_up ||
                t->role == SB_ROLE_experts_down;
    if (of.routed)
        w->routed += bytes;
    return status ? status : find_matrices(plan, recipe, t, &of, m, err);
}

sb_status sb_moves_model_of(const char *preset, const sb_moves_recipe *recipe, sb_moves_model *out,
                            sb_error *err)
{
    return sb_moves_model_cut(preset, recipe, 0, out, err);
}

sb_status sb_moves_model_cut(const char *preset, const sb_moves_recipe *recipe, unsigned layers,
                             sb_moves_model *out, sb_error *err)
{
    sb_make_options options = {.preset = preset, .format = recipe->format, .layers = layers};
    sb_make_plan plan;
    *out = (sb_moves_model){0};
    sb_status status = sb_make_plan_new(&options, &plan, err);
    if (!status && sb_family_is_qwen3(plan.config.family))
        status =
            sb_fail(err, SB_ERR_UNSUPPORTED, "the ops of a step are not counted for models of %s",
                    sb_family_name(plan.config.family));
    for (size_t i = 0; !status && i < plan.count; i++)
        status = count_tensor(&plan, recipe, &plan.tensors[i], out, err);
    out->config = plan.config;
    sb_make_plan_free(&plan);
    return status;
}

/* B-2: "the bytes of all experts, times the number of them that are read, divided by E" */
static double weights_read(const sb_moves_model *m, const sb_moves_weights *w, uint32_t width)
{
    const sb_config *c = &m->config;
    if (!w->routed)
        return (double)w->stored;
    double read = sb_floor_union(c->experts, c->experts_per_token, width);
    return (double)(w->stored - w->routed) + (double)w->routed * read / c->experts;
}

/* B-1: "The embedding is read one row per token", "the head is the embedding where config.json
 * ties them" */
static double weights_of(const sb_moves_model *m, int mtp, sb_moves_op op, uint32_t width)
{
    if (op == SB_MOVES_embed)
        return (double)m->trunk[op].stored / m->config.vocab_size * width;
    if (op == SB_MOVES_head)
        return (double)m->trunk[m->config.tie_embeddings ? SB_MOVES_embed : op].stored;
    return weights_read(m, mtp ? &m->mtp[op] : &m->trunk[op], width);
}

/* --- a step ----------------------------------------------------------------------------------- */

static void count_scopes(const sb_config *c, int mtp, uint32_t times[SCOPES])
{
    uint32_t full = 0, layers = mtp ? 1 : c->layers;
    for (uint32_t i = 0; !mtp && i < c->layers; i++)
        full += c->layer_is_full[i];
    if (mtp)
        full = 1;
    times[ONCE] = 1;
    times[FUSION] = mtp ? 1 : 0;
    times[LAYER] = layers;
    times[ATT] = full;
    times[GDN] = layers - full;
    times[MOE] = c->experts ? layers : 0;
    times[DENSE] = c->experts ? 0 : layers;
}

uint32_t sb_moves_times(const sb_config *c, int mtp, sb_moves_op op)
{
    uint32_t times[SCOPES];
    count_scopes(c, mtp, times);
    return times[ops[op].scope];
}

/* Values in and out, and multiply-adds, of one row in one place. */
typedef struct effort {
    double in, out, macs;
} effort;

static effort effort_of(const sb_config *c, sb_moves_op op, double past)
{
    const double H = c->hidden_size, V = c->vocab_size, C = sb_config_conv_channels(c);
    const double Kd = sb_config_key_width(c), Vd = sb_config_value_width(c), kw = c->conv_kernel;
    const double nV = c->lin_v_heads, dk = c->lin_k_dim, Qd = sb_config_query_width(c);
    const double KVd = sb_config_kv_width(c), E = c->experts, k = c->experts_per_token;
    const double I = c->moe_intermediate, Is = c->shared_intermediate, F = c->intermediate;
    switch (op) {
#define SB_MOVES_OP(id, title, scope, class, calls, phases, in, out, macs)                         \
    case SB_MOVES_##id:                                                                            \
        return (effort){in, out, macs};
#include "tools/bench/moves.def"
#undef SB_MOVES_OP
    default:
        return (effort){0, 0, 0};
    }
}

/* B-3: "nV dk dv values per layer", "the last kw - 1 columns are read, and one is written per
 * token"
 * B-4: "A pass reads the keys and values of all past tokens and writes those of its own" */
static double kept_of(const sb_config *c, const sb_floor_options *o, sb_moves_op op, uint32_t width)
{
    if (op == SB_MOVES_delta_rule)
        return 2.0 * o->state_bytes * c->lin_v_heads * c->lin_k_dim * c->lin_v_dim;
    if (op == SB_MOVES_conv)
        return 2.0 * sb_config_conv_channels(c) * (c->conv_kernel - 1 + width);
    if (op == SB_MOVES_attention)
        return 2.0 * sb_config_kv_width(c) * o->kv_bytes * ((double)o->context + width);
    return 0;
}

static void add_row(sb_moves_row *sum, const sb_moves_row *row)
{
    sum->calls += row->calls;
    sum->phases += row->phases;
    sum->weights += row->weights;
    sum->kept += row->kept;
    sum->activations += row->activations;
    sum->macs += row->macs;
}

void sb_moves_compute(const sb_moves_model *m, const sb_floor_options *o, int mtp, uint32_t width,
                      sb_moves *out)
{
    /* row i of the step sees the context and i + 1 rows of the step */
    double past = (double)o->context + (width + 1) / 2.0;
    *out = (sb_moves){0};
    for (unsigned i = 0; i < SB_MOVES_OPS; i++) {
        sb_moves_op op = (sb_moves_op)i;
        uint32_t n = sb_moves_times(&m->config, mtp, op);
        if (!n)
            continue;
        effort one = effort_of(&m->config, op, past);
        double rows = (double)width * n;
        out->row[i] = (sb_moves_row){.calls = ops[i].calls * n,
                                     .phases = ops[i].phases * n,
                                     .weights = weights_of(m, mtp, op, width),
                                     .kept = kept_of(&m->config, o, op, width) * n,
                                     /* B-12: "2 bytes for each value" */
                                     .activations = 2 * rows * (one.in + one.out),
                                     .macs = rows * one.macs};
        add_row(&out->total, &out->row[i]);
    }
}

double sb_moves_bytes(const sb_moves_row *row)
{
    return row->weights + row->kept;
}

/* B-13: "bytes / bandwidth + phases x latency" */
double sb_moves_seconds(const sb_moves *step, double bandwidth, double latency)
{
    return sb_moves_bytes(&step->total) / bandwidth + step->total.phases * latency;
}

void sb_moves_round_of(const sb_moves_model *m, const sb_floor_options *o, uint32_t draft,
                       double latency, sb_moves_round *out)
{
    sb_moves token, verify, proposal;
    sb_moves_compute(m, o, 0, 1, &token);
    sb_moves_compute(m, o, 0, draft + 1, &verify);
    sb_moves_compute(m, o, 1, 1, &proposal);
    double plain = sb_moves_seconds(&token, o->bandwidth, latency), experts = 0;
    for (unsigned i = 0; i < SB_MOVES_OPS; i++)
        if (ops[i].class == SB_FLOOR_experts)
            experts += verify.row[i].weights - token.row[i].weights;
    out->verify = sb_moves_seconds(&verify, o->bandwidth, latency) / plain;
    out->drafts = draft * sb_moves_seconds(&proposal, o->bandwidth, latency) / plain;
    out->experts = experts / o->bandwidth / plain;
    out->break_even = sb_floor_break_even(draft, out->verify + out->drafts);
}
