/* declared_pattern.h - the three notations of configuration files for sets of module names.
 *
 * Regular expressions are those of Python's re module; PCRE2 matches them. Two constructs that
 * Python and PCRE2 interpret differently are refused. An expression that is too long or takes too
 * many steps is refused, too, because the file may be hostile. */
#ifndef SB_MODEL_DECLARED_PATTERN_H
#define SB_MODEL_DECLARED_PATTERN_H

#include "ref/base/status.h"

typedef struct sb_regex sb_regex;

/* anchored: as re.match, which matches from the first character on and need not reach the last;
 * else as re.search. `where` names file and rule in messages. */
sb_status sb_regex_compile(const char *text, int anchored, const char *where, sb_regex **out,
                           sb_error *err);
sb_status sb_regex_matches(const sb_regex *regex, const char *name, const char *where, int *out,
                           sb_error *err);
void sb_regex_free(sb_regex *regex);

/* True if text has a special character of regular expressions other than '.'. */
int sb_looks_like_regex(const char *text);

/* 1 if the whole name matches: '*' matches any characters, including dots; '?' matches one. As
 * Python's fnmatch, without sets in brackets. */
int sb_glob_matches(const char *glob, const char *name);

/* 1 if name begins, or ends, with part, and part is the whole name or is bounded by a dot: "gate"
 * ends "mlp.gate", but neither "mlp.shared_expert_gate" nor "mlp.gate_proj". */
int sb_has_prefix_part(const char *name, const char *part);
int sb_has_suffix_part(const char *name, const char *part);

#endif
