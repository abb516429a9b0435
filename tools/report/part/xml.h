/* xml.h - helper functions for reports in XML for build servers. */
#ifndef SB_REPORT_XML_H
#define SB_REPORT_XML_H

#include <stdio.h>

#include "ref/base/status.h"

/* Escapes text and attribute values. Any bytes are allowed. */
void sb_xml_escape(FILE *out, const char *text);

/* Print " <testcase classname=CLASS name=NAME>" and its end. */
void sb_xml_open_case(FILE *out, const char *class_name, const char *name);
void sb_xml_close_case(FILE *out);

/* The content of a case: a failure, which the caller closes, or the reason for skipping it. */
void sb_xml_open_failure(FILE *out, const char *type, const char *message);
void sb_xml_skipped(FILE *out, const char *why);

/* Writes the output of `body` between the first and last lines of such a file; the whole file or
 * none. */
typedef void (*sb_xml_body)(FILE *out, const void *ctx);
sb_status sb_xml_write(const char *path, sb_xml_body body, const void *ctx, sb_error *err);

#endif
