/* planted.h - mistakes in the formulas of quantizers, which the comparison must see. */
#ifndef SB_TESTS_QUANT_PLANTED_H
#define SB_TESTS_QUANT_PLANTED_H

#include "tests/quant/requantize.h"

typedef struct planted {
    const char *folder, *what;
    void (*plant)(formula *how);
} planted;

/* NULL behind the last. */
const planted *planted_at(size_t i);

#endif
