/* html.h - the result of a comparison as one self-contained page, without network and script.
 * docs/report.md describes the page. */
#ifndef SB_REPORT_HTML_H
#define SB_REPORT_HTML_H

#include "tools/report/diff/diff.h"
#include "tools/report/part/page.h"
#include "tools/report/part/print.h"

/* The colour of a verdict on a page. */
sb_page_tone sb_diff_tone(sb_verdict verdict);

/* A sb_print_fn of sb_diff_reports. */
int sb_diff_html(FILE *out, const void *reports);

#endif
