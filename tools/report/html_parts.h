/* html_parts.h - the parts of the page, for html*.c only. Each prints a section, or nothing where
 * there is nothing to show. */
#ifndef SB_REPORT_HTML_PARTS_H
#define SB_REPORT_HTML_PARTS_H

#include "tools/report/diff.h"

/* O-2: "at most 12,000 fields" - rows and columns are binned to fit. */
enum { HTML_FIELDS = 12000, HTML_COLUMNS = 240, HTML_ROWS = 160, HTML_POINTS = 360 };

extern const char *const html_style[]; /* NULL ends it: no string is longer than C11 allows */

/* Text of anyone. */
void html_text(FILE *out, const char *text);

/* "0.31", "2.0e+05"; "over every bound" of what no bound allows. */
typedef struct html_number {
    char text[32];
} html_number;
html_number html_ratio(double ratio);

/* A value as few digits as tell it from its neighbours in binary32. */
html_number html_value(double value);

/* <span class="verdict fail">FAIL</span> */
void html_verdict(FILE *out, sb_verdict verdict);

/* A failure of logits, say, is of no op. */
int html_is_op(const char *name);

/* A bar of a share of 1; what is more than 1 fills it, in the colour of a failure. */
void html_bar(FILE *out, double share);

/* "layer 3", "MTP head", "outside": of a column of sb_cells. */
sb_diff_layer html_layer(const sb_diff_report *report, size_t layer);

/* A name that a screen reader and a test find the section by. */
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
