#include "tools/bench/moves_kernels.h"

#include <string.h>

#include "tools/bench/moves_inputs.h"

/* One call of the ledger: its step, its rows, and its result. */
typedef struct walk {
    const sb_moves_model *model;
    const sb_config *config;
    const sb_floor_options *options;
    const sb_knobs *knobs;
    sb_moves_kernels *out;
    sb_moves_op op;
    sb_moves_part part;
    int in_mtp, trail, fused;
    uint64_t rows, logits; /* logits: rows with logits */
    double read, sets;     /* experts that a layer reads; its sets of pairs, 0: unknown */
} walk;

/* --- rows ------------------------------------------------------------------------------------- */

/* Adds the bytes of a launch by their use: B-16. */
static void add_bytes(sb_moves_kernel *row, const sb_cost_buffer *b, double times)
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

static sb_moves_kernel *row_of(sb_moves_kernels *out, sb_moves_op op, sb_cost_kernel kernel)
{
    for (uint32_t i = 0; i < out->count; i++)
        if (out->row[i].op == op && out->row[i].kernel == kernel)
            return &out->row[i];
    /* no step fills the array: tests/unit/test_moves.c */
    sb_moves_kernel *row =
        &out->row[out->count < SB_MOVES_LAUNCHES ? out->count++ : out->count - 1];
    *row = (sb_moves_kernel){.op = op, .kernel = kernel};
    return row;
}

/* Adds the bytes and multiply-adds of `times` matrices, or of launches without a matrix. `joins`:
 * does not count the data passed on by earlier kernels again, because another matrix of the launch
 * has read them. Nor does it count the factors of experts again, which are equal for gate and up in
 * `samebit make`. */
static void add_moved(walk *w, sb_cost_kernel kernel, double times, sb_cost_shape shape, int joins)
{
    sb_cost_buffer all[SB_COST_BUFFERS];
    uint64_t macs[SB_COST_KERNELS];
    if (times <= 0)
        return;
    sb_moves_kernel *row = row_of(w->out, w->op, kernel);
    sb_cost_of(&shape, all, macs);
    row->macs += times * (double)macs[kernel];
    for (unsigned i = 0; i < SB_COST_BUFFERS; i++) {
        if (all[i].kernel != kernel)
            continue;
        if (joins && (all[i].role == SB_COST_PASSED || strcmp(all[i].name, "factors") == 0))
            all[i].read = 0;
        add_bytes(row, &all[i], times);
    }
}

static void add_launched(walk *w, sb_cost_kernel kernel, double launches)
{
    row_of(w->out, w->op, kernel)->launches += (uint32_t)launches * sb_cost_launches(kernel);
}

static void add(walk *w, sb_cost_kernel kernel, double launches, sb_cost_shape shape)
{
    if (launches <= 0)
        return;
    add_launched(w, kernel, launches);
    add_moved(w, kernel, launches, shape, 0);
}

/* The same for experts. The expected numbers of read experts and of sets of pairs may be fractions;
 * bytes are interpolated in both. Each expert that is read has one set, and every full set of pairs
 * adds one. */
static void add_read(walk *w, sb_cost_kernel kernel, double times, sb_cost_shape shape, int joins)
{
    const uint64_t most = sb_cost_set(shape.pairs, shape.experts);
    const double more = most > 8 ? (double)(shape.pairs / most) : 0;
    const double sets = w->sets > 0 ? w->sets : w->read + more;
    shape.used = (uint64_t)w->read;
    shape.sets = (uint64_t)sets;
    const double used_rest = w->read - (double)shape.used, sets_rest = sets - (double)shape.sets;
    const int first = used_rest > sets_rest; /* `used` is rounded up more often than `sets` */
    const double both = first ? sets_rest : used_rest, one = first ? used_rest : sets_rest;
    add_moved(w, kernel, times * (1 - one), shape, joins);
    shape.used += (uint64_t)first;
    shape.sets += (uint64_t)!first;
    add_moved(w, kernel, times * (one - both), shape, joins);
    shape.used += (uint64_t)!first;
    shape.sets += (uint64_t)first;
    add_moved(w, kernel, times * both, shape, joins);
}

/* --- matrices --------------------------------------------------------------------------------- */

/* The packed format of a scheme for kernels with bfloat16 inputs. */
static sb_cost_format format_of(const sb_moves_matrix *m)
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
    default: /* integers: 4 bits, except for one scheme */
        return (sb_cost_format){m->scheme == SB_SCHEME_int8_gptq ? 8 : 4, 8, m->group};
    }
}

static sb_moves_input input_of(const walk *w, const sb_moves_matrix *m)
{
    sb_scheme_tensor part = {.content = SB_CONTENT_plain};
    if (!m->scheme)
        return SB_MOVES_VALUES;
    for (size_t i = 0; part.content != SB_CONTENT_input; i++)
        if (!sb_scheme_tensor_at(m->scheme, i, m->rows, m->cols, m->group, &part))
            break;
    return sb_moves_input_of(w->knobs, sb_scheme_at(m->scheme)->container,
                             part.content == SB_CONTENT_input);
}

