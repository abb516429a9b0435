/* html_parts.h - the sections of the page, for html*.c only. Each function prints a section, or
 * nothing if there is nothing to show. */
#ifndef SB_REPORT_HTML_PARTS_H
#define SB_REPORT_HTML_PARTS_H

#include "tools/report/diff.h"

/* O-2: "at most 12,000 fields"; rows and columns are binned to fit. */
enum { HTML_FIELDS = 12000, HTML_COLUMNS = 240, HTML_ROWS = 160, HTML_POINTS = 360 };

extern const char *const html_style[]; /* NULL at the end; no string exceeds the limit of C11 */

/* Prints untrusted text. */
void html_text(FILE *out, const char *text);

/* "0.31", "2.0e+05"; "no bound" for infinity. */
typedef struct html_number {
    char text[32];
} html_number;
html_number html_ratio(double ratio);

/* A value with the fewest digits that tell it from its binary32 neighbours. */
html_number html_value(double value);

/* <span class="verdict fail">FAIL</span> */
void html_verdict(FILE *out, sb_verdict verdict);

/* True for the name of an op; false for "logits", for example. */
int html_is_op(const char *name);

/* Prints a bar for a share of 1. A share above 1 fills the bar in the colour of a failure. */
void html_bar(FILE *out, double share);

/* "layer 3", "MTP head", "outside": for a column of sb_cells. */
sb_diff_layer html_layer(const sb_diff_report *report, size_t layer);

/* Opens a section; screen readers and tests find it by its id. */
void html_open(FILE *out, const char *id, const char *title, const char *hint);
void html_close(FILE *out);

void html_head(FILE *out, const sb_diff_report *report);
void html_failure(FILE *out, const sb_diff_report *report);
void html_map(FILE *out, const sb_diff_report *report);
void html_kl(FILE *out, const sb_diff_report *report);
void html_acceptance(FILE *out, const sb_diff_report *report);
void html_state(FILE *out, const sb_diff_report *report);
void html_ops(FILE *out, const sb_diff_report *report);
void html_tokens(FILE *out, const sb_diff_report *report);

#endif
