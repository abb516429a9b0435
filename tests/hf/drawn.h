/* drawn.h - random values for tests of bounds, in memory that one test leaves behind. */
#ifndef SB_TESTS_HF_DRAWN_H
#define SB_TESTS_HF_DRAWN_H

#include "tests/hf/fixture.h"

extern hf_arena hf_drawn;

/* Its teardown. */
int hf_release_drawn(void **state);

/* Normal values; the same name draws the same again. */
float *hf_normal(const char *name, size_t count, float mean, float scale);

#endif
