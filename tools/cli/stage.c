#include "tools/cli/stage.h"

#include <stdlib.h>

#include "gpu/gpu.h"
#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/formats/format.h"

/* A matrix, or the matrices of all experts. */
typedef struct item {
    const sb_matrix *matrix; /* of expert 0 */
    size_t experts, at;      /* experts: 0 for a linear layer; at: place in the list */
    sb_linear_kind kind;
    int is_table;
} item;

/* The memory range of a file. */
typedef struct shard {
    const unsigned char *first, *end;
    int left;
} shard;

typedef struct stage {
    const sb_backend *backend;
    const sb_knobs *knobs;
    const sb_model *model;
    item *items;
    size_t count, room;
    shard *shards;
    float *in, *out;
    uint64_t bytes; /* of all items */
    sb_stage_progress progress;
    sb_staged done;
    sb_error *err;
} stage;

/* --- the list --------------------------------------------------------------------------------- */
static uint64_t bytes_of(const sb_matrix *m)
{
    return (uint64_t)m->rows * m->cols * sb_format_bits(m->format) / 8;
}

static void list(stage *s, const sb_matrix *matrix, size_t experts, sb_linear_kind kind)
{
    if (!matrix->data)
        return;
    s->bytes += bytes_of(matrix) * (experts ? experts : 1);
    s->items[s->count] = (item){.matrix = matrix, .experts = experts, .at = s->count, .kind = kind};
    s->count++;
}

/* True for roles of linear layers. */
static int is_linear(sb_role role, sb_linear_kind *kind)
{
    *kind = role == SB_ROLE_router               ? SB_LINEAR_router
            : role == SB_ROLE_shared_expert_gate ? SB_LINEAR_shared_gate
                                                 : SB_LINEAR_layer;
    switch (role) {
    case SB_ROLE_in_proj_qkv:
    case SB_ROLE_in_proj_z:
    case SB_ROLE_in_proj_b:
    case SB_ROLE_in_proj_a:
    case SB_ROLE_linear_out_proj:
    case SB_ROLE_q_proj:
    case SB_ROLE_k_proj:
    case SB_ROLE_v_proj:
    case SB_ROLE_o_proj:
    case SB_ROLE_router:
    case SB_ROLE_shared_gate_proj:
    case SB_ROLE_shared_up_proj:
    case SB_ROLE_shared_down_proj:
    case SB_ROLE_shared_expert_gate:
    case SB_ROLE_gate_proj:
    case SB_ROLE_up_proj:
    case SB_ROLE_down_proj:
    case SB_ROLE_mtp_fc:
        return 1;
    default:
        return 0;
    }
}

static void list_layer(stage *s, const sb_layer *layer)
{
    sb_linear_kind kind;
    for (int role = 0; role < SB_ROLE_COUNT; role++)
        if (is_linear((sb_role)role, &kind))
            list(s, &layer->w[role], 0, kind);
    if (!layer->experts)
        return;
    list(s, &layer->experts->gate, s->model->config.experts, SB_LINEAR_expert_in);
    list(s, &layer->experts->up, s->model->config.experts, SB_LINEAR_expert_in);
    list(s, &layer->experts->down, s->model->config.experts, SB_LINEAR_expert_down);
}

