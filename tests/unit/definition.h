/* definition.h - cases for the comparison of a twin (ref/fast) with the definition (ref/ops): the
 * shapes of every op, and the values of its arrays. */
#ifndef SB_TESTS_UNIT_DEFINITION_H
#define SB_TESTS_UNIT_DEFINITION_H

#include "ref/ops/args.h"
#include "ref/ops/experts.h"

/* The kind of numbers in a case. */
typedef enum definition_regime {
    REGIME_RANDOM,
    REGIME_WIDE,      /* exponents from -60 to 60 */
    REGIME_CANCEL,    /* the products of neighbours almost cancel */
    REGIME_ZEROS,     /* zeros of both signs, a few ones and halves */
    REGIME_SUBNORMAL, /* and a few normal numbers */
    REGIME_HUGE,      /* up to the largest binary32 */
    REGIMES
} definition_regime;

/* One case. Every draw depends only on the seed and on the number of draws before it. */
typedef struct definition_case {
    uint64_t seed, drawn;
    size_t arrays; /* the number of arrays of values so far */
    definition_regime regime;
    unsigned variant; /* selects the options */
    void *block[64];  /* allocations; definition_free() releases them */
    size_t blocks;
} definition_case;

void *definition_room(definition_case *c, size_t n, size_t size);
float *definition_values(definition_case *c, size_t n);
void definition_free(definition_case *c);

/* Sets the sizes, options, weights, ids and positions of shape s, not the arrays of values. Returns
 * 0 if there is no shape s or later. */
#define SB_OP(name, clause)                                                                        \
    int definition_##name(definition_case *c, size_t s, sb_##name##_args *a);
#include "ref/ops/ops.def"
#undef SB_OP

/* Two projections of experts, with ids and input, without memory for the output. */
int definition_experts(definition_case *c, size_t s, sb_expert_linear_args a[2]);

#endif
