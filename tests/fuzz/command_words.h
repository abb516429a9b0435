/* command_words.h - makes argument vectors of the program from command lines that work and options
 * of the real tables. Words are changed, left out, doubled and moved. */
#ifndef SB_TESTS_FUZZ_COMMAND_WORDS_H
#define SB_TESTS_FUZZ_COMMAND_WORDS_H

#include "tests/fuzz/command_guard.h"
#include "tests/fuzz/json_mutate.h"

enum { COMMAND_WORDS = 96 };

typedef struct command_words {
    char *word[COMMAND_WORDS + 1]; /* followed by a NULL */
    int count;
    int works; /* no word was changed */
} command_words;

/* The command lines that make the folder ../given, run in this order inside that folder. The drawn
 * command lines read this folder. */
extern const char *const command_given[];

/* Aborts if memory runs out; command_free frees the result. */
void command_draw(const command_table *tables, size_t count, json_draws *d, command_words *out);
void command_free(command_words *w);

#endif
