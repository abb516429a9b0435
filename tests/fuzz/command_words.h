/* command_words.h - argument vectors of the program: command lines that work, with words of them
 * and options of the real tables changed, left out, doubled and put elsewhere. */
#ifndef SB_TESTS_FUZZ_COMMAND_WORDS_H
#define SB_TESTS_FUZZ_COMMAND_WORDS_H

#include "tests/fuzz/command_guard.h"
#include "tests/fuzz/json_mutate.h"

enum { COMMAND_WORDS = 96 };

typedef struct command_words {
    char *word[COMMAND_WORDS + 1]; /* a NULL behind the last */
    int count;
    int works; /* no word was changed */
} command_words;

/* What makes the folder ../given that the command lines read, in this order, in that folder. */
extern const char *const command_given[];

/* Aborts without memory; command_free releases it. */
void command_draw(const command_table *tables, size_t count, json_draws *d, command_words *out);
void command_free(command_words *w);

#endif
