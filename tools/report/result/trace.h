/* trace.h - the document of samebit trace, and its forms. */
#ifndef SB_REPORT_TRACE_H
#define SB_REPORT_TRACE_H

#include <jansson.h>

#include "tools/judge/trace/audit.h"

typedef struct sb_trace_document {
    const sb_trace_head *head;
    const sb_audit *audit;
    unsigned claims; /* the level that trace.json claims; SB_TRACE_LEVELS for other files */
} sb_trace_document;

void sb_trace_print(const sb_trace_document *document);
json_t *sb_trace_json(const sb_trace_document *document);

#endif
