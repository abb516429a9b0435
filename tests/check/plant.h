/* plant.h - faults as text: commands that change a folder, so that a table of faults shows what is
 * planted.
 *
 *     "drop model.norm.weight; set mtp.fc.weight 17 nan"
 *
 * Commands end with ';', words are separated by blanks. Names are as folder_find takes them.
 * plant.c lists the commands for names, files and values, plant_bytes.c those for ranges of bytes
 * and side files, plant_values.c those that need formats. */
#ifndef SB_TESTS_CHECK_PLANT_H
#define SB_TESTS_CHECK_PLANT_H

#include "tests/check/folder.h"

enum { PLANT_WORDS = 12 };

/* One command: its words and, for values that contain blanks, the rest of the command from each
 * word. */
typedef struct plant_words {
    const char *word[PLANT_WORDS]; /* NULL behind the last */
    const char *rest[PLANT_WORDS]; /* from this word to the end of the command */
    unsigned count;
} plant_words;

typedef struct plant_command {
    const char *name;
    unsigned words; /* the least number behind the name */
    void (*run)(folder *f, const plant_words *w);
} plant_command;

/* Both end with a name of NULL. */
extern const plant_command plant_value_commands[], plant_byte_commands[];

void plant(folder *f, const char *text);

/* For commands. */
folder_tensor *plant_tensor(folder *f, const plant_words *w); /* the first word */
uint64_t plant_number(const char *word);                      /* also 0x...; asserts */

#endif
