/* level.h - the level of a trace: the level that all its steps reach. */
#ifndef SB_TRACE_LEVEL_H
#define SB_TRACE_LEVEL_H

#include "tools/judge/trace/head.h"
#include "tools/judge/trace/step.h"

/* Starts zeroed. */
typedef struct sb_level {
    size_t steps;
    size_t rows, with_logits;           /* rows of the trunk */
    char missing[SB_TRACE_LEVELS][160]; /* why a level is not reached; "": reached */
} sb_level;

void sb_level_add(sb_level *level, const sb_step *step);
unsigned sb_level_reached(const sb_level *level); /* 0 .. 4 */

/* What is missing for the next level, in one line; "" if there is no next level. */
typedef struct sb_level_words {
    char text[240];
} sb_level_words;
sb_level_words sb_level_next(const sb_level *level);

/* U-2: "A trace that states a level has the data of this level in every step". Names what is
 * missing for level `says`; "": nothing. */
sb_level_words sb_level_lacks(const sb_level *level, unsigned says);

#endif
