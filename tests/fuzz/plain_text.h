/* plain_text.h - what may be shown on a terminal. */
#ifndef SB_TESTS_FUZZ_PLAIN_TEXT_H
#define SB_TESTS_FUZZ_PLAIN_TEXT_H

#include <stddef.h>

/* Nothing that steers a terminal: UTF-8 without controls (but line ends and tabs), line separators
 * and marks that turn the direction of writing. */
int text_is_plain(const char *text, size_t size);

#endif
