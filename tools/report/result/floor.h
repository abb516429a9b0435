/* floor.h - the document of samebit floor, and its forms. */
#ifndef SB_REPORT_FLOOR_H
#define SB_REPORT_FLOOR_H

#include <jansson.h>

#include "tools/check/floor/floor.h"

typedef struct sb_floor_document {
    const char *bandwidth, *accept, *claim; /* as given; claim may be NULL */
    double claimed;                         /* tokens per second */
    const sb_ledger *ledger;
    const sb_floor_options *options;
    const sb_floor *floor;
} sb_floor_document;

/* The most tokens per second: with drafts, if the options have some. */
double sb_floor_ceiling(const sb_floor_document *document);

/* "IMPOSSIBLE", "UNKNOWN" or "POSSIBLE": about the claim */
const char *sb_floor_verdict(const sb_floor_document *document);

void sb_floor_print(const sb_floor_document *document);
json_t *sb_floor_json(const sb_floor_document *document);

#endif
