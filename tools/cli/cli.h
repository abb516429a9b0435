/* cli.h - the commands of samebit: each takes its own argv (argv[0] is its name). */
#ifndef SB_CLI_CLI_H
#define SB_CLI_CLI_H

#include <stdint.h>

#include "ref/base/status.h"

/* commands.def: SB_COMMAND(name, "one line for samebit --help") */
#define SB_COMMAND(name, help) sb_status sb_cmd_##name(int argc, char **argv, sb_error *err);
#include "tools/cli/commands.def"
#undef SB_COMMAND

/* Sets the number of threads; 0 leaves the default. */
void sb_set_threads(unsigned threads);

/* Prints a progress line if stderr is a terminal: "what 12/100, 48 s left". done == total ends the
 * line. At most ten updates a second. */
void sb_progress(void *unused, const char *what, uint64_t done, uint64_t total);

/* The same for bytes: "what 12.30 of 76.00 GB, 1.20 GB/s, 53 s left". */
void sb_progress_bytes(void *unused, const char *what, uint64_t done, uint64_t total);

#endif
