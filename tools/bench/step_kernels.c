#include "tools/bench/step_kernels.h"

/* One call of the ledger: whose step, of how many rows, and where its rows go. */
typedef struct walk {
    const sb_step_model *model;
    const sb_config *config;
    const sb_floor_options *options;
    sb_step_kernels *out;
    sb_step_op op;
    int in_mtp, trail;
    uint64_t rows;
} walk;

/* --- rows ------------------------------------------------------------------------------------- */

/* Bytes of a launch, by what is done with them: B-16. */
static void add_bytes(sb_step_kernel *row, const sb_cost_buffer *b, double times)
{
    double bytes = times * (double)(b->read + b->written);
    if (b->role == SB_COST_WEIGHT)
        row->weights += bytes;
    else if (b->role == SB_COST_KEPT)
        row->kept += bytes;
    else
        row->activations += bytes;
    if (b->by_blocks != SB_COST_AGAIN && b->by_blocks > b->read)
        row->again += times * (double)(b->by_blocks - b->read);
}

static sb_step_kernel *row_of(sb_step_kernels *out, sb_step_op op, sb_cost_kernel kernel)
{
    for (uint32_t i = 0; i < out->count; i++)
        if (out->row[i].op == op && out->row[i].kernel == kernel)
            return &out->row[i];
    /* no step has as many as there is room for: tests/unit/test_step.c */
    sb_step_kernel *row = &out->row[out->count < SB_STEP_LAUNCHES ? out->count++ : out->count - 1];
    *row = (sb_step_kernel){.op = op, .kernel = kernel};
    return row;
}

/* `launches` of a kernel; of its weights only a `share` is read. */
static void add_shared(walk *w, sb_cost_kernel kernel, double launches, sb_cost_shape shape,
                       double share)
{
    sb_cost_buffer all[SB_COST_BUFFERS];
    uint64_t macs[SB_COST_KERNELS];
    if (launches <= 0)
        return;
    sb_step_kernel *row = row_of(w->out, w->op, kernel);
    sb_cost_of(&shape, all, macs);
    row->launches += (uint32_t)launches * sb_cost_launches(kernel);
    row->macs += launches * (double)macs[kernel];
    for (unsigned i = 0; i < SB_COST_BUFFERS; i++)
        if (all[i].kernel == kernel)
            add_bytes(row, &all[i], all[i].role == SB_COST_WEIGHT ? launches * share : launches);
}

static void add(walk *w, sb_cost_kernel kernel, double launches, sb_cost_shape shape)
{
    add_shared(w, kernel, launches, shape, 1);
}

/* --- matrices --------------------------------------------------------------------------------- */

/* What kernels of profile sm121 make of a scheme. */
static sb_cost_format format_of(const sb_step_matrix *m)
{
    switch (sb_scheme_at(m->scheme)->container) {
    case SB_CONTAINER_nvfp4_ct:
    case SB_CONTAINER_nvfp4_modelopt:
        return (sb_cost_format){4, 1, 16};
    case SB_CONTAINER_fp8_tensor:
    case SB_CONTAINER_fp8_channel:
        return (sb_cost_format){8, 4, 0};
    case SB_CONTAINER_fp8_block:
        return (sb_cost_format){8, 4, 128};
    case SB_CONTAINER_mxfp4:
        return (sb_cost_format){4, 4, 32};
    case SB_CONTAINER_mxfp8:
        return (sb_cost_format){8, 4, 32};
    default: /* integers, of 4 bits but for one scheme */
        return (sb_cost_format){m->scheme == SB_SCHEME_int8_gptq ? 8 : 4, 8, m->group};
    }
}

static sb_cost_shape shape_of(const walk *w, const sb_step_matrix *m)
{
    const sb_cost_format bf16 = {16, 0, 0};
    return (sb_cost_shape){.rows = w->rows,
                           .outputs = m->rows,
                           .inputs = m->cols,
                           .packed =
                               sb_cost_packed(m->scheme ? format_of(m) : bf16, m->rows, m->cols),
                           .width = 64 * sb_cost_up(m->cols, 64)};
}

