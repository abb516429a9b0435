#include "ref/container/checkpoint_parts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ref/base/mem.h"
#include "ref/base/text.h"
#include "ref/container/file.h"
#include "ref/container/overlay.h"
#include "ref/container/show.h"
#include "ref/container/stub.h"

static sb_status no_memory(const char *path, sb_error *err)
{
    return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(path));
}

/* True if a file exists. A dangling link counts as existing, so that opening it gives the error. */
static int exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static sb_status is_folder(const char *path, int *folder, sb_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return sb_fail(err, SB_ERR_IO, "%s: cannot open: %s", SB_SHOW(path), strerror(errno));
    *folder = S_ISDIR(info.st_mode) != 0;
    return SB_OK;
}

sb_status sb_checkpoint_set_paths(const char *path, int folder, sb_checkpoint *c, sb_error *err)
{
    c->path = sb_strdup(path);
    c->folder = sb_strdup(path);
    if (!c->path || !c->folder)
        return no_memory(path, err);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        c->path[n - 1] = c->folder[n - 1] = '\0';
    if (folder)
        return SB_OK;
    char *slash = strrchr(c->folder, '/');
    if (!slash)
        strcpy(c->folder, "."); /* fits, because a path that stat found has at least one byte */
    else if (slash == c->folder)
        slash[1] = '\0';
    else
        slash[0] = '\0';
    return SB_OK;
}

/* Opens shards[at]. C-6: "Symbolic links are followed when a file is opened, because the hub cache
 * builds its snapshots from links" - the link is in the folder under the shard's name, so open() is
 * enough. */
sb_status sb_checkpoint_add_shard(sb_checkpoint *c, const char *path, const char *name,
                                  sb_error *err)
{
    sb_shard *s = &c->shards[c->shard_count];
    s->name = sb_strdup(name);
    if (!s->name)
        return no_memory(path, err);
    sb_status status = sb_safetensors_open(path, &s->file, err);
    if (status != SB_OK) {
        free(s->name);
        return status;
    }
    c->shard_count++;
    return SB_OK;
}

static sb_status open_single(sb_checkpoint *c, const char *path, sb_error *err)
{
    c->shards = sb_alloc(1, sizeof *c->shards);
    if (!c->shards)
        return no_memory(path, err);
    return sb_checkpoint_add_shard(c, path, sb_path_last(path), err);
}

static sb_status open_indexed(sb_checkpoint *c, sb_error *err)
{
    const sb_index *index = &c->index;
    c->shards = sb_alloc(index->shard_count, sizeof *c->shards);
    if (!c->shards)
        return no_memory(c->path, err);
    for (size_t i = 0; i < index->shard_count; i++) {
        const sb_index_shard *want = &index->shards[i];
        char *path = sb_path_join(c->folder, want->name);
        if (!path)
            return no_memory(c->path, err);
        sb_status status = SB_OK;
        struct stat info;
        if (stat(path, &info) != 0 && errno == ENOENT)
            status = sb_fail(err, SB_ERR_INPUT,
                             "%s: shard %s is %s: " SB_INDEX_NAME " puts %zu tensors into it",
                             SB_SHOW(c->path), SB_SHOW(want->name),
                             exists(path) ? "a broken link" : "missing", want->tensors);
        if (status == SB_OK)
            status = sb_checkpoint_add_shard(c, path, want->name, err);
        free(path);
        if (status != SB_OK)
            return status;
    }
    return SB_OK;
}

/* True if the name ends in .safetensors and is not in the index. */
static int is_stray(const char *name, const sb_index *index)
{
    size_t n = strlen(name);
    if (n < strlen(SB_SUFFIX) || strcmp(name + n - strlen(SB_SUFFIX), SB_SUFFIX) != 0)
        return 0;
    return index ? !sb_index_has_shard(index, name) : strcmp(name, SB_SINGLE_NAME) != 0;
}

/* Refuses *.safetensors that are not in the index. Such a file is either a lost part or a stale
 * file, and tensors would be wrong in both cases. The first such file by name is reported, so that
 * the message does not depend on the order of the folder. */
