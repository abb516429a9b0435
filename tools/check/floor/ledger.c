#include "tools/check/floor/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/show.h"
#include "ref/container/survey.h"
#include "ref/model/layers.h"
#include "ref/model/names.h"
#include "ref/model/take.h"

static const struct {
    const char *id, *title;
} classes[] = {
#define SB_FLOOR_CLASS(id, title) {#id, title},
#include "tools/check/floor/classes.def"
#undef SB_FLOOR_CLASS
};

static const struct {
    const char *start;
    sb_floor_class class;
} beginnings[] = {
#define SB_FLOOR_NAME(start, class) {start, SB_FLOOR_##class},
#include "tools/check/floor/classes.def"
#undef SB_FLOOR_NAME
};

const char *sb_floor_class_id(sb_floor_class c)
{
    return classes[c].id;
}

const char *sb_floor_class_title(sb_floor_class c)
{
    return classes[c].title;
}

/* True for tensors that only a loader reads. B-1: "Tensors that only say how to load a layer" */
static int is_for_loader(const char *name)
{
    static const char *const parts[] = {".weight_shape", ".weight_g_idx", ".g_idx"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (n > strlen(parts[i]) && strcmp(name + n - strlen(parts[i]), parts[i]) == 0)
            return 1;
    return 0;
}

/* B-1: "Every tensor belongs to the class that its name says" */
static sb_floor_class class_of(const char *name, int *in_mtp)
{
    char kind[SB_MAX_TENSOR_NAME];
    const char *plain = sb_layer_kind(name, kind, sizeof kind);
    *in_mtp = sb_starts(plain, "mtp.");
    if (*in_mtp)
        plain += 4;
    if (is_for_loader(name))
        return SB_FLOOR_loader;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (sb_starts(plain, beginnings[i].start))
            return beginnings[i].class;
    return SB_FLOOR_other;
}

/* B-2: "belongs to experts if its name has the number of an expert" */
static int is_routed(const sb_tensor *t, uint32_t experts)
{
    const char *at = strstr(t->name, ".experts.");
    if (!at)
        return 0;
    at += strlen(".experts.");
    return (*at >= '0' && *at <= '9') || (t->rank > 0 && t->shape[0] == experts);
}

static void count_tensor(sb_ledger *l, const sb_tensor *t)
{
    int in_mtp;
    sb_floor_class class = class_of(t->name, &in_mtp);
    sb_ledger_row *row = in_mtp ? &l->mtp[class] : &l->trunk[class];
    l->has_mtp |= in_mtp;
    row->tensors++;
    row->stored += t->bytes;
    row->dtype[t->dtype] += t->bytes;
    if (class == SB_FLOOR_experts && is_routed(t, l->config.experts))
        row->routed += t->bytes;
}

static void lack(sb_ledger_lack *l, const char *what)
{
    if (l->count < SB_LEDGER_FIRST)
        snprintf(l->first[l->count], sizeof l->first[0], "%s", what);
    l->count++;
}

/* --- missing items ---------------------------------------------------------------------------- */

typedef struct telling {
    sb_ledger *ledger;
    const char *path;
    sb_status status; /* SB_ERR_IO: a file exists but cannot be read */
    sb_error *err;
} telling;

/* Counts missing and damaged files as missing. A file that cannot be read is an error, because
 * nothing is known about it. */
static void tell(void *ctx, sb_problem problem, const char *file, const char *tensor,
                 const char *message)
{
    telling *t = ctx;
    sb_ledger *l = t->ledger;
    char what[320];
    if (problem == SB_PROBLEM_UNREAD && !t->status)
        t->status =
            sb_fail(t->err, SB_ERR_IO, "%s: %s: %s", SB_SHOW(t->path), SB_SHOW(file), message);
    snprintf(what, sizeof what, "%.100s%s%.100s: %.100s", tensor ? SB_SHOW(tensor) : "",
             tensor ? " of " : "", SB_SHOW(file), message);
    if (problem == SB_PROBLEM_FILE || problem == SB_PROBLEM_NO_FILE || problem == SB_PROBLEM_LOST)
        lack(&l->files, what);
}

/* Names without the prefix of the model, sorted. */
typedef struct names {
    const char **rows;
    size_t count;
    sb_ledger *ledger;
} names;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int has(const names *n, const char *layer, const char *suffix)
{
    char name[SB_NAME_MAX + 32];
    const char *key = name;
    snprintf(name, sizeof name, "%s%s", layer, suffix);
    return n->count && bsearch(&key, n->rows, n->count, sizeof *n->rows, by_text) != NULL;
}

static int has_layer(const names *n, const char *layer)
{
    static const char *const suffixes[] = {"", ".weight", ".weight_packed", ".qweight"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (has(n, layer, suffixes[i]))
            return 1;
    return 0;
}

/* True for an expert in a stack: "layers.3.mlp.experts.5.up_proj" in "...experts.up_proj" or
 * "...experts.gate_up_proj". */
static int has_stack(const names *n, const char *layer)
{
    char stack[SB_NAME_MAX];
    const char *at = strstr(layer, ".experts."), *last = strrchr(layer, '.');
    if (!at)
        return 0;
    int head = (int)(at + strlen(".experts.") - layer);
    snprintf(stack, sizeof stack, "%.*s%s", head, layer, last + 1);
    if (has_layer(n, stack))
        return 1;
    snprintf(stack, sizeof stack, "%.*sgate_up_proj", head, layer);
    return strcmp(last, ".down_proj") != 0 && has_layer(n, stack);
}

static sb_status look_for(void *ctx, const sb_expected *x, sb_error *err)
{
    const names *n = ctx;
    char layer[SB_NAME_MAX];
    static const char weight[] = ".weight";
    (void)err;
    snprintf(layer, sizeof layer, "%s", x->name);
    size_t length = strlen(layer), tail = sizeof weight - 1;
    if (length > tail && strcmp(layer + length - tail, weight) == 0)
        layer[length - tail] = '\0';
    if (!has_layer(n, layer) && !has_stack(n, layer))
        lack(&n->ledger->tensors, x->name);
    return SB_OK;
}

/* B-9: "Every weight that the configuration asks for" */
static sb_status find_missing(const sb_checkpoint *checkpoint, sb_ledger *l, sb_error *err)
{
    sb_storage storage = {.prefix = "", .has_mtp = l->has_mtp};
    names n = {.count = sb_checkpoint_count(checkpoint), .ledger = l};
    n.rows = sb_alloc(n.count, sizeof *n.rows);
    if (!n.rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu names", n.count);
    for (size_t i = 0; i < n.count; i++)
        n.rows[i] = sb_plain_name(sb_checkpoint_at(checkpoint, i)->name);
    if (n.count)
        qsort(n.rows, n.count, sizeof *n.rows, by_text);
    sb_status status = sb_each_tensor(&l->config, &storage, look_for, &n, err);
    free(n.rows);
    return status;
}

/* --- the folder ------------------------------------------------------------------------------- */

static sb_status read_config(const char *folder, sb_ledger *l, sb_error *err)
{
    sb_declared *declared = NULL;
    char *path = sb_path_join(folder, "config.json");
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(folder));
    sb_status status = sb_config_load(path, &l->config, err);
    free(path);
    if (!status)
        status = sb_declared_load(folder, &declared, err);
    l->kv = declared ? sb_declared_kv_cache(declared) : SB_KV_NONE;
    sb_declared_free(declared);
    return status;
}

sb_status sb_ledger_read(const char *path, sb_ledger *out, sb_error *err)
{
    sb_checkpoint *checkpoint = NULL;
    *out = (sb_ledger){.shards = 0};
    telling t = {out, path, SB_OK, err};
    sb_error why = {""};
    sb_status status = sb_checkpoint_survey(path, tell, &t, &checkpoint, &why);
    if (t.status)
        status = t.status;
    else if (status)
        *err = why;
    if (!status)
        status = read_config(sb_checkpoint_folder(checkpoint), out, err);
    for (size_t i = 0; !status && i < sb_checkpoint_count(checkpoint); i++)
        count_tensor(out, sb_checkpoint_at(checkpoint, i));
    if (!status) {
        out->shards = sb_checkpoint_shards(checkpoint);
        status = find_missing(checkpoint, out, err);
    }
    sb_checkpoint_close(checkpoint);
    return status;
}
