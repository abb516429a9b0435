#include "ref/container/index.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "ref/container/json.h"
#include "ref/container/safetensors.h"
#include "ref/container/show.h"

static int by_tensor(const void *left, const void *right)
{
    const sb_index_entry *a = left;
    const sb_index_entry *b = right;
    return strcmp(a->tensor, b->tensor);
}

static int by_shard(const void *left, const void *right)
{
    const sb_index_entry *a = left;
    const sb_index_entry *b = right;
    return strcmp(a->shard_name, b->shard_name);
}

/* Returns a message if a shard name is not allowed, else NULL. An index must not name files outside
 * the checkpoint, such as "../../other/file". */
static const char *bad_shard_name(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t n = strlen(name);
    if (strchr(name, '/'))
        return "expected a plain file name without '/'";
    if (n < sizeof suffix || strcmp(name + n - (sizeof suffix - 1), suffix) != 0)
        return "expected a file name that ends in .safetensors";
    return NULL;
}

/* Published totals are sums of tensor bytes, sums of file sizes, or 0, so only the type is
 * checked. */
static sb_status read_metadata(const sb_json_object *root, sb_index *out, sb_error *err)
{
    json_t *value = sb_json_get(root, "metadata");
    if (!value)
        return SB_OK;
    sb_json_object metadata;
    sb_status status = sb_json_object_at(value, root->file, "metadata", &metadata, err);
    json_t *total = status == SB_OK ? sb_json_get(&metadata, "total_size") : NULL;
    if (!total)
        return status;
    if (!json_is_number(total))
        return sb_json_wrong(&metadata, "total_size", total, "a number", err);
    if (json_is_integer(total) && json_integer_value(total) >= 0) {
        out->has_total = 1;
        out->total = (uint64_t)json_integer_value(total);
    }
    return SB_OK;
}

static sb_status read_map(const sb_json_object *map, sb_index *out, sb_error *err)
{
    const char *tensor;
    json_t *shard;
    json_object_foreach(map->json, tensor, shard)
    {
        size_t n = strlen(tensor);
        if (n == 0 || n > SB_MAX_TENSOR_NAME)
            return sb_fail(err, SB_ERR_INPUT,
                           "%s: tensor \"%s\": its name has %zu bytes, expected 1 to %d",
                           SB_SHOW(map->file), SB_SHOW(tensor), n, SB_MAX_TENSOR_NAME);
        if (!json_is_string(shard))
            return sb_json_wrong(map, tensor, shard, "the name of a shard", err);
        const char *name = json_string_value(shard);
        const char *wrong = bad_shard_name(name);
        if (wrong)
            return sb_fail(err, SB_ERR_INPUT, "%s: weight_map puts tensor \"%s\" into \"%s\", %s",
                           SB_SHOW(map->file), SB_SHOW(tensor), SB_SHOW(name), wrong);
        out->entries[out->count++] = (sb_index_entry){tensor, name, 0};
    }
    return SB_OK;
}

static size_t count_shards(const sb_index *index)
{
    size_t shards = 0;
    for (size_t i = 0; i < index->count; i++)
        shards +=
            i == 0 || strcmp(index->entries[i].shard_name, index->entries[i - 1].shard_name) != 0;
    return shards;
}

/* Numbers the shards in the order of their names; leaves the entries sorted by tensor. */
static sb_status number_shards(const char *file, sb_index *out, sb_error *err)
{
    qsort(out->entries, out->count, sizeof *out->entries, by_shard);
    size_t shards = count_shards(out);
    if (shards > SB_MAX_SHARDS)
        return sb_fail(err, SB_ERR_INPUT, "%s: weight_map names %zu shards, expected at most %d",
                       SB_SHOW(file), shards, SB_MAX_SHARDS);
    out->shards = sb_alloc(shards, sizeof *out->shards);
    if (!out->shards)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu shards", SB_SHOW(file),
                       shards);
    for (size_t i = 0; i < out->count; i++) {
        sb_index_entry *entry = &out->entries[i];
        size_t last = out->shard_count;
        if (last == 0 || strcmp(out->shards[last - 1].name, entry->shard_name) != 0)
            out->shards[out->shard_count++].name = entry->shard_name;
        entry->shard = (uint32_t)(out->shard_count - 1);
        out->shards[entry->shard].tensors++;
    }
    qsort(out->entries, out->count, sizeof *out->entries, by_tensor);
    return SB_OK;
}

static sb_status read_index(const char *file, sb_index *out, sb_error *err)
{
    sb_json_object root;
    sb_json_object map;
    sb_status status = sb_json_object_at(out->document, file, "", &root, err);
    if (status == SB_OK)
        status = read_metadata(&root, out, err);
    if (status == SB_OK)
        status = sb_json_object_at(json_object_get(root.json, "weight_map"), file, "weight_map",
                                   &map, err);
    if (status != SB_OK)
        return status;
    size_t count = json_object_size(map.json);
    if (count == 0 || count > SB_MAX_TENSORS)
        return sb_fail(err, SB_ERR_INPUT, "%s: weight_map lists %zu tensors, expected 1 to %d",
                       SB_SHOW(file), count, SB_MAX_TENSORS);
    out->entries = sb_alloc(count, sizeof *out->entries);
    if (!out->entries)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for %zu tensors", SB_SHOW(file),
                       count);
    status = read_map(&map, out, err);
    if (status == SB_OK)
        status = number_shards(file, out, err);
    return status;
}

sb_status sb_index_parse(const char *text, size_t n, const char *file, sb_index *out, sb_error *err)
{
    *out = (sb_index){0};
    sb_status status = sb_json_parse(text, n, file, &out->document, err);
    if (status == SB_OK)
        status = read_index(file, out, err);
    if (status != SB_OK)
        sb_index_free(out);
    return status;
}

sb_status sb_index_load(const char *path, sb_index *out, sb_error *err)
{
    unsigned char *text;
    size_t n;
    *out = (sb_index){0};
    sb_status status = sb_read_file(path, SB_JSON_MAX_BYTES, &text, &n, err);
    if (status != SB_OK)
        return status;
    status = sb_index_parse((const char *)text, n, path, out, err);
    free(text);
    return status;
}

void sb_index_free(sb_index *index)
{
    json_decref(index->document);
    free(index->entries);
    free(index->shards);
    *index = (sb_index){0};
}

static int by_name(const void *key, const void *element)
{
    const sb_index_shard *shard = element;
    return strcmp(key, shard->name);
}

int sb_index_has_shard(const sb_index *index, const char *name)
{
    return bsearch(name, index->shards, index->shard_count, sizeof *index->shards, by_name) != NULL;
}
