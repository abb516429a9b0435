/* color.h - verdicts in color on a terminal. */
#ifndef SB_CLI_COLOR_H
#define SB_CLI_COLOR_H

/* If stdout is a terminal: from now on a verdict at the beginning of a line is shown in color.
 * Nothing changes if NO_COLOR is set and not empty, if TERM is "dumb", or without memory. */
void sb_color_start(void);

/* Behind the last flush of stdout: shows the letters of a line without an end. */
void sb_color_end(void);

#endif
