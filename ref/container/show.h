/* show.h - makes text from files safe for a terminal, a report and a one-line message.
 *
 * Names and paths in files may be long and contain line breaks. Messages escape unsafe characters
 * in these texts and cut out the middle. So a message stays one line, and the text after the name
 * always fits into the sb_error. */
#ifndef SB_CONTAINER_SHOW_H
#define SB_CONTAINER_SHOW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Returns the number of bytes of the character at text and sets *code; 0 if it is not well-formed
 * UTF-8. If the text has no terminating NUL, the function may read the byte after its end when a
 * character is cut off. */
size_t sb_utf8_bytes(const char *text, uint32_t *code);

/* The number of bytes of the character at text, which ends with a NUL; 0 if the character must not
 * be shown. These must not be shown: bytes that are not well-formed UTF-8, controls (C0, DEL, C1),
 * line and paragraph separators, the marks, embeddings, overrides and isolates that change text
 * direction, and characters that XML forbids. This function checks all foreign text. */
size_t sb_shown_bytes(const char *text);

/* Prints a whole text; bytes that must not be shown appear as \xHH. */
void sb_print_shown(const char *text, FILE *out);

/* Replaces each byte that must not be shown by '?', in place. */
void sb_clean_text(char *text);

typedef struct sb_shown {
    char text[256];
} sb_shown;

/* Writes the text to *room, escaped and cut, and returns it. */
const char *sb_show(const char *text, sb_shown *room);

/* Returns the part of a message after "path:", for callers that name the path elsewhere. */
const char *sb_show_behind(const char *message, const char *path);

/* The text of sb_show as an argument of one call, such as sb_fail. */
#define SB_SHOW(string) sb_show((string), &(sb_shown){{0}})

#endif
