#include "tools/report/part/print.h"

#include <stdlib.h>

#include "ref/container/file.h"
#include "ref/container/json_out.h"

sb_status sb_print_memory(sb_print_fn print, const void *ctx, const char *what, char **text,
                          size_t *size, sb_error *err)
{
    *text = NULL;
    *size = 0;
    FILE *out = open_memstream(text, size);
    int failed = !out || !print(out, ctx) || ferror(out);
    failed |= out && fclose(out) != 0;
    if (!failed && !sb_json_lost())
        return SB_OK;
    free(*text);
    *text = NULL;
    sb_json_lose(); /* a JSON document that was to contain the text is incomplete */
    return sb_fail(err, SB_ERR_MEMORY, "out of memory for the %s", what);
}

sb_status sb_print_file(const char *path, sb_print_fn print, const void *ctx, const char *what,
                        sb_error *err)
{
    char *text;
    size_t size;
    sb_status status = sb_print_memory(print, ctx, what, &text, &size, err);
    if (!status)
        status = sb_write_file(path, text, size, err);
    free(text);
    return status;
}
