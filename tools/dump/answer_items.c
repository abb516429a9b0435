/* answer_items.c - lists of entries, one for each generated token, or for most of them. */
#include <stdlib.h>
#include <string.h>

#include "ref/base/mem.h"
#include "tools/dump/telling.h"

/* The generated tokens, and which of them have an entry. */
typedef struct items {
    uint32_t *tokens, *ids; /* (count), (entries) */
    double *logprobs;       /* (entries) */
    size_t *token_of;       /* (entries) SIZE_MAX: unknown */
    size_t count, entries;
} items;

static void free_items(items *s)
{
    free(s->tokens);
    free(s->ids);
    free(s->logprobs);
    free(s->token_of);
}

static const json_t *list_of(const json_t *item)
{
    const json_t *list = sb_tell_get(item, "top_logprobs");
    return list ? list : sb_tell_get(item, "top_probs");
}

/* J-44: "an entry of 0 without a list" */
static int says_nothing(const json_t *item, double logprob)
{
    return sb_tell_get(item, "id") && logprob == 0 && json_array_size(list_of(item)) == 0;
}

static sb_status read_entries(sb_telling *t, const char *what, const json_t *list,
                              const json_t *ids, sb_item_fn read, items *s)
{
    int named = sb_tell_get(json_array_get(list, 0), "id") != NULL;
    sb_status status = SB_OK;
    if (ids && !named && json_array_size(ids) != s->entries)
        return sb_tell_fail(t, "the numbers of entries and ids differ: %zu and %zu", s->entries,
                            json_array_size(ids));
    for (size_t i = 0; i < s->entries && !status; i++) {
        const json_t *item = json_array_get(list, i);
        sb_tell_where(t, "%s[%zu]", what, i);
        if (ids && !named) {
            status = sb_tell_id(t, json_array_get(ids, i), &s->ids[i]);
            if (!status)
                status = sb_tell_number(t, sb_tell_get(item, "logprob"), &s->logprobs[i]);
        } else {
            status = read(t, item, &s->ids[i], &s->logprobs[i]);
        }
    }
    return status;
}

/* J-44: "gives the generated tokens" */
static sb_status find_tokens(sb_telling *t, const char *what, const json_t *list, const json_t *ids,
                             items *s)
{
    size_t given = 0;
    const uint32_t *own = sb_dump_given_ids(t->options, t->sequence, &given);
    int named = sb_tell_get(json_array_get(list, 0), "id") != NULL;
    int all = t->said_generated && given == t->said_prompt + t->said_generated;
    sb_status status = SB_OK;
    sb_tell_where(t, "%s", what);
    if (!ids && !all && named && t->said_generated > s->entries)
        return sb_tell_fail(
            t,
            "%zu entries for %zu tokens: a token that is only a part of a character has no entry; "
            "expected --tokens with the prompt and all generated tokens",
            s->entries, t->said_generated);
    s->count = ids ? json_array_size(ids) : all ? t->said_generated : s->entries;
    s->tokens = sb_alloc(s->count, sizeof *s->tokens);
    if (!s->tokens)
        return sb_fail(t->err, SB_ERR_MEMORY, "out of memory for an answer");
    for (size_t i = 0; i < s->count && !status; i++) {
        if (ids)
            status = sb_tell_id(t, json_array_get(ids, i), &s->tokens[i]);
        else
            s->tokens[i] = all ? own[t->said_prompt + i] : s->ids[i];
    }
    return status;
}

/* J-44: "An entry is assigned to a token if only one assignment keeps the order of both" */
static sb_status align(const sb_telling *t, items *s)
{
    size_t at = 0;
    for (size_t k = 0; k < s->entries; k++) {
        while (at < s->count && s->tokens[at] != s->ids[k])
            at++;
        if (at == s->count)
            return sb_tell_fail(t, "entry %zu is of id %u, but another token was generated there",
                                k, (unsigned)s->ids[k]);
        s->token_of[k] = at++;
    }
    at = s->count;
    for (size_t k = s->entries; k-- > 0;) {
        do
            at--;
        while (s->tokens[at] != s->ids[k]);
        if (s->token_of[k] != at)
            s->token_of[k] = SIZE_MAX;
    }
    return SB_OK;
}

static sb_status tell_entry(sb_telling *t, const json_t *item, double logprob, sb_item_fn read)
{
    const json_t *list = list_of(item);
    sb_status status = SB_OK;
    if (says_nothing(item, logprob))
        return SB_OK;
    sb_spoken_own(t->out, logprob);
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        uint32_t id = 0;
        status = read(t, json_array_get(list, i), &id, &logprob);
        if (!status)
            status = sb_spoken_list(t->out, id, logprob, 0, t->err);
    }
    return status;
}

static sb_status tell_tokens(sb_telling *t, const char *what, const json_t *list, sb_item_fn read,
                             const items *s)
{
    sb_status status = SB_OK;
    for (size_t i = 0, k = 0; i < s->count && !status; i++) {
        status = sb_spoken_token(t->out, s->tokens[i], t->err);
        while (k < s->entries && s->token_of[k] == SIZE_MAX)
            k++;
        if (status || k == s->entries || s->token_of[k] != i)
            continue;
        sb_tell_where(t, "%s[%zu]", what, k);
        status = tell_entry(t, json_array_get(list, k), s->logprobs[k], read);
        k++;
    }
    return status;
}

sb_status sb_tell_items(sb_telling *t, const char *what, const json_t *list, const json_t *ids,
                        sb_item_fn read)
{
    items s = {.entries = json_array_size(list)};
    s.ids = sb_alloc(s.entries, sizeof *s.ids);
    s.logprobs = sb_alloc(s.entries, sizeof *s.logprobs);
    s.token_of = sb_alloc(s.entries, sizeof *s.token_of);
    sb_status status = s.ids && s.logprobs && s.token_of
                           ? SB_OK
                           : sb_fail(t->err, SB_ERR_MEMORY, "out of memory for an answer");
    if (!status)
        status = read_entries(t, what, list, ids, read, &s);
    if (!status)
        status = find_tokens(t, what, list, ids, &s);
    if (!status)
        status = align(t, &s);
    if (!status)
        status = tell_tokens(t, what, list, read, &s);
    free_items(&s);
    return status;
}
