/* word.h - a name as one word of a command that is printed to be typed.
 *
 * Names come from whoever wrote the files: a quote or a $ in one must not become a command. */
#ifndef SB_CHECK_WORD_H
#define SB_CHECK_WORD_H

typedef struct sb_word {
    char text[1028]; /* what sb_show() shows at most, all of it quotes */
} sb_word;

/* Writes the text, made fit for one line, into *room and returns it: in single quotes where a shell
 * would not take it as it is, or in any case. */
const char *sb_word_of(const char *text, int quoted, sb_word *room);

/* For one use as an argument of a message. */
#define SB_WORD(string) sb_word_of((string), 0, &(sb_word){{0}})
#define SB_QUOTED(string) sb_word_of((string), 1, &(sb_word){{0}})

#endif
