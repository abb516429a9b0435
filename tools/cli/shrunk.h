/* shrunk.h - a file that becomes shorter while it is mapped ends a command, with a sentence. */
#ifndef SB_CLI_SHRUNK_H
#define SB_CLI_SHRUNK_H

/* From here on, such a read (SIGBUS) names the file on stderr and ends the process as refused input
 * does; and a file that would become too large (SIGXFSZ) is an error of its write. */
void sb_watch_files(void);

#endif
