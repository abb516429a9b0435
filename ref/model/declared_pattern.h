/* declared_pattern.h - the three notations that configuration files use for sets of module names.
 *
 * Regular expressions are those of Python's re module; PCRE2 matches them. Two constructs that
 * Python and PCRE2 interpret differently are refused. An expression that is too long or takes too
 * many steps is refused, too, because the file may be hostile. */
#ifndef SB_MODEL_DECLARED_PATTERN_H
#define SB_MODEL_DECLARED_PATTERN_H

#include "ref/base/status.h"

typedef struct sb_regex sb_regex;

/* Compiles a pattern. If `anchored`, the pattern matches as re.match does: from the first character
 * of a name on, but not necessarily to the last. Else it matches as re.search does. `where` names
 * file and rule in messages. */
sb_status sb_regex_compile(const char *text, int anchored, const char *where, sb_regex **out,
                           sb_error *err);
sb_status sb_regex_matches(const sb_regex *regex, const char *name, const char *where, int *out,
                           sb_error *err);
void sb_regex_free(sb_regex *regex);

/* True if text has a special character of regular expressions other than '.'. */
int sb_looks_like_regex(const char *text);

/* 1 if the whole name matches: '*' matches any characters, including dots; '?' matches one. Equals
 * Python's fnmatch, but without sets in brackets. */
int sb_glob_matches(const char *glob, const char *name);

/* 1 if `name` begins (prefix) or ends (suffix) with `part`, and `part` is the whole name or is
 * bounded by a dot: "gate" ends "mlp.gate", but neither "mlp.shared_expert_gate" nor
 * "mlp.gate_proj". */
int sb_has_prefix_part(const char *name, const char *part);
int sb_has_suffix_part(const char *name, const char *part);

#endif
