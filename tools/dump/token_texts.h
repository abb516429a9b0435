/* token_texts.h - finds the token of a text with the tokenizer of a checkpoint. */
#ifndef SB_DUMP_TOKEN_TEXTS_H
#define SB_DUMP_TOKEN_TEXTS_H

#include "tools/text/tokenizer.h"

typedef struct sb_token_texts sb_token_texts;

/* `folder` has a tokenizer.json. */
sb_status sb_token_texts_new(const char *folder, sb_token_texts **out, sb_error *err);
void sb_token_texts_free(sb_token_texts *texts); /* NULL is fine */

/* The number of tokens with these bytes; *id is the first of them. */
size_t sb_token_texts_find(const sb_token_texts *texts, const char *bytes, size_t size,
                           uint32_t *id);

#endif
