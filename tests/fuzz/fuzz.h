/* fuzz.h - shared by fuzz targets and their drivers. libFuzzer calls LLVMFuzzerTestOneInput itself;
 * standalone.c is a driver that needs only a C compiler. */
#ifndef SB_TESTS_FUZZ_H
#define SB_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/base/status.h"

extern const char fuzz_name[]; /* the name of the target */
extern unsigned long
    fuzz_accepted; /* the number of accepted inputs: a target that accepts none is broken */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The key of the draws for targets that take any bytes: a hash of them. */
static inline uint64_t fuzz_key(const uint8_t *data, size_t size)
{
    uint64_t key = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < size; i++)
        key = (key ^ data[i]) * UINT64_C(1099511628211);
    return key;
}

/* A law that must hold for every input. If it is broken, the driver stops as after a crash. */
#define FUZZ_CHECK(law)                                                                            \
    do {                                                                                           \
        if (!(law)) {                                                                              \
            fprintf(stderr, "%s:%d: %s: broken law: %s\n", __FILE__, __LINE__, fuzz_name, #law);   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A refusal is one line of text that begins with the name of the input. */
static inline void fuzz_check_refusal(sb_status status, const sb_error *err)
{
    FUZZ_CHECK(status == SB_ERR_INPUT || status == SB_ERR_UNSUPPORTED);
    FUZZ_CHECK(strncmp(err->text, "input", 5) == 0 && strlen(err->text) > 10);
    FUZZ_CHECK(strlen(err->text) < sizeof err->text);
    FUZZ_CHECK(!strchr(err->text, '\n') && !strchr(err->text, '\r'));
}

#endif
