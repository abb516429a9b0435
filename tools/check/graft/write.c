#define _XOPEN_SOURCE 700 /* realpath */

#include "tools/check/graft/write.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json_out.h"
#include "ref/container/map.h"
#include "ref/container/show.h"
#include "ref/container/writer.h"
#include "ref/model/origin.h"
#include "tools/check/graft/adapt.h"

static sb_status no_memory(sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the files of a graft");
}

const char *sb_graft_action_name(sb_graft_action action)
{
    static const char *const names[] = {"linked",    "symlinked", "copied",
                                        "rewritten", "dropped",   "created"};
    return names[action];
}

/* --- plans of the files ----------------------------------------------------------------------- */

static int has_shard(const sb_checkpoint *c, const char *name)
{
    for (uint32_t i = 0; i < sb_checkpoint_shards(c); i++)
        if (strcmp(sb_checkpoint_shard_name(c, i), name) == 0)
            return 1;
    return 0;
}

/* W-11: "the first of model-graft-00001.safetensors, model-graft-00002.safetensors ... that is
 * free". No engine has its own rule for such names. */
static char *free_name(const sb_checkpoint *c, const char *stem)
{
    char name[64];
    unsigned number = 1;
    do
        snprintf(name, sizeof name, "model-%s-%05u.safetensors", stem, number++);
    while (has_shard(c, name));
    return sb_strdup(name);
}

/* transformers reads only model.safetensors if it exists, and ignores the index. */
static char *new_name_of(const sb_checkpoint *c, const char *name)
{
    return strcmp(name, "model.safetensors") == 0 ? free_name(c, "base") : sb_strdup(name);
}

sb_status sb_graft_files(sb_grafted *g, sb_error *err)
{
    const sb_checkpoint *c = g->base;
    size_t shards = sb_checkpoint_shards(c);
    size_t created = g->other != NULL;
    g->files = sb_alloc(shards + created, sizeof *g->files);
    if (!g->files)
        return no_memory(err);
    g->file_count = shards + created;
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        sb_graft_file *f = &g->files[t->shard];
        if (g->take.dropped[i]) {
            f->goes++;
            f->goes_bytes += t->bytes;
        } else {
            f->stays++;
            f->stays_bytes += t->bytes;
            g->total += t->bytes;
        }
    }
    for (uint32_t i = 0; i < g->file_count; i++) {
        sb_graft_file *f = &g->files[i];
        f->name = i < shards ? sb_strdup(sb_checkpoint_shard_name(c, i)) : free_name(c, "graft");
        f->new_name = f->name ? new_name_of(c, f->name) : NULL;
        if (!f->new_name)
            return no_memory(err);
        f->action = !f->goes ? SB_GRAFT_linked : f->stays ? SB_GRAFT_rewritten : SB_GRAFT_dropped;
    }
    if (!created)
        return SB_OK;
    g->files[shards].action = SB_GRAFT_created;
    g->files[shards].stays = g->take.taken_count;
    g->files[shards].stays_bytes = g->take.taken_bytes;
    g->total += g->take.taken_bytes;
    return SB_OK;
}

/* --- tensors written -------------------------------------------------------------------------- */

/* The tensors of one file, and the progress over all files. */
typedef struct job {
    const sb_graft_options *options;
    const sb_grafted *graft;
    double *wide; /* the decoded row that was used last */
    uint64_t row;
    const sb_tensor *of;
    sb_overlaid *tensors; /* sorted by name */
    size_t count;
    uint64_t done, total;
} job;

static int against_name(const void *key, const void *element)
{
    return strcmp(key, ((const sb_overlaid *)element)->name);
}

/* Starts the row cache anew for another tensor. */
static sb_status begin_row(job *j, const sb_graft_made *made, sb_error *err)
{
    if (j->of == &made->tensor)
        return SB_OK;
    free(j->wide);
    j->of = &made->tensor;
    j->row = UINT64_MAX;
    j->wide = sb_alloc(made->found.matrix.cols, sizeof *j->wide);
    return j->wide ? SB_OK : no_memory(err);
}

static sb_status fill(void *ctx, const sb_tensor *tensor, uint64_t first_byte, unsigned char *bytes,
                      size_t count, sb_error *err)
{
    job *j = ctx;
    const sb_overlaid *from =
        bsearch(tensor->name, j->tensors, j->count, sizeof *j->tensors, against_name);
    const sb_graft_made *made = sb_graft_made_of(j->graft, from->from);
    if (!made || !made->decoded) {
        memcpy(bytes, from->from->data + first_byte, count);
    } else {
        sb_status status = begin_row(j, made, err);
        if (status)
            return status;
        sb_graft_decoded(made, first_byte / 2, count / 2, j->wide, &j->row, bytes);
    }
    j->done += count;
    if (j->options->progress)
        j->options->progress(NULL, "bytes", j->done, j->total);
    return SB_OK;
}

