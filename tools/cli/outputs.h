/* outputs.h - prevents a command from overwriting its inputs. */
#ifndef SB_CLI_OUTPUTS_H
#define SB_CLI_OUTPUTS_H

#include "tools/cli/opts.h"

/* SB_ERR_USAGE, naming the option, if an output is also an input of the command line, an existing
 * file in an input folder, or another output. A page, a picture or an XML report in an input
 * folder is no input. Outputs that are no regular files are written directly and may be named
 * repeatedly. */
sb_status sb_outputs_check(const sb_command_line *line, sb_error *err);

#endif
