/* side_files.h - check 51 among its files: what stands beside the tensors. */
#ifndef SB_CHECK_SIDE_FILES_H
#define SB_CHECK_SIDE_FILES_H

#include "tools/check/check.h"
#include "tools/check/token_table.h"

/* A file of a folder as JSON; NULL: it is not there, or cannot be read. Where it is there and
 * cannot be read, that is an ERROR of check 51 if `tell`. json_decref releases it. */
json_t *sb_side_json(sb_check *check, const char *folder, const char *name, int tell);
int sb_side_exists(const char *folder, const char *name);

/* side_tokenizer.c: tokenizer.json in itself, beside tokenizer_config.json, and beside the
 * original's, of which the json may be NULL. */
void sb_side_tokenizer(sb_check *check, const sb_token_table *table, const json_t *config,
                       const sb_token_table *original);

/* side_chain.c: what tokenizer.json does to text around its merges, in itself and beside the
 * original's. */
void sb_side_chain(sb_check *check, const sb_token_table *table, const sb_token_table *original);

/* What has been read of a folder, and the tokens of the original's. */
typedef struct sb_side_trees {
    const sb_token_table *table, *others;
    const json_t *config, *settings; /* tokenizer_config.json, generation_config.json */
} sb_side_trees;

/* side_settings.c: which tokens begin, end and fill a text, and how they are drawn; original may be
 * NULL. */
void sb_side_settings(sb_check *check, const char *folder, const char *original,
                      const sb_side_trees *trees);

/* side_chat.c: the chat template. */
void sb_side_chat(sb_check *check, const char *folder, const char *original,
                  const sb_side_trees *trees);

#endif
