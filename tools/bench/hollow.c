#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "tools/bench/hollow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ref/base/bytes.h"
#include "ref/base/mem.h"
#include "ref/container/checkpoint_parts.h"
#include "ref/formats/format.h"
#include "ref/math/fn.h"
#include "tools/make/draw.h"

enum { APART = 256, NAME = 1024 };

/* A tensor, and its matrix if its layer is quantized. */
typedef struct item {
    sb_make_tensor t; /* the name is the list's */
    sb_scheme scheme;
    uint64_t cols;
    uint64_t at; /* offset in the addresses of matrices, or in the values */
} item;

/* The content of a plan's folder. */
typedef struct list {
    const sb_hollow_options *o;
    sb_make_plan plan;
    item *items;
    size_t count, room;
    uint64_t addresses, values; /* bytes of both */
} list;

/* --- the list of tensors ---------------------------------------------------------------------- */

/* False for tensors with values: vectors, single numbers, and tensors needed to read others. */
static int is_matrix(const sb_make_tensor *t)
{
    return t->rank >= 2 && t->content <= SB_CONTENT_scales;
}

static sb_status add(list *l, const char *name, const item *new_one, sb_error *err)
{
    item *items = sb_grow(l->items, l->count, &l->room, sizeof *items);
    if (!items)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tensors", l->count + 1);
    l->items = items;
    item *i = &items[l->count++];
    *i = *new_one;
    i->t.name = sb_strdup(name);
    uint64_t *sum = is_matrix(&i->t) ? &l->addresses : &l->values;
    i->at = *sum;
    *sum += (i->t.bytes + APART - 1) / APART * APART;
    return i->t.name ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a name");
}

/* A weight that the recipe quantizes and the format does not: "P.weight" becomes several. */
static sb_status add_further(list *l, const sb_make_tensor *t, sb_error *err)
{
    const sb_scheme scheme = l->o->further;
    const uint32_t group = sb_scheme_at(scheme)->group;
    const size_t module = strlen(t->name) - strlen("weight");
    sb_status status = SB_OK;
    sb_scheme_tensor part;
    for (size_t i = 0;
         !status && sb_scheme_tensor_at(scheme, i, t->shape[0], t->shape[1], group, &part); i++) {
        char name[NAME];
        item own = {.t = *t, .scheme = scheme, .cols = t->shape[1]};
        snprintf(name, sizeof name, "%.*s%s", (int)module, t->name, part.suffix);
        own.t.dtype = part.dtype;
        own.t.rank = part.rank;
        own.t.content = part.content;
        for (unsigned d = 0; d < 2; d++)
            own.t.shape[d] = d < part.rank ? part.shape[d] : 0;
        status = sb_dtype_bytes(own.t.dtype, part.rank, own.t.shape, &own.t.bytes, err);
        if (!status)
            status = add(l, name, &own, err);
    }
    return status;
}

static sb_status add_planned(list *l, const sb_make_tensor *t, sb_error *err)
{
    item own = {.t = *t, .scheme = SB_SCHEME_plain};
    if (t->content != SB_CONTENT_plain && t->content != SB_CONTENT_kv) {
        own.scheme = l->plan.linears[t->linear].scheme;
        own.cols = l->plan.linears[t->linear].cols;
    }
    return add(l, t->name, &own, err);
}

/* As in sb_expected: "root tensors have L" */
static int in_mtp(const list *l, const sb_make_tensor *t)
{
    return t->layer >= l->plan.config.layers && t->role != SB_ROLE_embed_tokens &&
           t->role != SB_ROLE_final_norm && t->role != SB_ROLE_lm_head;
}

static sb_status collect(list *l, sb_error *err)
{
    const sb_make_options make = {.preset = l->o->preset,
                                  .format = l->o->format,
                                  .recipe = "plain",
                                  .layers = l->o->layers,
                                  .seed = l->o->seed,
                                  .no_mtp = !l->o->mtp};
    sb_status status = sb_make_plan_new(&make, &l->plan, err);
    for (size_t i = 0; i < l->plan.count && !status; i++) {
        const sb_make_tensor *t = &l->plan.tensors[i];
        const int further = t->content == SB_CONTENT_plain && !in_mtp(l, t) &&
                            (sb_modules_of(t->role) & l->o->modules);
        status = further ? add_further(l, t, err) : add_planned(l, t, err);
    }
    return status;
}

static void free_list(list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].t.name);
    free(l->items);
    sb_make_plan_free(&l->plan);
}

/* --- values ----------------------------------------------------------------------------------- */

/* B-18: "a spread of about 1 / sqrt(K)"- E2M1 codes have a spread of 2.93 and their scales of 1.46;
 * the factor has the rest. The largest magnitude of an input is taken to be 8. */
