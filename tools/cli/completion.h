/* completion.h - what a shell needs to complete commands and options, on stdout. */
#ifndef SB_CLI_COMPLETION_H
#define SB_CLI_COMPLETION_H

#include "tools/cli/commands.h"
#include "tools/cli/opts.h"

/* bash, zsh or fish, else SB_ERR_USAGE. Then of each command: its name, then its table; then end.
 */
sb_status sb_completion_begin(const char *shell, sb_error *err);
void sb_completion_of(const sb_command *command);
void sb_completion_write(const sb_command_line *line);
void sb_completion_end(void);

#endif
