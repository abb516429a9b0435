/* manual.h - man pages (roff with the macros of man(7)) on stdout, from the tables of options. */
#ifndef SB_CLI_MANUAL_H
#define SB_CLI_MANUAL_H

#include "tools/cli/commands.h"
#include "tools/cli/opts.h"

/* samebit(1): all commands. */
void sb_manual_of_all(void);

/* The page of one command: begin, then sb_manual_write for its table, then end. */
void sb_manual_begin(const sb_command *command);
void sb_manual_write(const sb_command_line *line);
void sb_manual_end(void);

#endif
