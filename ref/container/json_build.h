/* json_build.h - the values of a text that json_scan.h found sound; for json.c.
 *
 * The values are jansson's, its parser is not used: where its buffer cannot grow, it drops bytes of
 * strings or ends the process (2.14). */
#ifndef SB_CONTAINER_JSON_BUILD_H
#define SB_CONTAINER_JSON_BUILD_H

#include <jansson.h>
#include <stddef.h>

/* The text must be one that sb_json_scan passed, `token` its longest one. NULL: *wrong says what is
 * wrong at byte *at, or memory is out and *wrong is NULL. loose: as Python reads it, but that all
 * numbers are reals: of a key that stands twice the last value stays. */
json_t *sb_json_build(const char *text, size_t n, size_t token, int loose, size_t *at,
                      const char **wrong);

#endif
