/* compare_show.h - the result of samebit compare as text, as JSON, and as a block for a model
 * card. */
#ifndef SB_CLI_COMPARE_SHOW_H
#define SB_CLI_COMPARE_SHOW_H

#include <jansson.h>

#include "tools/quality/pair.h"

typedef struct sb_compared {
    const char *folder[2];
    const char *profile;
    size_t texts;
    const sb_pair *pair;
    const char *verdict, *reason;
    size_t lines; /* number of layers listed in the text */
} sb_compared;

void sb_compared_print(const sb_compared *c);
void sb_compared_card(const sb_compared *c);
sb_status sb_compared_json(const sb_compared *c, sb_error *err);

#endif
