/* shrunk.h - if a mapped file becomes shorter, the command ends with a message. */
#ifndef SB_CLI_SHRUNK_H
#define SB_CLI_SHRUNK_H

/* After this call, a read beyond such an end (SIGBUS) names the file on stderr and exits like
 * refused input. A file that would become too large (SIGXFSZ) is an error of the write. */
void sb_watch_files(void);

#endif
