/* pattern.h - the regular expressions that split a text into pieces.
 *
 * tokenizer.json writes them for Oniguruma; PCRE2 matches them. The two interpret many constructs
 * differently, so an expression is translated construct by construct (N-5). Constructs without a
 * known equivalent are refused by name. */
#ifndef SB_TOOLS_TEXT_PATTERN_H
#define SB_TOOLS_TEXT_PATTERN_H

#include <stddef.h>

#include "ref/base/status.h"

typedef struct sb_pattern sb_pattern;

/* `where` names file and key in messages. */
sb_status sb_pattern_compile(const char *text, const char *where, sb_pattern **out, sb_error *err);
void sb_pattern_free(sb_pattern *pattern);

/* The data of one match; each thread needs its own. NULL if memory is out. */
typedef struct sb_match sb_match;
sb_match *sb_match_new(void);
void sb_match_free(sb_match *match);

/* The first match at or after `from` in well-formed UTF-8; *begin == *end == bytes if there is
 * none. A match has at least one byte. */
sb_status sb_pattern_find(const sb_pattern *pattern, sb_match *match, const unsigned char *text,
                          size_t bytes, size_t from, size_t *begin, size_t *end, sb_error *err);

/* pattern_translate.c: the expression for PCRE2, which the caller frees. */
sb_status sb_pattern_translate(const char *text, const char *where, char **out, sb_error *err);

#endif
