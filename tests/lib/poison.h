/* poison.h - arrays for tests of operations. They reveal elements of an output that were not
 * written, writes beside an array (by guards on both sides) and writes into an input.
 *
 * All arrays of a test are in one list. test_release, the teardown of every test, checks the guards
 * and the inputs of all arrays and frees them. */
#ifndef SB_TESTS_LIB_POISON_H
#define SB_TESTS_LIB_POISON_H

#include <stddef.h>
#include <stdint.h>

#include "ref/base/hash.h"
#include "ref/formats/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An output: `count` signalling NaNs. */
float *test_output(size_t count);

/* Fails if an element of an output still has the pattern. */
void test_written(const char *what, const float *output, size_t count);

/* An array that may change: a copy of `count` values, or zeros if values is NULL. */
float *test_copy(const float *values, size_t count);

/* An input: normal deviates of stream `name`, times scale, plus mean. It must not be written to. */
const float *test_normal(const char *name, size_t count, float mean, float scale);

/* An input with the given values. */
const float *test_input(const float *values, size_t count);

/* An input of difficult values: subnormals, zeros of both signs, huge finite and ordinary
 * values. */
const float *test_hostile(const char *name, size_t count);

/* A stored matrix with the given values, rounded to the format. */
sb_matrix test_matrix(sb_format format, const float *values, size_t rows, size_t cols);

/* An output and an input of ids. */
uint32_t *test_ids(size_t count);

/* The digest of raw bytes. */
sb_digest test_digest(const void *bytes, size_t size);

/* Teardown for cmocka. */
int test_release(void **state);

#ifdef __cplusplus
}
#endif

#endif
