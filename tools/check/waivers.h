/* waivers.h - what a user has looked at and accepts: findings that shall decide nothing.
 *
 * A text file, one waiver a line: CHECK GLOB # WHY. CHECK is a number or an id of checks.def, or
 * "loaded" for the comparison with an engine; GLOB names tensors ('*' any characters, dots too, '?'
 * one; '*' alone also the folder as a whole); WHY is required. Empty lines and lines that start
 * with '#' say nothing. */
#ifndef SB_CHECK_WAIVERS_H
#define SB_CHECK_WAIVERS_H

#include "tools/check/check.h"

enum { SB_WAIVERS_MAX_BYTES = 1 << 20 };

typedef struct sb_waiver {
    unsigned line;
    unsigned check; /* its number; 0: the comparison with an engine */
    char *glob, *why;
    size_t covered; /* findings that it covers */
    size_t fatal;   /* findings that it would cover if they were not FATAL */
} sb_waiver;

typedef struct sb_waivers {
    sb_waiver *rows;
    size_t count, room;
} sb_waivers;

/* A pure function of n bytes, whatever they are; `file` names them in messages, which tell the
 * line. SB_ERR_INPUT, SB_ERR_MEMORY. free in any case. */
sb_status sb_waivers_parse(const char *text, size_t n, const char *file, sb_waivers *out,
                           sb_error *err);
sb_status sb_waivers_load(const char *path, sb_waivers *out, sb_error *err);
void sb_waivers_free(sb_waivers *waivers);

/* The position + 1 of the first waiver for check and tensor, or 0; counts it as used. level FATAL
 * is never covered. */
int sb_waivers_cover(sb_waivers *waivers, unsigned check, sb_level level, const char *tensor);

/* Marks the findings that are covered: `waived` is the position + 1 of the waiver. */
void sb_waivers_apply(sb_waivers *waivers, sb_findings *findings);

#endif
