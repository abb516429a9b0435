/* declared_pattern.h - the three ways in which configuration files write sets of module names.
 *
 * A regular expression is one of Python's re module. PCRE2 reads them; the two constructs that both
 * accept and read differently are refused, and so is one that is too long or takes too many steps:
 * the file may come from anybody. */
#ifndef SB_MODEL_DECLARED_PATTERN_H
#define SB_MODEL_DECLARED_PATTERN_H

#include "ref/base/status.h"

typedef struct sb_regex sb_regex;

/* anchored: as re.match, which must match from the first character on but need not reach the last;
 * else as re.search. `where` names file and rule in messages. */
sb_status sb_regex_compile(const char *text, int anchored, const char *where, sb_regex **out,
                           sb_error *err);
sb_status sb_regex_matches(const sb_regex *regex, const char *name, const char *where, int *out,
                           sb_error *err);
void sb_regex_free(sb_regex *regex);

/* True if text has a character that means something in a regular expression, '.' apart. */
int sb_looks_like_regex(const char *text);

/* 1 if the whole name matches: '*' is any characters, dots too, '?' is one. As Python's fnmatch,
 * but without sets in brackets. */
int sb_glob_matches(const char *glob, const char *name);

/* 1 if name begins, or ends, with part, and part with the name or at a dot: "gate" ends "mlp.gate",
 * but neither "mlp.shared_expert_gate" nor "mlp.gate_proj". */
int sb_has_prefix_part(const char *name, const char *part);
int sb_has_suffix_part(const char *name, const char *part);

#endif
