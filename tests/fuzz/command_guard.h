/* command_guard.h - what fuzz_command sees of a command: its table of options, how far the parser
 * came, and every call that changes a file. The Makefile wraps sb_parse and those calls. */
#ifndef SB_TESTS_FUZZ_COMMAND_GUARD_H
#define SB_TESTS_FUZZ_COMMAND_GUARD_H

#include <stddef.h>

#include "tools/cli/opts.h"

enum { GUARD_OPTS = 64 };

/* The options that the parser of a command is given. */
typedef struct command_table {
    const char *name;
    sb_opt opts[GUARD_OPTS];
    size_t count;
} command_table;

/* From here on, in this process, the next call of sb_parse fills the table and fails. */
void guard_list(command_table *table);

/* What a child tells its parent, in memory that they share. */
typedef struct guard_told {
    int parsed, helped, json; /* the parser came to its end; --help, --json stood there */
    char broken[512];         /* a file was written that nobody named */
} guard_told;

/* From here on files change in `inside` only: what a word of the command line names elsewhere is on
 * a disk that refuses it, and what no word names is told, and ends the process. */
void guard_begin(const char *inside, int argc, char **argv, guard_told *told);

#endif
