/* families.h - operands that are hard to sum, and inputs for functions of one argument.
 *
 * Case number `index` of a stream is always the same: it depends only on (key, index, kind).
 * The stream cycles through all families. Used by test_math.c and by arith_digest.c. */
#ifndef SB_TESTS_FAMILIES_H
#define SB_TESTS_FAMILIES_H

#include <stddef.h>
#include <stdint.h>

#include "ref/formats/formats.h"
#include "ref/formats/matrix.h"

/* The reductions. */
#define FAMILY_KINDS(X) X(dot_f32) X(row_f32) X(row_bf16) X(row_f16) X(sum) X(strided)

typedef enum family_kind {
#define KIND(name) KIND_##name,
    FAMILY_KINDS(KIND)
#undef KIND
        KIND_COUNT
} family_kind;

const char *family_kind_name(family_kind kind);

enum { FAMILY_TERMS_MAX = 640, FAMILY_STRIDE_A = 3, FAMILY_STRIDE_B = 2 };

typedef struct family_case {
    const char *family;
    family_kind kind;
    size_t n;
    float a[FAMILY_TERMS_MAX], b[FAMILY_TERMS_MAX]; /* b is all 1 for a sum */
    unsigned char codes[1 + 4 * FAMILY_TERMS_MAX];  /* a, encoded, from byte 1: never aligned */
    float wide_a[FAMILY_STRIDE_A * FAMILY_TERMS_MAX], wide_b[FAMILY_STRIDE_B * FAMILY_TERMS_MAX];
} family_case;

void family_make(family_case *c, family_kind kind, uint64_t key, uint64_t index);

/* Updates codes and the strided copies after a change of a or b. */
void family_spread(family_case *c);

/* Runs the reduction of ref/fast/dot/dot.h that c->kind names. */
float family_reduce(const family_case *c);

/* Input for a function: any bit pattern, or (half of the time) a magnitude between 2^-30 and
 * 2^8. */
float family_input(uint64_t key, uint64_t index);

#endif
