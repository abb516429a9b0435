/* schema.h - checks a document against a JSON Schema: the words of draft 2020-12 that ours use. */
#ifndef TEST_LIB_SCHEMA_H
#define TEST_LIB_SCHEMA_H

#include <jansson.h>
#include <stddef.h>

/* Returns 1 if `value` matches `root`, a whole schema. Otherwise `why` names the place. An unknown
 * word of the schema fails the test. */
int schema_fits(const json_t *root, const json_t *value, char *why, size_t room);

#endif