/* The number of layers that quantize the input of this op. */
static double coded(const walk *w, sb_moves_op op)
{
    double layers = 0;
    for (uint32_t i = 0; i < w->model->matrices; i++) {
        const sb_moves_matrix *m = &w->model->matrix[i];
        if (m->op == op && m->in_mtp == w->in_mtp && input_of(w, m) != SB_MOVES_VALUES)
            layers += (double)m->count / (m->routed ? w->config->experts : 1);
    }
    return layers;
}

/* The shape of a call with `rows` inputs. */
static sb_cost_shape shape_of(const sb_moves_matrix *m, sb_moves_input input, uint64_t rows)
{
    const sb_cost_format bf16 = {16, 0, 0};
    sb_cost_shape shape = {.rows = rows,
                           .outputs = m->rows,
                           .inputs = m->cols,
                           .packed =
                               sb_cost_packed(m->scheme ? format_of(m) : bf16, m->rows, m->cols),
                           .width = 64 * sb_cost_up(m->cols, 64)};
    if (input != SB_MOVES_VALUES)
        sb_moves_quantize(input, &shape);
    return shape;
}

/* B-2: counts the expected number of experts read. Y-66: a fused step has one launch for gate and
 * up, for which input and pairs are already prepared. For quantized inputs only the pairs are
 * prepared, and gate and up have a launch each. */
static void add_experts(walk *w, const sb_moves_matrix *m)
{
    const sb_config *c = w->config;
    const sb_moves_input input = input_of(w, m);
    const int both = w->fused && w->op == SB_MOVES_experts_in && input == SB_MOVES_VALUES;
    const double matrices = (double)m->count / c->experts, launches = matrices / (both ? 2 : 1);
    const uint64_t pairs = w->rows * c->experts_per_token;
    /* after the activation each pair has its own input */
    sb_cost_shape shape = shape_of(m, input, w->op == SB_MOVES_experts_out ? pairs : w->rows);
    shape.experts = c->experts;
    shape.pairs = pairs;
    const int wide = sb_cost_set(pairs, c->experts) == 128;
    const sb_cost_kernel product = sb_moves_multiplies(input, wide, 1);
    if (!w->fused || input != SB_MOVES_VALUES)
        add(w, sb_moves_stages(input, wide, 1), launches, shape);
    if (!w->fused) {
        add(w, SB_COST_route_count, launches, shape);
        add_launched(w, SB_COST_route_place, launches);
        add_read(w, SB_COST_route_place, launches, shape, 0);
        add(w, SB_COST_route_order, launches, shape);
    }
    add_launched(w, product, launches);
    add_read(w, product, launches, shape, 0);
    add_read(w, product, matrices - launches, shape, 1);
}

/* Y-65: a fused step has one launch for layers with the same bfloat16 input and kind of codes. Not
 * staged: the two inputs of the fusion, and a selection of rows of the last norm. */
static void add_layers(walk *w, const sb_moves_matrix *m)
{
    const sb_moves_input input = input_of(w, m);
    const uint64_t rows = w->op == SB_MOVES_head ? w->logits : w->rows;
    const int staged = w->fused && w->op != SB_MOVES_fusion && rows == w->rows;
    const sb_cost_shape shape = shape_of(m, input, rows);
    if (!staged || input != SB_MOVES_VALUES) {
        const int wide = sb_cost_is_wide(shape.rows, shape.outputs);
        add(w, sb_moves_stages(input, wide, 0), m->count, shape);
        add(w, sb_moves_multiplies(input, wide, 0), m->count, shape);
        return;
    }
    const uint32_t leads = w->part == SB_MOVES_ENTRIES ? 1 : m->leads;
    add(w, SB_COST_linear, leads, shape);
    add_moved(w, SB_COST_linear, m->count - leads, shape, 1);
}

/* Entries need keys and values: the query matrix is the only one of the op with more rows. */
static int is_of_part(const walk *w, const sb_moves_matrix *m)
{
    if (w->part == SB_MOVES_ENTRIES)
        return w->op == SB_MOVES_fusion ||
               (w->op == SB_MOVES_att_in && m->rows == sb_config_kv_width(w->config));
    return w->part != SB_MOVES_ACCEPTED;
}

/* A tied head uses the table of the embedding: B-1. */
static void add_matrices(walk *w)
{
    const sb_moves_model *model = w->model;
    int tied = w->op == SB_MOVES_head && w->config->tie_embeddings;
    int whose = w->in_mtp && w->op != SB_MOVES_head;
    for (uint32_t i = 0; i < model->matrices; i++) {
        const sb_moves_matrix *m = &model->matrix[i];
        if (m->op != (tied ? SB_MOVES_embed : w->op) || m->in_mtp != whose || !is_of_part(w, m))
            continue;
        if (m->routed)
            add_experts(w, m);
        else
            add_layers(w, m);
    }
}