static sb_status refuse_strays(const sb_checkpoint *c, sb_error *err)
{
    const sb_index *index = sb_checkpoint_index(c);
    DIR *dir = opendir(c->folder);
    if (!dir)
        return sb_fail(err, SB_ERR_IO, "%s: cannot list: %s", SB_SHOW(c->folder), strerror(errno));
    char *first = NULL;
    sb_status status = SB_OK;
    for (struct dirent *entry = readdir(dir); entry && status == SB_OK; entry = readdir(dir)) {
        if (!is_stray(entry->d_name, index) || (first && strcmp(first, entry->d_name) <= 0))
            continue;
        free(first);
        first = sb_strdup(entry->d_name);
        if (!first)
            status = no_memory(c->path, err);
    }
    closedir(dir);
    if (first && status == SB_OK)
        status = sb_fail(err, SB_ERR_INPUT,
                         "%s: %s stands in the folder, but %s: add it to the index or remove it",
                         SB_SHOW(c->path), SB_SHOW(first),
                         index ? SB_INDEX_NAME " does not name it"
                               : "beside " SB_SINGLE_NAME " there is no index that names it");
    free(first);
    return status;
}

static int by_name_then_shard(const void *left, const void *right)
{
    const sb_tensor *a = left;
    const sb_tensor *b = right;
    int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->shard > b->shard) - (a->shard < b->shard);
}

sb_status sb_checkpoint_merge(sb_checkpoint *c, sb_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < c->shard_count; i++)
        total += c->shards[i].file.count;
    if (total == 0 || total > SB_MAX_TENSORS)
        return sb_fail(err, SB_ERR_INPUT, "%s: holds %zu tensors, expected 1 to %d",
                       SB_SHOW(c->path), total, SB_MAX_TENSORS);
    c->tensors = sb_alloc(total, sizeof *c->tensors);
    if (!c->tensors)
        return no_memory(c->path, err);
    for (size_t i = 0; i < c->shard_count; i++) {
        const sb_safetensors *file = &c->shards[i].file;
        for (size_t k = 0; k < file->count; k++) {
            sb_tensor *t = &c->tensors[c->count++];
            *t = file->tensors[k];
            t->shard = (uint32_t)i;
            c->bytes += t->bytes;
        }
    }
    qsort(c->tensors, c->count, sizeof *c->tensors, by_name_then_shard);
    return SB_OK;
}

/* Refuses equal neighbours in the sorted list: readers could use either of them. */
static sb_status refuse_twins(const sb_checkpoint *c, sb_error *err)
{
    for (size_t i = 1; i < c->count; i++) {
        const sb_tensor *t = &c->tensors[i];
        if (strcmp(t->name, t[-1].name) == 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: tensor \"%s\" stands in both %s and %s",
                           SB_SHOW(c->path), SB_SHOW(t->name), SB_SHOW(c->shards[t[-1].shard].name),
                           SB_SHOW(c->shards[t->shard].name));
    }
    return SB_OK;
}

/* C-5: "every tensor of the index is in the shard the index names, and every tensor of a shard is
 * in the index" - goes through both sorted lists together. */
static sb_status check_index(const sb_checkpoint *c, sb_error *err)
{
    const sb_index *index = &c->index;
    for (size_t i = 0; i < c->count || i < index->count; i++) {
        const sb_tensor *t = i < c->count ? &c->tensors[i] : NULL;
        const sb_index_entry *e = i < index->count ? &index->entries[i] : NULL;
        int order = !t ? 1 : !e ? -1 : strcmp(t->name, e->tensor);
        if (order < 0)
            return sb_fail(err, SB_ERR_INPUT, "%s: tensor \"%s\" of %s is not in " SB_INDEX_NAME,
                           SB_SHOW(c->path), SB_SHOW(t->name), SB_SHOW(c->shards[t->shard].name));
        if (order > 0)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: tensor \"%s\" is not in %s, where " SB_INDEX_NAME " puts it",
                           SB_SHOW(c->path), SB_SHOW(e->tensor), SB_SHOW(e->shard_name));
        if (t->shard != e->shard)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: tensor \"%s\" stands in %s, but " SB_INDEX_NAME " puts it into %s",
                           SB_SHOW(c->path), SB_SHOW(t->name), SB_SHOW(c->shards[t->shard].name),
                           SB_SHOW(e->shard_name));
    }
    return SB_OK;
}

static sb_status open_folder(sb_checkpoint *c, sb_error *err)
{
    char *index_path = sb_path_join(c->folder, SB_INDEX_NAME);
    char *single_path = sb_path_join(c->folder, SB_SINGLE_NAME);
    sb_status status = SB_OK;
    int indexed = index_path && exists(index_path);
    if (!index_path || !single_path)
        status = no_memory(c->path, err);
    else if (indexed)
        status = sb_index_load(index_path, &c->index, err);
    else if (!exists(single_path))
        status =
            sb_fail(err, SB_ERR_INPUT,
                    "%s: no checkpoint: there is neither " SB_INDEX_NAME " nor " SB_SINGLE_NAME,
                    SB_SHOW(c->path));
    c->has_index = indexed && status == SB_OK;
    if (status == SB_OK)
        status = indexed ? open_indexed(c, err) : open_single(c, single_path, err);
    if (status == SB_OK)
        status = refuse_strays(c, err);
    if (status == SB_OK)
        status = sb_checkpoint_merge(c, err);
    if (status == SB_OK)
        status = refuse_twins(c, err);
    if (status == SB_OK && indexed)
        status = check_index(c, err);
    free(index_path);
    free(single_path);
    return status;
}

