/* show.h - text from a file, made fit for a one-line message.
 *
 * Names and paths come from whoever wrote the file: they may be long and hold line breaks. A
 * message shows them with control characters escaped and the middle cut, so that it stays one line
 * and what follows the name is never pushed out of the sb_error. */
#ifndef SB_CONTAINER_SHOW_H
#define SB_CONTAINER_SHOW_H

typedef struct sb_shown {
    char text[256];
} sb_shown;

/* Writes text into *room and returns it. */
const char *sb_show(const char *text, sb_shown *room);

/* The part of a message that stands behind "path:", which the caller knows. */
const char *sb_show_behind(const char *message, const char *path);

/* For one use as an argument of sb_fail. */
#define SB_SHOW(string) sb_show((string), &(sb_shown){{0}})

#endif
