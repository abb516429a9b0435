/* outputs.h - no command writes over what it reads. */
#ifndef SB_CLI_OUTPUTS_H
#define SB_CLI_OUTPUTS_H

#include "tools/cli/opts.h"

/* SB_ERR_USAGE, naming the option: the output is an input of this command line, lies as a file that
 * is there already in a folder that it reads, or is another output of it. A page or an XML report
 * in such a folder is nothing that a command reads. What is no regular file is written straight,
 * and may be named as often as one likes. */
sb_status sb_outputs_check(const sb_command_line *line, sb_error *err);

#endif
