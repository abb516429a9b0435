/* tokenizer.c - functions of a loaded tokenizer except encoding. */
#include "tools/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/text/parts.h"
#include "tools/text/utf8.h"

void sb_tokenizer_free(sb_tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->pattern_count; i++)
        sb_pattern_free(t->patterns[i]);
    sb_text_free_added(&t->plain);
    sb_text_free_added(&t->normalized);
    free(t->tokens);
    free(t->arena);
    free(t->first);
    free(t->merges);
    free(t->whole);
    free(t);
}

size_t sb_tokenizer_size(const sb_tokenizer *t)
{
    return t->size;
}

const char *sb_tokenizer_bytes(const sb_tokenizer *t, uint32_t id, size_t *size)
{
    if (id >= t->size || !t->tokens[id].known)
        return NULL;
    *size = t->tokens[id].size;
    return (const char *)t->arena + t->tokens[id].at;
}

static int find_content(const sb_text_list *list, const char *content, uint32_t *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->rows[i].content, content) == 0) {
            *id = list->rows[i].id;
            return 1;
        }
    }
    return 0;
}

int sb_tokenizer_added(const sb_tokenizer *t, const char *content, uint32_t *id)
{
    return find_content(&t->plain, content, id) || find_content(&t->normalized, content, id);
}

sb_status sb_text_make_ids(sb_tokenizer *t, size_t count, sb_error *err)
{
    if (count <= t->size)
        return SB_OK;
    sb_text_token *tokens = sb_realloc(t->tokens, count, sizeof *tokens);
    if (!tokens)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for %zu tokens", count);
    memset(tokens + t->size, 0, (count - t->size) * sizeof *tokens);
    t->tokens = tokens;
    t->size = (uint32_t)count;
    return SB_OK;
}

static int make_room(sb_tokenizer *t, size_t bytes)
{
    if (t->room - t->used >= bytes)
        return 1;
    size_t room = t->used + bytes + t->room / 2 + 4096;
    unsigned char *arena = sb_realloc(t->arena, room, 1);
    if (!arena)
        return 0;
    t->arena = arena;
    t->room = room;
    return 1;
}

/* N-8: "if all of its characters are of the byte alphabet, the bytes that they stand for, else its
 * own" */
sb_status sb_text_set_token(sb_tokenizer *t, uint32_t id, const char *text, size_t size,
                            int in_vocabulary, sb_error *err)
{
    sb_status status = sb_text_make_ids(t, (size_t)id + 1, err);
    if (status)
        return status;
    if (!make_room(t, size))
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the tokens of a vocabulary");
    unsigned char *bytes = t->arena + t->used;
    size_t made = 0, at = 0;
    for (size_t n; at < size; at += n) {
        uint32_t c;
        n = sb_utf8_get((const unsigned char *)text + at, size - at, &c);
        int byte = n > 0 ? sb_alphabet_byte(c) : -1;
        if (byte < 0)
            break;
        bytes[made++] = (unsigned char)byte;
    }
    int whole = at == size;
    if (!whole)
        memcpy(bytes, text, made = size);
    t->tokens[id] = (sb_text_token){.at = t->used,
                                    .size = (uint32_t)made,
                                    .known = 1,
                                    .whole = (unsigned char)(whole && in_vocabulary)};
    t->used += made;
    return SB_OK;
}

sb_status sb_tokenizer_decode(const sb_tokenizer *t, const uint32_t *ids, size_t count,
                              char **bytes, size_t *size, size_t *unknown, sb_error *err)
{
    size_t total = 0, missing = 0, n;
    for (size_t i = 0; i < count; i++) {
        missing += !sb_tokenizer_bytes(t, ids[i], &n);
        total += sb_tokenizer_bytes(t, ids[i], &n) ? n : 0;
    }
    char *out = total < SIZE_MAX ? sb_alloc(total + 1, 1) : NULL;
    if (!out)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the text of %zu ids", count);
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        const char *token = sb_tokenizer_bytes(t, ids[i], &n);
        if (!token)
            continue;
        memcpy(out + *size, token, n);
        *size += n;
    }
    if (unknown)
        *unknown = missing;
    *bytes = out;
    return SB_OK;
}