/* B-2: of the experts, those that are expected to be read; a set of pairs for each. */
static void add_experts(walk *w, const sb_step_matrix *m)
{
    const sb_config *c = w->config;
    double read = sb_floor_union(c->experts, c->experts_per_token, (uint32_t)w->rows);
    double launches = (double)m->count / c->experts;
    sb_cost_shape shape = shape_of(w, m);
    shape.experts = c->experts;
    shape.pairs = w->rows * c->experts_per_token;
    shape.used = (uint64_t)read;
    shape.used += (double)shape.used < read;
    shape.sets = shape.used;
    if (shape.pairs / 8 > shape.experts)
        shape.sets += shape.pairs / 64;
    if (w->op == SB_STEP_experts_out) /* each pair has an input of its own */
        shape.rows = shape.pairs;
    add(w, SB_COST_expert_stage, launches, shape);
    add(w, SB_COST_route_count, launches, shape);
    add(w, SB_COST_route_place, launches, shape);
    add(w, SB_COST_route_order, launches, shape);
    add_shared(w, SB_COST_tile, launches, shape, read / (double)shape.used);
}

/* The head may be the table of the embedding: B-1. */
static void add_matrices(walk *w)
{
    const sb_step_model *model = w->model;
    int tied = w->op == SB_STEP_head && w->config->tie_embeddings;
    int whose = w->in_mtp && w->op != SB_STEP_head;
    for (uint32_t i = 0; i < model->matrices; i++) {
        const sb_step_matrix *m = &model->matrix[i];
        if (m->op != (tied ? SB_STEP_embed : w->op) || m->in_mtp != whose)
            continue;
        if (m->routed) {
            add_experts(w, m);
            continue;
        }
        add(w, SB_COST_linear_stage, m->count, shape_of(w, m));
        add(w, SB_COST_linear, m->count, shape_of(w, m));
    }
}

/* --- the other ops ---------------------------------------------------------------------------- */

static void add_launches(walk *w)
{
    const sb_config *c = w->config;
    const double n = sb_step_times(c, w->in_mtp, w->op);
    const uint64_t R = w->rows, H = c->hidden_size, I = c->moe_intermediate,
                   past = w->options->context;
    const uint64_t Is = c->shared_intermediate, F = c->intermediate, E = c->experts;
    const uint64_t k = c->experts_per_token, C = sb_config_conv_channels(c), kw = c->conv_kernel;
    const uint64_t nK = c->lin_k_heads, nV = c->lin_v_heads, dk = c->lin_k_dim, dv = c->lin_v_dim;
    const uint64_t nQ = c->heads, nKV = c->kv_heads, hd = c->head_dim, rd = c->rotary_dim;
    const uint64_t bytes = (uint64_t)w->options->kv_bytes;
    const sb_cost_shape attention = {.rows = R, .first = past, .heads = nQ, .groups = nKV};
    const int split = nKV && sb_cost_splits(&attention), trail = w->trail;
#define SB_STEP_LAUNCH(name, kernel, launches, ...)                                                \
    if (w->op == SB_STEP_##name)                                                                   \
        add(w, SB_COST_##kernel, launches, (sb_cost_shape){__VA_ARGS__});
#include "tools/bench/step.def"
#undef SB_STEP_LAUNCH
}

void sb_step_kernels_of(const sb_step_model *model, const sb_floor_options *options, int in_mtp,
                        uint32_t width, int trail, sb_step_kernels *out)
{
    sb_step step;
    walk w = {.model = model,
              .config = &model->config,
              .options = options,
              .out = out,
              .in_mtp = in_mtp,
              .trail = trail,
              .rows = width};
    *out = (sb_step_kernels){0};
    for (unsigned op = 0; op < SB_STEP_OPS; op++) {
        w.op = (sb_step_op)op;
        if (!sb_step_times(&model->config, in_mtp, w.op))
            continue;
        add_launches(&w);
        if (w.op != SB_STEP_embed)
            add_matrices(&w);
    }
    for (uint32_t i = 0; i < out->count; i++) {
        out->total.launches += out->row[i].launches;
        out->total.weights += out->row[i].weights;
        out->total.kept += out->row[i].kept;
        out->total.activations += out->row[i].activations;
        out->total.again += out->row[i].again;
        out->total.macs += out->row[i].macs;
    }
    sb_step_compute(model, options, in_mtp, width, &step);
    out->stored = step.total.weights;
}
