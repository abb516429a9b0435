/* waivers.h - findings that a user has looked at and accepts: they do not affect the verdict.
 *
 * A text file, one waiver per line: CHECK GLOB # WHY. CHECK is a number or an id of checks.def, or
 * "loaded" for the comparison with an engine. GLOB names tensors ('*' is any characters, dots too;
 * '?' is one; '*' alone also matches the folder as a whole). WHY is required. Empty lines and lines
 * that start with '#' are ignored. */
#ifndef SB_CHECK_WAIVERS_H
#define SB_CHECK_WAIVERS_H

#include "tools/check/read/check.h"

enum { SB_WAIVERS_MAX_BYTES = 1 << 20 };

typedef struct sb_waiver {
    unsigned line;
    unsigned check; /* number of the check; 0: the comparison with an engine */
    char *glob, *why;
    size_t covered; /* number of findings that it covers */
    size_t fatal;   /* number of findings that it would cover if they were not FATAL */
} sb_waiver;

typedef struct sb_waivers {
    sb_waiver *rows;
    size_t count, room;
} sb_waivers;

/* Depends only on the n bytes, which may be anything. Messages contain the name `file` and the
 * line. SB_ERR_INPUT, SB_ERR_MEMORY. Call free in any case. */
sb_status sb_waivers_parse(const char *text, size_t n, const char *file, sb_waivers *out,
                           sb_error *err);
sb_status sb_waivers_load(const char *path, sb_waivers *out, sb_error *err);
void sb_waivers_free(sb_waivers *waivers);

/* The position + 1 of the first waiver for check and tensor, or 0. Counts the waiver as used. FATAL
 * findings are never covered. */
int sb_waivers_cover(sb_waivers *waivers, unsigned check, sb_level level, const char *tensor);

/* Sets `waived` of each covered finding to the position + 1 of its waiver. */
void sb_waivers_apply(sb_waivers *waivers, sb_findings *findings);

#endif
