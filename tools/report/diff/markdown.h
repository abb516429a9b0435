/* markdown.h - the result of a comparison as a block to paste into an issue. */
#ifndef SB_REPORT_MARKDOWN_H
#define SB_REPORT_MARKDOWN_H

#include "tools/report/diff/diff.h"
#include "tools/report/part/print.h"

/* A sb_print_fn of sb_diff_reports. */
int sb_diff_markdown(FILE *out, const void *reports);

/* "samebit diff ...", quoted for a shell. A sb_print_fn of sb_diff_reports. */
int sb_diff_command(FILE *out, const void *reports);

#endif
