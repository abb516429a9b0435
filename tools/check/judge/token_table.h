/* token_table.h - the tokens of a tokenizer.json of any kind, and its contradictions.
 *
 * tools/text reads only tokenizers that it can run. This table holds what every tokenizer.json has:
 * ids, contents, merges. */
#ifndef SB_CHECK_TOKEN_TABLE_H
#define SB_CHECK_TOKEN_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"
#include "ref/container/json.h"

typedef struct sb_token_row {
    const char *content; /* lives as long as the table */
    uint64_t id;
    int added; /* from added_tokens, not from the vocabulary */
} sb_token_row;

typedef struct sb_token_table {
    json_t *json; /* NULL: there is no tokenizer.json */
    sb_token_row *by_id, *by_content;
    size_t count;
    const json_t *merges; /* NULL: the model has none */
} sb_token_table;

/* Reads folder/tokenizer.json. SB_OK with json NULL: the file does not exist. SB_ERR_INPUT: it
 * cannot be read, or is not a tokenizer, and err says why. SB_ERR_MEMORY. */
sb_status sb_token_table_load(const char *folder, sb_token_table *out, sb_error *err);
void sb_token_table_free(sb_token_table *table);

/* The first row with this id or content; NULL: none. */
const sb_token_row *sb_token_of_id(const sb_token_table *table, uint64_t id);
const sb_token_row *sb_token_of_content(const sb_token_table *table, const char *content);

/* 1 if the token with this id is in added_tokens, whether or not it is in the vocabulary. */
int sb_token_is_added(const sb_token_table *table, uint64_t id);

/* The two halves of merge i, with their lengths. The file has them in one string or in two. Returns
 * 0 if entry i is not a merge. */
int sb_token_merge(const sb_token_table *table, size_t i, const char *half[2], size_t size[2]);

#endif
