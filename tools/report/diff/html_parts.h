/* html_parts.h - the sections of the page, for html*.c only. Each function prints a section, or
 * nothing if there is nothing to show. */
#ifndef SB_REPORT_HTML_PARTS_H
#define SB_REPORT_HTML_PARTS_H

#include "tools/report/diff/diff.h"
#include "tools/report/diff/html.h"

/* A value with the fewest digits that tell it from its binary32 neighbours. */
sb_page_number html_value(double value);

/* The verdict as a chip. */
void html_verdict(FILE *out, sb_verdict verdict);

/* True for the name of an op; false for "logits", for example. */
int html_is_op(const char *name);

/* "layer 3", "MTP head", "outside": for a column of sb_cells. */
sb_diff_layer html_layer(const sb_diff_report *report, size_t layer);

void html_head(FILE *out, const sb_diff_report *report);
void html_failure(FILE *out, const sb_diff_report *report);
void html_map(FILE *out, const sb_diff_report *report);
void html_kl(FILE *out, const sb_diff_report *report);
void html_acceptance(FILE *out, const sb_diff_report *report);
void html_state(FILE *out, const sb_diff_report *report);
void html_hits(FILE *out, const sb_diff_report *report);
void html_ops(FILE *out, const sb_diff_report *report);
void html_bias(FILE *out, const sb_diff_report *report);
void html_tokens(FILE *out, const sb_diff_report *report);

#endif
