/* json_mutate.h - changes the meaningful parts of a JSON text: keys disappear, occur twice, or get
 * values of other types, values at the limits of numbers, or values from other files. Most results
 * are still JSON. */
#ifndef SB_TESTS_FUZZ_JSON_MUTATE_H
#define SB_TESTS_FUZZ_JSON_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* The draws of one mutation, which depend only on the key. */
typedef struct json_draws {
    uint64_t key, at;
} json_draws;

size_t json_draw(json_draws *d, size_t below);

/* The text with `steps` changes; the caller frees it. *valid: whether it can still be JSON. If it
 * was no JSON before, it is cut or its bytes are changed. Aborts if memory runs out. */
char *json_mutate(const char *text, unsigned steps, json_draws *d, int *valid);

#endif
