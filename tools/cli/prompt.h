/* prompt.h - text input and output with the tokenizer of a checkpoint folder. */
#ifndef SB_CLI_PROMPT_H
#define SB_CLI_PROMPT_H

#include "tools/cli/tokens.h"
#include "tools/text/tokenizer.h"

/* The tokenizer.json of a folder, or of the path of a .json file. */
sb_status sb_prompt_tokenizer(const char *path, sb_tokenizer **out, sb_error *err);

/* The text of ids as a JSON string. A byte that is part of no character becomes U+FFFD; an id
 * without a token gives nothing. NULL if memory is out. */
json_t *sb_prompt_text(const sb_tokenizer *tokenizer, const uint32_t *ids, size_t count);

#endif
