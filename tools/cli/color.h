/* color.h - verdicts in color on a terminal. */
#ifndef SB_CLI_COLOR_H
#define SB_CLI_COLOR_H

/* If stdout is a terminal: from now on a verdict at the beginning of a line is shown in color.
 * Nothing changes if NO_COLOR is set and not empty, if TERM is "dumb", or without memory. */
void sb_color_start(void);

/* Call this after the last flush of stdout: prints the letters held back from an unfinished line.
 */
void sb_color_end(void);

#endif
