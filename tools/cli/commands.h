/* commands.h - the table of commands.def. */
#ifndef SB_CLI_COMMANDS_H
#define SB_CLI_COMMANDS_H

#include <stddef.h>

#include "ref/base/status.h"

typedef struct sb_command {
    const char *name;
    const char *help; /* one line for `samebit --help` */
    sb_status (*run)(int argc, char **argv, sb_error *err);
} sb_command;

/* All commands, in the order of `samebit --help`. */
const sb_command *sb_commands(size_t *count);

/* The command of this name. SB_ERR_USAGE names the closest one where there is none. */
sb_status sb_command_find(const char *name, const sb_command **out, sb_error *err);

/* The text of `samebit --help`, on stdout. */
void sb_print_commands(void);

/* One line on stdout: version, commit, specification, compiler, architecture, instructions. */
sb_status sb_print_version(sb_error *err);

#endif
