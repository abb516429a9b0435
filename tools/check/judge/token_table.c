#include "tools/check/judge/token_table.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"

static int id_order(const void *a, const void *b)
{
    const sb_token_row *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    int order = strcmp(x->content, y->content);
    return order ? order : x->added - y->added;
}

static int content_order(const void *a, const void *b)
{
    const sb_token_row *x = a, *y = b;
    int order = strcmp(x->content, y->content);
    return order ? order : id_order(a, b);
}

static sb_status take_token(sb_token_table *t, const sb_json_object *where, const char *content,
                            const json_t *id, int added, sb_error *err)
{
    if (!json_is_integer(id) || json_integer_value(id) < 0)
        return sb_json_wrong(where, content, id, "an id", err);
    t->by_id[t->count++] = (sb_token_row){content, (uint64_t)json_integer_value(id), added};
    return SB_OK;
}

/* Takes a vocabulary. It is an object of ids, or, for a unigram model, an array of pairs of content
 * and score. */
static sb_status take_vocabulary(sb_token_table *t, const sb_json_object *model, json_t *vocab,
                                 sb_error *err)
{
    sb_json_object object = {.json = vocab, .file = model->file, .path = "model.vocab"};
    sb_status status = SB_OK;
    const char *content;
    json_t *id;
    if (json_is_object(vocab)) {
        json_object_foreach(vocab, content, id) if (!status) status =
            take_token(t, &object, content, id, 0, err);
        return status;
    }
    for (size_t i = 0; i < json_array_size(vocab) && !status; i++) {
        content = json_string_value(json_array_get(json_array_get(vocab, i), 0));
        if (!content)
            status = sb_json_fail(model, "vocab", SB_ERR_INPUT, err, "has no token at %zu", i);
        else
            t->by_id[t->count++] = (sb_token_row){content, i, 0};
    }
    return status;
}

static sb_status take_added(sb_token_table *t, const sb_json_object *root, const json_t *added,
                            sb_error *err)
{
    sb_status status = SB_OK;
    for (size_t i = 0; i < json_array_size(added) && !status; i++) {
        const json_t *row = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(row, "content"));
        status = content ? take_token(t, root, content, json_object_get(row, "id"), 1, err)
                         : sb_json_fail(root, "added_tokens", SB_ERR_INPUT, err,
                                        "has no content at %zu", i);
    }
    return status;
}

static sb_status fill(sb_token_table *t, const char *path, sb_error *err)
{
    sb_json_object root, model;
    sb_status status = sb_json_object_at(t->json, path, "", &root, err);
    if (!status)
        status = sb_json_object_at(sb_json_get(&root, "model"), path, "model", &model, err);
    if (status)
        return status;
    json_t *vocab = sb_json_get(&model, "vocab"), *added = sb_json_get(&root, "added_tokens");
    if (!json_is_object(vocab) && !json_is_array(vocab))
        return sb_json_wrong(&model, "vocab", vocab, "the vocabulary", err);
    if (added && !json_is_array(added))
        return sb_json_wrong(&root, "added_tokens", added, "an array", err);
    size_t room = json_object_size(vocab) + json_array_size(vocab) + json_array_size(added);
    t->by_id = sb_alloc(room, sizeof *t->by_id);
    t->by_content = sb_alloc(room, sizeof *t->by_content);
    if (!t->by_id || !t->by_content)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", room);
    status = take_vocabulary(t, &model, vocab, err);
    if (!status)
        status = take_added(t, &root, added, err);
    t->merges = sb_json_get(&model, "merges");
    if (!status && t->merges && !json_is_array(t->merges))
        status = sb_json_wrong(&model, "merges", t->merges, "an array", err);
    if (t->count) {
        memcpy(t->by_content, t->by_id, t->count * sizeof *t->by_id);
        qsort(t->by_id, t->count, sizeof *t->by_id, id_order);
        qsort(t->by_content, t->count, sizeof *t->by_content, content_order);
    }
    return status;
}

sb_status sb_token_table_load(const char *folder, sb_token_table *out, sb_error *err)
{
    char *path = sb_path_join(folder, "tokenizer.json");
    sb_status status = SB_OK;
    *out = (sb_token_table){0};
    if (!path)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for a path");
    if (access(path, F_OK) == 0)
        status = sb_json_load(path, &out->json, err);
    if (!status && out->json)
        status = fill(out, "tokenizer.json", err);
    free(path);
    if (status)
        sb_token_table_free(out);
    return status && status != SB_ERR_MEMORY ? SB_ERR_INPUT : status;
}

void sb_token_table_free(sb_token_table *table)
{
    free(table->by_id);
    free(table->by_content);
    json_decref(table->json);
    *table = (sb_token_table){0};
}

const sb_token_row *sb_token_of_id(const sb_token_table *t, uint64_t id)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->by_id[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && t->by_id[low].id == id ? &t->by_id[low] : NULL;
}

const sb_token_row *sb_token_of_content(const sb_token_table *t, const char *content)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(t->by_content[middle].content, content) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && strcmp(t->by_content[low].content, content) == 0 ? &t->by_content[low]
                                                                              : NULL;
}

int sb_token_is_added(const sb_token_table *t, uint64_t id)
{
    const sb_token_row *row = sb_token_of_id(t, id);
    for (; row && row < t->by_id + t->count && row->id == id; row++)
        if (row->added)
            return 1;
    return 0;
}

int sb_token_merge(const sb_token_table *t, size_t i, const char *half[2], size_t size[2])
{
    const json_t *merge = json_array_get(t->merges, i);
    const char *text = json_string_value(merge);
    if (text) {
        const char *blank = strchr(text, ' ');
        if (!blank)
            return 0;
        half[0] = text, size[0] = (size_t)(blank - text);
        half[1] = blank + 1, size[1] = strlen(half[1]);
        return 1;
    }
    for (size_t k = 0; k < 2; k++) {
        half[k] = json_string_value(json_array_get(merge, k));
        size[k] = half[k] ? strlen(half[k]) : 0;
    }
    return half[0] && half[1];
}
