/* xml.h - what reports for build servers are made of. */
#ifndef SB_REPORT_XML_H
#define SB_REPORT_XML_H

#include <stdio.h>

#include "ref/base/status.h"

/* Text and attribute values in one: nothing of XML's own stays as it is, whatever bytes it has. */
void sb_xml_escape(FILE *out, const char *text);

/* "    <testcase classname=CLASS name=NAME>" and its end. */
void sb_xml_open_case(FILE *out, const char *class_name, const char *name);
void sb_xml_close_case(FILE *out);

/* What stands in a case: a failure, which the caller closes, or why it was skipped. */
void sb_xml_open_failure(FILE *out, const char *type, const char *message);
void sb_xml_skipped(FILE *out, const char *why);

/* Writes what `body` prints, between the lines that every such file has: whole, or not at all. */
typedef void (*sb_xml_body)(FILE *out, const void *ctx);
sb_status sb_xml_write(const char *path, sb_xml_body body, const void *ctx, sb_error *err);

#endif
