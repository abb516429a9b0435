/* added.c - the tokens that are searched before a text is split: N-3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "ref/container/show.h"
#include "tools/text/normalize.h"
#include "tools/text/parts.h"

void sb_text_free_added(sb_text_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->rows[i].content);
        free(list->rows[i].match);
    }
    free(list->rows);
    *list = (sb_text_list){0};
}

static unsigned char byte_at(const sb_text_list *list, size_t row, size_t at)
{
    return (unsigned char)list->rows[row].match[at];
}

/* The first row of [low, high) whose byte at `at` is not below `byte`; all rows have a byte
 * there. */
static size_t lower(const sb_text_list *list, size_t low, size_t high, size_t at, unsigned byte)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (byte_at(list, middle, at) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* N-3: "if several tokens begin there, the longest is taken". The rows that match the text so far
 * are a range; the first of them may end here. */
const sb_text_added *sb_text_longest(const sb_text_list *list, const unsigned char *text,
                                     size_t bytes)
{
    const sb_text_added *best = NULL;
    size_t low = bytes > 0 ? list->first[text[0]] : 0;
    size_t high = bytes > 0 ? list->first[text[0] + 1] : 0;
    for (size_t at = 1; low < high; at++) {
        if (list->rows[low].size == at)
            best = &list->rows[low++];
        if (at == bytes)
            break;
        size_t end = lower(list, low, high, at, text[at] + 1u);
        low = lower(list, low, end, at, text[at]);
        high = end;
    }
    return best;
}

static sb_status read_row(const sb_json_object *row, sb_text_added *out, uint64_t *id,
                          sb_error *err)
{
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    const char *content = "";
    int special;
    sb_status status = sb_json_only(row, keys, err);
    if (!status)
        status = sb_json_u64(row, "id", id, err);
    if (!status)
        status = sb_json_string(row, "content", &content, err);
    if (!status)
        status = sb_json_bool(row, "single_word", &out->single_word, err);
    if (!status)
        status = sb_json_bool(row, "lstrip", &out->lstrip, err);
    if (!status)
        status = sb_json_bool(row, "rstrip", &out->rstrip, err);
    if (!status)
        status = sb_json_bool(row, "normalized", &out->normalized, err);
    if (!status)
        status = sb_json_bool(row, "special", &special, err);
    if (!status && !*content)
        status = sb_json_fail(row, "content", SB_ERR_INPUT, err, "is empty");
    if (!status && !(out->content = sb_strdup(content)))
        status = sb_fail(err, SB_ERR_MEMORY, "out of memory for an added token");
    return status;
}

/* Makes the searched text. N-3: "the normalized content in the normalized text". */
static sb_status make_match(const sb_tokenizer *t, sb_text_added *row, sb_error *err)
{
    unsigned char *normal;
    row->size = strlen(row->content);
    if (row->normalized && t->nfc) {
        sb_status status =
            sb_nfc((const unsigned char *)row->content, row->size, &normal, &row->size, err);
        row->match = status ? NULL : (char *)normal;
        return status;
    }
    row->match = sb_strdup(row->content);
    return row->match ? SB_OK : sb_fail(err, SB_ERR_MEMORY, "out of memory for an added token");
}

/* N-9: "the id of its content in the vocabulary, or, where it is not there, the next free one" */
static sb_status check_id(const sb_tokenizer *t, const sb_json_object *row, uint64_t id,
                          const json_t *in_vocabulary, uint64_t *next, sb_error *err)
{
    uint64_t expected = in_vocabulary ? (uint64_t)json_integer_value(in_vocabulary) : *next;
    if (id != expected)
        return sb_json_fail(row, "id", SB_ERR_INPUT, err, "is %llu, expected %llu, %s",
                            (unsigned long long)id, (unsigned long long)expected,
                            in_vocabulary ? "the id in the vocabulary" : "the next free id");
    if (id >= SB_TOKENIZER_MAX_IDS)
        return sb_json_fail(row, "id", SB_ERR_UNSUPPORTED, err, "is %llu, expected less than %d",
                            (unsigned long long)id, SB_TOKENIZER_MAX_IDS);
    *next += !in_vocabulary;
    if (!in_vocabulary && id < t->size && t->tokens[id].known)
        return sb_json_fail(row, "id", SB_ERR_INPUT, err,
                            "is %llu, the id of another token of the vocabulary",
                            (unsigned long long)id);
    return SB_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const sb_text_added *x = a, *y = b;
    int order = memcmp(x->match, y->match, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static sb_status sort_list(sb_text_list *list, const sb_json_object *root, sb_error *err)
{
    size_t at = 0;
    qsort(list->rows, list->count, sizeof *list->rows, compare_rows);
    for (size_t i = 1; i < list->count; i++)
        if (compare_rows(&list->rows[i - 1], &list->rows[i]) == 0)
            return sb_json_fail(root, "added_tokens", SB_ERR_INPUT, err,
                                "lists the token \"%s\" twice", SB_SHOW(list->rows[i].match));
    for (unsigned byte = 0; byte <= 256; byte++) {
        while (byte > 0 && at < list->count && byte_at(list, at, 0) < byte)
            at++;
        list->first[byte] = at;
    }
    return SB_OK;
}

static sb_status load_row(sb_tokenizer *t, const sb_json_object *object, const json_t *vocab,
                          uint64_t *next, sb_error *err)
{
    sb_text_added row = {0};
    uint64_t id = 0;
    sb_status status = read_row(object, &row, &id, err);
    if (!status)
        status = check_id(t, object, id, json_object_get(vocab, row.content), next, err);
    if (!status)
        status = make_match(t, &row, err);
    row.id = (uint32_t)id;
    if (!status) /* decoding gives the searched text */
        status = sb_text_set_token(t, row.id, row.match, row.size, 0, err);
    if (status) {
        free(row.content);
        free(row.match);
        return status;
    }
    sb_text_list *list = row.normalized ? &t->normalized : &t->plain;
    list->rows[list->count++] = row;
    return SB_OK;
}

sb_status sb_text_load_added(sb_tokenizer *t, const sb_json_object *root, json_t *vocab,
                             sb_error *err)
{
    json_t *rows = json_object_get(root->json, "added_tokens");
    size_t count = json_array_size(rows);
    uint64_t next = json_object_size(vocab);
    sb_status status = SB_OK;
    if (rows && !json_is_array(rows))
        return sb_json_wrong(root, "added_tokens", rows, "an array", err);
    t->plain.rows = sb_alloc(count, sizeof *t->plain.rows);
    t->normalized.rows = sb_alloc(count, sizeof *t->normalized.rows);
    if (!t->plain.rows || !t->normalized.rows)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu added tokens", count);
    for (size_t i = 0; i < count && !status; i++) {
        char path[48];
        sb_json_object row;
        snprintf(path, sizeof path, "added_tokens.%zu", i);
        status = sb_json_object_at(json_array_get(rows, i), root->file, path, &row, err);
        if (!status)
            status = load_row(t, &row, vocab, &next, err);
    }
    if (!status)
        status = sort_list(&t->plain, root, err);
    return status ? status : sort_list(&t->normalized, root, err);
}
