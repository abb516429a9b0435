/* rounding.h - outputs of a linear layer against the definition, and where their rounding was
 * settled. */
#ifndef SB_BENCH_ROUNDING_H
#define SB_BENCH_ROUNDING_H

#include <stdint.h>

#include "ref/math/exact.h"
#include "ref/ops/op.h"

typedef struct sb_bench_tried {
    uint64_t outputs;  /* compared */
    uint64_t integers; /* of which are sums of integers: no rounding is open */
    uint64_t asked;    /* of the others, of which a rounding test was asked */
    uint64_t sent;     /* of which the first was not certain */
    uint64_t exact;    /* and no other was: exact.h decided */
} sb_bench_tried;

/* Takes rows spread over the layer, computes them anew by exact.h alone and compares the bits with
 * args->out, which has one row. plant: one of them is spoiled first, so that the comparison must
 * fail. SB_ERR_DIFF names the row. */
sb_status sb_bench_try(const sb_knobs *knobs, const sb_linear_args *args, int plant,
                       sb_bench_tried *tried, sb_error *err);

/* Adds to asked, sent and exact what `count` rows of a layer with one input come to. Nothing, if
 * the chosen kernels do not read it. */
sb_status sb_bench_count(const sb_matrix *w, const double *x, const sb_scalar *factor,
                         const uint32_t *rows, uint32_t count, sb_bench_tried *tried,
                         sb_error *err);

#endif
