/* json_text.h - JSON documents, written member by member with two spaces of indentation.
 *
 * Numbers are literals or integers, never binary floating point, so that the bytes (G-1: "every
 * byte of the folder") do not depend on a library's choice of the shortest decimal. Strings are
 * names of this program, printable UTF-8; a quote or backslash in them is escaped. */
#ifndef SB_TOOLS_MAKE_JSON_TEXT_H
#define SB_TOOLS_MAKE_JSON_TEXT_H

#include <stdint.h>
#include <stdio.h>

typedef struct sb_json_out {
    FILE *file;
    int depth;
    int members; /* of the open object or array, so far */
} sb_json_out;

/* Begins a member of an object; its value follows. */
void sb_put_key(sb_json_out *out, const char *name);

/* Open and close an object or an array, '{' or '['. */
void sb_put_open(sb_json_out *out, char bracket);
void sb_put_close(sb_json_out *out, char bracket);

/* Members of an object. */
void sb_put_text(sb_json_out *out, const char *name, const char *literal);
void sb_put_count(sb_json_out *out, const char *name, uint32_t value);
void sb_put_string(sb_json_out *out, const char *name, const char *value);

/* Begins an array element that is itself an object or an array. */
void sb_put_element(sb_json_out *out);

/* A string as an element of an array. */
void sb_put_item(sb_json_out *out, const char *value);

/* Ends a document in memory (open_memstream) with a newline and closes the stream. Returns the
 * text, which the caller frees, or NULL if memory is out. */
char *sb_put_finish(sb_json_out *out, char **text);

#endif
