/* sample_vectors.h - golden/sampler, and whether somebody computes the same. */
#ifndef SB_TESTS_UNIT_SAMPLE_VECTORS_H
#define SB_TESTS_UNIT_SAMPLE_VECTORS_H

#include <stddef.h>

#include "tests/unit/sample_plain.h"

/* Who is asked: the library, or its plain twin with a mistake (or PLAIN_none). */
typedef struct sample_voice {
    int is_library;
    plain_mistake mistake;
} sample_voice;

typedef struct sample_vectors sample_vectors;

/* Fails the test if golden/sampler cannot be read. */
sample_vectors *sample_vectors_open(void);
void sample_vectors_close(sample_vectors *vectors);

/* How many answers differ, all of them or up to the first; `where` (200 bytes) names the first. */
size_t sample_differences(const sample_vectors *vectors, sample_voice voice, int all, char *where);

/* How many answers there are. */
size_t sample_answers(const sample_vectors *vectors);

#endif