/* Orders items by address: file after file, each from its beginning to its end. */
static int in_order(const void *a, const void *b)
{
    const item *x = a, *y = b;
    const uintptr_t p = (uintptr_t)x->matrix->data, q = (uintptr_t)y->matrix->data;
    return p != q ? (p < q ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

static sb_status list_all(stage *s)
{
    const sb_weights *w = s->model->weights;
    s->room = 3 + (w->layer_count + 1) * (SB_ROLE_COUNT + 3);
    s->items = sb_alloc(s->room, sizeof *s->items);
    if (!s->items)
        return SB_ERR_MEMORY;
    list(s, &w->embed_tokens, 0, SB_LINEAR_layer);
    s->items[0].is_table = 1;
    const int head = sb_model_has_mtp(s->model);
    for (uint32_t i = 0; i < (head ? w->layer_count : s->model->config.layers); i++)
        list_layer(s, &w->layers[i]);
    list(s, &w->lm_head, 0, SB_LINEAR_head);
    if (head)
        list(s, &w->mtp[SB_ROLE_mtp_fc], 0, SB_LINEAR_layer);
    qsort(s->items, s->count, sizeof *s->items, in_order);
    return SB_OK;
}

/* --- files ------------------------------------------------------------------------------------ */
static sb_status find_shards(stage *s)
{
    const sb_checkpoint *c = s->model->checkpoint;
    s->shards = sb_alloc(sb_checkpoint_shards(c) + 1, sizeof *s->shards);
    if (!s->shards)
        return SB_ERR_MEMORY;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        shard *of = &s->shards[t->shard];
        if (!of->first || t->data < of->first)
            of->first = t->data;
        if (t->data + t->bytes > of->end)
            of->end = t->data + t->bytes;
    }
    return SB_OK;
}

/* Releases the pages of a file after its last matrix. */
static sb_status leave(stage *s, const unsigned char *last, const unsigned char *next)
{
    const sb_checkpoint *c = s->model->checkpoint;
    for (uint32_t i = 0; i < sb_checkpoint_shards(c); i++) {
        shard *of = &s->shards[i];
        if (last < of->first || last >= of->end || (next && next >= of->first && next < of->end))
            continue;
        char *path = sb_path_join(sb_checkpoint_folder(c), sb_checkpoint_shard_name(c, i));
        if (!path)
            return SB_ERR_MEMORY;
        s->done.shards += sb_gpu_forget_file(path, of->first, (size_t)(of->end - of->first)) != 0;
        of->left = 1;
        free(path);
    }
    return SB_OK;
}

/* Releases the remaining files: experts of a layer may begin in one file and end in another. */
static sb_status leave_rest(stage *s)
{
    sb_status status = SB_OK;
    for (uint32_t i = 0; i < sb_checkpoint_shards(s->model->checkpoint) && !status; i++)
        if (s->shards[i].first && !s->shards[i].left)
            status = leave(s, s->shards[i].first, NULL);
    return status;
}

/* --- copying ---------------------------------------------------------------------------------- */

/* Allocates inputs and outputs of one row, which are never read or written. */
static sb_status make_rows(stage *s)
{
    size_t most = 1;
    for (size_t i = 0; i < s->count; i++) {
        const sb_matrix *m = s->items[i].matrix;
        most = m->rows > most ? m->rows : most;
        most = m->cols > most ? m->cols : most;
    }
    s->in = sb_alloc(most, sizeof *s->in);
    s->out = sb_alloc(most, sizeof *s->out);
    return s->in && s->out ? SB_OK : SB_ERR_MEMORY;
}

static sb_status bring_one(const stage *s, const sb_matrix *m, sb_linear_kind kind)
{
    const sb_linear_args args = {.weight = m, .kind = kind, .in = s->in, .rows = 1, .out = s->out};
    return s->backend->ops.linear(s->knobs, &args);
}

static sb_status bring(const stage *s, const item *i)
{
    const uint32_t first = 0;
    if (i->is_table) {
        const sb_embed_args args = {.table = i->matrix, .tokens = &first, .rows = 1, .out = s->out};
        return s->backend->ops.embed(s->knobs, &args);
    }
    if (!i->experts)
        return bring_one(s, i->matrix, i->kind);
    const sb_expert_linear_args args = {.weight = i->matrix,
                                        .stride = sizeof(sb_expert),
                                        .experts = i->experts,
                                        .ids = &first,
                                        .rows = 1,
                                        .kept = 1,
                                        .each = 1,
                                        .kind = i->kind,
                                        .in = s->in,
                                        .out = s->out};
    sb_status status =
        s->backend->experts ? s->backend->experts(s->knobs, &args, 1) : SB_ERR_UNSUPPORTED;
    if (status != SB_ERR_UNSUPPORTED)
        return status;
    status = SB_OK;
    for (size_t e = 0; e < i->experts && !status; e++)
        status = bring_one(s, sb_expert_weight(&args, e), i->kind);
    return status;
}

static sb_status failed(const stage *s, sb_status status)
{
    const char *why = s->backend->why ? s->backend->why() : NULL;
    return sb_fail(s->err, status, "cannot copy the weights to the device: %s",
                   why && *why ? SB_SHOW(why) : "an op failed");
}

/* Packed weights may be larger than stored ones, for example with a scale per row of a block. */
static sb_status check_room(stage *s)
{
    sb_status status = sb_gpu_staging(s->backend, SB_GPU_COUNTS, &s->done.counted, s->err);
    if (status)
        return status;
    for (size_t i = 0; i < s->count && !status; i++)
        status = bring(s, &s->items[i]);
    if (status)
        failed(s, status);
    sb_gpu_staging(s->backend, SB_GPU_COMPUTES, &s->done.counted, NULL);
    return status ? status : sb_gpu_check_memory(s->backend, s->done.counted, s->err);
}

static sb_status bring_all(stage *s)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < s->count && !status; i++) {
        const item *now = &s->items[i];
        const size_t matrices = now->experts ? now->experts : 1;
        status = bring(s, now);
        if (status)
            return failed(s, status);
        s->done.matrices += matrices;
        s->done.bytes += matrices * bytes_of(now->matrix);
        if (s->progress)
            s->progress(NULL, "weights", s->done.bytes, s->bytes);
        status = leave(s, now->matrix->data, i + 1 < s->count ? now[1].matrix->data : NULL);
    }
    return status ? status : leave_rest(s);
}

sb_status sb_stage(const sb_backend *backend, const sb_knobs *knobs, const sb_model *model,
                   sb_stage_progress progress, sb_staged *out, sb_error *err)
{
    stage s = {
        .backend = backend, .knobs = knobs, .model = model, .progress = progress, .err = err};
    uint64_t before = 0, after = 0;
    if (!sb_gpu_computes(SB_OP_linear, knobs) || !sb_gpu_computes(SB_OP_embed, knobs))
        return SB_OK;
    sb_status status = sb_gpu_staging(backend, SB_GPU_COMPUTES, &before, err);
    if (status) /* SB_ERR_UNSUPPORTED: a backend without kernels */
        return status == SB_ERR_UNSUPPORTED ? SB_OK : status;
    status = list_all(&s);
    if (!status)
        status = find_shards(&s);
    if (!status)
        status = make_rows(&s);
    if (status)
        sb_fail(err, status, "out of memory for the list of weights");
    if (!status)
        status = check_room(&s);
    if (!status)
        status = sb_gpu_staging(backend, SB_GPU_BRINGS, &before, err);
    if (!status) {
        status = bring_all(&s);
        sb_gpu_staging(backend, SB_GPU_COMPUTES, &after, NULL);
    }
    s.done.packed = after - before;
    if (out)
        *out = s.done;
    free(s.items);
    free(s.shards);
    free(s.in);
    free(s.out);
    return status;
}
