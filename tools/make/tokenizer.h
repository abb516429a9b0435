/* tokenizer.h - the tokenizer of a synthetic folder: tokenizer.json and tokenizer_config.json. */
#ifndef SB_TOOLS_MAKE_TOKENIZER_H
#define SB_TOOLS_MAKE_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

/* Writes both files. The ids are below ids_used, which is at least 259. */
sb_status sb_make_write_tokenizer(const char *dir, uint32_t ids_used, sb_error *err);

/* tokenizer_train.c: the merges and their tokens, trained on the text in that file. */
typedef struct sb_made_token {
    char *name; /* in the byte alphabet */
} sb_made_token;

typedef struct sb_made_vocabulary {
    sb_made_token *tokens; /* by id: 256 bytes, then merged tokens */
    uint32_t count;
    uint32_t (*merges)[2]; /* by rank */
    size_t merge_count;
} sb_made_vocabulary;

/* Splits the text by `pattern` and merges until there are `most` tokens or no pair occurs twice. */
sb_status sb_make_train(const char *pattern, uint32_t most, sb_made_vocabulary *out, sb_error *err);
void sb_made_vocabulary_free(sb_made_vocabulary *vocabulary);

#endif
