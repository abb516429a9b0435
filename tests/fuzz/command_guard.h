/* command_guard.h - the view that fuzz_command has of a command: its table of options, the progress
 * of the parser, and every call that changes a file. The Makefile wraps sb_parse and those
 * calls. */
#ifndef SB_TESTS_FUZZ_COMMAND_GUARD_H
#define SB_TESTS_FUZZ_COMMAND_GUARD_H

#include <stddef.h>

#include "tools/cli/opts.h"

enum { GUARD_OPTS = 64 };

/* The options that a command gives to the parser. */
typedef struct command_table {
    const char *name;
    sb_opt opts[GUARD_OPTS];
    size_t count;
} command_table;

/* From now on, the next call of sb_parse in this process fills the table and fails. */
void guard_list(command_table *table);

/* The shared memory in which a child reports to its parent. */
typedef struct guard_told {
    int parsed, helped, json; /* the parser finished; --help and --json were on the line */
    char broken[512];         /* the file that was written although no word named it */
} guard_told;

/* From now on, files may change only inside `inside`. A file elsewhere that a word of the command
 * line names behaves as on a read-only disk. A change of any other file is reported and ends the
 * process. */
void guard_begin(const char *inside, int argc, char **argv, guard_told *told);

#endif
