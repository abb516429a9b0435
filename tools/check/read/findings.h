/* findings.h - what checks have found: a growing list with one line of text per finding. */
#ifndef SB_CHECK_FINDINGS_H
#define SB_CHECK_FINDINGS_H

#include <stdarg.h>
#include <stddef.h>

#include "ref/base/status.h"

/* In order of severity. FATAL: an engine must refuse to load the checkpoint. ERROR: refuse, unless
 * waived. */
typedef enum sb_level { SB_LEVEL_info, SB_LEVEL_warn, SB_LEVEL_error, SB_LEVEL_fatal } sb_level;

const char *sb_level_name(sb_level level); /* "ERROR" */

typedef struct sb_finding {
    unsigned check; /* number of the check */
    sb_level level;
    char *tensor;  /* full name of a tensor or layer as the file has it; "" for the whole folder */
    char *message; /* one line; names in it went through SB_SHOW */
    /* covered by a waiver of the user: reported, but without effect on the verdict */
    int waived;
} sb_finding;

typedef struct sb_findings {
    sb_finding *rows;
    size_t count, room;
    /* further places of findings of which a group (group.h) reports only the number: without a
     * message, and in no list and no count; maps show them */
    sb_finding *places;
    size_t place_count, place_room;
    int lost; /* memory was out, so that the list is incomplete */
} sb_findings;

/* Adds a row. If memory ran out it sets lost; the caller turns that into a status at the end. */
void sb_find(sb_findings *to, unsigned check, sb_level level, const char *tensor,
             const char *format, ...) SB_PRINTF(5, 6);
void sb_find_list(sb_findings *to, unsigned check, sb_level level, const char *tensor,
                  const char *format, va_list args);

/* Adds a place. */
void sb_find_place(sb_findings *to, unsigned check, sb_level level, const char *tensor);

/* Appends all rows of `from` to `to`, and empties `from`, which has no places. */
void sb_findings_move(sb_findings *to, sb_findings *from);
void sb_findings_free(sb_findings *findings);

#endif
