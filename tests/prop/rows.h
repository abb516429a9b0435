/* rows.h - rows of every stored format that are hard to add up, with inputs in binary64.
 *
 * Case number `index` of a stream is always the same, on every machine. */
#ifndef SB_TESTS_ROWS_H
#define SB_TESTS_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/matrix.h"
#include "ref/math/exact.h"

/* What makes the rows hard. */
#define ROWS_FAMILIES(X)                                                                           \
    X(plain)     /* as in a model */                                                               \
    X(bf16)      /* inputs of 8 bits: ties */                                                      \
    X(quantized) /* inputs wider than binary32: codes times scales */                              \
    X(any)       /* any finite bits: overflow, underflow */                                        \
    X(subnormal) /* scales and inputs */                                                           \
    X(mixed)     /* huge and tiny inputs */                                                        \
    X(cancel)    /* pairs that cancel, or leave a small rest */                                    \
    X(one)       /* one element that is not 0, or none; zeros of both signs */                     \
    X(tie)       /* a tie, or one bit beside it */                                                 \
    X(drift)     /* additions that all round the same way, beside a tie */                         \
    X(poison)    /* values that are not finite */

typedef enum rows_family {
#define ROWS_NAME(name) ROWS_##name,
    ROWS_FAMILIES(ROWS_NAME)
#undef ROWS_NAME
        ROWS_FAMILY_COUNT
} rows_family;

enum { ROWS_MOST = 6, ROWS_STORED = 8, ROWS_INPUTS = 5, ROWS_COLS = 1200 };

typedef struct rows_case {
    uint64_t index;
    rows_family family;
    sb_matrix matrix;
    sb_scalar factor;
    size_t count;                                         /* of inputs */
    double x[ROWS_INPUTS * ROWS_COLS];                    /* (count, cols) */
    int narrow;                                           /* every x is a binary32 */
    unsigned char codes[1 + 4 * ROWS_STORED * ROWS_COLS]; /* from byte 1 on: never aligned */
    unsigned char scales[1 + 4 * ROWS_STORED * ROWS_COLS];
    unsigned char zeros[4 * ROWS_STORED * ROWS_COLS];
} rows_case;

/* Case number `index` of the stream `key`. */
void rows_make(rows_case *c, uint64_t key, uint64_t index);

#endif
