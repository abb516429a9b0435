/* side_tokenizer.c - check 51: the tokenizer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/container/show.h"
#include "tools/check/judge/side_files.h"

/* V-151: "ids that stand for two tokens" */
static void tell_twice(sb_check *check, const sb_token_table *t)
{
    const sb_token_row *a = NULL, *b = NULL;
    size_t count = 0;
    for (size_t i = 1; i < t->count; i++) {
        const sb_token_row *x = &t->by_id[i - 1], *y = &t->by_id[i];
        if (x->id != y->id || strcmp(x->content, y->content) == 0)
            continue;
        if (count++ == 0)
            a = x, b = y;
    }
    if (count)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: id %" PRIu64
                      " belongs to '%s' and to '%s'; %zu ids belong to more than one token",
                      a->id, SB_SHOW(a->content), SB_SHOW(b->content), count);
    count = 0;
    for (size_t i = 1; i < t->count; i++) {
        const sb_token_row *x = &t->by_content[i - 1], *y = &t->by_content[i];
        if (x->id == y->id || strcmp(x->content, y->content) != 0)
            continue;
        if (count++ == 0)
            a = x, b = y;
    }
    if (count)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: '%s' has the ids %" PRIu64 " and %" PRIu64
                      "; %zu tokens have more than one id",
                      SB_SHOW(a->content), a->id, b->id, count);
}

/* V-151: "ids for which the embedding has no row" */
static void tell_beyond(sb_check *check, const sb_token_table *t)
{
    uint64_t rows = check->self.config.vocab_size;
    size_t below = 0;
    if (!check->self.has_config || t->count == 0)
        return;
    while (below < t->count && t->by_id[below].id < rows)
        below++;
    if (below == t->count)
        return;
    const sb_token_row *last = &t->by_id[t->count - 1];
    sb_check_find(check, 51, SB_LEVEL_error, "",
                  "tokenizer.json: '%s' has the id %" PRIu64
                  ", but vocab_size of config.json is %" PRIu64
                  ": %zu tokens have no row in the embedding",
                  SB_SHOW(last->content), last->id, rows, t->count - below);
}

static int has_piece(const sb_token_table *t, const char *text, size_t size, char *room,
                     size_t room_size)
{
    if (size >= room_size)
        return 1; /* longer than any token of this family: not judged */
    memcpy(room, text, size);
    room[size] = '\0';
    return sb_token_of_content(t, room) != NULL;
}

/* V-151: "merges of pieces that are no tokens" */
static void tell_merges(sb_check *check, const sb_token_table *t)
{
    char room[4096], both[4096];
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < json_array_size(t->merges); i++) {
        const char *half[2];
        size_t size[2];
        int sound = sb_token_merge(t, i, half, size) &&
                    has_piece(t, half[0], size[0], room, sizeof room) &&
                    has_piece(t, half[1], size[1], room, sizeof room);
        if (sound && size[0] + size[1] < sizeof both) {
            memcpy(both, half[0], size[0]);
            memcpy(both + size[0], half[1], size[1]);
            sound = has_piece(t, both, size[0] + size[1], room, sizeof room);
        }
        if (!sound && bad++ == 0)
            first = i;
    }
    if (bad)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: model.merges.%zu does not merge two tokens into one, one "
                      "of %zu such merges of %zu: loaders refuse the file",
                      first, bad, json_array_size(t->merges));
}

/* V-151: "added tokens that tokenizer_config.json gives another id" */
static void tell_added(sb_check *check, const sb_token_table *t, const json_t *config)
{
    json_t *rows = json_object_get(config, "added_tokens_decoder"), *row;
    const char *key, *lacks = NULL;
    size_t absent = 0, wrong = 0;
    json_object_foreach(rows, key, row)
    {
        char *end;
        const char *content = json_string_value(json_object_get(row, "content"));
        uint64_t id = strtoull(key, &end, 10);
        if (!content || end == key || *end)
            continue;
        const sb_token_row *here = sb_token_of_id(t, id), *same = sb_token_of_content(t, content);
        if (!here && !same) {
            if (absent++ == 0)
                lacks = content;
        } else if (!same || same->id != id) {
            if (wrong++ == 0)
                sb_check_find(check, 51, SB_LEVEL_error, "",
                              "tokenizer_config.json: added_tokens_decoder.%s is '%s', in "
                              "tokenizer.json that id is '%s'",
                              SB_SHOW(key), SB_SHOW(content),
                              here ? SB_SHOW(here->content) : "none");
        }
    }
    if (wrong > 1)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer_config.json: %zu added tokens disagree with tokenizer.json",
                      wrong);
    if (absent)
        sb_check_find(
            check, 51, SB_LEVEL_warn, "",
            "tokenizer_config.json: adds '%s', which tokenizer.json does not have, one of %zu such "
            "tokens: programs cut text differently, depending on which of the two files they read",
            SB_SHOW(lacks), absent);
}

/* V-151: "tokens of the original that are missing or have another id" */
static void tell_vocabulary(sb_check *check, const sb_token_table *t, const sb_token_table *o)
{
    const sb_token_row *first = NULL, *here = NULL;
    size_t wrong = 0, more = 0;
    for (size_t i = 0; i < o->count; i++) {
        const sb_token_row *row = sb_token_of_content(t, o->by_content[i].content);
        if (row && row->id == o->by_content[i].id)
            continue;
        if (wrong++ == 0)
            first = &o->by_content[i], here = row;
    }
    if (wrong) {
        char id[32] = "no id";
        if (here)
            snprintf(id, sizeof id, "the id %" PRIu64, here->id);
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: '%s' has %s, in the original %" PRIu64
                      "; %zu of %zu tokens of the original are missing or have another id",
                      SB_SHOW(first->content), id, first->id, wrong, o->count);
    }
    for (size_t i = 0; i < t->count; i++) {
        if (sb_token_of_content(o, t->by_content[i].content))
            continue;
        if (more++ == 0)
            first = &t->by_content[i];
    }
    if (more)
        sb_check_find(check, 51, SB_LEVEL_warn, "",
                      "tokenizer.json: '%s' (id %" PRIu64
                      ") is not a token of the original, one of %zu additional tokens",
                      SB_SHOW(first->content), first->id, more);
}

/* V-151: "merges that are not those of the original in its order" */
static void tell_order(sb_check *check, const sb_token_table *t, const sb_token_table *o)
{
    size_t n = json_array_size(t->merges), m = json_array_size(o->merges), i;
    for (i = 0; i < n && i < m; i++) {
        const char *a[2], *b[2];
        size_t x[2], y[2];
        if (!sb_token_merge(t, i, a, x) || !sb_token_merge(o, i, b, y) || x[0] != y[0] ||
            x[1] != y[1] || memcmp(a[0], b[0], x[0]) != 0 || memcmp(a[1], b[1], x[1]) != 0)
            break;
    }
    if (i < n || i < m)
        sb_check_find(check, 51, SB_LEVEL_error, "",
                      "tokenizer.json: model.merges differs from the original from merge %zu on; "
                      "number of merges: %zu, in the original %zu",
                      i, n, m);
}

void sb_side_tokenizer(sb_check *check, const sb_token_table *table, const json_t *config,
                       const sb_token_table *original)
{
    if (!table->json)
        return;
    tell_twice(check, table);
    tell_beyond(check, table);
    tell_merges(check, table);
    tell_added(check, table, config);
    if (!original->json)
        return;
    tell_vocabulary(check, table, original);
    tell_order(check, table, original);
}
