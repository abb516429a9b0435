#include "tools/dump/torch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "tools/dump/zip.h"
#include "tools/judge/trace/names.h"

enum { TORCH_DEPTH = 32, TORCH_VISITS = 1 << 18 };

struct sb_torch {
    const char *file;
    sb_zip *zip;
    sb_pickle pickle;
    char prefix[SB_ZIP_MAX_NAME + 1]; /* of the members: "archive/" */
};

static sb_status refuse(const sb_torch *t, const char *name, const char *what, sb_error *err)
{
    return sb_fail(err, SB_ERR_INPUT, "%s: \"%s\" %s", SB_SHOW(t->file), SB_SHOW(name), what);
}

/* --- the archive ------------------------------------------------------------------------------ */

/* The member with the pickle: "NAME/data.pkl", for any NAME. */
static int find_pickle(const sb_zip *zip, size_t *out)
{
    for (size_t i = 0; i < sb_zip_count(zip); i++)
        if (sb_ends(sb_zip_name(zip, i), "/data.pkl")) {
            *out = i;
            return 1;
        }
    return 0;
}

int sb_torch_is(const char *path)
{
    sb_map map;
    sb_zip *zip = NULL;
    size_t i;
    int named = (sb_ends(path, ".pt") || sb_ends(path, ".pth")) && !sb_is_folder(path);
    if (!sb_dump_begins(path, "PK\x03\x04", 4))
        return named && sb_dump_begins(path, "", 0);
    if (sb_map_open(path, &map, NULL))
        return 0;
    int found = !sb_zip_open(map.data, map.size, path, &zip, NULL) && find_pickle(zip, &i);
    sb_zip_close(zip);
    sb_map_close(&map);
    return found || named;
}

static sb_status member(const sb_torch *t, const char *name, const unsigned char **bytes,
                        size_t *size, int *found, sb_error *err)
{
    char path[2 * SB_ZIP_MAX_NAME + 2];
    size_t i;
    snprintf(path, sizeof path, "%s%s", t->prefix, name);
    *found = sb_zip_find(t->zip, path, &i);
    return *found ? sb_zip_read(t->zip, i, bytes, size, err) : SB_OK;
}

/* J-17: "A `byteorder` that is not little is refused" */
static sb_status check_order(const sb_torch *t, sb_error *err)
{
    const unsigned char *bytes;
    size_t size;
    int found;
    sb_status status = member(t, "byteorder", &bytes, &size, &found, err);
    if (status || !found || (size == 6 && memcmp(bytes, "little", 6) == 0))
        return status;
    return sb_fail(err, SB_ERR_INPUT, "%s: its byteorder is not \"little\"", SB_SHOW(t->file));
}

/* Refuses a file of PyTorch before 1.6: a bare pickle or, from much older versions, a pickle in a
 * tar. */
static sb_status no_archive(const char *file, const unsigned char *found, size_t size,
                            sb_error *err)
{
    const char *what = size > 0 && found[0] == 0x80
                           ? "is a bare pickle, the format of torch.save before 1.6: expected an "
                             "archive; load it and save it again with a current torch"
                           : "is not an archive of torch.save";
    return sb_fail(err, SB_ERR_INPUT, "%s: %s", SB_SHOW(file), what);
}

static void release(void *torch)
{
    sb_torch *t = torch;
    sb_pickle_clear(&t->pickle);
    sb_zip_close(t->zip);
    free(t);
}

static sb_status read_archive(sb_torch *t, const unsigned char *archive, size_t all, sb_error *err)
{
    size_t i = 0, size;
    const unsigned char *bytes;
    if (all < 4 || memcmp(archive, "PK\x03\x04", 4) != 0)
        return no_archive(t->file, archive, all, err);
    sb_status status = sb_zip_open(archive, all, t->file, &t->zip, err);
    if (!status && !find_pickle(t->zip, &i))
        status = sb_fail(err, SB_ERR_INPUT, "%s: has no data.pkl", SB_SHOW(t->file));
    if (status)
        return status;
    snprintf(t->prefix, sizeof t->prefix, "%s", sb_zip_name(t->zip, i));
    t->prefix[strlen(t->prefix) - strlen("data.pkl")] = '\0';
    status = check_order(t, err);
    if (!status)
        status = sb_zip_read(t->zip, i, &bytes, &size, err);
    return status ? status : sb_pickle_parse(bytes, size, t->file, &t->pickle, err);
}

sb_status sb_torch_parse(sb_dump_store *store, const unsigned char *bytes, size_t size,
                         const char *file, sb_torch **out, sb_error *err)
{
    sb_torch *t = sb_alloc(1, sizeof *t);
    if (!t)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(file));
    t->file = file;
    sb_status status = sb_dump_store_keep(store, t, release, err);
    *out = t;
    return status ? status : read_archive(t, bytes, size, err);
}

sb_status sb_torch_open(sb_dump_store *store, const char *path, sb_torch **out, sb_error *err)
{
    const char *file = NULL;
    sb_map map = {NULL, 0};
    sb_status status = sb_dump_store_path(store, NULL, path, &file, err);
    if (!status)
        status = sb_dump_store_map(store, file, &map, err);
    return status ? status : sb_torch_parse(store, map.data, map.size, file, out, err);
}

