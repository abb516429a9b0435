#include "tools/dump/token_texts.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"

typedef struct entry {
    const char *bytes;
    size_t size;
    uint32_t id;
} entry;

struct sb_token_texts {
    sb_tokenizer *tokenizer;
    entry *entries; /* (count) sorted by bytes, then by id */
    size_t count;
};

static int by_bytes(const entry *a, const char *bytes, size_t size)
{
    int order = memcmp(a->bytes, bytes, a->size < size ? a->size : size);
    return order ? order : a->size < size ? -1 : a->size > size;
}

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = by_bytes(x, y->bytes, y->size);
    return order ? order : x->id < y->id ? -1 : x->id > y->id;
}

sb_status sb_token_texts_new(const char *folder, sb_token_texts **out, sb_error *err)
{
    sb_token_texts *t = sb_alloc(1, sizeof *t);
    char *path = sb_path_join(folder, "tokenizer.json");
    sb_status status =
        t && path ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for a tokenizer");
    if (!status)
        status = sb_tokenizer_load(path, &t->tokenizer, err);
    size_t size = status ? 0 : sb_tokenizer_size(t->tokenizer);
    if (!status) {
        t->entries = sb_alloc(size, sizeof *t->entries);
        if (!t->entries)
            status = sb_fail(err, SB_ERR_MEMORY, "out of memory for a tokenizer");
    }
    for (size_t i = 0; i < size && !status; i++) {
        entry e = {NULL, 0, (uint32_t)i};
        e.bytes = sb_tokenizer_bytes(t->tokenizer, e.id, &e.size);
        if (e.bytes && e.size)
            t->entries[t->count++] = e;
    }
    if (!status)
        qsort(t->entries, t->count, sizeof *t->entries, compare);
    free(path);
    if (status)
        sb_token_texts_free(t);
    else
        *out = t;
    return status;
}

void sb_token_texts_free(sb_token_texts *t)
{
    if (!t)
        return;
    sb_tokenizer_free(t->tokenizer);
    free(t->entries);
    free(t);
}

size_t sb_token_texts_find(const sb_token_texts *t, const char *bytes, size_t size, uint32_t *id)
{
    size_t low = 0, high = t->count, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_bytes(&t->entries[middle], bytes, size) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + n < t->count && by_bytes(&t->entries[low + n], bytes, size) == 0)
        n++;
    if (n)
        *id = t->entries[low].id;
    return n;
}
