#include "tools/report/part/document.h"

#include <stdio.h>
#include <stdlib.h>

#include "ref/base/mem.h"
#include "ref/base/spec.h"
#include "ref/container/json_out.h"
#include "ref/container/show.h"

json_t *sb_document(const char *command)
{
    json_t *document = json_object();
    SB_PUT(document, "spec", SB_SPEC_VERSION);
    SB_PUT(document, "command", command);
    return document;
}

sb_status sb_print_document(json_t *document, sb_error *err)
{
    int failed = !sb_json_dumpf(document, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    json_decref(document);
    return failed ? sb_fail(err, SB_ERR_IO, "the document could not be written to stdout")
                  : sb_print_end("document", err);
}

sb_status sb_print_end(const char *what, sb_error *err)
{
    return fflush(stdout) == 0
               ? SB_OK
               : sb_fail(err, SB_ERR_IO, "the %s could not be written to stdout", what);
}

json_t *sb_value_real(double value)
{
    return value - value == 0 ? json_real(value) : json_null();
}

json_t *sb_value_text(const char *text)
{
    if (!text)
        return json_null();
    json_t *string = json_string(text);
    return string ? string : json_string(SB_SHOW(text));
}

char *sb_report_clean(const char *text)
{
    char *out = sb_strdup(text);
    if (out)
        sb_clean_text(out);
    else
        sb_json_lose();
    return out;
}

json_t *sb_report_string(const char *text)
{
    if (!text)
        return json_null();
    char *clean = sb_report_clean(text);
    json_t *string = clean ? json_string(clean) : NULL;
    free(clean);
    return string;
}

json_t *sb_ids_json(const uint32_t *ids, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        SB_ADD(list, ids[i]);
    return list;
}

json_t *sb_counts_json(const uint64_t *counts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        SB_ADD(list, counts[i]);
    return list;
}

void sb_ids_print(const char *before, const uint32_t *ids, size_t count)
{
    printf("%s", before);
    for (size_t i = 0; i < count; i++)
        printf("%s%u", i ? "," : " ", (unsigned)ids[i]);
}
