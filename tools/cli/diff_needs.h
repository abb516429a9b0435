/* diff_needs.h - options of samebit diff that mean something for some engines only. */
#ifndef SB_CLI_DIFF_NEEDS_H
#define SB_CLI_DIFF_NEEDS_H

#include "tools/cli/diff_side.h"
#include "tools/cli/opts.h"

/* SB_ERR_USAGE if an option was given that would do nothing: it says what the option needs. */
sb_status sb_diff_needs(const sb_command_line *line, const sb_side *sides, size_t count,
                        sb_error *err);

#endif
