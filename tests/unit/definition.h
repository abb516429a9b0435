/* definition.h - cases on which a twin (ref/fast) is held against the definition (ref/ops): the
 * shapes of every op, and the values of its arrays. */
#ifndef SB_TESTS_UNIT_DEFINITION_H
#define SB_TESTS_UNIT_DEFINITION_H

#include "ref/ops/args.h"
#include "ref/ops/experts.h"

/* What the numbers of a case are like. */
typedef enum definition_regime {
    REGIME_RANDOM,
    REGIME_WIDE,      /* exponents from -60 to 60 */
    REGIME_CANCEL,    /* neighbours whose products cancel, but for a little */
    REGIME_ZEROS,     /* of both signs, and a few ones */
    REGIME_SUBNORMAL, /* and some that are not */
    REGIME_HUGE,      /* up to the largest */
    REGIMES
} definition_regime;

/* One case. Whatever is drawn follows from the seed and how much was drawn before it. */
typedef struct definition_case {
    uint64_t seed, drawn;
    size_t arrays; /* of values, so far */
    definition_regime regime;
    unsigned variant; /* options follow from it */
    void *block[64];  /* what was allocated, until definition_free() */
    size_t blocks;
} definition_case;

void *definition_room(definition_case *c, size_t n, size_t size);
float *definition_values(definition_case *c, size_t n);
void definition_free(definition_case *c);

/* The sizes, options, weights, ids and positions of shape s; 0: there is none, nor a later one. The
 * arrays of values are not set. */
#define SB_OP(name, clause)                                                                        \
    int definition_##name(definition_case *c, size_t s, sb_##name##_args *a);
#include "ref/ops/ops.def"
#undef SB_OP

/* Two projections of experts, ids and input included, without room for what comes out. */
int definition_experts(definition_case *c, size_t s, sb_expert_linear_args a[2]);

#endif