sb_status sb_checkpoint_open(const char *path, sb_checkpoint **out, sb_error *err)
{
    int folder;
    sb_status status = is_folder(path, &folder, err);
    if (status != SB_OK)
        return status;
    sb_checkpoint *c = sb_alloc(1, sizeof *c);
    if (!c)
        return no_memory(path, err);
    status = sb_checkpoint_set_paths(path, folder, c, err);
    if (status == SB_OK && folder) {
        status = open_folder(c, err);
    } else if (status == SB_OK) {
        status = open_single(c, c->path, err);
        if (status == SB_OK)
            status = sb_checkpoint_merge(c, err);
    }
    if (status == SB_OK)
        *out = c;
    else
        sb_checkpoint_close(c);
    return status;
}

void sb_checkpoint_close(sb_checkpoint *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->shard_count; i++) {
        sb_safetensors_close(&c->shards[i].file);
        free(c->shards[i].name);
        free(c->shards[i].folder);
    }
    for (size_t i = 0; i < c->name_count; i++)
        free(c->names[i]);
    free(c->names);
    sb_index_free(&c->index);
    free(c->shards);
    free(c->tensors);
    free(c->path);
    free(c->folder);
    free(c);
}

size_t sb_checkpoint_count(const sb_checkpoint *c)
{
    return c->count;
}

const sb_tensor *sb_checkpoint_at(const sb_checkpoint *c, size_t i)
{
    return &c->tensors[i];
}

static int against_name(const void *key, const void *element)
{
    const sb_tensor *tensor = element;
    return strcmp(key, tensor->name);
}

const sb_tensor *sb_checkpoint_find(const sb_checkpoint *c, const char *name)
{
    return bsearch(name, c->tensors, c->count, sizeof *c->tensors, against_name);
}

size_t sb_checkpoint_shards(const sb_checkpoint *c)
{
    return c->shard_count;
}

const char *sb_checkpoint_shard_name(const sb_checkpoint *c, uint32_t shard_number)
{
    return c->shards[shard_number].name;
}

const char *sb_checkpoint_path(const sb_checkpoint *c)
{
    return c->path;
}

const char *sb_checkpoint_folder(const sb_checkpoint *c)
{
    return c->folder;
}

size_t sb_checkpoint_metadata_count(const sb_checkpoint *c, uint32_t shard_number)
{
    return c->shards[shard_number].file.metadata.count;
}

const sb_metadata_pair *sb_checkpoint_metadata_at(const sb_checkpoint *c, uint32_t shard_number,
                                                  size_t i)
{
    return &c->shards[shard_number].file.metadata.pairs[i];
}

const char *sb_checkpoint_metadata(const sb_checkpoint *c, uint32_t shard_number, const char *key)
{
    return sb_metadata_get(&c->shards[shard_number].file.metadata, key);
}

uint64_t sb_checkpoint_offset(const sb_checkpoint *c, const sb_tensor *tensor)
{
    return (uint64_t)(tensor->data - c->shards[tensor->shard].file.bytes);
}

int sb_checkpoint_in_stub(const sb_checkpoint *c, const sb_tensor *tensor)
{
    if (!c->shards[tensor->shard].file.is_stub)
        return 0;
    char *path = sb_path_join(sb_checkpoint_shard_folder(c, tensor->shard),
                              sb_checkpoint_shard_name(c, tensor->shard));
    int holds = path && sb_stub_holds(path, sb_checkpoint_offset(c, tensor), tensor->bytes);
    free(path);
    return !holds;
}

uint64_t sb_checkpoint_bytes(const sb_checkpoint *c)
{
    return c->bytes;
}

int sb_checkpoint_declared_bytes(const sb_checkpoint *c, uint64_t *declared)
{
    if (c->index.has_total)
        *declared = c->index.total;
    return c->index.has_total;
}

const sb_index *sb_checkpoint_index(const sb_checkpoint *c)
{
    return c->has_index ? &c->index : NULL;
}
