#include "ref/model/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/overlay.h"
#include "ref/container/show.h"
#include "ref/model/held.h"

typedef struct entry {
    char *name;
    uint32_t experts;
} entry;

typedef struct list {
    entry *entries;
    size_t count, room;
} list;

static int is_plain(sb_dtype dtype)
{
    return dtype == SB_DTYPE_BF16 || dtype == SB_DTYPE_F16 || dtype == SB_DTYPE_F32;
}

/* True if the text after the name of a stack is the suffix of a part: "", ".weight_packed",
 * "_scale_inv". */
static int is_stack_part(const char *tail)
{
    if (!*tail)
        return 1;
    if (*tail != '.' && *tail != '_')
        return 0;
    for (unsigned p = 0; p < SB_PART_COUNT; p++) {
        const char *suffix = sb_part_suffix((sb_model_part)p);
        if (strcmp(tail + 1, suffix) == 0 ||
            (*tail == '_' && strncmp(suffix, "weight_", 7) == 0 && !strcmp(tail + 1, suffix + 7)))
            return 1;
    }
    return 0;
}

/* If the tensor is a part of a stack, returns 1 and writes the name of the stack to `layer`. */
static int stack_of(const char *tensor, char *layer, size_t size)
{
    static const char mark[] = ".experts.";
    static const char *const names[] = {"gate_up_proj", "gate_proj", "up_proj", "down_proj"};
    const char *at = strstr(tensor, mark);
    for (size_t i = 0; at && i < sizeof names / sizeof *names; i++) {
        size_t n = (size_t)(at - tensor) + sizeof mark - 1 + strlen(names[i]);
        if (strncmp(at + sizeof mark - 1, names[i], strlen(names[i])) != 0 || n >= size ||
            !is_stack_part(tensor + n))
            continue;
        memcpy(layer, tensor, n);
        layer[n] = '\0';
        return 1;
    }
    return 0;
}

static sb_status add(list *all, const char *name, uint32_t experts, sb_error *err)
{
    entry *grown = sb_grow(all->entries, all->count, &all->room, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu layers", all->count + 1);
    all->entries = grown;
    all->entries[all->count] = (entry){sb_strdup(name), experts};
    if (!all->entries[all->count].name)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the name of a layer");
    all->count++;
    return SB_OK;
}

static int by_name(const void *left, const void *right)
{
    const entry *a = left;
    const entry *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->experts < b->experts) - (a->experts > b->experts);
}

int sb_tensor_layer(const sb_tensor *t, char *layer, size_t size, uint32_t *experts)
{
    *experts = 0;
    if (stack_of(t->name, layer, size) && t->rank == 3) {
        *experts = t->shape[0] < UINT32_MAX ? (uint32_t)t->shape[0] : UINT32_MAX;
        return 1;
    }
    return sb_layer_of(t->name, layer, size) &&
           (t->rank == 2 || !is_plain(t->dtype) || strcmp(t->name + strlen(layer), ".weight") != 0);
}

/* Lists the layers of all tensors, sorted by name. Among entries with the same name, the largest
 * number of experts comes first. */
static sb_status collect(const sb_checkpoint *checkpoint, list *all, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_checkpoint_count(checkpoint) && !status; i++) {
        const sb_tensor *t = sb_checkpoint_at(checkpoint, i);
        char layer[SB_MAX_TENSOR_NAME];
        uint32_t experts;
        if (sb_tensor_layer(t, layer, sizeof layer, &experts))
            status = add(all, layer, experts, err);
    }
    if (all->count)
        qsort(all->entries, all->count, sizeof *all->entries, by_name);
    return status;
}

/* Loads the declarations of the folder. *out is NULL if there is no config.json. */
static sb_status load_declared(const sb_checkpoint *checkpoint, sb_declared **out, sb_error *err)
{
    const char *folder = sb_checkpoint_folder(checkpoint);
    char *path = sb_path_join(folder, "config.json");
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(folder));
    sb_status status = access(path, F_OK) == 0 ? sb_declared_load(folder, out, err) : SB_OK;
    free(path);
    return status;
}

sb_status sb_each_layer_name(const sb_checkpoint *checkpoint, sb_layer_name_fn visit, void *ctx,
                             sb_error *err)
{
    list all = {0};
    sb_status status = collect(checkpoint, &all, err);
    for (size_t i = 0; i < all.count && !status; i++)
        if (i == 0 || strcmp(all.entries[i].name, all.entries[i - 1].name) != 0)
            status = visit(ctx, all.entries[i].name, all.entries[i].experts, err);
    for (size_t i = 0; i < all.count; i++)
        free(all.entries[i].name);
    free(all.entries);
    return status;
}

