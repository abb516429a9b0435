/* sglang.c - a folder of SGLang's dumper: one file of torch.save per value, whose name has step,
 * rank and value. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/show.h"
#include "tools/dump/torch.h"

/* The parts of a file name. */
typedef struct tags {
    const char *file; /* the name itself */
    uint64_t step, rank;
    int has_step, has_rank, has_layer, is_recomputed;
    uint64_t layer;
    char name[512];
} tags;

/* --- names of files --------------------------------------------------------------------------- */

static int number(const char *text, size_t n, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || n > 12)
            return 0;
        *out = *out * 10 + (uint64_t)(text[i] - '0');
    }
    return n > 0;
}

static int is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* Reads one `key=value`; ignores other keys. */
static int take_tag(tags *t, const char *text, size_t n)
{
    const char *equals = memchr(text, '=', n);
    if (!equals)
        return 1;
    size_t key = (size_t)(equals - text), length = n - key - 1;
    if (is_word(text, key, "step"))
        return t->has_step = number(equals + 1, length, &t->step);
    if (is_word(text, key, "rank"))
        return t->has_rank = number(equals + 1, length, &t->rank);
    if (is_word(text, key, "layer_id"))
        t->has_layer = number(equals + 1, length, &t->layer);
    if (is_word(text, key, "recompute_status"))
        t->is_recomputed = is_word(equals + 1, length, "recompute");
    if (is_word(text, key, "name"))
        return length > 0 && snprintf(t->name, sizeof t->name, "%.*s", (int)length, equals + 1) <
                                 (int)sizeof t->name;
    return 1;
}

/* J-19: "is split at `___`, and each part at its first `=`" */
static int read_tags(const char *file, tags *t)
{
    const char *at = file, *end = file + strlen(file) - strlen(".pt");
    *t = (tags){.file = file};
    while (at < end) {
        const char *next = strstr(at, "___");
        if (!next || next > end)
            next = end;
        if (!take_tag(t, at, (size_t)(next - at)))
            return 0;
        at = next == end ? end : next + 3;
    }
    return t->has_step && t->has_rank && t->name[0];
}

static int is_sglang(const char *path)
{
    sb_dump_names names;
    tags t;
    if (!sb_dump_has_only(path, ".pt") || sb_dump_list(path, ".pt", &names, NULL))
        return 0;
    int found = names.count > 0;
    for (size_t i = 0; i < names.count; i++)
        found &= read_tags(names.items[i], &t);
    sb_dump_names_free(&names);
    return found;
}

/* --- the axes of a file ----------------------------------------------------------------------- */

/* True if the dims say that an axis is split over ranks: "h[tp]", or "h(tp)" in older versions.
 * After # comes text about ranks. */
static int is_cut(const sb_pickle_node *dims)
{
    for (uint32_t i = 0; i < dims->count && dims->as.text[i] != '#'; i++) {
        unsigned char c = dims->as.text[i], before = i ? dims->as.text[i - 1] : ' ';
        if (c == '[' || (c == '(' && before != ' '))
            return 1;
    }
    return 0;
}

/* J-19: "Axis 0 is t, s, b or 1" */
static int begins_with_rows(const sb_pickle_node *dims)
{
    unsigned char first = dims->count ? dims->as.text[0] : ' ';
    unsigned char next = dims->count > 1 ? dims->as.text[1] : ' ';
    return strchr("tsb1", first) != NULL && first && (next == ' ' || next == '[' || next == '#');
}

static sb_status check_meta(const sb_torch *torch, const char *path, sb_error *err)
{
    const sb_pickle *p = sb_torch_tree(torch);
    const sb_pickle_node *meta = sb_pickle_get(p, sb_torch_root(torch), "meta");
    if (!meta || meta->kind != SB_PICKLE_DICT)
        return SB_OK;
    const sb_pickle_node *dims = sb_pickle_get(p, meta, "dims");
    const sb_pickle_node *size = sb_pickle_get(p, meta, "world_size");
    if (!dims || dims->kind != SB_PICKLE_TEXT)
        return SB_OK;
    if (!begins_with_rows(dims))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: the first of its dims is not an axis of tokens (t, s, b or 1)",
                       SB_SHOW(path));
    int alone = !size || (size->kind == SB_PICKLE_INT && size->as.integer == 1);
    if (!alone && is_cut(dims))
        return sb_fail(err, SB_ERR_INPUT,
                       "%s: its dims mark it as one rank's part of an array: expected a dump of a "
                       "single GPU, or of an array that every rank holds completely",
                       SB_SHOW(path));
    return SB_OK;
}

/* --- ranks ------------------------------------------------------------------------------------ */