/* --- the other ops ---------------------------------------------------------------------------- */

/* A choice of experts makes a set of pairs per expert. */
static void add_some(walk *w, sb_cost_kernel kernel, double launches, sb_cost_shape shape)
{
    if (kernel != SB_COST_choice || launches <= 0) {
        add(w, kernel, launches, shape);
        return;
    }
    add_launched(w, kernel, launches);
    add_read(w, kernel, launches, shape, 0);
}

static void add_launches(walk *w)
{
    const sb_config *c = w->config;
    const double n = sb_moves_times(c, w->in_mtp, w->op);
    const double own = !w->in_mtp, fused = w->fused ? n : 0, apart = n - fused;
    const uint64_t R = w->rows, T = w->logits, past = w->options->context;
    const uint64_t H = c->hidden_size, I = c->moe_intermediate;
    const uint64_t Is = c->shared_intermediate, F = c->intermediate, E = c->experts;
    const uint64_t k = c->experts_per_token, C = sb_config_conv_channels(c), kw = c->conv_kernel;
    const uint64_t nK = c->lin_k_heads, nV = c->lin_v_heads, dk = c->lin_k_dim, dv = c->lin_v_dim;
    const uint64_t nQ = c->heads, nKV = c->kv_heads, hd = c->head_dim, rd = c->rotary_dim;
    const uint64_t bytes = (uint64_t)w->options->kv_bytes;
    const sb_cost_shape attention = {.rows = R, .first = past, .heads = nQ, .groups = nKV};
    const int split = nKV && sb_cost_splits(&attention), trail = w->trail;
    const uint64_t vocabulary = c->vocab_size;
#define up64(n) (64 * sb_cost_up(n, 64))
#define coded(op) coded(w, SB_MOVES_##op)
#define SB_MOVES_ADD(name, kernel, launches, ...)                                                  \
    if (w->op == SB_MOVES_##name) {                                                                \
        const sb_cost_shape shape = {__VA_ARGS__};                                                 \
        add_some(w, SB_COST_##kernel, launches, shape);                                            \
    }
    if (w->part == SB_MOVES_ENTRIES) {
#define SB_MOVES_ENTRY SB_MOVES_ADD
#include "tools/bench/moves.def"
#undef SB_MOVES_ENTRY
    } else if (w->part == SB_MOVES_ACCEPTED) {
#define SB_MOVES_ACCEPT SB_MOVES_ADD
#include "tools/bench/moves.def"
#undef SB_MOVES_ACCEPT
    } else if (w->fused) {
#define SB_MOVES_FUSED SB_MOVES_ADD
#include "tools/bench/moves.def"
#undef SB_MOVES_FUSED
    } else {
#define SB_MOVES_LAUNCH SB_MOVES_ADD
#include "tools/bench/moves.def"
#undef SB_MOVES_LAUNCH
    }
#undef SB_MOVES_ADD
#undef coded
#undef up64
}

static void total_of(sb_moves_kernels *out)
{
    for (uint32_t i = 0; i < out->count; i++) {
        out->total.launches += out->row[i].launches;
        out->total.weights += out->row[i].weights;
        out->total.kept += out->row[i].kept;
        out->total.activations += out->row[i].activations;
        out->total.again += out->row[i].again;
        out->total.macs += out->row[i].macs;
    }
}

void sb_moves_kernels_of(const sb_moves_model *model, const sb_floor_options *options,
                         const sb_kernel_call *call, sb_moves_kernels *out)
{
    const sb_config *c = &model->config;
    sb_moves step;
    walk w = {.model = model,
              .config = c,
              .options = options,
              .knobs = call->knobs,
              .out = out,
              .part = call->part,
              .in_mtp = call->part != SB_MOVES_CALL,
              .trail = call->trail,
              .fused = call->fused,
              .rows = call->rows,
              .logits = call->prompt ? 1 : call->rows,
              .read = call->experts,
              .sets = call->sets};
    *out = (sb_moves_kernels){0};
    if (c->experts && call->experts <= 0)
        w.read = sb_floor_union(c->experts, c->experts_per_token, call->rows);
    for (unsigned op = 0; op < SB_MOVES_OPS; op++) {
        w.op = (sb_moves_op)op;
        if (!sb_moves_times(c, w.in_mtp, w.op))
            continue;
        add_launches(&w);
        if (w.op != SB_MOVES_embed)
            add_matrices(&w);
    }
    total_of(out);
    sb_moves_compute(model, options, w.in_mtp, call->rows, &step);
    out->stored = step.total.weights;
}