const char *sb_found_origin(const sb_checkpoint *checkpoint, const sb_found *found)
{
    for (unsigned p = 0; p < SB_PART_COUNT; p++)
        if (found->part[p])
            return sb_checkpoint_origin(checkpoint, found->part[p]);
    return NULL;
}

typedef struct walk {
    const sb_checkpoint *checkpoint;
    sb_declared *declared; /* loaded when a layer first needs it */
    int loaded;
    sb_layer_fn visit;
    void *ctx;
} walk;

static sb_status visit_name(void *ctx, const char *name, uint32_t experts, sb_error *err)
{
    walk *w = ctx;
    sb_found found;
    sb_status status = sb_detect(w->checkpoint, name, experts, 0, 0, &found, err);
    int ask = !status && found.zeros_open && !sb_found_origin(w->checkpoint, &found);
    if (ask && !w->loaded++)
        status = load_declared(w->checkpoint, &w->declared, err);
    if (!status && ask)
        status = sb_settle_zeros(w->declared, name, &found, err);
    if (!status && found.container != SB_CONTAINER_COUNT)
        status = w->visit(w->ctx, name, &found, err);
    return status;
}

sb_status sb_each_layer(const sb_checkpoint *checkpoint, sb_layer_fn visit, void *ctx,
                        sb_error *err)
{
    walk w = {.checkpoint = checkpoint, .visit = visit, .ctx = ctx};
    sb_status status = sb_each_layer_name(checkpoint, visit_name, &w, err);
    sb_declared_free(w.declared);
    return status;
}

/* Visits one matrix of an expert, which is rows first .. first + rows - 1 of the stored matrix. */
static sb_status visit_part(const sb_piece *whole, const char *name, const char *part,
                            uint32_t first, uint32_t rows, sb_piece_fn visit, void *ctx,
                            sb_error *err)
{
    sb_piece piece = *whole;
    snprintf(piece.name, sizeof piece.name, "%.*s%u.%s", (int)(strrchr(name, '.') + 1 - name), name,
             (unsigned)whole->expert, part);
    piece.matrix.first_row += first;
    piece.matrix.rows = rows;
    return visit(ctx, &piece, err);
}

sb_status sb_each_piece(const sb_checkpoint *checkpoint, const char *name, const sb_found *found,
                        sb_piece_fn visit, void *ctx, sb_error *err)
{
    sb_piece piece = {.found = found, .matrix = found->matrix};
    sb_status status = SB_OK;
    snprintf(piece.name, sizeof piece.name, "%s", name);
    if (!found->experts)
        return visit(ctx, &piece, err);
    /* not NULL, because a stack's name has ".experts." */
    const char *last = strrchr(name, '.') + 1;
    int both = strcmp(last, "gate_up_proj") == 0;
    uint32_t rows = found->matrix.rows;
    if (both && rows % 2 != 0)
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: layer %s has %u rows, expected an even number: gate and up",
                       SB_SHOW(sb_checkpoint_path(checkpoint)), SB_SHOW(name), (unsigned)rows);
    for (piece.expert = 0; piece.expert < found->experts && !status; piece.expert++) {
        status = sb_found_expert(checkpoint, found, piece.expert, &piece.matrix, err);
        if (!status && !both)
            status = visit_part(&piece, name, last, 0, rows, visit, ctx, err);
        if (!status && both)
            status = visit_part(&piece, name, "gate_proj", 0, rows / 2, visit, ctx, err);
        if (!status && both)
            status = visit_part(&piece, name, "up_proj", rows / 2, rows / 2, visit, ctx, err);
    }
    return status;
}

char *sb_layer_kind(const char *name, char *kind, size_t size)
{
    static const char *const common[] = {"model", "language_model", "layers"};
    size_t used = 0;
    kind[0] = '\0';
    for (size_t n; *name; name += n + (name[n] == '.')) {
        n = strcspn(name, ".");
        int skip = strspn(name, "0123456789") == n;
        for (size_t i = 0; i < sizeof common / sizeof *common && !skip; i++)
            skip = n == strlen(common[i]) && strncmp(name, common[i], n) == 0;
        if (skip || used + n + 2 > size)
            continue;
        used += (size_t)snprintf(kind + used, size - used, "%s%.*s", used ? "." : "", (int)n, name);
    }
    return kind;
}
