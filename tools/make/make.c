#include "tools/make/make.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"
#include "ref/container/writer.h"
#include "ref/formats/format.h"
#include "ref/math/fn.h"
#include "tools/make/bulk.h"
#include "tools/make/drafter.h"
#include "tools/make/draw.h"
#include "tools/make/folder.h"
#include "tools/make/pieces.h"
#include "tools/make/quant_config.h"
#include "tools/make/tokenizer.h"

enum {
    BLOCK = 4096, /* values drawn and encoded at once */
    ALONE = 128   /* at most this many blocks are done by one thread */
};

typedef struct job {
    const sb_make_options *options;
    const sb_make_plan *plan;
    sb_maker maker;
    sb_pieces pieces;
    const sb_make_tensor **by_name; /* sorted */
    double done, all;               /* values drawn so far; in total */
} job;

static sb_format format_of(sb_dtype dtype)
{
    return dtype == SB_DTYPE_F32   ? SB_FORMAT_f32
           : dtype == SB_DTYPE_F16 ? SB_FORMAT_f16
                                   : SB_FORMAT_bf16;
}

static int compare_names(const void *a, const void *b)
{
    const sb_make_tensor *const *x = a;
    const sb_make_tensor *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static const sb_make_tensor *find(const job *j, const char *name)
{
    size_t low = 0, high = j->plan->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(j->by_name[middle]->name, name) <= 0)
            low = middle;
        else
            high = middle;
    }
    return j->by_name[low];
}

static void draw_block(const sb_maker *maker, const sb_make_tensor *t, uint64_t first, size_t n,
                       unsigned char *bytes)
{
    float values[BLOCK];
    sb_make_draw(maker, t, first, n, values);
    if (t->dtype == SB_DTYPE_BF16)
        sb_bulk_bf16_codes(values, n, bytes);
    else
        sb_encode(format_of(t->dtype), values, n, bytes);
}

/* The number of values drawn for a tensor. Each tensor of a quantized layer counts all weights. */
static double work_of(const sb_make_plan *p, const sb_make_tensor *t)
{
    if (t->content == SB_CONTENT_plain)
        return (double)t->bytes / (double)sb_format_bytes(format_of(t->dtype));
    const sb_make_linear *l = &p->linears[t->linear];
    return t->content <= SB_CONTENT_factor ? (double)l->rows * (double)l->cols : 0.0;
}

/* Reports progress in bytes, proportional to the work done. */
static void tell(job *j, const sb_make_tensor *t, size_t count)
{
    double bytes = (double)j->plan->bytes;
    if (j->options->progress)
        j->options->progress(j->options->progress_ctx, "writing",
                             (uint64_t)(bytes * (j->done / j->all) * 0.999), j->plan->bytes);
    j->done += work_of(j->plan, t) * (double)count / (double)t->bytes;
}

typedef struct filling {
    const sb_maker *maker;
    const sb_make_tensor *t;
    uint64_t first; /* value */
    size_t values, size;
    unsigned char *bytes;
} filling;

static void fill_block(void *ctx, size_t block, size_t worker)
{
    const filling *f = ctx;
    const size_t at = block * BLOCK, left = f->values - at;
    (void)worker;
    draw_block(f->maker, f->t, f->first + at, left < BLOCK ? left : BLOCK, f->bytes + at * f->size);
}

/* Blocks are independent, so several threads may work on them. */
static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    job *j = ctx;
    const sb_make_tensor *t = find(j, tensor->name);
    tell(j, t, count);
    if (t->content != SB_CONTENT_plain)
        return sb_pieces_fill(&j->pieces, t, first_byte, bytes, count, err);
    size_t size = sb_format_bytes(format_of(t->dtype));
    filling f = {&j->maker, t, first_byte / size, count / size, size, bytes};
    const size_t blocks = (f.values + BLOCK - 1) / BLOCK;
    sb_parallel_for(blocks, blocks > ALONE, fill_block, &f);
    return SB_OK;
}

