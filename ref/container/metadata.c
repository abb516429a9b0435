#include "ref/container/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/json.h"
#include "ref/container/show.h"

static int by_key(const void *left, const void *right)
{
    const sb_metadata_pair *a = left;
    const sb_metadata_pair *b = right;
    return strcmp(a->key, b->key);
}

static char *put(char *at, const char **where, const char *text)
{
    *where = at;
    size_t n = strlen(text) + 1;
    memcpy(at, text, n);
    return at + n;
}

/* C-7: "`__metadata__` maps strings to strings" - no text contains a NUL, because the strict parser
 * refuses it. */
sb_status sb_metadata_read(json_t *value, const char *file, sb_metadata *out, sb_error *err)
{
    sb_json_object object;
    sb_status status = sb_json_object_at(value, file, "__metadata__", &object, err);
    if (status != SB_OK)
        return status;
    const char *key;
    json_t *text;
    size_t bytes = 0;
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text))
            return sb_json_wrong(&object, key, text, "a string", err);
        bytes += strlen(key) + strlen(json_string_value(text)) + 2;
    }
    out->pairs = sb_alloc(json_object_size(value), sizeof *out->pairs);
    out->texts = sb_alloc(bytes, 1);
    if (!out->pairs || !out->texts)
        return sb_fail(err, SB_ERR_MEMORY, "%s: out of memory for its metadata", SB_SHOW(file));
    char *at = out->texts;
    json_object_foreach(value, key, text)
    {
        sb_metadata_pair *pair = &out->pairs[out->count++];
        at = put(at, &pair->key, key);
        at = put(at, &pair->value, json_string_value(text));
    }
    qsort(out->pairs, out->count, sizeof *out->pairs, by_key);
    return SB_OK;
}

void sb_metadata_free(sb_metadata *metadata)
{
    free(metadata->pairs);
    free(metadata->texts);
    *metadata = (sb_metadata){0};
}

static int against_key(const void *key, const void *element)
{
    const sb_metadata_pair *pair = element;
    return strcmp(key, pair->key);
}

const char *sb_metadata_get(const sb_metadata *metadata, const char *key)
{
    const sb_metadata_pair *pair = NULL;
    if (metadata->count)
        pair = bsearch(key, metadata->pairs, metadata->count, sizeof *pair, against_key);
    return pair ? pair->value : NULL;
}
