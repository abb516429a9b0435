/* bundle_mutate.h - changes the meaningful parts of a replay bundle: numbers in arguments and
 * parameters, names of ops and outputs, types, shapes and values of tensors. Most results are still
 * safetensors files whose sizes fit, so that they reach the code behind the reader. */
#ifndef SB_TESTS_FUZZ_BUNDLE_MUTATE_H
#define SB_TESTS_FUZZ_BUNDLE_MUTATE_H

#include "ref/container/safetensors.h"
#include "tests/fuzz/json_mutate.h"

typedef struct bundle_text {
    unsigned char *bytes; /* the caller frees them */
    size_t size;
} bundle_text;

/* A changed copy of a sound bundle, `from`. Aborts if memory runs out. */
bundle_text bundle_mutate(const sb_safetensors *from, unsigned steps, json_draws *d);

/* The same as a member of a pack, between others. In most packs the checksums of the headers are
 * right, even if a header was changed. In some, one checksum is wrong, or the pack ends early. */
bundle_text bundle_pack(const bundle_text *bundle, json_draws *d);

#endif
