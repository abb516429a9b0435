/* writer_metadata.c - the metadata strings in the headers of shards. Used by writer.c. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "ref/container/writer_layout.h"

sb_status sb_writer_metadata(sb_writer *w, const char *tensor, const char *key, const char *value,
                             sb_error *err)
{
    sb_writer_pair *grown = sb_grow(w->pairs, w->pair_count, &w->pair_room, sizeof *grown);
    if (!grown)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(w->path));
    w->pairs = grown;
    sb_writer_pair *pair = &w->pairs[w->pair_count++];
    *pair = (sb_writer_pair){sb_strdup(tensor), sb_strdup(key), sb_strdup(value), 0};
    if (!pair->tensor || !pair->key || !pair->value)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory", SB_SHOW(w->path));
    return SB_OK;
}

void sb_writer_free_metadata(sb_writer *w)
{
    for (size_t i = 0; i < w->pair_count; i++) {
        free(w->pairs[i].tensor);
        free(w->pairs[i].key);
        free(w->pairs[i].value);
    }
    free(w->pairs);
}

static int by_shard_and_key(const void *left, const void *right)
{
    const sb_writer_pair *a = left;
    const sb_writer_pair *b = right;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return strcmp(a->key, b->key);
}

static int against_name(const void *key, const void *element)
{
    const sb_tensor *const *tensor = element;
    return strcmp(key, (*tensor)->name);
}

sb_status sb_writer_plan_metadata(sb_writer *w, sb_error *err)
{
    for (size_t i = 0; i < w->pair_count; i++) {
        sb_writer_pair *pair = &w->pairs[i];
        const sb_tensor *const *tensor =
            bsearch(pair->tensor, w->by_name, w->count, sizeof *w->by_name, against_name);
        if (!tensor)
            return sb_fail(err, SB_ERR_USAGE,
                           "%s: metadata \"%s\" is for tensor \"%s\", which is not declared",
                           SB_SHOW(w->path), SB_SHOW(pair->key), SB_SHOW(pair->tensor));
        pair->shard = (*tensor)->shard;
    }
    if (w->pair_count)
        qsort(w->pairs, w->pair_count, sizeof *w->pairs, by_shard_and_key);
    for (size_t i = 0; i < w->pair_count; i++)
        if (strcmp(w->pairs[i].key, "format") == 0 ||
            (i > 0 && by_shard_and_key(&w->pairs[i - 1], &w->pairs[i]) == 0))
            return sb_fail(err, SB_ERR_USAGE, "%s: metadata \"%s\" is given twice",
                           SB_SHOW(w->path), SB_SHOW(w->pairs[i].key));
    return SB_OK;
}

void sb_writer_put_metadata(const sb_writer *w, size_t shard, sb_text *text)
{
    for (size_t i = 0; i < w->pair_count; i++) {
        if (w->pairs[i].shard != shard)
            continue;
        sb_text_put(text, ",");
        sb_text_string(text, w->pairs[i].key);
        sb_text_put(text, ":");
        sb_text_string(text, w->pairs[i].value);
    }
}
