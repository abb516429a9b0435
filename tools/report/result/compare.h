/* compare.h - the result of samebit compare as text, as JSON, as a page, and as a
 * block for a model card. */
#ifndef SB_REPORT_COMPARE_H
#define SB_REPORT_COMPARE_H

#include <jansson.h>

#include "tools/judge/quality/pair.h"

typedef struct sb_compared {
    const char *folder[2];
    const char *profile;
    size_t texts;
    const sb_pair *pair;
    const char *verdict, *reason;
    size_t lines;                 /* number of layers listed in the text */
    int failed;                   /* beyond a limit */
    const char *const *arguments; /* the command line after "samebit", for the page */
    size_t argument_count;
} sb_compared;

/* The changed and all kept routes, summed over all layers. */
void sb_compared_routes(const sb_pair *pair, uint64_t total[2]);

void sb_compared_print(const sb_compared *c);
void sb_compared_card(const sb_compared *c);
sb_status sb_compared_html(const sb_compared *c, const char *path, sb_error *err);
sb_status sb_compared_json(const sb_compared *c, sb_error *err);

#endif
