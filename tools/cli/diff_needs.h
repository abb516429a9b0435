/* diff_needs.h - options of samebit diff that apply only to some engines. */
#ifndef SB_CLI_DIFF_NEEDS_H
#define SB_CLI_DIFF_NEEDS_H

#include "tools/cli/diff_side.h"
#include "tools/cli/opts.h"

/* SB_ERR_USAGE if a given option would have no effect; the message says what the option needs. */
sb_status sb_diff_needs(const sb_command_line *line, const sb_side *sides, size_t count,
                        sb_error *err);

#endif
