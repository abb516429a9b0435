/* load_model.c - the vocabulary and the merges: the member "model" of tokenizer.json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/text/parts.h"
#include "tools/text/utf8.h"

typedef struct loading {
    sb_tokenizer *t;
    sb_json_object model;
    json_t *vocab;
    sb_error *err;
} loading;

typedef struct full_merge {
    uint32_t left;
    sb_text_merge rest;
} full_merge;

sb_status sb_text_unsupported(const sb_json_object *object, const char *key, const char *expected,
                              sb_error *err)
{
    sb_json_text room;
    return sb_json_fail(object, key, SB_ERR_UNSUPPORTED, err,
                        "is %s, which is not supported; expected %s",
                        sb_json_found(json_object_get(object->json, key), &room), expected);
}

/* N-9: checks the members that would change ids unless they have the values of a byte-level
 * tokenizer. */
static sb_status check_members(const sb_json_object *model, int *ignore_merges, sb_error *err)
{
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "unk_token",
                                       "continuing_subword_prefix",
                                       "fuse_unk",
                                       "end_of_word_suffix",
                                       "byte_fallback",
                                       "ignore_merges",
                                       "vocab",
                                       "merges",
                                       NULL};
    static const char *const empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const json_t *unknown = sb_json_get(model, "unk_token");
    const json_t *dropout = sb_json_get(model, "dropout");
    const char *type = "";
    int unused;
    sb_status status = sb_json_only(model, keys, err);
    if (!status)
        status = sb_json_string(model, "type", &type, err);
    if (!status && strcmp(type, "BPE") != 0)
        return sb_text_unsupported(model, "type", "\"BPE\"", err);
    if (!status && dropout && !(json_is_number(dropout) && !(json_number_value(dropout) > 0)))
        return sb_text_unsupported(model, "dropout", "null", err);
    for (size_t i = 0; i < 2 && !status; i++) {
        const json_t *value = sb_json_get(model, empty[i]);
        if (value && !(json_is_string(value) && json_string_length(value) == 0))
            status = sb_text_unsupported(model, empty[i], "null or \"\"", err);
    }
    /* each byte has a token, so there are no unknown tokens and no fallback */
    if (!status && unknown && !json_is_string(unknown))
        status = sb_json_wrong(model, "unk_token", unknown, "a string or null", err);
    if (!status)
        status = sb_json_bool_or(model, "fuse_unk", 0, &unused, err);
    if (!status)
        status = sb_json_bool_or(model, "byte_fallback", 0, &unused, err);
    return status ? status : sb_json_bool_or(model, "ignore_merges", 0, ignore_merges, err);
}

static sb_status read_vocabulary(loading *l)
{
    sb_tokenizer *t = l->t;
    sb_json_text room;
    const char *key;
    json_t *value;
    size_t ids = 0;
    sb_status status;
    json_object_foreach(l->vocab, key, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= SB_TOKENIZER_MAX_IDS)
            return sb_json_fail(&l->model, "vocab", SB_ERR_INPUT, l->err,
                                "has the id %s for the token \"%s\", expected 0 to %d",
                                sb_json_found(value, &room), SB_SHOW(key),
                                SB_TOKENIZER_MAX_IDS - 1);
        ids = (size_t)id >= ids ? (size_t)id + 1 : ids;
    }
    status = sb_text_make_ids(t, ids, l->err);
    if (status)
        return status;
    json_object_foreach(l->vocab, key, value)
    {
        uint32_t id = (uint32_t)json_integer_value(value);
        if (t->tokens[id].known)
            return sb_json_fail(&l->model, "vocab", SB_ERR_INPUT, l->err,
                                "gives the id %u to two tokens, one of them \"%s\"", (unsigned)id,
                                SB_SHOW(key));
        status = sb_text_set_token(t, id, key, strlen(key), 1, l->err);
        if (status)
            return status;
    }
    return SB_OK;
}

static sb_status read_bytes(loading *l)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[5] = "";
        sb_utf8_put(sb_alphabet_character(byte), (unsigned char *)name);
        const json_t *id = json_object_get(l->vocab, name);
        if (!id)
            return sb_json_fail(
                &l->model, "vocab", SB_ERR_UNSUPPORTED, l->err,
                "has no token for the byte 0x%02x (\"%s\"), expected tokens for all 256 bytes",
                byte, name);
        l->t->byte_ids[byte] = (uint32_t)json_integer_value(id);
    }
    return SB_OK;
}

/* N-6: "two strings, or one with a blank between them" */
static int halves(const json_t *merge, char **left, char **right)
{
    const char *text = json_string_value(merge);
    const char *first = json_string_value(json_array_get(merge, 0));
    const char *second = json_string_value(json_array_get(merge, 1));
    if (text) {
        const char *blank = strchr(text, ' ');
        if (!blank || strchr(blank + 1, ' '))
            return 0;
        *left = sb_strdup(text);
        *right = sb_strdup(blank + 1);
        if (*left)
            (*left)[blank - text] = '\0';
        return 1;
    }
    if (json_array_size(merge) != 2 || !first || !second)
        return 0;
    *left = sb_strdup(first);
    *right = sb_strdup(second);
    return 1;
}

static sb_status find_id(loading *l, size_t rank, const char *token, uint32_t *id)
{
    const json_t *value = json_object_get(l->vocab, token);
    if (!value)
        return sb_json_fail(&l->model, "merges", SB_ERR_INPUT, l->err,
                            "has a merge number %zu with \"%s\", which is not in the vocabulary",
                            rank, SB_SHOW(token));
    *id = (uint32_t)json_integer_value(value);
    return SB_OK;
}

