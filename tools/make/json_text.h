/* json_text.h - JSON documents, written member by member with two spaces of indentation.
 *
 * Numbers are literals or integers and never binary floating point, so that the bytes (G-1: "every
 * byte of the folder") depend on no library's idea of the shortest decimal. Strings are names of
 * this program, printable UTF-8; a quote or backslash in them is escaped. */
#ifndef SB_TOOLS_MAKE_JSON_TEXT_H
#define SB_TOOLS_MAKE_JSON_TEXT_H

#include <stdint.h>
#include <stdio.h>

typedef struct sb_json_out {
    FILE *file;
    int depth;
    int members; /* of what is open, so far */
} sb_json_out;

/* Begins a member of an object; its value follows. */
void sb_put_key(sb_json_out *out, const char *name);

/* An object or an array: '{' or '[', and its end. As a member of an array it needs no key. */
void sb_put_open(sb_json_out *out, char bracket);
void sb_put_close(sb_json_out *out, char bracket);

/* Members of an object. */
void sb_put_text(sb_json_out *out, const char *name, const char *literal);
void sb_put_count(sb_json_out *out, const char *name, uint32_t value);
void sb_put_string(sb_json_out *out, const char *name, const char *value);

/* Begins an element of an array that is an object or an array. */
void sb_put_element(sb_json_out *out);

/* An element of an array. */
void sb_put_item(sb_json_out *out, const char *value);

/* Ends a document in memory (open_memstream) with a new line: its text for the caller to free(), or
 * NULL if memory is out. The stream is closed in either case. */
char *sb_put_finish(sb_json_out *out, char **text);

#endif
