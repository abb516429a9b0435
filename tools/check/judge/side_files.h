/* side_files.h - shared by the files of check 51: the files beside the tensors. */
#ifndef SB_CHECK_SIDE_FILES_H
#define SB_CHECK_SIDE_FILES_H

#include "tools/check/read/check.h"
#include "tools/check/judge/token_table.h"

/* A file of a folder as JSON; NULL: it does not exist, or cannot be read. If the file exists but
 * cannot be read, and `tell` is set, adds an ERROR of check 51. Release with json_decref. */
json_t *sb_side_json(sb_check *check, const char *folder, const char *name, int tell);
int sb_side_exists(const char *folder, const char *name);

/* side_tokenizer.c: tokenizer.json by itself, against tokenizer_config.json, and against the
 * original's. Any json may be NULL. */
void sb_side_tokenizer(sb_check *check, const sb_token_table *table, const json_t *config,
                       const sb_token_table *original);

/* side_chain.c: what tokenizer.json does to text before and after its merges, by itself and against
 * the original's. */
void sb_side_chain(sb_check *check, const sb_token_table *table, const sb_token_table *original);

/* What was read from a folder, and the token table of the original. */
typedef struct sb_side_trees {
    const sb_token_table *table, *others;
    const json_t *config, *settings; /* tokenizer_config.json, generation_config.json */
} sb_side_trees;

/* side_settings.c: which tokens begin, end and pad a text, and the sampling settings; original may
 * be NULL. */
void sb_side_settings(sb_check *check, const char *folder, const char *original,
                      const sb_side_trees *trees);

/* side_chat.c: the chat template. */
void sb_side_chat(sb_check *check, const char *folder, const char *original,
                  const sb_side_trees *trees);

#endif
