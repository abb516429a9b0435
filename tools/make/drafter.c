#include "tools/make/drafter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/base/pool.h"
#include "ref/base/rng.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/container/writer.h"
#include "ref/math/fn.h"
#include "tools/make/bulk.h"
#include "tools/make/folder.h"

enum {
    BLOCK = 4096, /* values drawn and encoded at once */
    ALONE = 128,  /* at most this many blocks are done by one thread */
    LARGE = 1024  /* targets of this width and more have the shapes of published drafters */
};

/* --- tensors ---------------------------------------------------------------------------------- */

enum { always = SB_DRAFTER_FLAGS };

static const struct {
    const char *name;
    int in_layer;
    sb_drafter_size rows, cols;
    unsigned flag;
} tensors[SB_DRAFTER_TENSORS] = {
#define norm_before_fc SB_DRAFTER_norm_before_fc
#define fc_norm SB_DRAFTER_fc_norm
#define qwen3 SB_DRAFTER_qwen3
#define own_embedding SB_DRAFTER_own_embedding
#define SB_DRAFTER_TENSOR(id, name, in_layer, rows, cols, flag)                                    \
    {name, in_layer, SB_DRAFTER_##rows, SB_DRAFTER_##cols, flag},
#include "tools/make/drafter_tensors.def"
#undef SB_DRAFTER_TENSOR
};

static int has(const sb_drafter *d, sb_drafter_tensor tensor)
{
    return tensors[tensor].flag == always || d->flag[tensors[tensor].flag];
}

uint32_t sb_drafter_rows(const sb_drafter *d, sb_drafter_tensor tensor)
{
    return d->size[tensors[tensor].rows];
}

uint32_t sb_drafter_cols(const sb_drafter *d, sb_drafter_tensor tensor)
{
    return d->size[tensors[tensor].cols];
}

/* M-12: "Its layer is named `midlayer` or `layers.0`" */
static void stored_name(const sb_drafter *d, sb_drafter_tensor tensor, char name[64])
{
    const char *layer = !tensors[tensor].in_layer ? "" : d->speculators ? "layers.0." : "midlayer.";
    snprintf(name, 64, "%s%s.weight", layer, tensors[tensor].name);
}

/* --- values ----------------------------------------------------------------------------------- */

/* G-26: "they are normal, of variance 1/fan_in, and norms are around 1" */
static float usual_spread(const sb_drafter *d, sb_drafter_tensor tensor)
{
    if (sb_drafter_rows(d, tensor) == 1)
        return d->recipe == SB_RECIPE_mistakes ? 0.3f : 0.1f;
    return tensor == SB_DRAFTER_TENSOR_embed_tokens ? 1.0f
                                                    : sb_rsqrt((float)sb_drafter_cols(d, tensor));
}

/* n values of a row of a tensor, from column col on, before they are rounded to BF16. */
static void draw_row(const sb_drafter *d, sb_drafter_tensor tensor, uint64_t row, uint64_t col,
                     size_t n, float *out)
{
    const int predictable = d->recipe == SB_RECIPE_predictable;
    char path[96];
    snprintf(path, sizeof path, "make/drafter/%u/%s", (unsigned)d->recipe, tensors[tensor].name);
    sb_make_normal(sb_rng_key(d->seed, path), row * sb_drafter_cols(d, tensor) + col, n,
                   sb_drafter_rows(d, tensor) == 1 ? 1.0f : 0.0f,
                   predictable ? sb_drafter_noise(d, tensor) : usual_spread(d, tensor), out);
    if (predictable)
        sb_drafter_predict(d, tensor, row, col, n, out);
}

typedef struct filling {
    const sb_drafter *d;
    sb_drafter_tensor tensor;
    uint64_t first; /* value */
    size_t values;
    unsigned char *bytes;
} filling;

static void fill_block(void *ctx, size_t block, size_t worker)
{
    const filling *f = ctx;
    const uint64_t cols = sb_drafter_cols(f->d, f->tensor);
    const size_t begin = block * BLOCK, left = f->values - begin, n = left < BLOCK ? left : BLOCK;
    float values[BLOCK];
    (void)worker;
    for (size_t i = 0; i < n;) {
        const uint64_t element = f->first + begin + i, col = element % cols;
        const size_t run = n - i < cols - col ? n - i : (size_t)(cols - col);
        draw_row(f->d, f->tensor, element / cols, col, run, values + i);
        i += run;
    }
    sb_bulk_bf16_codes(values, n, f->bytes + 2 * begin);
}

/* M-12: "d2t has offsets: row d of the head is token d + d2t[d]" */
static void fill_map(const sb_drafter *d, int is_d2t, uint64_t first, unsigned char *bytes,
                     size_t count)
{
    if (is_d2t) {
        for (size_t i = 0; i < count / 8; i++)
            sb_store_u64(bytes + 8 * i, d->ids[first / 8 + i] - (first / 8 + i));
        return;
    }
    memset(bytes, 0, count);
    for (uint32_t i = 0; i < d->size[SB_DRAFTER_drafted]; i++)
        if (d->ids[i] >= first && d->ids[i] - first < count)
            bytes[d->ids[i] - first] = 1;
}

static sb_status fill(void *ctx, const sb_tensor *t, uint64_t first, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    const sb_drafter *d = ctx;
    filling f = {.d = d, .first = first / 2, .values = count / 2, .bytes = bytes};
    char name[64];
    (void)err;
    if (t->dtype != SB_DTYPE_BF16) {
        fill_map(d, t->dtype == SB_DTYPE_I64, first, bytes, count);
        return SB_OK;
    }
    for (stored_name(d, f.tensor, name); strcmp(name, t->name) != 0;) /* every one is declared */
        stored_name(d, ++f.tensor, name);
    const size_t blocks = (f.values + BLOCK - 1) / BLOCK;
    sb_parallel_for(blocks, blocks > ALONE, fill_block, &f);
    return SB_OK;
}

/* --- options ---------------------------------------------------------------------------------- */

static sb_status read_flags(const char *list, sb_drafter *d, sb_error *err)
{
    while (list && *list) {
        char name[64];
        size_t length = strcspn(list, ","), found = 0;
        snprintf(name, sizeof name, "%.*s", length < 63 ? (int)length : 63, list);
        sb_status status = sb_make_find(SB_MAKE_FLAGS, name, &found, err);
        if (status)
            return status;
        d->flag[found] = 1;
        list += length;
        list += *list == ',';
    }
    if (d->flag[SB_DRAFTER_fc_norm] && d->flag[SB_DRAFTER_norm_before_fc])
        return sb_fail(err, SB_ERR_USAGE, "fc_norm and norm_before_fc exclude each other");
    if (d->flag[SB_DRAFTER_qwen3] && !d->speculators)
        return sb_fail(err, SB_ERR_USAGE,
                       "qwen3 is for --dialect speculators; the other has llama layers only");
    return SB_OK;
}

/* G-26: "after 2, L/2 and L - 3 layers; with six layers or fewer, after 1, L/2 and L" */
static sb_status choose_states(sb_drafter *d, sb_error *err)
{
    const uint32_t L = d->config->layers;
    const uint32_t usual[] = {2, L / 2, L - 3}, few[] = {1, L / 2 > 1 ? L / 2 : 2, L};
    if (L < 3)
        return sb_fail(err, SB_ERR_USAGE,
                       "a drafter reads three states, and this target has %u layers; expected at "
                       "least 3",
                       (unsigned)L);
    memcpy(d->after, L > 6 ? usual : few, sizeof d->after);
    return SB_OK;
}

static void choose_sizes(sb_drafter *d)
{
    const sb_make_preset *t = d->target;
    const int large = t->hidden_size >= LARGE, qwen3_family = sb_family_is_qwen3(t->family);
    const uint32_t H = t->hidden_size, hd = large ? t->head_dim : 128;
    d->heads = large ? t->heads : 4;
    d->kv_heads = large ? t->kv_heads : 2;
    d->size[SB_DRAFTER_one] = 1;
    d->size[SB_DRAFTER_target] = d->size[SB_DRAFTER_hidden] = H;
    d->size[SB_DRAFTER_fused] = SB_DRAFTER_STATES * H;
    d->size[SB_DRAFTER_joined] = 2 * H;
    d->size[SB_DRAFTER_query] = d->heads * hd;
    d->size[SB_DRAFTER_key] = d->kv_heads * hd;
    d->size[SB_DRAFTER_head] = hd;
    d->size[SB_DRAFTER_mlp] = large ? (qwen3_family ? 6 : 8) * H : 2 * H;
    d->size[SB_DRAFTER_vocabulary] = t->vocab_size;
}

/* G-26: "a seeded choice, in which all ids have the same chance" */
static sb_status choose_ids(unsigned wanted, sb_drafter *d, sb_error *err)
{
    const uint32_t V = d->target->vocab_size, used = d->target->ids_used;
    const uint32_t count = wanted ? wanted : V > 100000 ? 32000 : used / 8 * 7;
    const uint32_t among = count <= used ? used : V;
    const uint64_t key = sb_rng_key(d->seed, "make/drafter/ids");
    if (count > V)
        return sb_fail(err, SB_ERR_USAGE, "--draft-vocab is %u; expected at most %u",
                       (unsigned)count, (unsigned)V);
    d->ids = sb_alloc(count, sizeof *d->ids);
    if (!d->ids)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %u ids", (unsigned)count);
    d->size[SB_DRAFTER_drafted] = count;
    for (uint32_t id = 0, n = 0; n < count; id++)
        if (sb_rng_below(key, id, among - id) < count - n)
            d->ids[n++] = id;
    return SB_OK;
}

static sb_status choose(const sb_make_options *o, sb_drafter *d, sb_error *err)
{
    size_t dialect = 0;
    if (strcmp(o->drafter, "eagle3") != 0)
        return sb_fail(err, SB_ERR_USAGE, "drafter \"%s\" is unknown; expected eagle3",
                       SB_SHOW(o->drafter));
    sb_status status = sb_make_find(SB_MAKE_DIALECTS, o->dialect, &dialect, err);
    d->speculators = dialect == 0;
    if (!status)
        status = read_flags(o->flags, d, err);
    if (!status && d->recipe == SB_RECIPE_predictable_1)
        status = sb_fail(err, SB_ERR_USAGE,
                         "recipe predictable-1 has no drafter; expected predictable, mistakes or "
                         "plain");
    if (!status)
        status = choose_states(d, err);
    choose_sizes(d);
    if (!status)
        status = choose_ids(o->draft_vocab, d, err);
    if (!status && d->recipe == SB_RECIPE_predictable)
        status = sb_codes_new(d->seed, d->target->ids_used, sb_make_code_length(d->config),
                              &d->codes, err);
    return status;
}

/* --- the folder ------------------------------------------------------------------------------- */

static sb_status declare(const sb_drafter *d, sb_writer *writer, uint64_t *bytes, sb_error *err)
{
    const uint64_t drafted = d->size[SB_DRAFTER_drafted], V = d->size[SB_DRAFTER_vocabulary];
    sb_status status = SB_OK;
    *bytes = 8 * drafted + V;
    for (unsigned i = 0; i < SB_DRAFTER_TENSORS && !status; i++) {
        const sb_drafter_tensor t = (sb_drafter_tensor)i;
        const uint64_t shape[] = {sb_drafter_rows(d, t), sb_drafter_cols(d, t)};
        const int vector = shape[0] == 1;
        char name[64];
        if (!has(d, t))
            continue;
        stored_name(d, t, name);
        *bytes += 2 * shape[0] * shape[1];
        status = sb_writer_add(writer, name, SB_DTYPE_BF16, vector ? 1 : 2, shape + vector, err);
    }
    if (!status)
        status = sb_writer_add(writer, "d2t", SB_DTYPE_I64, 1, &drafted, err);
    return status ? status : sb_writer_add(writer, "t2d", SB_DTYPE_BOOL, 1, &V, err);
}

/* config.json is written last: without it the folder is no drafter. */
static sb_status write_config(const sb_drafter *d, const char *folder, sb_error *err)
{
    char *text = sb_drafter_config_text(d), *path = sb_path_join(folder, "config.json");
    sb_status status = text && path ? sb_write_file(path, text, strlen(text), err)
                                    : sb_fail(err, SB_ERR_MEMORY, "out of memory for config.json");
    free(text);
    free(path);
    return status;
}

static sb_status write_all(sb_drafter *d, const sb_make_options *o, sb_target *target,
                           sb_error *err)
{
    sb_writer *writer = NULL;
    uint64_t bytes = 0;
    sb_status status = sb_target_begin(target, sb_make_goes, err);
    if (!status)
        status = sb_writer_new(target->partial, o->shard_bytes, 0, &writer, err);
    if (!status)
        status = declare(d, writer, &bytes, err);
    if (!status)
        status = sb_make_check_disk(target, bytes, err);
    if (!status)
        status = sb_writer_run(writer, fill, d, err);
    sb_writer_free(writer);
    if (!status)
        status = write_config(d, target->partial, err);
    return status ? status : sb_target_commit(target, o->replace, sb_make_goes, err);
}

sb_status sb_make_drafter(const sb_make_options *o, sb_error *err)
{
    sb_make_plan plan;
    sb_target target = {.fd = -1};
    sb_status status =
        o->weights ? sb_fail(err, SB_ERR_USAGE,
                             "--drafter makes the drafter of a preset; expected no --weights")
                   : SB_OK;
    if (status)
        return status;
    status = sb_make_plan_new(o, &plan, err);
    sb_drafter d = {
        .target = &plan.shape.dims, .config = &plan.config, .seed = o->seed, .recipe = plan.recipe};
    if (!status)
        status = choose(o, &d, err);
    if (!status)
        status = sb_make_folder_open(o->dir, o->replace, &target, err);
    if (!status)
        status = write_all(&d, o, &target, err);
    sb_target_close(&target);
    sb_codes_free(&d.codes);
    free(d.ids);
    sb_make_plan_free(&plan);
    return status;
}
