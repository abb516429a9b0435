#include "tools/make/json_text.h"

#include <inttypes.h>
#include <stdlib.h>

static void new_line(sb_json_out *out)
{
    fputc('\n', out->file);
    for (int i = 0; i < out->depth; i++)
        fputs("  ", out->file);
}

/* A comma separates each element from the one before. */
static void begin(sb_json_out *out)
{
    if (out->members++)
        fputc(',', out->file);
    new_line(out);
}

static void put_string(sb_json_out *out, const char *value)
{
    fputc('"', out->file);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            fputc('\\', out->file);
        fputc(*value, out->file);
    }
    fputc('"', out->file);
}

void sb_put_key(sb_json_out *out, const char *name)
{
    begin(out);
    put_string(out, name);
    fputs(": ", out->file);
}

void sb_put_open(sb_json_out *out, char bracket)
{
    fputc(bracket, out->file);
    out->depth++;
    out->members = 0;
}

void sb_put_close(sb_json_out *out, char bracket)
{
    out->depth--;
    if (out->members)
        new_line(out);
    fputc(bracket, out->file);
    out->members = 1; /* the enclosing object has at least this member */
}

void sb_put_text(sb_json_out *out, const char *name, const char *literal)
{
    sb_put_key(out, name);
    fputs(literal, out->file);
}

void sb_put_count(sb_json_out *out, const char *name, uint32_t value)
{
    sb_put_key(out, name);
    fprintf(out->file, "%" PRIu32, value);
}

void sb_put_string(sb_json_out *out, const char *name, const char *value)
{
    sb_put_key(out, name);
    put_string(out, value);
}

void sb_put_element(sb_json_out *out)
{
    begin(out);
}

void sb_put_item(sb_json_out *out, const char *value)
{
    begin(out);
    put_string(out, value);
}

char *sb_put_finish(sb_json_out *out, char **text)
{
    fputc('\n', out->file);
    int failed = ferror(out->file);
    if (fclose(out->file) != 0 || failed) {
        free(*text);
        *text = NULL;
    }
    return *text;
}
