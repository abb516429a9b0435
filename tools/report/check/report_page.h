/* report_page.h - the sections of the page of a check, for report_html*.c only. Each prints a
 * section, or nothing if there is nothing to show. */
#ifndef SB_CHECK_REPORT_PAGE_H
#define SB_CHECK_REPORT_PAGE_H

#include "tools/report/check/folder_map.h"
#include "tools/report/part/page.h"

sb_page_tone sb_report_tone(const sb_report *report); /* of the verdict */
sb_page_tone sb_report_mtp_tone(sb_mtp_verdict verdict);
sb_page_tone sb_report_level_tone(sb_level level);

/* The number of findings of a level; unused waivers count as WARN. */
size_t sb_report_level(const sb_report *report, sb_level level);

void sb_report_html_map(FILE *out, const sb_folder_map *map);
void sb_report_html_findings(FILE *out, const sb_report *report);
void sb_report_html_mtp(FILE *out, const sb_report *report);

#endif