static int same_values(const sb_dump_array *a, const sb_dump_array *b)
{
    uint64_t n = sb_dump_array_elements(a);
    int same = a->dtype == b->dtype && a->rank == b->rank &&
               memcmp(a->shape, b->shape, sizeof a->shape) == 0;
    for (uint64_t i = 0; i < n && same; i++) {
        unsigned char left[8], right[8];
        sb_dump_gather(a, i, 1, left);
        sb_dump_gather(b, i, 1, right);
        same = memcmp(left, right, sb_dtype_bits(a->dtype) / 8) == 0;
    }
    return same;
}

/* J-19: "other ranks must have the same values" - arrays from `from` on are those of a later rank:
 * compares each with the array of the same name and drops it. */
static sb_status fold_rank(sb_dump_arrays *arrays, size_t from, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = from; i < arrays->count && !status; i++) {
        const sb_dump_array *a = &arrays->items[i], *first = NULL;
        for (size_t k = from; k-- > 0 && !first && arrays->items[k].call == a->call;)
            if (strcmp(arrays->items[k].name, a->name) == 0)
                first = &arrays->items[k];
        if (!first || !same_values(first, a))
            status = sb_fail(
                err, SB_ERR_INPUT,
                "%s: \"%s\" differs from the first rank's array: parts of an array are not joined",
                SB_SHOW(a->file), SB_SHOW(a->name));
    }
    while (arrays->count > from)
        free(arrays->items[--arrays->count].name);
    return status;
}

/* --- the folder ------------------------------------------------------------------------------- */

static int by_step(const void *left, const void *right)
{
    const tags *a = left, *b = right;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return strcmp(a->file, b->file);
}

/* Adds the value of a file under the name from its tags, "layers.3.name" if they have a layer. */
static sb_status add_file(sb_dump_store *s, const char *dir, const tags *t, size_t call,
                          sb_error *err)
{
    char name[640];
    const char *path = NULL;
    sb_torch *torch = NULL;
    sb_status status = sb_dump_store_path(s, dir, t->file, &path, err);
    if (!status)
        status = sb_torch_open(s, path, &torch, err);
    if (status)
        return status;
    const sb_pickle_node *root = sb_torch_root(torch), *value = NULL;
    if (root->kind == SB_PICKLE_DICT)
        value = sb_pickle_get(sb_torch_tree(torch), root, "value");
    status = value ? check_meta(torch, path, err) : SB_OK;
    if (t->has_layer)
        snprintf(name, sizeof name, "layers.%" PRIu64 ".%s", t->layer, t->name);
    else
        snprintf(name, sizeof name, "%s", t->name);
    return status ? status : sb_torch_add(torch, value ? value : root, name, call, s, err);
}

static sb_status add_files(sb_dump_store *s, const char *dir, const tags *files, size_t count,
                           sb_error *err)
{
    sb_dump_arrays *arrays = sb_dump_store_arrays(s);
    sb_status status = SB_OK;
    size_t call = 0;
    for (size_t i = 0; i < count && !status; i++) {
        size_t from = arrays->count;
        call += i > 0 && files[i].step != files[i - 1].step;
        if (files[i].is_recomputed) /* a repetition for the gradient */
            continue;
        status = add_file(s, dir, &files[i], call, err);
        if (!status && files[i].rank != files[0].rank)
            status = fold_rank(arrays, from, err);
    }
    return status;
}

static sb_status open_sglang(const char *path, const sb_dump_options *options, sb_trace_head *head,
                             void **state, sb_error *err)
{
    sb_dump_store *s;
    sb_dump_names names = {.count = 0};
    sb_status status = sb_dump_store_new(&s, err);
    if (status)
        return status;
    status = sb_dump_list(path, ".pt", &names, err);
    tags *files = sb_alloc(names.count, sizeof *files);
    if (!status && !files)
        status = sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
    for (size_t i = 0; i < names.count && !status; i++)
        if (!read_tags(names.items[i], &files[i]))
            status = sb_fail(err, SB_ERR_INPUT, "%s: the name %s lacks step, rank or name",
                             SB_SHOW(path), SB_SHOW(names.items[i]));
    if (!status) {
        qsort(files, names.count, sizeof *files, by_step);
        status = add_files(s, path, files, names.count, err);
    }
    free(files);
    sb_dump_names_free(&names);
    return sb_dump_store_ready(status, s, path, options, head, state, err);
}

extern const sb_dump_reader sb_dump_sglang;
const sb_dump_reader sb_dump_sglang = {"sglang",
                                       "SGLang: a folder of its dumper",
                                       is_sglang,
                                       open_sglang,
                                       sb_dump_store_play,
                                       sb_dump_store_close,
                                       1};
