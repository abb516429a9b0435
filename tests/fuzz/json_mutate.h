/* json_mutate.h - a JSON text that is changed where it means something: keys go, come twice, get
 * values of other types, of the edge of what numbers hold, or of what other files say. Most of what
 * comes out is still JSON. */
#ifndef SB_TESTS_FUZZ_JSON_MUTATE_H
#define SB_TESTS_FUZZ_JSON_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* Draws of one mutation: a function of the key alone. */
typedef struct json_draws {
    uint64_t key, at;
} json_draws;

size_t json_draw(json_draws *d, size_t below);

/* The text with `steps` changes, which the caller frees; *valid: whether it can still be JSON (a
 * text that was none is cut or has its bytes changed). Aborts without memory. */
char *json_mutate(const char *text, unsigned steps, json_draws *d, int *valid);

#endif
