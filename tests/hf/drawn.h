/* drawn.h - random values for tests of bounds. Their memory is freed at the end of a test. */
#ifndef SB_TESTS_HF_DRAWN_H
#define SB_TESTS_HF_DRAWN_H

#include "tests/hf/fixture.h"

extern hf_arena hf_drawn;

/* The teardown of such a test. */
int hf_release_drawn(void **state);

/* Normal values; the same name gives the same values again. */
float *hf_normal(const char *name, size_t count, float mean, float scale);

#endif
