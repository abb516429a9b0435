/* statistics.h - the numbers of docs/statistics.md as lines of text and as JSON. */
#ifndef SB_REPORT_STATISTICS_H
#define SB_REPORT_STATISTICS_H

#include <jansson.h>
#include <stdio.h>

#include "tools/judge/quality/statistics.h"

/* Up to four lines, only about values that were compared. */
void sb_statistics_text(const sb_statistics *statistics, FILE *out);

/* NULL if memory is out. */
json_t *sb_statistics_json(const sb_statistics *statistics);

#endif
