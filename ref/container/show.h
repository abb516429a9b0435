/* show.h - text from a file, made fit for a terminal, a report and a one-line message.
 *
 * Names and paths come from whoever wrote the file: they may be long and hold line breaks. A
 * message shows them with what may not be shown escaped and the middle cut, so that it stays one
 * line and what follows the name is never pushed out of the sb_error. */
#ifndef SB_CONTAINER_SHOW_H
#define SB_CONTAINER_SHOW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes of the character at text, and what it is; 0 if it is no well-formed UTF-8. Of a text
 * without an end of its own, the byte behind it may be asked for after a character that was begun.
 */
size_t sb_utf8_bytes(const char *text, uint32_t *code);

/* Bytes of the character at text, which ends with a NUL, if it may be shown; else 0. That may not:
 * what is no well-formed UTF-8, controls (C0, DEL, C1), separators of lines and paragraphs, the
 * marks, embeddings, overrides and isolates that turn the direction of what follows, and characters
 * that XML forbids. Every text of others is held against this one function. */
size_t sb_shown_bytes(const char *text);

/* Prints all of a text, bytes that may not be shown as \xHH. */
void sb_print_shown(const char *text, FILE *out);

/* In place: a '?' for each byte that may not be shown. */
void sb_clean_text(char *text);

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
