/* plain_text.h - whether a text can be shown on a terminal. */
#ifndef SB_TESTS_FUZZ_PLAIN_TEXT_H
#define SB_TESTS_FUZZ_PLAIN_TEXT_H

#include <stddef.h>

/* Whether a text is UTF-8 without control characters (except line ends and tabs), line separators,
 * and marks that change the direction of writing. */
int text_is_plain(const char *text, size_t size);

#endif
