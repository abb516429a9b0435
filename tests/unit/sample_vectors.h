/* sample_vectors.h - compares an implementation of the sampler with the vectors of
 * golden/sampler. */
#ifndef SB_TESTS_UNIT_SAMPLE_VECTORS_H
#define SB_TESTS_UNIT_SAMPLE_VECTORS_H

#include <stddef.h>

#include "tests/unit/sample_plain.h"

/* The implementation to be compared: the library, or its plain twin with a mistake (or
 * PLAIN_none). */
typedef struct sample_voice {
    int is_library;
    plain_mistake mistake;
} sample_voice;

typedef struct sample_vectors sample_vectors;

/* Fails the test if golden/sampler cannot be read. */
sample_vectors *sample_vectors_open(void);
void sample_vectors_close(sample_vectors *vectors);

/* The number of different answers. Stops at the first one unless `all`. `where` (200 bytes) names
 * the first. */
size_t sample_differences(const sample_vectors *vectors, sample_voice voice, int all, char *where);

/* The number of answers. */
size_t sample_answers(const sample_vectors *vectors);

#endif