static sb_status read_merge(loading *l, const json_t *merge, size_t rank, full_merge *out)
{
    char *left = NULL, *right = NULL, *both = NULL;
    sb_status status = SB_OK;
    if (!halves(merge, &left, &right))
        return sb_json_fail(
            &l->model, "merges", SB_ERR_INPUT, l->err,
            "has a merge number %zu that is neither two strings nor a string with one blank", rank);
    if (left && right)
        both = sb_alloc(strlen(left) + strlen(right) + 1, 1);
    if (!both)
        status = sb_fail(l->err, SB_ERR_MEMORY, "out of memory for the merges of a vocabulary");
    if (both) {
        memcpy(both, left, strlen(left));
        memcpy(both + strlen(left), right, strlen(right));
    }
    out->rest.rank = (uint32_t)rank;
    if (!status)
        status = find_id(l, rank, left, &out->left);
    if (!status)
        status = find_id(l, rank, right, &out->rest.right);
    if (!status)
        status = find_id(l, rank, both, &out->rest.made);
    free(left);
    free(right);
    free(both);
    return status;
}

static int compare_merges(const void *a, const void *b)
{
    const full_merge *x = a, *y = b;
    if (x->left != y->left)
        return x->left < y->left ? -1 : 1;
    return (x->rest.right > y->rest.right) - (x->rest.right < y->rest.right);
}

/* Sorts the merges by both ids and makes the index by the left id. */
static sb_status index_merges(loading *l, full_merge *all, size_t count)
{
    sb_tokenizer *t = l->t;
    qsort(all, count, sizeof *all, compare_merges);
    t->merges = sb_alloc(count, sizeof *t->merges);
    t->first = sb_alloc((size_t)t->size + 1, sizeof *t->first);
    if (!t->merges || !t->first)
        return sb_fail(l->err, SB_ERR_MEMORY, "out of memory for %zu merges", count);
    t->merge_count = count;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare_merges(&all[i - 1], &all[i]) == 0)
            return sb_json_fail(&l->model, "merges", SB_ERR_INPUT, l->err,
                                "has the merge of ids %u and %u twice: numbers %u and %u",
                                (unsigned)all[i].left, (unsigned)all[i].rest.right,
                                (unsigned)all[i - 1].rest.rank, (unsigned)all[i].rest.rank);
        t->merges[i] = all[i].rest;
        t->first[all[i].left + 1]++;
    }
    for (size_t i = 0; i < t->size; i++)
        t->first[i + 1] += t->first[i];
    return SB_OK;
}

static sb_status read_merges(loading *l)
{
    json_t *merges = json_object_get(l->model.json, "merges");
    size_t count = json_array_size(merges);
    sb_status status = SB_OK;
    if (!json_is_array(merges))
        return sb_json_wrong(&l->model, "merges", merges, "an array", l->err);
    if (count > SB_TOKENIZER_MAX_IDS)
        return sb_json_fail(&l->model, "merges", SB_ERR_UNSUPPORTED, l->err,
                            "has %zu elements, expected at most %d", count, SB_TOKENIZER_MAX_IDS);
    full_merge *all = sb_alloc(count, sizeof *all);
    if (!all)
        return sb_fail(l->err, SB_ERR_MEMORY, "out of memory for %zu merges", count);
    for (size_t i = 0; i < count && !status; i++)
        status = read_merge(l, json_array_get(merges, i), i, &all[i]);
    if (!status)
        status = index_merges(l, all, count);
    free(all);
    return status;
}

typedef struct whole_token {
    const unsigned char *bytes;
    uint32_t size, id;
} whole_token;

static int compare_whole(const void *a, const void *b)
{
    const whole_token *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* N-6: "a piece that is a token of the vocabulary as a whole" */
static sb_status sort_whole(loading *l)
{
    sb_tokenizer *t = l->t;
    whole_token *all = sb_alloc(t->size, sizeof *all);
    t->whole = sb_alloc(t->size, sizeof *t->whole);
    for (uint32_t id = 0; all && t->whole && id < t->size; id++) {
        const sb_text_token *token = &t->tokens[id];
        if (token->whole)
            all[t->whole_count++] = (whole_token){t->arena + token->at, token->size, id};
    }
    if (all && t->whole)
        qsort(all, t->whole_count, sizeof *all, compare_whole);
    for (size_t i = 0; i < t->whole_count; i++)
        t->whole[i] = all[i].id;
    sb_status status = SB_OK;
    if (!all || !t->whole)
        status = sb_fail(l->err, SB_ERR_MEMORY, "out of memory for %u tokens", (unsigned)t->size);
    free(all);
    return status;
}

sb_status sb_text_load_model(sb_tokenizer *t, const sb_json_object *root, json_t **vocab,
                             sb_error *err)
{
    loading l = {.t = t, .err = err};
    sb_status status =
        sb_json_object_at(json_object_get(root->json, "model"), root->file, "model", &l.model, err);
    if (!status)
        status = check_members(&l.model, &t->ignore_merges, err);
    if (status)
        return status;
    l.vocab = json_object_get(l.model.json, "vocab");
    if (!json_is_object(l.vocab))
        return sb_json_wrong(&l.model, "vocab", l.vocab, "an object", err);
    *vocab = l.vocab;
    status = read_vocabulary(&l);
    if (!status)
        status = read_bytes(&l);
    if (!status)
        status = read_merges(&l);
    return status || !t->ignore_merges ? status : sort_whole(&l);
}
