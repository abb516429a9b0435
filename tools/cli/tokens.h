/* tokens.h - token ids as text: "1,2,3", or a file with one list per line, a line a sequence. */
#ifndef SB_CLI_TOKENS_H
#define SB_CLI_TOKENS_H

#include "tools/cli/generate.h"

/* Ids are decimal, separated by commas or blanks. `where` names the text in messages. */
sb_status sb_tokens_parse(const char *text, const char *where, sb_sequence *out, sb_error *err);

/* Every line that is not empty and does not start with '#' is a sequence. */
sb_status sb_tokens_load(const char *path, sb_sequence **out, size_t *count, sb_error *err);

/* The same from a JSON list of lists of ids; NULL if it is anything else or memory is out. */
sb_sequence *sb_sequences_from_json(const json_t *lists, size_t *count);

void sb_sequences_free(sb_sequence *sequences, size_t count);

#endif
