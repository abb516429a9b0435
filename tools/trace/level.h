/* level.h - which level a trace has: what every one of its steps has. */
#ifndef SB_TRACE_LEVEL_H
#define SB_TRACE_LEVEL_H

#include "tools/trace/head.h"
#include "tools/trace/step.h"

/* A zeroed one has seen nothing. */
typedef struct sb_level {
    size_t steps;
    size_t rows, with_logits;           /* of the trunk */
    char missing[SB_TRACE_LEVELS][160]; /* why a level is not reached: the first step; "" */
} sb_level;

void sb_level_add(sb_level *level, const sb_step *step);
unsigned sb_level_reached(const sb_level *level); /* 0 .. 4 */

/* What the next level asks and does not find, in one line; "" if there is none. */
typedef struct sb_level_words {
    char text[240];
} sb_level_words;
sb_level_words sb_level_next(const sb_level *level);

/* U-2: "A trace that says a level has it in every step": what it lacks of this one; "": nothing. */
sb_level_words sb_level_lacks(const sb_level *level, unsigned says);

#endif
