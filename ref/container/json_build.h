/* json_build.h - builds the values of a text that json_scan.h has checked. Used by json.c.
 *
 * Uses jansson's values, but not its parser. The parser of jansson 2.14 drops bytes of strings or
 * ends the process if its buffer cannot grow. */
#ifndef SB_CONTAINER_JSON_BUILD_H
#define SB_CONTAINER_JSON_BUILD_H

#include <jansson.h>
#include <stddef.h>

/* The text must have passed sb_json_scan; `token` is the length of its longest token. On failure
 * returns NULL: *wrong describes the error at byte *at, or is NULL if out of memory. loose: read as
 * in sb_json_parse_loose. */
json_t *sb_json_build(const char *text, size_t n, size_t token, int loose, size_t *at,
                      const char **wrong);

#endif
