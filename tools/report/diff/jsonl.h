/* jsonl.h - the result of a comparison as lines of JSON, for programs that read line by line;
 * docs/report.md lists them. */
#ifndef SB_REPORT_JSONL_H
#define SB_REPORT_JSONL_H

#include <jansson.h>

#include "tools/report/diff/diff.h"
#include "tools/report/part/print.h"

typedef struct sb_diff_lines {
    const json_t *document; /* the output of samebit diff --json */
    const sb_diff_reports *reports;
} sb_diff_lines;

/* A sb_print_fn of sb_diff_lines. */
int sb_diff_jsonl(FILE *out, const void *lines);

#endif