static sb_status start(job *j, sb_error *err)
{
    const sb_make_plan *p = j->plan;
    j->maker = (sb_maker){.config = &p->config,
                          .seed = j->options->seed,
                          .recipe = p->recipe,
                          .codes = {0},
                          .weights = p->weights};
    j->by_name = sb_alloc(p->count, sizeof *j->by_name);
    if (!j->by_name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tensors", p->count);
    j->done = 0.0;
    j->all = 1.0;
    for (size_t i = 0; i < p->count; i++) {
        j->by_name[i] = &p->tensors[i];
        j->all += work_of(p, &p->tensors[i]);
    }
    qsort(j->by_name, p->count, sizeof *j->by_name, compare_names);
    sb_status status = sb_pieces_new(&j->maker, p, j->options->hold, &j->pieces, err);
    if (status)
        return status;
    if (p->recipe != SB_RECIPE_predictable && p->recipe != SB_RECIPE_predictable_1)
        return SB_OK;
    status = sb_codes_new(j->options->seed, p->shape.dims.ids_used, sb_make_code_length(&p->config),
                          &j->maker.codes, err);
    if (!status && p->recipe == SB_RECIPE_predictable_1)
        sb_codes_one_sign(&j->maker.codes);
    return status;
}

/* Three shards if 5 GB would give one, so that small folders have an index, too. */
static uint64_t shard_bytes(const sb_make_options *o, const sb_make_plan *p)
{
    const uint64_t usual = UINT64_C(5000000000);
    if (o->shard_bytes)
        return o->shard_bytes;
    return p->bytes > usual ? usual : p->bytes / 5 * 2 + 1;
}

static sb_status write_tensors(job *j, const char *folder, sb_error *err)
{
    const sb_make_options *o = j->options;
    const sb_make_plan *p = j->plan;
    sb_writer *writer = NULL;
    sb_status status = sb_writer_new(folder, shard_bytes(o, p), 0, &writer, err);
    for (size_t i = 0; i < p->count && !status; i++)
        status = sb_writer_add(writer, p->tensors[i].name, p->tensors[i].dtype, p->tensors[i].rank,
                               p->tensors[i].shape, err);
    if (!status)
        status = sb_writer_run(writer, fill, j, err);
    sb_writer_free(writer);
    return status;
}

static sb_status write_config(const job *j, const char *folder, sb_error *err)
{
    char *path = sb_path_join(folder, "config.json");
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    sb_status status = sb_write_file(path, j->plan->config_text, strlen(j->plan->config_text), err);
    free(path);
    return status;
}

/* config.json is written last: without it the folder is no checkpoint. */
static sb_status write_all(job *j, sb_target *target, sb_error *err)
{
    const sb_make_plan *plan = j->plan;
    sb_status status = sb_target_begin(target, sb_make_goes, err);
    if (!status)
        status = write_tensors(j, target->partial, err);
    if (!status)
        status = sb_make_write_side_files(plan, target->partial, err);
    if (!status && j->options->tokenizer)
        status = sb_make_write_tokenizer(target->partial, plan->shape.dims.ids_used, err);
    if (!status)
        status = write_config(j, target->partial, err);
    return status ? status : sb_target_commit(target, j->options->replace, sb_make_goes, err);
}

sb_status sb_make(const sb_make_options *options, sb_error *err)
{
    sb_make_plan plan;
    sb_target target = {.fd = -1};
    job j = {.options = options, .plan = &plan};
    if (options->drafter)
        return sb_make_drafter(options, err);
    sb_status status = sb_make_plan_new(options, &plan, err);
    if (!status)
        status = sb_make_folder_open(options->dir, options->replace, &target, err);
    if (!status)
        status = sb_make_check_disk(&target, plan.bytes, err);
    if (!status)
        status = start(&j, err);
    if (!status)
        status = write_all(&j, &target, err);
    if (!status && options->progress)
        options->progress(options->progress_ctx, "writing", plan.bytes, plan.bytes);
    sb_target_close(&target);
    sb_pieces_free(&j.pieces);
    sb_codes_free(&j.maker.codes);
    free(j.by_name);
    sb_make_plan_free(&plan);
    return status;
}