/* The tensor name in a metadata key of a conversion, or NULL. */
static const char *about(const char *key)
{
    static const char *const prefixes[] = {SB_ORIGIN_PREFIX, SB_STORED_PREFIX};
    for (size_t i = 0; i < 2; i++)
        if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
            return key + strlen(prefixes[i]);
    return NULL;
}

/* D-7: "A conversion keeps each number that it replaces". That number moves with its tensor. */
static sb_status keep_origin(const job *j, sb_writer *writer, const sb_checkpoint *c,
                             uint32_t shard, sb_error *err)
{
    sb_status status = SB_OK;
    size_t pairs = sb_checkpoint_metadata_count(c, shard);
    for (size_t i = 0; i < pairs && !status; i++) {
        const sb_metadata_pair *pair = sb_checkpoint_metadata_at(c, shard, i);
        const char *name = about(pair->key);
        for (size_t k = 0; name && k < j->count && !status; k++)
            if (strcmp(j->tensors[k].from->name, name) == 0 && j->tensors[k].from->shard == shard) {
                char key[SB_ORIGIN_KEY + 32];
                snprintf(key, sizeof key, "%.*s%s", (int)(name - pair->key), pair->key,
                         j->tensors[k].name);
                status = sb_writer_metadata(writer, j->tensors[0].name, key, pair->value, err);
                break;
            }
    }
    return status;
}

/* Keeps the other metadata of a rewritten file. */
static sb_status keep_metadata(const job *j, sb_writer *writer, const sb_checkpoint *c,
                               uint32_t shard, sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < sb_checkpoint_metadata_count(c, shard) && !status; i++) {
        const sb_metadata_pair *pair = sb_checkpoint_metadata_at(c, shard, i);
        if (!about(pair->key) && strcmp(pair->key, "format") != 0)
            status = sb_writer_metadata(writer, j->tensors[0].name, pair->key, pair->value, err);
    }
    return status;
}

static int by_place(const void *left, const void *right)
{
    const sb_overlaid *a = left, *b = right;
    if (a->from->shard != b->from->shard)
        return a->from->shard < b->from->shard ? -1 : 1;
    if (a->from->data != b->from->data)
        return a->from->data > b->from->data ? 1 : -1;
    return strcmp(a->name, b->name); /* decoded tensors have no data */
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const sb_overlaid *)left)->name, ((const sb_overlaid *)right)->name);
}

/* Writes the file of j->tensors, from checkpoint c. shard: the shard of all of them, or UINT32_MAX.
 */
static sb_status write_file(job *j, const sb_checkpoint *c, uint32_t shard, const char *path,
                            sb_error *err)
{
    sb_writer *writer = NULL;
    sb_status status = sb_writer_new(path, 0, SB_WRITER_FILE, &writer, err);
    qsort(j->tensors, j->count, sizeof *j->tensors, by_place);
    for (size_t i = 0; i < j->count && !status; i++) {
        const sb_tensor *t = j->tensors[i].from;
        status = sb_writer_add(writer, j->tensors[i].name, t->dtype, t->rank, t->shape, err);
    }
    if (!status && shard != UINT32_MAX)
        status = keep_metadata(j, writer, c, shard, err);
    for (uint32_t i = 0; i < sb_checkpoint_shards(c) && !status; i++)
        if (shard == UINT32_MAX || shard == i)
            status = keep_origin(j, writer, c, i, err);
    qsort(j->tensors, j->count, sizeof *j->tensors, by_name);
    if (!status)
        status = sb_writer_run(writer, fill, j, err);
    sb_writer_free(writer);
    return status;
}

/* Writes the tensors that stay of one shard. */
static sb_status rewrite(job *j, const sb_grafted *g, uint32_t shard, const char *path,
                         sb_error *err)
{
    const sb_checkpoint *c = g->base;
    j->count = 0;
    j->tensors = sb_alloc(g->files[shard].stays, sizeof *j->tensors);
    if (!j->tensors)
        return no_memory(err);
    for (size_t i = 0; i < sb_checkpoint_count(c); i++) {
        const sb_tensor *t = sb_checkpoint_at(c, i);
        if (t->shard == shard && !g->take.dropped[i])
            j->tensors[j->count++] = (sb_overlaid){t, (char *)(size_t)t->name};
    }
    sb_status status = write_file(j, c, shard, path, err);
    free(j->tensors);
    return status;
}

/* --- links ------------------------------------------------------------------------------------ */

