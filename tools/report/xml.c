#include "tools/report/xml.h"

#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/container/file.h"
#include "tools/check/clean.h"

void sb_xml_escape(FILE *out, const char *text)
{
    char *clean = sb_strdup(text);
    if (clean)
        sb_clean_text(clean);
    for (const char *c = clean ? clean : ""; *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&apos;", out);
            break;
        default:
            fputc(*c, out);
        }
    }
    free(clean);
}

void sb_xml_open_case(FILE *out, const char *class_name, const char *name)
{
    fputs("    <testcase classname=\"", out);
    sb_xml_escape(out, class_name);
    fputs("\" name=\"", out);
    sb_xml_escape(out, name);
    fputs("\">\n", out);
}

void sb_xml_close_case(FILE *out)
{
    fputs("    </testcase>\n", out);
}

void sb_xml_open_failure(FILE *out, const char *type, const char *message)
{
    fputs("      <failure type=\"", out);
    sb_xml_escape(out, type);
    fputs("\" message=\"", out);
    sb_xml_escape(out, message);
    fputs("\">", out);
}

void sb_xml_skipped(FILE *out, const char *why)
{
    fputs("      <skipped message=\"", out);
    sb_xml_escape(out, why);
    fputs("\"/>\n", out);
}

sb_status sb_xml_write(const char *path, sb_xml_body body, const void *ctx, sb_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return sb_fail(err, SB_ERR_MEMORY, "out of memory for the JUnit report");
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
    body(out, ctx);
    fputs("</testsuites>\n", out);
    int failed = ferror(out);
    failed |= fclose(out) != 0;
    sb_status status = failed ? sb_fail(err, SB_ERR_MEMORY, "out of memory for the JUnit report")
                              : sb_write_file(path, text, size, err);
    free(text);
    return status;
}
