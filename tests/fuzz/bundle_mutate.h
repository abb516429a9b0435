/* bundle_mutate.h - a replay bundle that is changed where it means something: numbers of arguments
 * and parameters, names of ops and outputs, types, shapes and values of tensors. Most of what comes
 * out is still a safetensors file whose sizes fit, so that what is behind that is reached. */
#ifndef SB_TESTS_FUZZ_BUNDLE_MUTATE_H
#define SB_TESTS_FUZZ_BUNDLE_MUTATE_H

#include "ref/container/safetensors.h"
#include "tests/fuzz/json_mutate.h"

typedef struct bundle_text {
    unsigned char *bytes; /* of the caller */
    size_t size;
} bundle_text;

/* The bytes of a changed bundle, `from` being a sound one. Aborts without memory. */
bundle_text bundle_mutate(const sb_safetensors *from, unsigned steps, json_draws *d);

/* The same as a member of a pack between others. In most of them the sums of the headers are right,
 * whatever else of a header was changed; in some one of them is wrong, or the pack ends early. */
bundle_text bundle_pack(const bundle_text *bundle, json_draws *d);

#endif