static float number_of(const item *i)
{
    const sb_scheme_info *scheme = sb_scheme_at(i->scheme);
    const float usual = sb_rsqrt((float)i->cols);
    if (i->t.content == SB_CONTENT_kv)
        return 8.0f / 448.0f;
    if (i->t.content == SB_CONTENT_input)
        return scheme->factor(8.0f, SB_SCALE_RULE_amax);
    if (scheme->container == SB_CONTAINER_nvfp4_ct) /* its factor is a divisor */
        return 2.93f * 1.46f / usual;
    return scheme->container == SB_CONTAINER_nvfp4_modelopt ? usual / (2.93f * 1.46f)
                                                            : usual / 7.0f;
}

static sb_status fill(const list *l, const item *i, unsigned char *to, sb_error *err)
{
    const sb_make_tensor *t = &i->t;
    const sb_maker maker = {
        .config = &l->plan.config, .seed = l->o->seed, .recipe = SB_RECIPE_plain, .codes = {0}};
    if (t->content == SB_CONTENT_plain && t->rank == 1) {
        const size_t n = (size_t)t->shape[0];
        float *values = sb_alloc(n, sizeof *values);
        if (!values)
            return sb_fail(err, SB_ERR_MEMORY, "out of memory for %s", t->name);
        sb_make_draw(&maker, t, 0, n, values);
        sb_encode(t->dtype == SB_DTYPE_F32 ? SB_FORMAT_f32 : SB_FORMAT_bf16, values, n, to);
        free(values);
        return SB_OK;
    }
    if (t->dtype != SB_DTYPE_F32 || t->bytes != 4)
        return sb_fail(err, SB_ERR_UNSUPPORTED,
                       "%s: the tensor is not one whose values can be drawn at random", t->name);
    sb_store_u32(to, sb_bits_f32(number_of(i)));
    return SB_OK;
}

/* --- the model -------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    const sb_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Makes a checkpoint of one file that does not exist, with the tensors' names. */
static sb_status make_checkpoint(list *l, sb_hollow *h, sb_error *err)
{
    sb_checkpoint *c = sb_alloc(1, sizeof *c);
    h->model->checkpoint = c;
    if (c) {
        c->path = sb_strdup("(hollow)");
        c->folder = sb_strdup("(hollow)");
        c->shards = sb_alloc(1, sizeof *c->shards);
        c->tensors = sb_alloc(l->count, sizeof *c->tensors);
        c->names = sb_alloc(l->count, sizeof *c->names);
    }
    if (!c || !c->path || !c->folder || !c->shards || !c->tensors || !c->names)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tensors", l->count);
    c->shard_count = 1;
    c->shards[0].name = sb_strdup("(hollow)");
    c->shards[0].file.bytes = h->first;
    sb_status status = c->shards[0].name ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    for (size_t i = 0; i < l->count && !status; i++) {
        item *from = &l->items[i];
        const int matrix = is_matrix(&from->t);
        sb_tensor t = {.name = from->t.name,
                       .dtype = from->t.dtype,
                       .rank = from->t.rank,
                       .bytes = from->t.bytes,
                       .data = (matrix ? (unsigned char *)h->first : h->values) + from->at};
        memcpy(t.shape, from->t.shape, sizeof from->t.shape);
        if (!matrix)
            status = fill(l, from, h->values + from->at, err);
        c->tensors[c->count++] = t;
        c->bytes += t.bytes;
        c->names[c->name_count++] = from->t.name;
        from->t.name = NULL;
    }
    qsort(c->tensors, c->count, sizeof *c->tensors, compare_names);
    return status;
}

/* Reserves addresses only: a read there ends the process. */
static sb_status reserve(const list *l, sb_hollow *h, sb_error *err)
{
    h->bytes = (size_t)l->addresses;
    h->first = mmap(NULL, h->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (h->first == MAP_FAILED) {
        h->first = NULL;
        return sb_fail(err, SB_ERR_MEMORY, "cannot reserve addresses for %zu bytes", h->bytes);
    }
    h->values = sb_alloc((size_t)l->values, 1);
    h->model = sb_alloc(1, sizeof *h->model);
    return h->values && h->model ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a model");
}

sb_status sb_hollow_new(const sb_hollow_options *options, sb_hollow *out, sb_error *err)
{
    list l = {.o = options};
    *out = (sb_hollow){0};
    sb_status status = collect(&l, err);
    if (!status)
        status = reserve(&l, out, err);
    if (!status)
        status = make_checkpoint(&l, out, err);
    if (!status) {
        out->model->config = l.plan.config;
        status = sb_weights_bind(out->model->checkpoint, &out->model->config, NULL,
                                 &out->model->weights, err);
    }
    if (!status) {
        out->model->pager = sb_pager_new(out->model->weights, &out->model->config);
        status = out->model->pager ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory");
    }
    free_list(&l);
    if (status)
        sb_hollow_free(out);
    return status;
}

void sb_hollow_free(sb_hollow *h)
{
    sb_model_close(h->model);
    if (h->first)
        munmap(h->first, h->bytes);
    free(h->values);
    *h = (sb_hollow){0};
}
