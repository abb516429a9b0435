/* rounding.h - outputs of a linear layer against the definition, and where their rounding was
 * settled. */
#ifndef SB_BENCH_ROUNDING_H
#define SB_BENCH_ROUNDING_H

#include <stdint.h>

#include "ref/ops/op.h"

typedef struct sb_bench_tried {
    uint64_t outputs;
    uint64_t sent;  /* of which the first rounding test was not certain */
    uint64_t exact; /* and no other was: exact.h decided */
} sb_bench_tried;

/* Takes rows spread over the layer, computes them anew by exact.h alone and compares the bits with
 * args->out, which has one row. plant: one of them is spoiled first, so that the comparison must
 * fail. SB_ERR_DIFF names the row. */
sb_status sb_bench_try(const sb_knobs *knobs, const sb_linear_args *args, int plant,
                       sb_bench_tried *tried, sb_error *err);

#endif
