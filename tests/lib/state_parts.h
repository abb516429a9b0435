/* state_parts.h - takes a state file apart, so that a test can change it and put it together
 * again. */
#ifndef SB_TESTS_LIB_STATE_PARTS_H
#define SB_TESTS_LIB_STATE_PARTS_H

#include "tests/lib/checkpoint.h"

typedef struct test_parts {
    test_folder tensors;
    char *keys[24], *values[24]; /* of the metadata */
    size_t pairs;
} test_parts;

/* Asserts that the file can be read. */
test_parts test_take_apart(const char *path);
void test_parts_free(test_parts *p);

/* The value of a key, which must exist; test_set_part replaces it by a copy. */
char **test_part(test_parts *p, const char *key);
void test_set_part(test_parts *p, const char *key, const char *value);

/* Computes the seal of D-12 by independent code and stores it. The keys have to be sorted, as
 * read. */
void test_seal(test_parts *p);

/* The bytes of a file made of these parts; the caller frees them. */
unsigned char *test_put_together(const test_parts *p, size_t *size);

#endif