static sb_status copy(const char *from, const char *to, sb_error *err)
{
    sb_map map;
    sb_file_out out;
    sb_status status = sb_map_open(from, &map, err);
    if (status)
        return status;
    status = sb_file_begin(to, &out, err);
    for (size_t at = 0; at < map.size && !status; at += SB_WRITER_PIECE) {
        size_t n = map.size - at < SB_WRITER_PIECE ? map.size - at : SB_WRITER_PIECE;
        status = sb_file_append(&out, map.data + at, n, err);
    }
    if (!status)
        status = sb_file_sync(&out, err);
    if (!status)
        status = sb_file_commit(&out, err);
    sb_file_abort(&out);
    sb_map_close(&map);
    return status;
}

/* W-11: "hard links where the file system has them, else symbolic ones, else copies". Links in a
 * snapshot of the hub are resolved first. */
static sb_status link_shard(sb_graft_file *file, const char *folder, int no_links, const char *to,
                            sb_error *err)
{
    char *path = sb_path_join(folder, file->name);
    char *real = path ? realpath(path, NULL) : NULL;
    sb_status status = SB_OK;
    if (!real)
        status =
            path ? sb_fail(err, SB_ERR_IO, "%s: cannot resolve: %s", SB_SHOW(path), strerror(errno))
                 : no_memory(err);
    else if (!no_links && link(real, to) == 0)
        file->action = SB_GRAFT_linked;
    else if (!no_links && errno != ENOSPC && symlink(real, to) == 0)
        file->action = SB_GRAFT_symlinked;
    else {
        status = copy(real, to, err);
        file->action = SB_GRAFT_copied;
    }
    free(path);
    free(real);
    return status;
}

sb_status sb_graft_write(sb_grafted *g, const sb_graft_options *options, const char *folder,
                         sb_error *err)
{
    sb_status status = SB_OK;
    job j = {.options = options, .graft = g};
    for (size_t i = 0; i < g->file_count; i++)
        if (g->files[i].action >= SB_GRAFT_rewritten && g->files[i].action != SB_GRAFT_dropped)
            j.total += g->files[i].stays_bytes;
    for (uint32_t i = 0; i < g->file_count && !status; i++) {
        sb_graft_file *f = &g->files[i];
        char *path = sb_path_join(folder, f->new_name);
        if (!path)
            return no_memory(err); /* no row is allocated yet */
        if (f->action == SB_GRAFT_linked)
            status = link_shard(f, sb_checkpoint_folder(g->base), options->copy, path, err);
        else if (f->action == SB_GRAFT_rewritten)
            status = rewrite(&j, g, i, path, err);
        free(path);
        if (f->action != SB_GRAFT_created || status)
            continue;
        j.tensors = g->take.taken;
        j.count = g->take.taken_count;
        path = sb_path_join(folder, f->new_name);
        status = path ? write_file(&j, g->other, UINT32_MAX, path, err) : no_memory(err);
        free(path);
    }
    free(j.wide);
    return status;
}

/* --- the index -------------------------------------------------------------------------------- */

static json_t *weight_map(const sb_grafted *g)
{
    const sb_checkpoint *c = g->base;
    json_t *map = json_object();
    int good = map != NULL;
    size_t i = 0, k = 0;
    while (good && (i < sb_checkpoint_count(c) || k < g->take.taken_count)) {
        const sb_tensor *t = i < sb_checkpoint_count(c) ? sb_checkpoint_at(c, i) : NULL;
        const char *comes = k < g->take.taken_count ? g->take.taken[k].name : NULL;
        if (t && g->take.dropped[i]) {
            i++;
        } else if (t && (!comes || strcmp(t->name, comes) < 0)) {
            good = json_object_set_new(map, t->name, json_string(g->files[t->shard].new_name)) == 0;
            i++;
        } else {
            good = json_object_set_new(map, comes,
                                       json_string(g->files[g->file_count - 1].new_name)) == 0;
            k++;
        }
    }
    if (good)
        return map;
    json_decref(map);
    return NULL;
}

sb_status sb_graft_write_index(const sb_grafted *g, const char *folder, sb_error *err)
{
    const sb_index *old = sb_checkpoint_index(g->base);
    json_t *before = old ? json_object_get(old->document, "metadata") : NULL;
    json_t *metadata = json_is_object(before) ? json_deep_copy(before) : json_object();
    json_t *document = json_object(), *map = weight_map(g);
    int good = metadata && document && map &&
               json_object_set_new(metadata, "total_size", json_integer((json_int_t)g->total)) == 0;
    good = good && json_object_set(document, "metadata", metadata) == 0 &&
           json_object_set(document, "weight_map", map) == 0;
    char *text = good ? sb_json_dumps(document, JSON_INDENT(2)) : NULL;
    char *path = sb_path_join(folder, "model.safetensors.index.json");
    sb_status status = text && path ? sb_write_file(path, text, strlen(text), err) : no_memory(err);
    json_decref(metadata);
    json_decref(document);
    json_decref(map);
    free(text);
    free(path);
    return status;
}
