/* utf8.h - well-formed UTF-8, the byte alphabet, and the two kinds of characters that matter here.
 */
#ifndef SB_TOOLS_TEXT_UTF8_H
#define SB_TOOLS_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character at the beginning of text. Returns its length, 0 if it is not well-formed. */
size_t sb_utf8_get(const unsigned char *text, size_t bytes, uint32_t *character);

/* Writes a character (not a surrogate, at most U+10FFFF). Returns its length, at most 4. */
size_t sb_utf8_put(uint32_t character, unsigned char *text);

/* The length of the longest well-formed prefix in bytes. */
size_t sb_utf8_stretch(const unsigned char *text, size_t bytes);

/* The character of a byte in vocabularies, and the byte of a character, or -1. */
uint32_t sb_alphabet_character(unsigned byte);
int sb_alphabet_byte(uint32_t character);

/* White space and word characters, as in Unicode's regular expressions. */
int sb_utf8_is_space(uint32_t character);
int sb_utf8_is_word(uint32_t character);

#endif
