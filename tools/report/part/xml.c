#include "tools/report/part/xml.h"

#include "ref/container/show.h"
#include "tools/report/part/print.h"

void sb_xml_escape(FILE *out, const char *text)
{
    while (*text) {
        size_t n = sb_shown_bytes(text);
        switch (n ? *text : '?') {
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
            fwrite(n ? text : "?", 1, n ? n : 1, out);
        }
        text += n ? n : 1;
    }
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

/* The content between the first and last lines. */
typedef struct framed {
    sb_xml_body body;
    const void *ctx;
} framed;

static int print_framed(FILE *out, const void *ctx)
{
    const framed *f = ctx;
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
    f->body(out, f->ctx);
    fputs("</testsuites>\n", out);
    return 1;
}

sb_status sb_xml_write(const char *path, sb_xml_body body, const void *ctx, sb_error *err)
{
    const framed f = {body, ctx};
    return sb_print_file(path, print_framed, &f, "JUnit report", err);
}
