/* tokens.h - token ids as text: "1,2,3", or a file with one sequence per line. */
#ifndef SB_CLI_TOKENS_H
#define SB_CLI_TOKENS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/base/status.h"

typedef struct sb_sequence {
    uint32_t *ids;
    size_t count;
} sb_sequence;

/* Ids are decimal, separated by commas or blanks. `where` names the text in messages. */
sb_status sb_tokens_parse(const char *text, const char *where, sb_sequence *out, sb_error *err);

/* Every line that is not empty and does not start with '#' is a sequence. Errors in the file are
 * SB_ERR_INPUT, not SB_ERR_USAGE. */
sb_status sb_tokens_load(const char *path, sb_sequence **out, size_t *count, sb_error *err);

/* For a command line with one of --tokens (text: one sequence) and --tokens-file (path); the other
 * is NULL. The caller frees *out in any case. */
sb_status sb_tokens_read(const char *text, const char *path, sb_sequence **out, size_t *count,
                         sb_error *err);

/* Checks that there are ids and all are in the vocabulary: SB_ERR_INPUT for a file, SB_ERR_USAGE
 * for the command line (path is NULL). */
sb_status sb_tokens_check(const char *path, const sb_sequence *items, size_t count,
                          uint32_t vocabulary, sb_error *err);

/* Sequences from a JSON list of lists of ids; NULL for anything else or if memory is out. */
sb_sequence *sb_sequences_from_json(const json_t *lists, size_t *count);

/* One list of numbers, as text or as "@FILE", whose lines form one list. `option` names it in
 * messages. */
sb_status sb_numbers_parse(const char *text, const char *option, sb_sequence *out, sb_error *err);
void sb_numbers_free(sb_sequence *numbers);

/* From a JSON list of ids; 0 if the JSON is no list of at least one number, or memory is out. */
int sb_sequence_from_json(const json_t *list, sb_sequence *out);

void sb_sequences_free(sb_sequence *sequences, size_t count);

#endif