const sb_pickle *sb_torch_tree(const sb_torch *t)
{
    return &t->pickle;
}

const sb_pickle_node *sb_torch_root(const sb_torch *t)
{
    return &t->pickle.nodes[t->pickle.root];
}

/* --- storages --------------------------------------------------------------------------------- */

/* ('storage', class, key, location, numel): the class, and the bytes of the member of that key. */
static sb_status storage_of(const sb_torch *t, const sb_pickle_node *stored, const char *name,
                            const sb_pickle_global **class, const unsigned char **bytes,
                            size_t *size, sb_error *err)
{
    const sb_pickle *p = &t->pickle;
    const sb_pickle_node *id = sb_pickle_item(p, stored, 0), *key = sb_pickle_item(p, id, 2),
                         *type = sb_pickle_item(p, id, 1), *count = sb_pickle_item(p, id, 4);
    char path[80];
    int found = 0;
    if (id->count != 5 || !sb_pickle_is(sb_pickle_item(p, id, 0), "storage") ||
        type->kind != SB_PICKLE_GLOBAL || type->as.global->what != SB_PICKLE_storage ||
        key->kind != SB_PICKLE_TEXT || key->count == 0 || key->count > 64 ||
        count->kind != SB_PICKLE_INT || count->as.integer < 0)
        return refuse(t, name, "has a storage whose name is not one of torch.save", err);
    *class = type->as.global;
    snprintf(path, sizeof path, "data/%.*s", (int)key->count, key->as.text);
    sb_status status = member(t, path, bytes, size, &found, err);
    if (!status && !found)
        status = refuse(t, name, "has a storage that is missing in the archive", err);
    size_t element = (*class)->dtype == SB_DTYPE_COUNT ? 1 : sb_dtype_bits((*class)->dtype) / 8;
    if (!status && (*size % element || *size / element != (uint64_t)count->as.integer))
        status = refuse(t, name, "has a storage whose size differs from the declared size", err);
    return status;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int read_sizes(const sb_pickle *p, const sb_pickle_node *tuple, uint64_t *out)
{
    if (!tuple || tuple->kind != SB_PICKLE_TUPLE || tuple->count > SB_MAX_RANK)
        return 0;
    for (uint32_t i = 0; i < tuple->count; i++) {
        const sb_pickle_node *n = sb_pickle_item(p, tuple, i);
        if (n->kind != SB_PICKLE_INT || n->as.integer < 0)
            return 0;
        out[i] = (uint64_t)n->as.integer;
    }
    return 1;
}

/* The dtype of a tensor: from its storage, or from the argument after the hooks. Refuses a tensor
 * with metadata, because the signs of its values differ from those in the storage. */
static sb_status dtype_of(const sb_torch *t, const sb_pickle_node *args, int typed,
                          const sb_pickle_global *class, const char *name, sb_dtype *out,
                          sb_error *err)
{
    const sb_pickle_node *type = typed ? sb_pickle_item(&t->pickle, args, 6) : NULL;
    const sb_pickle_node *more = sb_pickle_item(&t->pickle, args, typed ? 7 : 6);
    if (more && (more->kind == SB_PICKLE_DICT ? more->count > 0 : more->kind != SB_PICKLE_NONE))
        return refuse(t, name,
                      "is stored with a pending negation or conjugation: expected resolve_neg() "
                      "and resolve_conj() before torch.save",
                      err);
    *out = class->dtype;
    if (typed && type && type->kind == SB_PICKLE_GLOBAL && type->as.global->what == SB_PICKLE_dtype)
        *out = type->as.global->dtype;
    else if (typed)
        *out = SB_DTYPE_COUNT;
    return *out == SB_DTYPE_COUNT ? refuse(t, name, "does not say its type", err) : SB_OK;
}

/* (storage, offset, size, stride, requires_grad, hooks[, dtype][, metadata]) */
static sb_status add_tensor(const sb_torch *t, const sb_pickle_node *args, int typed,
                            const char *name, size_t call, sb_dump_store *store, sb_error *err)
{
    const sb_pickle *p = &t->pickle;
    const sb_pickle_node *stored = sb_pickle_item(p, args, 0), *offset = sb_pickle_item(p, args, 1),
                         *size = sb_pickle_item(p, args, 2), *steps = sb_pickle_item(p, args, 3);
    sb_dump_array a = {.file = t->file, .call = call};
    uint64_t stride[SB_MAX_RANK] = {0};
    const sb_pickle_global *class = NULL;
    const unsigned char *bytes = NULL;
    size_t room = 0;
    if (args->count < 6 || stored->kind != SB_PICKLE_STORED || offset->kind != SB_PICKLE_INT ||
        offset->as.integer < 0 || !read_sizes(p, size, a.shape) || !read_sizes(p, steps, stride) ||
        size->count != steps->count)
        return refuse(t, name, "is a tensor with arguments that torch.save does not write", err);
    a.rank = size->count;
    sb_status status = storage_of(t, stored, name, &class, &bytes, &room, err);
    if (!status)
        status = dtype_of(t, args, typed, class, name, &a.dtype, err);
    if (status)
        return status;
    size_t element = sb_dtype_bits(a.dtype) / 8;
    if ((uint64_t)offset->as.integer > room / element) /* J-17: "views reach into their storage" */
        return refuse(t, name, "begins after the end of its storage", err);
    size_t skipped = (size_t)offset->as.integer * element;
    a.data = bytes + skipped;
    return sb_dump_arrays_add(sb_dump_store_arrays(store), &a, name, stride, room - skipped, err);
}

/* --- the tree --------------------------------------------------------------------------------- */

typedef struct walk {
    const sb_torch *torch;
    size_t call, visits;
    sb_dump_store *store;
    sb_error *err;
    char name[SB_MAX_TENSOR_NAME + 1];
} walk;

static sb_status walk_node(walk *w, const sb_pickle_node *node, size_t length, unsigned depth);

static sb_status walk_call(walk *w, const sb_pickle_node *call)
{
    const sb_pickle *p = &w->torch->pickle;
    const sb_pickle_node *args = sb_pickle_item(p, call, 1);
    sb_pickle_what what = sb_pickle_item(p, call, 0)->as.global->what;
    if (what == SB_PICKLE_parameter) { /* (tensor, requires_grad, hooks) */
        const sb_pickle_node *inner = sb_pickle_item(p, args, 0);
        if (!inner || inner->kind != SB_PICKLE_CALL ||
            sb_pickle_item(p, inner, 0)->as.global->what == SB_PICKLE_parameter)
            return refuse(w->torch, w->name, "is a parameter but not a tensor", w->err);
        return walk_call(w, inner);
    }
    if (what != SB_PICKLE_tensor && what != SB_PICKLE_typed)
        return SB_OK;
    return add_tensor(w->torch, args, what == SB_PICKLE_typed, w->name, w->call, w->store, w->err);
}

/* Appends ".key" to the name, or "key" if it is empty. */
static sb_status name_item(walk *w, size_t *length, const char *key, size_t n)
{
    size_t dot = *length > 0;
    if (n > SB_MAX_TENSOR_NAME || *length + dot + n > SB_MAX_TENSOR_NAME || memchr(key, 0, n))
        return refuse(w->torch, w->name, "has a key that is too long, or contains a zero byte",
                      w->err);
    if (dot)
        w->name[(*length)++] = '.';
    memcpy(w->name + *length, key, n);
    *length += n;
    w->name[*length] = '\0';
    return SB_OK;
}

static sb_status walk_items(walk *w, const sb_pickle_node *list, size_t length, unsigned depth)
{
    const sb_pickle *p = &w->torch->pickle;
    sb_status status = SB_OK;
    int is_dict = list->kind == SB_PICKLE_DICT;
    uint32_t cell = list->count ? list->as.cells[0] : 0;
    for (uint64_t i = 0; cell && !status; i++) {
        char digits[24];
        size_t n = length;
        const sb_pickle_node *key = is_dict ? &p->nodes[p->cells[cell].node] : NULL;
        if (is_dict)
            cell = p->cells[cell].next;
        if (key && key->kind != SB_PICKLE_TEXT && key->kind != SB_PICKLE_INT)
            return refuse(w->torch, w->name, "has a key that is neither text nor a number", w->err);
        if (key && key->kind == SB_PICKLE_TEXT) {
            status = name_item(w, &n, (const char *)key->as.text, key->count);
        } else {
            snprintf(digits, sizeof digits, "%" PRId64, key ? key->as.integer : (int64_t)i);
            status = name_item(w, &n, digits, strlen(digits));
        }
        if (!status)
            status = walk_node(w, &p->nodes[p->cells[cell].node], n, depth + 1);
        w->name[length] = '\0';
        cell = p->cells[cell].next;
    }
    return status;
}

/* J-17: "a pickle that is nested deeper than 32, or has more than 2^18 values" - a value that
 * contains itself is both. */
static sb_status walk_node(walk *w, const sb_pickle_node *node, size_t length, unsigned depth)
{
    if (depth > TORCH_DEPTH || ++w->visits > TORCH_VISITS)
        return refuse(w->torch, w->name, "is nested deeper than 32, or has more than 2^18 values",
                      w->err);
    switch (node->kind) {
    case SB_PICKLE_CALL:
        return walk_call(w, node);
    case SB_PICKLE_TUPLE:
    case SB_PICKLE_LIST:
    case SB_PICKLE_DICT:
        return walk_items(w, node, length, depth);
    default:
        return SB_OK;
    }
}

sb_status sb_torch_add(const sb_torch *t, const sb_pickle_node *node, const char *name, size_t call,
                       sb_dump_store *store, sb_error *err)
{
    walk w = {.torch = t, .call = call, .store = store, .err = err};
    snprintf(w.name, sizeof w.name, "%s", name);
    return walk_node(&w, node, strlen(w.name), 0);
}
