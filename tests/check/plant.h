/* plant.h - faults as texts: a few commands that change a folder, so that a table of faults says
 * itself what is planted.
 *
 *     "drop model.norm.weight; set mtp.fc.weight 17 nan"
 *
 * Commands end with ';', words are separated by blanks; names are as folder_find takes them. The
 * commands are listed in plant.c (names, files, values), plant_bytes.c (ranges of bytes, side
 * files) and plant_values.c (what needs formats). */
#ifndef SB_TESTS_CHECK_PLANT_H
#define SB_TESTS_CHECK_PLANT_H

#include "tests/check/folder.h"

enum { PLANT_WORDS = 12 };

/* One command, its words and, for values that hold blanks, where each word begins. */
typedef struct plant_words {
    const char *word[PLANT_WORDS]; /* NULL behind the last */
    const char *rest[PLANT_WORDS]; /* from this word to the end of the command */
    unsigned count;
} plant_words;

typedef struct plant_command {
    const char *name;
    unsigned words; /* behind the name, at least */
    void (*run)(folder *f, const plant_words *w);
} plant_command;

/* Both end with a name of NULL. */
extern const plant_command plant_value_commands[], plant_byte_commands[];

void plant(folder *f, const char *text);

/* For commands. */
folder_tensor *plant_tensor(folder *f, const plant_words *w); /* the first word */
uint64_t plant_number(const char *word);                      /* also 0x...; asserts */

#endif
