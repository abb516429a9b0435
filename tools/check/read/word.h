/* word.h - quotes a name as one word of a shell command that is printed for the user to type.
 *
 * Names come from the author of the files: a quote or a $ in a name must not become a command. */
#ifndef SB_CHECK_WORD_H
#define SB_CHECK_WORD_H

typedef struct sb_word {
    char text[1028]; /* the longest output of sb_show(), with every character a quote */
} sb_word;

/* Writes the text into *room, made fit for one line, and returns it. It is quoted with single
 * quotes if a shell would not take it unquoted, or if `quoted` is set. */
const char *sb_word_of(const char *text, int quoted, sb_word *room);

/* For direct use as an argument of a message. */
#define SB_WORD(string) sb_word_of((string), 0, &(sb_word){{0}})
#define SB_QUOTED(string) sb_word_of((string), 1, &(sb_word){{0}})

#endif
