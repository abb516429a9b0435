/* schema.h - a JSON Schema held against a document: of draft 2020-12 the words that ours use. */
#ifndef TEST_LIB_SCHEMA_H
#define TEST_LIB_SCHEMA_H

#include <jansson.h>
#include <stddef.h>

/* 1 if `value` is what `root` (a whole schema) describes; else `why` names the place. A word of the
 * schema that is not known here fails the test. */
int schema_fits(const json_t *root, const json_t *value, char *why, size_t room);

#endif
