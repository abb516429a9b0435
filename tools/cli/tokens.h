/* tokens.h - token ids as text: "1,2,3", or a file with one list per line, a line a sequence. */
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

/* Every line that is not empty and does not start with '#' is a sequence. What stands in a file is
 * input and no use of the program: SB_ERR_INPUT says what is wrong with it. */
sb_status sb_tokens_load(const char *path, sb_sequence **out, size_t *count, sb_error *err);

/* Of a command line that has one of --tokens (text: one sequence) and --tokens-file (path); the
 * other is NULL. To be freed in any case. */
sb_status sb_tokens_read(const char *text, const char *path, sb_sequence **out, size_t *count,
                         sb_error *err);

/* Whether there are ids, and the vocabulary has them all: SB_ERR_INPUT of a file, SB_ERR_USAGE of
 * the command line (path is NULL). */
sb_status sb_tokens_check(const char *path, const sb_sequence *items, size_t count,
                          uint32_t vocabulary, sb_error *err);

/* The same from a JSON list of lists of ids; NULL if it is anything else or memory is out. */
sb_sequence *sb_sequences_from_json(const json_t *lists, size_t *count);

/* One list of numbers, as text or as "@FILE", whose lines are then one list. `option` names it. */
sb_status sb_numbers_parse(const char *text, const char *option, sb_sequence *out, sb_error *err);
void sb_numbers_free(sb_sequence *numbers);

/* Prints `before` and the list behind it: " 1,2,3", or nothing of an empty one. */
void sb_ids_print(const char *before, const uint32_t *ids, size_t count);

/* A list as JSON, and back: 0 if that is no list of at least one number, or memory is out. */
json_t *sb_ids_json(const uint32_t *ids, size_t count);
int sb_sequence_from_json(const json_t *list, sb_sequence *out);

void sb_sequences_free(sb_sequence *sequences, size_t count);

#endif
