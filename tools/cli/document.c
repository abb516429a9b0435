/* document.c - the JSON document of a command. */
#include <stdio.h>

#include "ref/container/json_out.h"
#include "tools/cli/cli.h"

json_t *sb_document(const char *command)
{
    return json_pack("{s:i,s:s}", "spec", SB_SPEC_VERSION, "command", command);
}

sb_status sb_print_document(json_t *document, sb_error *err)
{
    int failed = !sb_json_dumpf(document, stdout, JSON_INDENT(2)) || putchar('\n') == EOF ||
                 fflush(stdout) != 0;
    json_decref(document);
    return failed ? sb_fail(err, SB_ERR_IO, "the document could not be written to stdout") : SB_OK;
}
